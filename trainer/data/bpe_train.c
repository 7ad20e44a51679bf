/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns byte-pair merges: counts the different pieces of a text and the pairs in them, and
 * keeps the counts right merge by merge. See bpe.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/data/bpe_internal.h"

enum { TEXT_BYTES_MAX = 1 << 30, COUNT_MIN = 2 };

/* A different piece, as its tokens so far. */
struct word {
	const char *text;
	size_t n_bytes;
	size_t n; /* tokens */
	int64_t count;
	int32_t *tokens; /* within trainer.tokens */
};

struct pair {
	int32_t left;
	int32_t right;
	int64_t count;
	uint32_t *words; /* where it came up; may name a word twice, or one that lost it */
	size_t n_words;
	size_t room;
};

/* What was a pair's count once: never less than it is now. */
struct candidate {
	int64_t count;
	uint32_t pair;
};

struct trainer {
	struct word *words;
	size_t n_words, words_room;
	uint32_t *word_slots; /* hash of texts: number + 1, or 0 */
	size_t n_word_slots;
	int32_t *tokens;
	struct pair *pairs;
	size_t n_pairs, pairs_room;
	uint32_t *pair_slots;
	size_t n_pair_slots;
	struct candidate *heap; /* the most frequent on top */
	size_t n_heap, heap_room;
};

/* Makes room for one more element in *(void **)array; false: memory is out. */
static bool grow(void *array, size_t n, size_t *room, size_t size)
{
	size_t wanted = *room ? *room * 2 : 16;
	void *grown;

	if (n < *room)
		return true;
	grown = realloc(*(void **)array, wanted * size);
	if (!grown)
		return false;
	*(void **)array = grown;
	*room = wanted;
	return true;
}

/* Twice as many slots once half are taken; false: memory is out. */
static bool grow_slots(uint32_t **slots, size_t *n_slots, size_t n, uint64_t (*hash)(const void *),
		       const void *elements, size_t size)
{
	size_t wanted = *n_slots ? *n_slots * 2 : 1024;
	uint32_t *grown;

	if (2 * n < *n_slots)
		return true;
	grown = calloc(wanted, sizeof(*grown));
	if (!grown)
		return false;
	for (size_t e = 0; e < n; e++) {
		uint64_t i = hash((const char *)elements + e * size);

		while (grown[i & (wanted - 1)])
			i++;
		grown[i & (wanted - 1)] = (uint32_t)(e + 1);
	}
	free(*slots);
	*slots = grown;
	*n_slots = wanted;
	return true;
}

/* ---- words -------------------------------------------------------------------------------- */

/* FNV-1a of a word's text. */
static uint64_t hash_word(const void *p)
{
	const struct word *w = p;
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < w->n_bytes; i++)
		h = (h ^ (uint8_t)w->text[i]) * 0x100000001b3u;
	return h ^ h >> 32;
}

static bool count_word(struct trainer *t, const char *text, size_t n)
{
	struct word word = {.text = text, .n_bytes = n, .n = n, .count = 1};
	uint64_t i = hash_word(&word);

	if (!grow_slots(&t->word_slots, &t->n_word_slots, t->n_words, hash_word, t->words,
			sizeof(word)))
		return false;
	for (uint32_t slot; (slot = t->word_slots[i & (t->n_word_slots - 1)]); i++) {
		struct word *w = &t->words[slot - 1];

		if (w->n_bytes == n && memcmp(w->text, text, n) == 0) {
			w->count++;
			return true;
		}
	}
	if (!grow(&t->words, t->n_words, &t->words_room, sizeof(word)))
		return false;
	t->words[t->n_words++] = word;
	t->word_slots[i & (t->n_word_slots - 1)] = (uint32_t)t->n_words;
	return true;
}

