/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks over loopback, a thread each and in real time, that learn a toy: rank r has the loss
 * |weights - goal(r)|^2 / 2 and steps by plain SGD, so that what strategies make of it can be
 * worked out by hand.
 */
#ifndef LH_TESTS_UNIT_TOY_RANKS_H
#define LH_TESTS_UNIT_TOY_RANKS_H

#include <jansson.h>
#include <pthread.h>
#include <sys/types.h>

#include "trainer/clock.h"
#include "trainer/job.h"
#include "trainer/rank.h"

enum { TOY_RANKS_MAX = 8, TOY_DEADLINE_S = 30 };

static const double TOY_LR = 0.25;

struct toy_rank {
	struct toy_world *world;
	uint32_t rank;
	pthread_t thread;
	uint32_t slow_down; /* times longer micro-batches than the profile's; 0 is 1 */
	int rc;
	struct lh_error err;
	float *weights; /* at the end; parameters of them; NULL: it did not come so far */
	uint32_t n_steps;
	double *gradients; /* their sum over all steps, by element; as weights */
};

struct toy_world {
	struct lh_job job;
	struct lh_job_rank ranks[TOY_RANKS_MAX];
	struct toy_rank toys[TOY_RANKS_MAX];
	char dir[32];
	bool is_replayed;
};

/* A job of n ranks; its strategy and settings are the caller's to set. */
void toy_world_init(struct toy_world *world, uint32_t n, uint64_t parameters, uint32_t epochs);

/* Starts a rank that runs the world's job; waits for it. */
void toy_start(struct toy_world *world, uint32_t rank);
void toy_wait(struct toy_world *world, uint32_t rank);

/* Starts a rank in a process of its own; before any thread. */
pid_t toy_fork(struct toy_world *world, uint32_t rank);

/* All ranks, which must end well. */
void toy_run(struct toy_world *world);

void toy_world_done(struct toy_world *world);

/* Where element i of a rank's loss is least. */
double toy_goal(uint32_t rank, uint64_t i);

/* Element i of the weights at the begin, alike at all ranks. */
double toy_first(uint64_t i);

/* Events of a rank, an array that is the caller's. */
json_t *toy_events(const struct toy_world *world, uint32_t rank);

#endif
