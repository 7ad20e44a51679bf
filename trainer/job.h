/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer's job: what all ranks do together, read from JSON and checked.
 * Source: docs/formats.md, "The trainer's job".
 */
#ifndef LH_TRAINER_JOB_H
#define LH_TRAINER_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "trainer/compress/compress.h"
#include "trainer/strategy/settings.h"

struct lh_strategy_ops;

enum {
	LH_JOB_RANKS_MAX = 512,
	LH_JOB_SLOW_MAX = 1000,
	LH_JOB_NAME_MAX = 128, /* bytes of a node, site, model or address, with the NUL */
};

/* Computing takes factor times as long, from from_ns until before to_ns of CLOCK_MONOTONIC. */
struct lh_job_slow {
	int64_t from_ns;
	int64_t to_ns;
	double factor;
};

struct lh_job_rank {
	char node[LH_JOB_NAME_MAX];
	char site[LH_JOB_NAME_MAX];
	char vm[LH_JOB_NAME_MAX]; /* the machine that it shares with others of the same; its own
				   * node's name where the job names none */
	uint32_t local_rank;	  /* its number there, from 0 on; no other has the same */
	char address[LH_JOB_NAME_MAX]; /* IPv4 or IPv6, numeric */
	uint16_t port;
	struct sockaddr_storage socket_address; /* address and port */
	socklen_t socket_address_size;
	uint32_t micro_batch; /* samples */
	double samples_per_s;
	double variation_ratio;	  /* relative standard deviation of a micro-batch's time */
	int64_t accumulate_ns;	  /* per micro-batch, beside the profile's time */
	uint64_t averaging_bps;	  /* the host's rate of serialising and reducing; 0: not charged */
	int64_t apply_ns;	  /* the optimizer's step */
	struct lh_job_slow *slow; /* in order of time, apart; owned */
	size_t n_slow;
	/* Share of the target batch, where strategies give each rank one; all 0: by speed. */
	double target_ratio;
	uint64_t bandwidth_bps; /* to all others together; 0: not known */
};

struct lh_job {
	uint64_t seed;
	uint64_t hash; /* of the whole document: ranks with different ones do not talk */
	char mode[LH_JOB_NAME_MAX]; /* a struct lh_compute_ops' name */
	char model[LH_JOB_NAME_MAX];
	uint64_t parameters;
	uint64_t target_batch; /* samples */
	uint32_t epochs;
	const struct lh_codec_ops *compress;
	const struct lh_strategy_ops *strategy;
	bool uses_nccl;				 /* the strategy is NCCL's then */
	struct lh_strategy_settings settings;	 /* of the strategy */
	struct lh_compress_settings compressing; /* of the compressor */
	int64_t start_timeout_ns;
	uint32_t n_ranks;
	struct lh_job_rank *ranks; /* owned */
	uint32_t *ring_order;	   /* n_ranks; owned; NULL: none is known */
	json_t *train; /* what and how to learn, for trainer/compute/train.h; owned; NULL in mode
			  replay */
};

/*
 * Reads the job from size bytes of JSON text; name is what messages call it. On success
 * *ret_job is to be given to lh_job_done. LH_EINPUT with the key, what stands there and
 * what is expected.
 */
int lh_job_parse(const char *text, size_t size, const char *name, struct lh_job *ret_job,
		 struct lh_error *err);

/* The same from a file of at most 16 MiB. LH_ESYS, LH_EINPUT. */
int lh_job_read(const char *path, struct lh_job *ret_job, struct lh_error *err);

void lh_job_done(struct lh_job *job);

#endif
