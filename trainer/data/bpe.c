/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair tokens: encoding and decoding. See bpe.h. */
#include "trainer/data/bpe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/bpe_internal.h"

enum { NO_MERGE = INT32_MAX, ALL_BYTES_MAX = 64 << 20 };

uint64_t lh_bpe_hash(int32_t left, int32_t right)
{
	uint64_t x = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;

	x = (x ^ x >> 32) * 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

/* The order in which a pair is merged, or NO_MERGE. */
static int32_t rank_of(const struct lh_bpe *bpe, int32_t left, int32_t right)
{
	uint64_t i = lh_bpe_hash(left, right);

	for (;; i++) {
		uint32_t slot = bpe->slots[i & (bpe->n_slots - 1)];

		if (slot == 0)
			return NO_MERGE;
		if (bpe->merges[slot - 1].left == left && bpe->merges[slot - 1].right == right)
			return (int32_t)(slot - 1);
	}
}

/* ---- making ------------------------------------------------------------------------------- */

static int fill_slots(struct lh_bpe *bpe, const char *path, struct lh_error *err)
{
	for (bpe->n_slots = 16; bpe->n_slots < 2 * bpe->n_merges;)
		bpe->n_slots *= 2;
	bpe->slots = calloc(bpe->n_slots, sizeof(*bpe->slots));
	if (!bpe->slots)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	for (uint32_t m = 0; m < bpe->n_merges; m++) {
		const struct lh_bpe_merge *merge = &bpe->merges[m];
		uint64_t i = lh_bpe_hash(merge->left, merge->right);

		if (rank_of(bpe, merge->left, merge->right) != NO_MERGE)
			return lh_fail(err, LH_EINPUT, 0, "%s: merge %u is there twice: %d %d",
				       path, m, merge->left, merge->right);
		while (bpe->slots[i & (bpe->n_slots - 1)])
			i++;
		bpe->slots[i & (bpe->n_slots - 1)] = m + 1;
	}
	return 0;
}

int lh_bpe_finish(struct lh_bpe *bpe, const char *path, struct lh_bpe **ret, struct lh_error *err)
{
	int r = fill_slots(bpe, path, err);

	if (r == 0) {
		bpe->cutter = lh_bpe_cutter_new();
		if (!bpe->cutter)
			r = lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	}
	if (r < 0) {
		lh_bpe_free(bpe);
		return r;
	}
	*ret = bpe;
	return 0;
}

static uint32_t length_of(const struct lh_bpe *bpe, int32_t token)
{
	return bpe->starts[token + 1] - bpe->starts[token];
}

/* Sets where each token's bytes are, and how many there are in all. */
static int measure_tokens(struct lh_bpe *bpe, const char *path, struct lh_error *err)
{
	size_t all = 256;

	for (int i = 0; i <= 256; i++)
		bpe->starts[i] = (uint32_t)i;
	for (uint32_t i = 0; i < bpe->n_merges; i++) {
		const struct lh_bpe_merge *m = &bpe->merges[i];
		uint32_t n = length_of(bpe, m->left) + length_of(bpe, m->right);

		all += n;
		if (n > LH_BPE_TOKEN_BYTES_MAX || all > ALL_BYTES_MAX)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s: the token of merge %u has %u bytes, all up to it %zu; "
				       "at most %d, and %d together",
				       path, i, n, all, LH_BPE_TOKEN_BYTES_MAX, ALL_BYTES_MAX);
		bpe->starts[256 + i + 1] = (uint32_t)all;
	}
	bpe->n_bytes = all;
	return 0;
}

static void write_tokens(struct lh_bpe *bpe)
{
	for (int i = 0; i < 256; i++) {
		bpe->bytes[i] = (char)i;
		bpe->byte_tokens[i] = i;
	}
	for (uint32_t i = 0; i < bpe->n_merges; i++) {
		const struct lh_bpe_merge *m = &bpe->merges[i];
		char *to = bpe->bytes + bpe->starts[256 + i];

		memcpy(to, bpe->bytes + bpe->starts[m->left], length_of(bpe, m->left));
		memcpy(to + length_of(bpe, m->left), bpe->bytes + bpe->starts[m->right],
		       length_of(bpe, m->right));
	}
}

int lh_bpe_from_merges(const char *path, const struct lh_bpe_merge *merges, uint32_t n,
		       struct lh_bpe **ret, struct lh_error *err)
{
	struct lh_bpe *bpe = calloc(1, sizeof(*bpe));
	int r = 0;

