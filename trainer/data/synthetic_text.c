/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind synthetic-text: a Markov source, whose next token is one of four, by the last token and
 * a fourth of the one before. Its entropy is at most 1.743 bits a token, which nothing can beat.
 */
#include <errno.h>
#include <stdlib.h>

#include "trainer/data/synthetic_internal.h"
#include "trainer/data/tokens.h"

enum { SUCCESSORS = 4, GROUPS = 4, KNOWN_DEFAULT = 63, RUN_IN = 8 };

static const double below[SUCCESSORS] = {0.5, 0.75, 0.9, 1.0};

struct source {
	int32_t *successors; /* [n_known, GROUPS, SUCCESSORS] */
	int32_t *window;
	struct lh_tokens tokens;
};

static int open_source(struct lh_dataset *ds, struct lh_error *err)
{
	struct source *s = ds->state = calloc(1, sizeof(*s));
	uint32_t n_known = ds->spec.vocab_size ? ds->spec.vocab_size - 1 : KNOWN_DEFAULT;
	struct lh_rng rng;
	int r;

	if (!s)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	if (n_known < 2)
		return lh_fail(err, LH_EINPUT, 0, "data: vocab_size is %u; at least 3",
			       ds->spec.vocab_size);
	if ((r = lh_tokens_init_plain(&s->tokens, ds, n_known, err)) < 0)
		return r;
	s->successors = malloc(sizeof(*s->successors) * n_known * GROUPS * SUCCESSORS);
	s->window = malloc(lh_tokens_window(&s->tokens) * sizeof(*s->window));
	if (!s->successors || !s->window)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	lh_synthetic_model_rng(&rng, &ds->spec);
	for (uint32_t i = 0; i < n_known * GROUPS * SUCCESSORS; i++)
		s->successors[i] = (int32_t)lh_rng_below(&rng, n_known);
	ds->size = lh_synthetic_size(&ds->spec);
	return 0;
}

static void close_source(struct lh_dataset *ds)
{
	struct source *s = ds->state;

	free(s->successors);
	free(s->window);
	free(s);
}

static int32_t next(const struct source *s, int32_t last, int32_t before, struct lh_rng *rng)
{
	double u = lh_rng_uniform(rng);
	int i = 0;

	while (i < SUCCESSORS - 1 && u >= below[i])
		i++;
	return s->successors[(last * GROUPS + before % GROUPS) * SUCCESSORS + i];
}

static int read_source(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
		       void *const *ret_fields, struct lh_error *err)
{
	struct source *s = ds->state;
	size_t n = lh_tokens_window(&s->tokens);
	int32_t before, last;
	struct lh_rng rng;

	(void)err;
	lh_data_rng(&rng, &ds->spec, "text", 0, index);
	before = (int32_t)lh_rng_below(&rng, s->tokens.n_known);
	last = (int32_t)lh_rng_below(&rng, s->tokens.n_known);
	for (size_t i = 0; i < n + RUN_IN; i++) {
		int32_t token = next(s, last, before, &rng);

		before = last;
		last = token;
		if (i >= RUN_IN)
			s->window[i - RUN_IN] = token;
	}
	lh_data_rng(&rng, &ds->spec, "mask", epoch, index);
	lh_tokens_sample(&s->tokens, s->window, n, &rng, ret_fields[0], ret_fields[1]);
	return 0;
}

const struct lh_dataset_ops lh_dataset_synthetic_text = {
	.name = "synthetic-text",
	.doc = "seeded: a Markov source of at most 1.743 bits a token, causal or masked",
	.open = open_source,
	.close = close_source,
	.read = read_source,
};
