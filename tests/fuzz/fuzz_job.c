/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the trainer's job: what is taken for one is within all bounds, what is not is
 * refused with the name of the file.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "trainer/job.h"
#include "trainer/transport/comm.h"

const char lh_fuzz_name[] = "job";
const char *const lh_fuzz_words[] = {
	"\"streams\": 64",
	"\"bucket_bytes\": 4",
	"\"overlap\": true",
	"\"levels\": [",
	"\"node\"",
	"\"site\"",
	"\"dimensions\": [2",
	"\"period\": 8",
	"\"density_ratio\": 0.001",
	"\"rank\": 2",
	"\"fixed\"",
	"\"asgd-ga\"",
	"butterfly",
	"ring",
	"fp16",
	"none",
	"nccl",
	"train",
	"null",
	"true",
	"9223372036854775807",
	"-1",
	"1e308",
	"0.5",
	"\\u0000",
	"{",
	"}",
	"[",
	"]",
	",",
	": ",
	"\"",
	NULL,
};

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "job: %s\n", what);
	abort();
}

static void check_strategy(const struct lh_strategy_settings *s)
{
	expect(s->streams >= 1 && s->streams <= LH_COMM_STREAMS_MAX, "streams");
	expect(s->n_dimensions <= LH_STRATEGY_DIMENSIONS_MAX, "dimensions");
	for (uint32_t i = 0; i < s->n_dimensions; i++)
		expect(s->dimensions[i] >= 2, "a dimension");
	expect(memchr(s->collective, '\0', sizeof(s->collective)) != NULL, "a word without end");
	expect(s->balance <= LH_BALANCE_FIXED && s->order <= LH_ORDER_SHORTEST &&
		       s->shards <= LH_SHARDS_BANDWIDTH && s->graph <= LH_GRAPH_COMPLETE &&
		       s->exchange <= LH_EXCHANGE_AVERAGING,
	       "a choice");
	expect(s->matchmaking_ns >= 0 && s->timeout_ns > 0 && s->heartbeat_ns > 0, "a time");
	expect(s->period && s->fragments && s->rounds && s->min_group >= 2, "a count");
	expect(s->outer_momentum >= 0 && s->outer_momentum < 1, "the momentum");
}

static void check(const struct lh_job *job)
{
	const struct lh_compress_settings *c = &job->compressing;

	expect(job->compress && job->strategy, "no strategy or compressor");
	expect(job->n_ranks >= 1 && job->n_ranks <= LH_JOB_RANKS_MAX && job->ranks, "ranks");
	expect(job->parameters && job->target_batch && job->epochs, "sizes");
	expect(!job->train || json_is_object(job->train), "training");
	check_strategy(&job->settings);
	expect(memchr(c->kind, '\0', sizeof(c->kind)) != NULL, "a word without end");
	expect(c->density_ratio > 0 && c->density_ratio <= 1, "the density");
	expect(c->rank >= 1 && c->rank <= LH_COMPRESS_RANK_MAX, "the rank");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lh_error err = {0};
	struct lh_job job;

	if (lh_job_parse((const char *)data, size, "fuzz", &job, &err) < 0) {
		expect(strncmp(err.message, "fuzz:", 5) == 0, "a message without a place");
		return 0;
	}
	check(&job);
	lh_job_done(&job);
	return 0;
}
