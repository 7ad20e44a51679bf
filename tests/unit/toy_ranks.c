/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that learn a toy. See toy_ranks.h. */
#include "tests/unit/toy_ranks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/loopback.h"
#include "tests/unit/test.h"
#include "trainer/compute/compute.h"
#include "trainer/compute/replay.h"

double toy_goal(uint32_t rank, uint64_t i)
{
	return (double)((rank * 7 + i * 3) % 11) / 8.0 - 0.5;
}

double toy_first(uint64_t i)
{
	return (double)(i % 5) / 4.0;
}

/* ---- computing ---------------------------------------------------------------------------- */

struct toy {
	struct toy_rank *owner;
	uint64_t n;
	float *weights;
	float *gradients;
	double *gradient_sums;
	int64_t step_ns;
};

/* The job is the first member of its world. */
static struct toy_world *world_of(const struct lh_job *job)
{
	return (struct toy_world *)(uintptr_t)job;
}

static int open_toy(const struct lh_job *job, uint32_t rank, void **ret_state, struct lh_error *err)
{
	struct toy *toy = calloc(1, sizeof(*toy));

	(void)err;
	toy->owner = &world_of(job)->toys[rank];
	toy->n = job->parameters;
	toy->weights = calloc(toy->n, sizeof(*toy->weights));
	toy->gradients = calloc(toy->n, sizeof(*toy->gradients));
	toy->gradient_sums = calloc(toy->n, sizeof(*toy->gradient_sums));
	toy->step_ns = lh_replay_mean_ns(&job->ranks[rank]);
	for (uint64_t i = 0; i < toy->n; i++)
		toy->weights[i] = (float)toy_first(i);
	*ret_state = toy;
	return 0;
}

static struct lh_averaged toy_averaged(void *state)
{
	struct toy *toy = state;

	return (struct lh_averaged){.n = toy->n, .values = toy->gradients};
}

static int toy_micro_batch(void *state, int64_t *ret_ns, struct lh_error *err)
{
	const struct toy *toy = state;
	uint32_t slow_down = toy->owner->slow_down;

	(void)err;
	*ret_ns = toy->step_ns * (slow_down ? slow_down : 1);
	return 0;
}

static int toy_take(void *state, uint64_t samples, struct lh_error *err)
{
	struct toy *toy = state;

	(void)samples;
	(void)err;
	for (uint64_t i = 0; i < toy->n; i++)
		toy->gradients[i] =
			(float)((double)toy->weights[i] - toy_goal(toy->owner->rank, i));
	return 0;
}

static int toy_read(void *state, float *ret_weights, struct lh_error *err)
{
	struct toy *toy = state;

	(void)err;
	memcpy(ret_weights, toy->weights, toy->n * sizeof(*ret_weights));
	return 0;
}

static int toy_write(void *state, const float *weights, struct lh_error *err)
{
	struct toy *toy = state;

	(void)err;
	memcpy(toy->weights, weights, toy->n * sizeof(*weights));
	return 0;
}

static int toy_apply(void *state, struct lh_error *err)
{
	struct toy *toy = state;

	(void)err;
	toy->owner->n_steps++;
	for (uint64_t i = 0; i < toy->n; i++) {
		double gradient = toy->gradients[i];

		toy->gradient_sums[i] += gradient;
		toy->weights[i] = (float)((double)toy->weights[i] - TOY_LR * gradient);
	}
	return 0;
}

static int toy_end_epoch(void *state, uint32_t epoch, int64_t t_ns, struct lh_events *events,
			 struct lh_error *err)
{
	(void)state;
	(void)epoch;
	(void)t_ns;
	(void)events;
	(void)err;
	return 0;
}

static int toy_finish(void *state, int64_t t_ns, struct lh_events *events, struct lh_error *err)
{
	struct toy *toy = state;

	(void)t_ns;
	(void)events;
	(void)err;
	toy->owner->weights = lh_steal(&toy->weights);
	toy->owner->gradients = lh_steal(&toy->gradient_sums);
	return 0;
}

static void close_toy(void *state)
{
	struct toy *toy = state;

	if (!toy)
		return;
	free(toy->weights);
	free(toy->gradients);
	free(toy->gradient_sums);
	free(toy);
}