	if (!bpe)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	bpe->is_ours = true;
	bpe->n_merges = n;
	bpe->n_tokens = 256 + n;
	bpe->merges = malloc((n + !n) * sizeof(*merges));
	bpe->starts = malloc((bpe->n_tokens + 1) * sizeof(*bpe->starts));
	if (!bpe->merges || !bpe->starts)
		r = lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	else if (n)
		memcpy(bpe->merges, merges, n * sizeof(*merges));
	if (r == 0)
		r = measure_tokens(bpe, path, err);
	if (r == 0 && !(bpe->bytes = malloc(bpe->n_bytes)))
		r = lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	if (r < 0) {
		lh_bpe_free(bpe);
		return r;
	}
	write_tokens(bpe);
	return lh_bpe_finish(bpe, path, ret, err);
}

void lh_bpe_free(struct lh_bpe *bpe)
{
	if (!bpe)
		return;
	lh_bpe_cutter_free(bpe->cutter);
	free(bpe->merges);
	free(bpe->slots);
	free(bpe->bytes);
	free(bpe->starts);
	free(bpe);
}

uint32_t lh_bpe_size(const struct lh_bpe *bpe)
{
	return bpe->n_tokens;
}

int32_t lh_bpe_find(const struct lh_bpe *bpe, const char *text)
{
	size_t n = strlen(text);

	for (uint32_t i = 0; i < bpe->n_tokens; i++)
		if (length_of(bpe, (int32_t)i) == n &&
		    memcmp(bpe->bytes + bpe->starts[i], text, n) == 0)
			return (int32_t)i;
	return -1;
}

/* ---- encoding and decoding ---------------------------------------------------------------- */

/* Merges within a piece; tokens has room for its n bytes. Returns how many are left. */
static size_t encode_piece(const struct lh_bpe *bpe, const char *piece, size_t n, int32_t *tokens)
{
	int32_t ranks[LH_BPE_TOKEN_BYTES_MAX]; /* of the pair that begins here */

	for (size_t i = 0; i < n; i++)
		tokens[i] = bpe->byte_tokens[(uint8_t)piece[i]];
	for (size_t i = 0; i + 1 < n; i++)
		ranks[i] = rank_of(bpe, tokens[i], tokens[i + 1]);
	while (n > 1) {
		size_t best = 0;

		for (size_t i = 1; i + 1 < n; i++)
			if (ranks[i] < ranks[best])
				best = i;
		if (ranks[best] == NO_MERGE)
			break;
		tokens[best] = bpe->merges[ranks[best]].result;
		n--;
		memmove(tokens + best + 1, tokens + best + 2, (n - best - 1) * sizeof(*tokens));
		memmove(ranks + best, ranks + best + 1, (n - best - 1) * sizeof(*ranks));
		if (best > 0)
			ranks[best - 1] = rank_of(bpe, tokens[best - 1], tokens[best]);
		if (best + 1 < n)
			ranks[best] = rank_of(bpe, tokens[best], tokens[best + 1]);
	}
	return n;
}

size_t lh_bpe_encode(struct lh_bpe *bpe, const char *text, size_t n, int32_t *ret_tokens,
		     size_t n_max)
{
	int32_t tokens[LH_BPE_TOKEN_BYTES_MAX];
	const char *piece;
	size_t length, n_ret = 0;

	lh_bpe_cutter_start(bpe->cutter, text, n);
	while (n_ret < n_max && (length = lh_bpe_cutter_next(bpe->cutter, &piece))) {
		size_t n_piece = encode_piece(bpe, piece, length, tokens);

		if (n_piece > n_max - n_ret)
			n_piece = n_max - n_ret;
		memcpy(ret_tokens + n_ret, tokens, n_piece * sizeof(*tokens));
		n_ret += n_piece;
	}
	return n_ret;
}

size_t lh_bpe_decode(const struct lh_bpe *bpe, const int32_t *tokens, size_t n, char *ret_text,
		     size_t n_max)
{
	size_t all = 0;

	for (size_t i = 0; i < n; i++) {
		size_t length, fits;

		if (tokens[i] < 0 || (uint32_t)tokens[i] >= bpe->n_tokens)
			continue;
		length = length_of(bpe, tokens[i]);
		fits = all >= n_max ? 0 : length < n_max - all ? length : n_max - all;
		if (fits)
			memcpy(ret_text + all, bpe->bytes + bpe->starts[tokens[i]], fits);
		all += length;
	}
	return all;
}