static bool count_words(struct trainer *t, const char *text, size_t n)
{
	struct lh_bpe_cutter *cutter = lh_bpe_cutter_new();
	size_t length, n_tokens = 0;
	bool is_fine = cutter != NULL;
	const char *piece;

	if (is_fine)
		lh_bpe_cutter_start(cutter, text, n);
	while (is_fine && (length = lh_bpe_cutter_next(cutter, &piece)))
		is_fine = count_word(t, piece, length);
	lh_bpe_cutter_free(cutter);
	for (size_t i = 0; i < t->n_words; i++)
		n_tokens += t->words[i].n_bytes;
	if (!is_fine || !(t->tokens = malloc((n_tokens + 1) * sizeof(*t->tokens))))
		return false;
	for (size_t i = 0, at = 0; i < t->n_words; at += t->words[i++].n_bytes) {
		t->words[i].tokens = t->tokens + at;
		for (size_t j = 0; j < t->words[i].n_bytes; j++)
			t->tokens[at + j] = (uint8_t)t->words[i].text[j];
	}
	return true;
}

/* ---- pairs -------------------------------------------------------------------------------- */

static uint64_t hash_pair(const void *p)
{
	const struct pair *pair = p;

	return lh_bpe_hash(pair->left, pair->right);
}

/* The pair, a new one where it is not there yet; NULL: memory is out. */
static struct pair *find_pair(struct trainer *t, int32_t left, int32_t right)
{
	struct pair pair = {.left = left, .right = right};
	uint64_t i = hash_pair(&pair);

	if (!grow_slots(&t->pair_slots, &t->n_pair_slots, t->n_pairs, hash_pair, t->pairs,
			sizeof(pair)))
		return NULL;
	for (uint32_t slot; (slot = t->pair_slots[i & (t->n_pair_slots - 1)]); i++)
		if (t->pairs[slot - 1].left == left && t->pairs[slot - 1].right == right)
			return &t->pairs[slot - 1];
	if (!grow(&t->pairs, t->n_pairs, &t->pairs_room, sizeof(pair)))
		return NULL;
	t->pairs[t->n_pairs++] = pair;
	t->pair_slots[i & (t->n_pair_slots - 1)] = (uint32_t)t->n_pairs;
	return &t->pairs[t->n_pairs - 1];
}

/* Adds sign x the word's count to its pairs, and the word to those with `fresh` in them (or to
 * all, where that is -1). */
static bool add_pairs(struct trainer *t, uint32_t w, int sign, int32_t fresh)
{
	const struct word *word = &t->words[w];

	for (size_t i = 0; i + 1 < word->n; i++) {
		struct pair *p = find_pair(t, word->tokens[i], word->tokens[i + 1]);

		if (!p)
			return false;
		p->count += sign * word->count;
		if (sign < 0 || (fresh >= 0 && p->left != fresh && p->right != fresh))
			continue;
		if (!grow(&p->words, p->n_words, &p->room, sizeof(*p->words)))
			return false;
		p->words[p->n_words++] = w;
	}
	return true;
}

/* ---- the most frequent pair --------------------------------------------------------------- */

