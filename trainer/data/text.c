/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind text: one file, or a folder with train.txt and test.txt, as bytes or byte-pair tokens.
 * Samples lie one after another in it; what does not fill a last one is left out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/bpe.h"
#include "trainer/data/dataset_internal.h"
#include "trainer/data/map.h"
#include "trainer/data/tokens.h"

struct text {
	char *path;
	struct lh_map map;
	const uint8_t *bytes; /* the split's, where there is no tokeniser */
	int32_t *encoded;     /* the split's, where there is */
	size_t n;	      /* of bytes or encoded tokens */
	int32_t *window;
	struct lh_tokens tokens;
};

/* Encodes the split's bytes once, and lets the file go. */
static int encode(struct text *t, struct lh_bpe *bpe, struct lh_error *err)
{
	int32_t *shrunk;

	t->encoded = malloc(t->n * sizeof(*t->encoded));
	if (!t->encoded)
		return lh_fail(err, LH_ESYS, ENOMEM, "encode %s", t->path);
	t->n = lh_bpe_encode(bpe, (const char *)t->bytes, t->n, t->encoded, t->n);
	shrunk = realloc(t->encoded, t->n * sizeof(*t->encoded));
	t->encoded = shrunk ? shrunk : t->encoded;
	lh_map_close(&t->map);
	return 0;
}

static int open_split(struct text *t, const struct lh_data_request *spec, struct lh_error *err)
{
	uint64_t first = 0;
	bool is_whole;
	int r;

	if ((r = lh_data_split_path(spec, ".txt", &t->path, &is_whole, err)) < 0 ||
	    (r = lh_map_open(t->path, &t->map, err)) < 0)
		return r;
	t->n = t->map.size;
	if (is_whole && (r = lh_data_split_range(spec, t->map.size, &first, &t->n, err)) < 0)
		return r;
	t->bytes = t->map.data + first;
	return 0;
}

/* Prepares the split's tokens, of the vocabulary where there is one. */
static int open_tokens(struct text *t, struct lh_dataset *ds, struct lh_error *err)
{
	struct lh_bpe *bpe = NULL;
	int r;

	if (ds->spec.vocab_path && (r = lh_bpe_load(ds->spec.vocab_path, &bpe, err)) < 0)
		return r;
	r = lh_tokens_init(&t->tokens, ds, bpe, err);
	if (r == 0 && bpe)
		r = encode(t, bpe, err);
	lh_bpe_free(bpe);
	return r;
}

static int open_text(struct lh_dataset *ds, struct lh_error *err)
{
	struct text *t = ds->state = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	if ((r = open_split(t, &ds->spec, err)) < 0 || (r = open_tokens(t, ds, err)) < 0)
		return r;
	if (t->n < lh_tokens_window(&t->tokens))
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: the %s split has %zu tokens; one sample needs %zu", t->path,
			       lh_data_split_name(ds->spec.split), t->n,
			       lh_tokens_window(&t->tokens));
	t->window = malloc(lh_tokens_window(&t->tokens) * sizeof(*t->window));
	if (!t->window)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	ds->size = 1 + (t->n - lh_tokens_window(&t->tokens)) / t->tokens.n_tokens;
	return 0;
}

static void close_text(struct lh_dataset *ds)
{
	struct text *t = ds->state;

	lh_map_close(&t->map);
	free(t->encoded);
	free(t->window);
	free(t->path);
	free(t);
}

static int read_text(struct lh_dataset *ds, uint64_t index, uint64_t epoch, void *const *ret_fields,
		     struct lh_error *err)
{
	struct text *t = ds->state;
	size_t n = lh_tokens_window(&t->tokens), first = index * t->tokens.n_tokens;
	struct lh_rng rng;

	(void)err;
	lh_data_rng(&rng, &ds->spec, "mask", epoch, index);
	for (size_t i = 0; i < n; i++)
		t->window[i] = t->encoded ? t->encoded[first + i] : t->bytes[first + i];
	lh_tokens_sample(&t->tokens, t->window, n, &rng, ret_fields[0], ret_fields[1]);
	return 0;
}

const struct lh_dataset_ops lh_dataset_text = {
	.name = "text",
	.doc = "a text file or a folder with train.txt and test.txt, as bytes or byte pairs",
	.open = open_text,
	.close = close_text,
	.read = read_text,
};
