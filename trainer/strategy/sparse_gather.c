/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gather of sparse messages. See sparse_gather.h. A message travels through the collective's
 * executor as words that nobody looks into.
 */
#include "trainer/strategy/sparse_gather.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 4 };

struct lh_sparse_gather {
	struct lh_sparse_gather_config config;
	uint32_t *members;   /* owned, or NULL */
	uint32_t real_count; /* elements that the plan is for; 0: there is none */
	uint32_t sent_count; /* likewise */
	struct lh_collective_plan plan;
	struct lh_collective_run *run;
	float *words;		  /* of all members, of which one's own are written */
	struct lh_sparse message; /* one that came; room for real_count */
};

static uint64_t word_bytes(uint64_t n)
{
	return n * WORD_BYTES;
}

static void copy_words(const float *words, size_t n, void *wire)
{
	memcpy(wire, words, n * WORD_BYTES);
}

static void take_words(const void *wire, size_t n, float *ret_words)
{
	memcpy(ret_words, wire, n * WORD_BYTES);
}

static const struct lh_codec_ops words_codec = {
	.name = "words",
	.doc = "four bytes as they are",
	.bytes_per_element = WORD_BYTES,
	.wire_bytes = word_bytes,
	.encode = copy_words,
	.decode = take_words,
};

int lh_sparse_gather_open(const struct lh_sparse_gather_config *config,
			  struct lh_sparse_gather **ret_gather, struct lh_error *err)
{
	struct lh_sparse_gather *g = calloc(1, sizeof(*g));
	size_t bytes = config->n_members * sizeof(*g->members);

	if (!g)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an all-gather");
	g->config = *config;
	g->config.members = NULL;
	if (config->members) {
		g->members = malloc(bytes);
		if (!g->members) {
			free(g);
			return lh_fail(err, LH_ESYS, ENOMEM, "open an all-gather");
		}
		memcpy(g->members, config->members, bytes);
		g->config.members = g->members;
	}
	*ret_gather = g;
	return 0;
}

static void drop_plan(struct lh_sparse_gather *g)
{
	lh_collective_run_close(g->run);
	g->run = NULL;
	lh_collective_plan_done(&g->plan);
	free(g->words);
	g->words = NULL;
	free(g->message.indices);
	free(g->message.values);
	g->message = (struct lh_sparse){0};
	g->real_count = 0;
}

void lh_sparse_gather_close(struct lh_sparse_gather *gather)
{
	if (!gather)
		return;
	drop_plan(gather);
	free(gather->members);
	free(gather);
}

static uint64_t words_of(uint32_t count)
{
	return lh_sparse_wire_bytes(count) / WORD_BYTES;
}

static int make_plan(struct lh_sparse_gather *g, struct lh_error *err)
{
	uint32_t n = g->config.n_members;
	uint64_t *blocks = calloc(n, sizeof(*blocks));
	struct lh_collective_form form = {
		.n = n, .members = g->config.members, .block_elements = blocks};
	int rc;

	if (!blocks)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan an all-gather");
	for (uint32_t m = 0; m < n; m++)
		blocks[m] = words_of(g->sent_count);
	rc = lh_collective_gather_direct.make(&form, g->config.self, &g->plan, err);
	free(blocks);
	return rc;
}

/* Makes all that depends on the messages' length. */
static int plan_for(struct lh_sparse_gather *g, uint32_t real_count, uint32_t sent_count,
		    struct lh_error *err)
{
	struct lh_collective_run_config config = {
		.comm = g->config.comm,
		.plan = &g->plan,
		.codec = &words_codec,
		.slice_elements = words_of(real_count),
		.host_bps = g->config.host_bps,
	};
	int rc;

	if (g->real_count == real_count && g->sent_count == sent_count)
		return 0;
	drop_plan(g);
	g->sent_count = sent_count;
	if ((rc = make_plan(g, err)) || (rc = lh_collective_run_open(&config, &g->run, err)))
		return rc;
	g->words = calloc(words_of(real_count) * g->config.n_members, sizeof(*g->words));
	g->message.indices = calloc(real_count, sizeof(*g->message.indices));
	g->message.values = calloc(real_count, sizeof(*g->message.values));
	if (!g->words || !g->message.indices || !g->message.values)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan an all-gather");
	g->real_count = real_count;
	return 0;
}

/* The own place among the members. */
static uint32_t own_place(const struct lh_sparse_gather *g)
{
	uint32_t place = 0;

	if (!g->members)
		return g->config.self;
	while (g->members[place] != g->config.self)
		place++;
	return place;
}

int lh_sparse_gather_round(struct lh_sparse_gather *gather, uint32_t epoch, uint64_t samples,
			   const struct lh_sparse *own, uint32_t sent_count,
			   struct lh_collective_done *ret_done, struct lh_error *err)
{
	int rc;

	assert(own->count && own->count <= sent_count);
	if ((rc = plan_for(gather, own->count, sent_count, err)))
		return rc;
	lh_sparse_write(own, gather->words + words_of(own->count) * own_place(gather));
	return lh_collective_run_round(gather->run, epoch, samples, gather->words, INT64_MAX,
				       ret_done, err);
}

int lh_sparse_gather_sum(struct lh_sparse_gather *gather, float *ret_sum, struct lh_error *err)
{
	memset(ret_sum, 0, gather->config.elements * sizeof(*ret_sum));
	for (uint32_t m = 0; m < gather->config.n_members; m++) {
		const void *wire = lh_collective_run_wire(gather->run, m);
		struct lh_error why = {0};

		if (lh_sparse_parse(wire, lh_sparse_wire_bytes(gather->real_count),
				    gather->config.elements, gather->real_count, &gather->message,
				    &why))
			return lh_fail(err, LH_ERUN, 0, "rank %u: %s",
				       gather->members ? gather->members[m] : m, why.message);
		lh_sparse_add(&gather->message, 1, ret_sum);
	}
	return 0;
}
