/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of float vectors in a GPU's memory, through NCCL over TCP. Nothing waits for ever:
 * communicators do not block, every call has a time-out, and after one, or any error, the
 * communicator is aborted and only good for lh_nccl_close.
 *
 * Several ranks may share a GPU, one process each. NCCL then has to take every rank for a machine
 * of its own, so that traffic goes over sockets; that, and all else that would depend on the
 * machine, is set by lh_nccl_pin_environment.
 *
 * Not here: which strategy calls what. Without NCCL, lh_nccl_open refuses.
 */
#ifndef LH_TRAINER_NCCL_H
#define LH_TRAINER_NCCL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct lh_device;

/* ---- the environment ------------------------------------------------------------------------ */

/* Where a rank is, and how many TCP connections each channel of a ring has. */
struct lh_nccl_site {
	uint32_t rank;
	const char *interface; /* the one that carries the traffic, by its whole name */
	uint32_t n_threads;    /* 1 to 16 */
	uint32_t n_sockets;    /* of each thread; n_threads times n_sockets is at most 64 */
};

enum { LH_NCCL_VARIABLES_MAX = 24, LH_NCCL_NAME_MAX = 32, LH_NCCL_VALUE_MAX = 48 };

struct lh_nccl_variable {
	char name[LH_NCCL_NAME_MAX];
	char value[LH_NCCL_VALUE_MAX];
};

/* What NCCL is told for a site; *ret_n variables. LH_EINPUT for numbers out of range, or a name
 * that no interface can have. */
int lh_nccl_environment(const struct lh_nccl_site *site,
			struct lh_nccl_variable ret_variables[LH_NCCL_VARIABLES_MAX],
			uint32_t *ret_n, struct lh_error *err);

/* Sets them in this process, whatever they were. To be called before the first call of NCCL, which
 * reads them once, and before other threads are started. */
int lh_nccl_pin_environment(const struct lh_nccl_site *site, struct lh_error *err);

/* ---- waiting -------------------------------------------------------------------------------- */

/* Waits for something that can only be asked for. */
struct lh_nccl_wait {
	/* Sets *ret_done; an error ends the waiting. */
	int (*ask)(void *context, bool *ret_done, struct lh_error *err);
	void *context;
	int64_t timeout_ns;
	/* The clock, and how to wait on it; NULL: CLOCK_MONOTONIC. */
	int64_t (*now_ns)(void *clock);
	void (*sleep_until_ns)(void *clock, int64_t at_ns);
	void *clock;
};

/* Asks at once, then after pauses that grow from 10 us to 1 ms. LH_ERUN, with what was waited for,
 * when timeout_ns have passed; a last time is asked at the very end. */
int lh_nccl_wait(const struct lh_nccl_wait *wait, const char *what, struct lh_error *err);

/* ---- collectives ---------------------------------------------------------------------------- */

struct lh_nccl;

struct lh_nccl_options {
	struct lh_device *device; /* cuda; outlives the communicator. Vectors lie in its memory */
	uint32_t rank, n_ranks;
	int64_t timeout_ns; /* of opening and of every call, > 0 */
	/* Brings the id of n_bytes that rank 0 has in `id` to the same place on all ranks. */
	int (*share_id)(void *context, void *id, uint32_t n_bytes, struct lh_error *err);
	void *context;
};

/* Connects all ranks: each calls it. LH_EENV: built without NCCL; LH_EINPUT; LH_ERUN: NCCL's error
 * or time-out. */
int lh_nccl_open(const struct lh_nccl_options *options, struct lh_nccl **ret_nccl,
		 struct lh_error *err);

/* NULL is fine. Waits for other ranks no longer than the time-out. */
void lh_nccl_close(struct lh_nccl *nccl);

/* Each rank calls the same with the same n. They come after all that the device was asked for
 * before, and return when they are done. LH_ERUN. */

/* x[i] = the sum of x[i] over ranks. */
int lh_nccl_all_reduce(struct lh_nccl *nccl, float *x, int64_t n, struct lh_error *err);

/* ret_part[i] = the sum over ranks of x[rank n + i]; x holds n_ranks n numbers. */
int lh_nccl_reduce_scatter(struct lh_nccl *nccl, const float *x, float *ret_part, int64_t n,
			   struct lh_error *err);

/* ret_x[r n + i] = part[i] of rank r. */
int lh_nccl_all_gather(struct lh_nccl *nccl, const float *part, float *ret_x, int64_t n,
		       struct lh_error *err);

#endif