static bool is_before(const struct trainer *t, const struct candidate *a, const struct candidate *b)
{
	const struct pair *p = &t->pairs[a->pair], *q = &t->pairs[b->pair];

	if (a->count != b->count)
		return a->count > b->count;
	return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static bool push(struct trainer *t, uint32_t pair)
{
	struct candidate c = {t->pairs[pair].count, pair};
	size_t i = t->n_heap;

	if (!grow(&t->heap, t->n_heap, &t->heap_room, sizeof(c)))
		return false;
	t->n_heap++;
	for (; i && is_before(t, &c, &t->heap[(i - 1) / 2]); i = (i - 1) / 2)
		t->heap[i] = t->heap[(i - 1) / 2];
	t->heap[i] = c;
	return true;
}

static struct candidate pop(struct trainer *t)
{
	struct candidate top = t->heap[0], last = t->heap[--t->n_heap];
	size_t i = 0;

	for (size_t child; (child = 2 * i + 1) < t->n_heap; i = child) {
		if (child + 1 < t->n_heap && is_before(t, &t->heap[child + 1], &t->heap[child]))
			child++;
		if (!is_before(t, &t->heap[child], &last))
			break;
		t->heap[i] = t->heap[child];
	}
	t->heap[i] = last;
	return top;
}

/* The most frequent pair's number: 1, 0 where none is frequent enough, -1 out of memory. */
static int take_best(struct trainer *t, uint32_t *ret)
{
	while (t->n_heap) {
		struct candidate c = pop(t);

		if (c.count == t->pairs[c.pair].count) {
			*ret = c.pair;
			return c.count >= COUNT_MIN;
		}
		if (t->pairs[c.pair].count >= COUNT_MIN && !push(t, c.pair))
			return -1;
	}
	return 0;
}

/* ---- merging ------------------------------------------------------------------------------ */

static bool merge_in_word(struct trainer *t, uint32_t w, const struct lh_bpe_merge *m)
{
	struct word *word = &t->words[w];
	size_t n = 0;
	bool has_it = false;

	for (size_t i = 0; i + 1 < word->n && !has_it; i++)
		has_it = word->tokens[i] == m->left && word->tokens[i + 1] == m->right;
	if (!has_it)
		return true;
	if (!add_pairs(t, w, -1, -1))
		return false;
	for (size_t i = 0; i < word->n; i++) {
		bool is_pair = i + 1 < word->n && word->tokens[i] == m->left &&
			       word->tokens[i + 1] == m->right;

		word->tokens[n++] = is_pair ? m->result : word->tokens[i];
		i += is_pair;
	}
	word->n = n;
	return add_pairs(t, w, 1, m->result);
}

static bool merge(struct trainer *t, uint32_t pair, const struct lh_bpe_merge *m)
{
	lh_cleanup_free uint32_t *words = lh_steal(&t->pairs[pair].words);
	size_t n = t->pairs[pair].n_words, first_new = t->n_pairs;

	t->pairs[pair].n_words = t->pairs[pair].room = 0;
	for (size_t i = 0; i < n; i++)
		if (!merge_in_word(t, words[i], m))
			return false;
	/* only pairs with the new token have become more frequent, and all those are new */
	for (size_t i = first_new; i < t->n_pairs; i++)
		if (!push(t, (uint32_t)i))
			return false;
	return true;
}

/* Learns up to n_max merges; their number, or -1 out of memory. */
static int64_t learn(struct trainer *t, struct lh_bpe_merge *merges, uint32_t n_max)
{
	uint32_t n = 0, best;
	int r;

	for (size_t i = 0; i < t->n_words; i++)
		if (!add_pairs(t, (uint32_t)i, 1, -1))
			return -1;
	for (size_t i = 0; i < t->n_pairs; i++)
		if (!push(t, (uint32_t)i))
			return -1;
	while (n < n_max && (r = take_best(t, &best)) != 0) {
		if (r < 0)
			return -1;
		merges[n] = (struct lh_bpe_merge){t->pairs[best].left, t->pairs[best].right,
						  (int32_t)(256 + n)};
		if (!merge(t, best, &merges[n]))
			return -1;
		n++;
	}
	return n;
}

static void done(struct trainer *t)
{
	for (size_t i = 0; i < t->n_pairs; i++)
		free(t->pairs[i].words);
	free(t->words);
	free(t->word_slots);
	free(t->tokens);
	free(t->pairs);
	free(t->pair_slots);
	free(t->heap);
}

int lh_bpe_train(const char *text, size_t n, uint32_t vocab_size, struct lh_bpe **ret,
		 struct lh_error *err)
{
	lh_cleanup_free struct lh_bpe_merge *merges = NULL;
	struct trainer t = {0};
	int64_t n_merges = -1;

	if (n > TEXT_BYTES_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "train a tokeniser: %zu bytes of text; at most %d", n,
			       TEXT_BYTES_MAX);
	if (vocab_size < 256 || vocab_size > LH_BPE_TOKENS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "train a tokeniser: %u tokens; from 256 to %d",
			       vocab_size, LH_BPE_TOKENS_MAX);
	merges = malloc((vocab_size - 255) * sizeof(*merges));
	if (merges && count_words(&t, text, n))
		n_merges = learn(&t, merges, vocab_size - 256);
	done(&t);
	if (n_merges < 0)
		return lh_fail(err, LH_ESYS, ENOMEM, "train a tokeniser");
	return lh_bpe_from_merges("trained", merges, (uint32_t)n_merges, ret, err);
}
