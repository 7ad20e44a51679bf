/* SPDX-License-Identifier: Apache-2.0 */
/* A tokeniser's tables, shared by its encoder, its files and its training. */
#ifndef LH_TRAINER_DATA_BPE_INTERNAL_H
#define LH_TRAINER_DATA_BPE_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>

#include "trainer/data/bpe.h"

struct lh_bpe_merge {
	int32_t left;
	int32_t right;
	int32_t result;
};

struct lh_bpe {
	uint32_t n_tokens;
	uint32_t n_merges;
	struct lh_bpe_merge *merges; /* in the order they were learnt */
	uint32_t *slots;	     /* hash of pairs to merges: number + 1, or 0 */
	uint32_t n_slots;	     /* a power of two */
	char *bytes;		     /* of all tokens, one after another */
	size_t n_bytes;
	uint32_t *starts; /* [n_tokens + 1] in bytes */
	int32_t byte_tokens[256];
	bool is_ours; /* token 256 + i is merge i's */
	struct lh_bpe_cutter *cutter;
};

/* Cuts text into the pieces within which pairs are merged. */
struct lh_bpe_cutter {
	pcre2_code *pattern;
	pcre2_match_data *match;
	const char *text;
	size_t n;
	size_t at;
	size_t valid_end; /* text[at..valid_end) is UTF-8 */
};

struct lh_bpe_cutter *lh_bpe_cutter_new(void);
void lh_bpe_cutter_free(struct lh_bpe_cutter *c);
void lh_bpe_cutter_start(struct lh_bpe_cutter *c, const char *text, size_t n);

/* The next piece's length, at most LH_BPE_TOKEN_BYTES_MAX, from *ret_piece on; 0 at the end. */
size_t lh_bpe_cutter_next(struct lh_bpe_cutter *c, const char **ret_piece);

/* Mixes a pair's numbers to a hash. */
uint64_t lh_bpe_hash(int32_t left, int32_t right);

/* Makes a tokeniser of what bytes, starts, byte_tokens and merges say. Takes `bpe` over and
 * frees it on failure (LH_EINPUT: a pair twice). */
int lh_bpe_finish(struct lh_bpe *bpe, const char *path, struct lh_bpe **ret, struct lh_error *err);

/* Makes tokens 0 to 255 the bytes and 256 + i the result of merges[i], which is copied. */
int lh_bpe_from_merges(const char *path, const struct lh_bpe_merge *merges, uint32_t n,
		       struct lh_bpe **ret, struct lh_error *err);

#endif
