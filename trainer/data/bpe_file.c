/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies: our file, and GPT-2's two. See bpe.h. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/data/bpe_internal.h"

enum { FILE_BYTES_MAX = 64 << 20 };

/* ---- our file ----------------------------------------------------------------------------- */

/* A reader of lines of numbers. */
struct reader {
	const char *path;
	const char *p;
	const char *end;
	uint64_t line;
};

static int bad(const struct reader *in, const char *expected, struct lh_error *err)
{
	return lh_fail(err, LH_EINPUT, 0, "%s:%llu: expected %s", in->path,
		       (unsigned long long)in->line, expected);
}

static bool take(struct reader *in, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(in->end - in->p) < n || memcmp(in->p, word, n) != 0)
		return false;
	in->p += n;
	return true;
}

static bool take_number(struct reader *in, uint32_t *ret)
{
	const char *begin = in->p;
	uint32_t value = 0;

	for (; in->p < in->end && *in->p >= '0' && *in->p <= '9' && in->p - begin < 8; in->p++)
		value = value * 10 + (uint32_t)(*in->p - '0');
	*ret = value;
	return in->p > begin;
}

static int parse_merges(struct reader *in, struct lh_bpe_merge *merges, uint32_t n,
			struct lh_error *err)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t left, right;

		in->line++;
		if (!take_number(in, &left) || !take(in, " ") || !take_number(in, &right) ||
		    !take(in, "\n"))
			return bad(in, "two tokens' numbers (is the file cut off?)", err);
		if (left >= 256 + i || right >= 256 + i)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s:%llu: tokens %u and %u; only those below %u are known",
				       in->path, (unsigned long long)in->line, left, right,
				       256 + i);
		merges[i] =
			(struct lh_bpe_merge){(int32_t)left, (int32_t)right, (int32_t)(256 + i)};
	}
	in->line++;
	return in->p == in->end ? 0 : bad(in, "the end after the last merge", err);
}

int lh_bpe_parse(const char *path, const char *text, size_t n, struct lh_bpe **ret,
		 struct lh_error *err)
{
	struct reader in = {path, text, text + n, 1};
	lh_cleanup_free struct lh_bpe_merge *merges = NULL;
	uint32_t n_merges;
	int r;

	if (!take(&in, "longhaul-bpe 1\n"))
		return bad(&in, "'longhaul-bpe 1', a vocabulary that longhaul wrote", err);
	in.line++;
	if (!take(&in, "merges ") || !take_number(&in, &n_merges) || !take(&in, "\n") ||
	    n_merges > LH_BPE_TOKENS_MAX - 256)
		return bad(&in, "'merges N', N at most 1048320", err);
	/* a line has 4 bytes or more */
	if (n_merges > n / 4)
		return lh_fail(err, LH_EINPUT, 0, "%s: cut off: %zu bytes cannot hold %u merges",
			       path, n, n_merges);
	merges = malloc((n_merges + 1) * sizeof(*merges));
	if (!merges)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	r = parse_merges(&in, merges, n_merges, err);
	return r < 0 ? r : lh_bpe_from_merges(path, merges, n_merges, ret, err);
}

int lh_bpe_save(const struct lh_bpe *bpe, const char *path, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	size_t size;
	FILE *out;

	if (!bpe->is_ours)
		return lh_fail(err, LH_EUSAGE, 0, "write %s: a GPT-2 vocabulary stays as it is",
			       path);
	out = open_memstream(&text, &size);
	if (!out)
		return lh_fail(err, LH_ESYS, errno, "write %s", path);
	fprintf(out, "longhaul-bpe 1\nmerges %u\n", bpe->n_merges);
	for (uint32_t i = 0; i < bpe->n_merges; i++)
		fprintf(out, "%d %d\n", bpe->merges[i].left, bpe->merges[i].right);
	if (fclose(out) != 0)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	return lh_file_write(path, text, size, err);
}

/* ---- GPT-2's two files -------------------------------------------------------------------- */

