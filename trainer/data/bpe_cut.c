/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts text into pieces as GPT-2 does; bytes that are no UTF-8 are pieces of their own. */
#include <stdlib.h>

#include "trainer/data/bpe_internal.h"

/* English endings after an apostrophe; letters, digits or signs, each with a blank before them;
 * white space, whose last blank belongs to what follows. */
static const char pattern[] = "'(?:[stmd]|re|ve|ll)"
			      "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
			      "|\\s+(?!\\S)|\\s+";

struct lh_bpe_cutter *lh_bpe_cutter_new(void)
{
	struct lh_bpe_cutter *c = calloc(1, sizeof(*c));
	PCRE2_SIZE at;
	int code;

	if (!c)
		return NULL;
	c->pattern = pcre2_compile((PCRE2_SPTR)pattern, sizeof(pattern) - 1,
				   PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, NULL);
	c->match = c->pattern ? pcre2_match_data_create_from_pattern(c->pattern, NULL) : NULL;
	if (!c->match) {
		lh_bpe_cutter_free(c);
		return NULL;
	}
	/* where there is no JIT, matching interprets */
	(void)pcre2_jit_compile(c->pattern, PCRE2_JIT_COMPLETE);
	return c;
}

void lh_bpe_cutter_free(struct lh_bpe_cutter *c)
{
	if (!c)
		return;
	pcre2_match_data_free(c->match);
	pcre2_code_free(c->pattern);
	free(c);
}

void lh_bpe_cutter_start(struct lh_bpe_cutter *c, const char *text, size_t n)
{
	c->text = text;
	c->n = n;
	c->at = c->valid_end = 0;
}

/* The length of the UTF-8 sequence that p[n] begins with; 0: none. Source: RFC 3629, section 4. */
static size_t sequence(const uint8_t *p, size_t n)
{
	uint8_t low = 0x80, high = 0xbf;
	size_t length = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (length == 0 || length > n || p[0] > 0xf4)
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0;
	if (p[0] == 0xed)
		high = 0x9f;
	if (p[0] == 0xf0)
		low = 0x90;
	if (p[0] == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < length; i++, low = 0x80, high = 0xbf)
		if (p[i] < low || p[i] > high)
			return 0;
	return length;
}

static void find_valid_end(struct lh_bpe_cutter *c)
{
	size_t length;

	while (c->valid_end < c->n &&
	       (length = sequence((const uint8_t *)c->text + c->valid_end, c->n - c->valid_end)))
		c->valid_end += length;
}

/* How much of the text the next piece depends on: no more than the longest piece and the
 * character after it, so that a long run costs no more than a short one. */
static size_t view(const struct lh_bpe_cutter *c)
{
	size_t end = c->at + LH_BPE_TOKEN_BYTES_MAX + 8;

	if (end >= c->valid_end)
		return c->valid_end - c->at;
	while (((uint8_t)c->text[end] & 0xc0) == 0x80)
		end--;
	return end - c->at;
}

size_t lh_bpe_cutter_next(struct lh_bpe_cutter *c, const char **ret_piece)
{
	size_t length = 1;

	*ret_piece = c->text + c->at;
	if (c->at == c->n)
		return 0;
	if (c->at >= c->valid_end) {
		c->valid_end = c->at;
		find_valid_end(c);
	}
	/* a piece that was cut off may go on amid a character: a byte on its own then */
	if (c->at < c->valid_end && sequence((const uint8_t *)*ret_piece, c->valid_end - c->at) &&
	    pcre2_match(c->pattern, (PCRE2_SPTR)*ret_piece, view(c), 0, PCRE2_NO_UTF_CHECK,
			c->match, NULL) > 0)
		length = pcre2_get_ovector_pointer(c->match)[1];
	if (length > LH_BPE_TOKEN_BYTES_MAX)
		length = LH_BPE_TOKEN_BYTES_MAX;
	c->at += length;
	return length;
}
