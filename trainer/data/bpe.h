/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-pair tokens over bytes, as GPT-2 has them: text is cut into pieces (words with the blank
 * before them, numbers, signs), within which pairs are merged in the order they were learnt.
 * Source: R. Sennrich et al., Neural Machine Translation of Rare Words with Subword Units,
 * 2016; A. Radford et al., Language Models are Unsupervised Multitask Learners, 2019, section 2.2.
 *
 * The vocabulary's file is text: "longhaul-bpe 1", then "merges N", then N lines "LEFT RIGHT",
 * two tokens' numbers; tokens 0 to 255 are the bytes, and line i, from 0, makes token 256 + i.
 * GPT-2's own form is read too: a folder with vocab.json and merges.txt.
 */
#ifndef LH_TRAINER_DATA_BPE_H
#define LH_TRAINER_DATA_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum {
	LH_BPE_TOKENS_MAX = 1 << 20,
	LH_BPE_TOKEN_BYTES_MAX = 512, /* of one token; longer pieces of text are cut there */
};

struct lh_bpe;

/*
 * Learns merges from text[n], n up to 1 GiB, until there are vocab_size tokens (at least 256),
 * or no pair occurs twice. The most frequent pair is merged first; of equal ones that with the
 * smaller left number, then the smaller right one. *ret is owned by the caller.
 */
int lh_bpe_train(const char *text, size_t n, uint32_t vocab_size, struct lh_bpe **ret,
		 struct lh_error *err);

/* Reads a vocabulary: a file of ours, or a folder with GPT-2's two. LH_EINPUT, LH_ESYS. */
int lh_bpe_load(const char *path, struct lh_bpe **ret, struct lh_error *err);

/* The same from memory; path is for messages. */
int lh_bpe_parse(const char *path, const char *text, size_t n, struct lh_bpe **ret,
		 struct lh_error *err);
int lh_bpe_parse_gpt2(const char *path, const char *vocab, size_t n_vocab, const char *merges,
		      size_t n_merges, struct lh_bpe **ret, struct lh_error *err);

/* Writes a vocabulary that was trained or read from a file of ours, all or nothing. */
int lh_bpe_save(const struct lh_bpe *bpe, const char *path, struct lh_error *err);

void lh_bpe_free(struct lh_bpe *bpe);

/* All tokens are below this. */
uint32_t lh_bpe_size(const struct lh_bpe *bpe);

/* The number of the token that is this text, such as RoBERTa's <mask>; -1: none is. */
int32_t lh_bpe_find(const struct lh_bpe *bpe, const char *text);

/* Writes the tokens of text[n], up to n_max of them, and returns their number; n of them are
 * always enough. Allocates nothing. One thread at a time per tokeniser. */
size_t lh_bpe_encode(struct lh_bpe *bpe, const char *text, size_t n, int32_t *ret_tokens,
		     size_t n_max);

/* Writes the bytes of tokens[n], up to n_max of them, and returns their number in all; tokens
 * that are not in the vocabulary have none. */
size_t lh_bpe_decode(const struct lh_bpe *bpe, const int32_t *tokens, size_t n, char *ret_text,
		     size_t n_max);

#endif