/* The byte that GPT-2 writes as this character: printable ones as themselves, the others from
 * U+0100 on in their order; -1: none. */
static int byte_of_character(uint32_t c)
{
	uint32_t n = 0;

	if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255))
		return (int)c;
	for (int b = 0; c >= 256 && b < 256; b++) {
		bool is_itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;

		if (!is_itself && n++ == c - 256)
			return b;
	}
	return -1;
}

/* Writes the bytes of a token as it stands in vocab.json: of one that is not written in GPT-2's
 * characters, such as <mask> with a blank in it, the text itself. At most strlen(s) bytes. */
static size_t token_bytes(const char *s, char *ret)
{
	size_t n = 0;

	for (const uint8_t *p = (const uint8_t *)s; *p; n++) {
		uint32_t c = *p;
		int byte;

		p++;
		if (c >= 0xe0)
			c = UINT32_MAX; /* longer than any that GPT-2 uses */
		else if (c >= 0xc0 && *p)
			c = (c & 0x1f) << 6 | (*p++ & 0x3f);
		byte = byte_of_character(c);
		if (byte < 0) {
			n = strlen(s);
			memcpy(ret, s, n);
			return n;
		}
		ret[n] = (char)byte;
	}
	return n;
}

static int check_token(const char *path, const char *key, const json_t *value, const char **texts,
		       struct lh_error *err)
{
	json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;

	if (id < 0 || id >= LH_BPE_TOKENS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%s: token '%.64s' has no number from 0 to %d",
			       path, key, LH_BPE_TOKENS_MAX - 1);
	if (texts[id])
		return lh_fail(err, LH_EINPUT, 0, "%s: number %lld belongs to '%.64s' and '%.64s'",
			       path, (long long)id, texts[id], key);
	if (strlen(key) > LH_BPE_TOKEN_BYTES_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%s: token %lld is longer than %d bytes", path,
			       (long long)id, LH_BPE_TOKEN_BYTES_MAX);
	texts[id] = key;
	return 0;
}

/* Sets bytes, starts, byte_tokens; texts[id] are the tokens as they stand in the file. */
static int fill_tokens(struct lh_bpe *bpe, const char *path, const char **texts, size_t n_text,
		       struct lh_error *err)
{
	memset(bpe->byte_tokens, 0xff, sizeof(bpe->byte_tokens));
	bpe->bytes = malloc(n_text + 1);
	bpe->starts = malloc((bpe->n_tokens + 1) * sizeof(*bpe->starts));
	if (!bpe->bytes || !bpe->starts)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	for (uint32_t id = 0; id < bpe->n_tokens; id++) {
		size_t n = texts[id] ? token_bytes(texts[id], bpe->bytes + bpe->n_bytes) : 0;

		if (n == 1)
			bpe->byte_tokens[(uint8_t)bpe->bytes[bpe->n_bytes]] = (int32_t)id;
		bpe->starts[id] = (uint32_t)bpe->n_bytes;
		bpe->n_bytes += n;
	}
	bpe->starts[bpe->n_tokens] = (uint32_t)bpe->n_bytes;
	for (int b = 0; b < 256; b++)
		if (bpe->byte_tokens[b] < 0)
			return lh_fail(err, LH_EINPUT, 0, "%s: has no token for byte %d alone",
				       path, b);
	return 0;
}

static int parse_vocab(struct lh_bpe *bpe, const char *path, json_t *vocab, struct lh_error *err)
{
	lh_cleanup_free const char **texts = calloc(LH_BPE_TOKENS_MAX, sizeof(*texts));
	size_t n_text = 0;
	const char *key;
	json_t *value;
	int r;

	if (!texts)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	json_object_foreach (vocab, key, value) {
		r = check_token(path, key, value, texts, err);
		if (r < 0)
			return r;
		n_text += strlen(key);
		if (json_integer_value(value) >= bpe->n_tokens)
			bpe->n_tokens = (uint32_t)json_integer_value(value) + 1;
	}
	return fill_tokens(bpe, path, texts, n_text, err);
}