static const struct lh_compute_ops toy_compute = {
	.name = "train",
	.doc = "a toy",
	.open = open_toy,
	.averaged = toy_averaged,
	.micro_batch = toy_micro_batch,
	.begin_average = toy_take,
	.read_weights = toy_read,
	.write_weights = toy_write,
	.apply = toy_apply,
	.end_epoch = toy_end_epoch,
	.finish = toy_finish,
	.close = close_toy,
};

/* ---- the world ---------------------------------------------------------------------------- */

void toy_world_init(struct toy_world *world, uint32_t n, uint64_t parameters, uint32_t epochs)
{
	*world = (struct toy_world){.dir = "/tmp/lh-toys-XXXXXX"};
	assert_non_null(mkdtemp(world->dir));
	world->job = (struct lh_job){
		.seed = 1,
		.hash = 42,
		.parameters = parameters,
		.target_batch = (uint64_t)n * 4,
		.epochs = epochs,
		.compress = &lh_codec_none,
		.settings = {.streams = 1,
			     .collective = "ring",
			     .period = 1,
			     .outer_lr = 0.7,
			     .outer_momentum = 0.9,
			     .fragments = 1,
			     .fragment_mix = 0.5,
			     .timeout_ns = TOY_DEADLINE_S * LH_NS_PER_S},
		.start_timeout_ns = TOY_DEADLINE_S * LH_NS_PER_S,
		.n_ranks = n,
		.ranks = world->ranks,
	};
	for (uint32_t i = 0; i < n; i++) {
		world->ranks[i] = (struct lh_job_rank){
			.micro_batch = 4, .samples_per_s = 4000, .apply_ns = 1000};
		snprintf(world->ranks[i].node, sizeof(world->ranks[i].node), "room/%u", i);
		snprintf(world->ranks[i].site, sizeof(world->ranks[i].site), "room");
		snprintf(world->ranks[i].address, sizeof(world->ranks[i].address), "127.0.0.1");
		world->toys[i] = (struct toy_rank){.world = world, .rank = i};
	}
	loopback_find_ports(world->ranks, n);
}

static char *events_path(const struct toy_world *world, uint32_t rank)
{
	return lh_strf("%s/rank-%u.jsonl", world->dir, rank);
}

static void *run_rank(void *arg)
{
	struct toy_rank *toy = arg;
	const struct lh_compute_ops *compute =
		toy->world->is_replayed ? &lh_compute_replay : &toy_compute;
	lh_cleanup_free char *path = events_path(toy->world, toy->rank);
	struct lh_rank_options options = {.rank = toy->rank, .events_path = path};

	toy->rc = lh_rank_run(&toy->world->job, compute, &options, &toy->err);
	return NULL;
}

void toy_start(struct toy_world *world, uint32_t rank)
{
	assert_int_equal(
		pthread_create(&world->toys[rank].thread, NULL, run_rank, &world->toys[rank]), 0);
}

pid_t toy_fork(struct toy_world *world, uint32_t rank)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	/* also where it stands still */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(TOY_DEADLINE_S);
	run_rank(&world->toys[rank]);
	_exit(lh_error_exit_status(&world->toys[rank].err));
}

void toy_wait(struct toy_world *world, uint32_t rank)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += TOY_DEADLINE_S;
	assert_int_equal(pthread_timedjoin_np(world->toys[rank].thread, NULL, &until), 0);
}

void toy_run(struct toy_world *world)
{
	for (uint32_t i = 0; i < world->job.n_ranks; i++)
		toy_start(world, i);
	for (uint32_t i = 0; i < world->job.n_ranks; i++)
		toy_wait(world, i);
	for (uint32_t i = 0; i < world->job.n_ranks; i++) {
		if (world->toys[i].rc)
			print_error("rank %u: %s\n", i, world->toys[i].err.message);
		assert_int_equal(world->toys[i].rc, 0);
	}
}

static void free_toy(struct toy_rank *toy)
{
	free(toy->weights);
	free(toy->gradients);
}

void toy_world_done(struct toy_world *world)
{
	for (uint32_t i = 0; i < world->job.n_ranks; i++)
		free_toy(&world->toys[i]);
	assert_int_equal(lh_dir_remove(world->dir, NULL), 0);
}

json_t *toy_events(const struct toy_world *world, uint32_t rank)
{
	lh_cleanup_free char *path = events_path(world, rank);
	json_t *events = loopback_events(path);

	assert_non_null(events);
	return events;
}
