/* SPDX-License-Identifier: Apache-2.0 */
/* Whole ranks that average what a test gives. See averaging_world.h. */
#include "tests/unit/averaging_world.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/loopback.h"
#include "tests/unit/test.h"
#include "trainer/clock.h"
#include "trainer/compress/low_rank.h"
#include "trainer/strategy/strategy.h"

enum { MICRO_BATCH = 32 };

/* ---- computing ------------------------------------------------------------------------------ */

static int open_rank(const struct lh_job *job, uint32_t rank, void **ret_state,
		     struct lh_error *err)
{
	struct averaging_world *world = (struct averaging_world *)(uintptr_t)job;

	(void)err;
	*ret_state = &world->states[rank];
	return 0;
}

static struct lh_averaged averaged(void *state)
{
	struct averaging_rank *r = state;

	return (struct lh_averaged){.n = r->world->job.parameters,
				    .values = r->world->gradient ? r->values : NULL};
}

static int shapes_of(void *state, struct lh_matrix_shape **ret_shapes, size_t *ret_n,
		     struct lh_error *err)
{
	const struct averaging_world *world = ((struct averaging_rank *)state)->world;

	(void)err;
	*ret_n = world->n_shapes;
	*ret_shapes = calloc(world->n_shapes, sizeof(**ret_shapes));
	memcpy(*ret_shapes, world->shapes, world->n_shapes * sizeof(**ret_shapes));
	return 0;
}

static int micro_batch(void *state, int64_t *ret_ns, struct lh_error *err)
{
	(void)state;
	(void)err;
	*ret_ns = LH_NS_PER_MS;
	return 0;
}

static int begin_average(void *state, uint64_t samples, struct lh_error *err)
{
	struct averaging_rank *r = state;

	(void)samples;
	(void)err;
	if (r->world->gradient) {
		r->world->gradient(r->world, r->rank, r->n_begun, r->values);
		for (uint64_t i = 0; i < r->world->job.parameters; i++)
			r->given[i] += r->values[i];
	}
	r->n_begun++;
	return 0;
}

static int apply(void *state, struct lh_error *err)
{
	struct averaging_rank *r = state;
	uint64_t n = r->world->job.parameters;

	(void)err;
	if (r->world->gradient)
		memcpy(r->averages + n * r->n_applied, r->values, n * sizeof(*r->values));
	r->n_applied++;
	return 0;
}

static int end_epoch(void *state, uint32_t epoch, int64_t t_ns, struct lh_events *events,
		     struct lh_error *err)
{
	(void)state;
	(void)epoch;
	(void)t_ns;
	(void)events;
	(void)err;
	return 0;
}

static int finish(void *state, int64_t t_ns, struct lh_events *events, struct lh_error *err)
{
	return end_epoch(state, 0, t_ns, events, err);
}

static void close_rank(void *state)
{
	(void)state; /* the world's */
}

static const struct lh_compute_ops computing = {
	.name = "given",
	.doc = "gradients of a test",
	.open = open_rank,
	.averaged = averaged,
	.shapes = shapes_of,
	.micro_batch = micro_batch,
	.begin_average = begin_average,
	.apply = apply,
	.end_epoch = end_epoch,
	.finish = finish,
	.close = close_rank,
};

/* ---- the world ------------------------------------------------------------------------------ */

void averaging_world_init(struct averaging_world *world, uint32_t n, const char *strategy,
			  const char *compressor)
{
	const struct lh_codec_ops *codec = lh_codec_find(compressor);

	*world = (struct averaging_world){.dir = "/tmp/lh-averaging-XXXXXX"};
	assert_non_null(mkdtemp(world->dir));
	world->job = (struct lh_job){
		.seed = 1,
		.hash = 42,
		.parameters = 1000,
		.target_batch = (uint64_t)MICRO_BATCH * n,
		.epochs = 3,
		.compress = codec ? codec : &lh_codec_none,
		.strategy = lh_strategy_find(strategy),
		.settings = {.balance = LH_BALANCE_FIXED, .streams = 1},
		.compressing = {.density_ratio = 0.1, .feedback = true, .rank = 2},
		.start_timeout_ns = 10 * LH_NS_PER_S,
		.n_ranks = n,
		.ranks = world->ranks,
	};
	assert_non_null(world->job.strategy);
	snprintf(world->job.compressing.kind, sizeof(world->job.compressing.kind), "%s",
		 compressor);
	for (uint32_t i = 0; i < n; i++) {
		world->ranks[i] = (struct lh_job_rank){
			.micro_batch = MICRO_BATCH,
			.samples_per_s = 32000,
		};
		snprintf(world->ranks[i].node, sizeof(world->ranks[i].node), "room/%u", i);
		snprintf(world->ranks[i].vm, sizeof(world->ranks[i].vm), "room/%u", i);
		snprintf(world->ranks[i].site, sizeof(world->ranks[i].site), "room");
		snprintf(world->ranks[i].address, sizeof(world->ranks[i].address), "127.0.0.1");
	}
	loopback_find_ports(world->ranks, n);
}

static char *events_path(const struct averaging_world *world, uint32_t rank)
{
	return lh_strf("%s/rank-%u.jsonl", world->dir, rank);
}

static void *run_rank(void *context)
{
	struct averaging_rank *r = context;
	lh_cleanup_free char *path = events_path(r->world, r->rank);
	const struct lh_rank_options options = {.rank = r->rank, .events_path = path};

	r->code = lh_rank_run(&r->world->job, &computing, &options, &r->error);
	return NULL;
}

void averaging_world_run(struct averaging_world *world)
{
	uint64_t n = world->job.parameters;

	for (uint32_t i = 0; i < world->job.n_ranks; i++) {
		struct averaging_rank *r = &world->states[i];

		r->world = world;
		r->rank = i;
		if (world->gradient) {
			r->values = calloc(n, sizeof(*r->values));
			r->given = calloc(n, sizeof(*r->given));
			r->averages = calloc(n * world->job.epochs, sizeof(*r->averages));
		}
		assert_int_equal(pthread_create(&r->thread, NULL, run_rank, r), 0);
	}
	for (uint32_t i = 0; i < world->job.n_ranks; i++)
		pthread_join(world->states[i].thread, NULL);
}

int64_t averaging_world_sum(const struct averaging_world *world, uint32_t rank, const char *key)
{
	lh_cleanup_free char *path = events_path(world, rank);
	lh_cleanup_json json_t *events = loopback_events(path);

	assert_non_null(events);
	return loopback_sum(events, "average", key, NULL);
}

void averaging_world_done(struct averaging_world *world)
{
	for (uint32_t i = 0; i < world->job.n_ranks; i++) {
		free(world->states[i].values);
		free(world->states[i].given);
		free(world->states[i].averages);
	}
	assert_int_equal(lh_dir_remove(world->dir, NULL), 0);
}