/* "LEFT RIGHT", both and both together being tokens. */
static int parse_gpt2_merge(const char *line, size_t n, const json_t *vocab,
			    struct lh_bpe_merge *ret)
{
	char text[2 * LH_BPE_TOKEN_BYTES_MAX + 2];
	const json_t *left, *right, *both;
	char *blank;

	if (n >= sizeof(text))
		return -1;
	memcpy(text, line, n);
	text[n] = '\0';
	blank = strchr(text, ' ');
	if (!blank)
		return -1;
	*blank = '\0';
	left = json_object_get(vocab, text);
	right = json_object_get(vocab, blank + 1);
	memmove(blank, blank + 1, n - (size_t)(blank - text));
	both = json_object_get(vocab, text);
	if (!left || !right || !both)
		return -1;
	*ret = (struct lh_bpe_merge){(int32_t)json_integer_value(left),
				     (int32_t)json_integer_value(right),
				     (int32_t)json_integer_value(both)};
	return 0;
}

static int parse_gpt2_merges(struct lh_bpe *bpe, const char *path, const json_t *vocab,
			     const char *text, size_t n, struct lh_error *err)
{
	const char *end = text + n;
	uint32_t line = 0;

	bpe->merges = malloc((n / 4 + 1) * sizeof(*bpe->merges));
	if (!bpe->merges)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((stop ? stop : end) - text);

		line++;
		if (length && !(line == 1 && text[0] == '#') &&
		    parse_gpt2_merge(text, length, vocab, &bpe->merges[bpe->n_merges++]) < 0)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s: line %u of its merges is not two tokens that together "
				       "are one",
				       path, line);
		text += length + 1;
	}
	return 0;
}

int lh_bpe_parse_gpt2(const char *path, const char *vocab, size_t n_vocab, const char *merges,
		      size_t n_merges, struct lh_bpe **ret, struct lh_error *err)
{
	json_error_t je;
	lh_cleanup_json json_t *tree = json_loadb(vocab, n_vocab, JSON_REJECT_DUPLICATES, &je);
	struct lh_bpe *bpe;
	int r;

	if (!json_is_object(tree))
		return lh_fail(err, LH_EINPUT, 0, "%s: its vocabulary is no JSON object: %s", path,
			       tree ? "something else" : je.text);
	bpe = calloc(1, sizeof(*bpe));
	if (!bpe)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	r = parse_vocab(bpe, path, tree, err);
	if (r == 0)
		r = parse_gpt2_merges(bpe, path, tree, merges, n_merges, err);
	if (r < 0) {
		lh_bpe_free(bpe);
		return r;
	}
	return lh_bpe_finish(bpe, path, ret, err);
}

static int load_gpt2(const char *folder, struct lh_bpe **ret, struct lh_error *err)
{
	lh_cleanup_free char *vocab_path = lh_path_join(folder, "vocab.json");
	lh_cleanup_free char *merges_path = lh_path_join(folder, "merges.txt");
	lh_cleanup_free char *vocab = NULL, *merges = NULL;
	size_t n_vocab, n_merges;
	int r;

	if (!vocab_path || !merges_path)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", folder);
	if ((r = lh_file_read(vocab_path, FILE_BYTES_MAX, &vocab, &n_vocab, err)) < 0 ||
	    (r = lh_file_read(merges_path, FILE_BYTES_MAX, &merges, &n_merges, err)) < 0)
		return r;
	return lh_bpe_parse_gpt2(folder, vocab, n_vocab, merges, n_merges, ret, err);
}

int lh_bpe_load(const char *path, struct lh_bpe **ret, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	struct stat st;
	size_t n;
	int r;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return load_gpt2(path, ret, err);
	r = lh_file_read(path, FILE_BYTES_MAX, &text, &n, err);
	return r < 0 ? r : lh_bpe_parse(path, text, n, ret, err);
}
