/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Averaging in buckets: dense averagings of parts of the vector, one after another, the last
 * part first, as a backward pass makes them final. Beside a backward pass each begins as soon as
 * its part is there and the one before is done.
 *
 * Source: buckets of PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed", 2020);
 * that the parts become final evenly in time is an assumption.
 */
#include <errno.h>
#include <stdlib.h>

#include "trainer/clock.h"
#include "trainer/strategy/averaging.h"

/* Beyond this many the delay of each is all that is seen. */
enum { BUCKETS_MAX = 4096 };

struct bucketed {
	uint32_t n;
	void **buckets; /* states of dense averagings, in the order in which they are averaged */
};

static uint32_t count_buckets(const struct lh_rank *rank, uint64_t n_values)
{
	uint64_t each = rank->job->settings.bucket_bytes / sizeof(float);
	uint64_t n;

	if (each == 0)
		each = 1;
	n = (n_values + each - 1) / each;
	return n < BUCKETS_MAX ? (uint32_t)n : BUCKETS_MAX;
}

/* The part of the vector that bucket i of n averages, and where it begins. */
static uint64_t part_of(uint64_t n_values, uint32_t n, uint32_t i, uint64_t *ret_at)
{
	uint64_t each = n_values / n, longer = n_values % n, part = n - 1 - i;

	*ret_at = part * each + (part < longer ? part : longer);
	return each + (part < longer);
}

/* All parts have the same peers but those with few elements, which may lack some. */
static int bucketed_peers(const struct lh_rank *rank, uint64_t n_values, bool *ret_wanted,
			  struct lh_error *err)
{
	return lh_averaging_dense.peers(rank, n_values, ret_wanted, err);
}

static void bucketed_close(void *state)
{
	struct bucketed *b = state;

	if (!b)
		return;
	for (uint32_t i = 0; b->buckets && i < b->n; i++)
		lh_averaging_dense.close(b->buckets[i]);
	free(b->buckets);
	free(b);
}

static int bucketed_open(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
			 struct lh_error *err)
{
	struct bucketed *b = calloc(1, sizeof(*b));
	int rc = 0;

	if (b) {
		b->n = count_buckets(rank, averaged.n);
		b->buckets = calloc(b->n, sizeof(void *));
	}
	if (!b || !b->buckets)
		rc = lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	for (uint32_t i = 0; rc == 0 && i < b->n; i++) {
		struct lh_averaged part = averaged;
		uint64_t at;

		part.n = part_of(averaged.n, b->n, i, &at);
		if (averaged.values)
			part.values = averaged.values + at;
		rc = lh_averaging_dense.open(rank, part, &b->buckets[i], err);
	}
	if (rc) {
		bucketed_close(b);
		return rc;
	}
	*ret_state = b;
	return 0;
}

static int average_beside(void *state, uint32_t epoch, const uint64_t *samples, int64_t begin_ns,
			  int64_t end_ns, struct lh_average *ret_average, struct lh_error *err)
{
	struct bucketed *b = state;
	struct lh_average sum = {0};
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < b->n; i++) {
		struct lh_average one = {0};

		lh_clock_sleep_until(begin_ns + (end_ns - begin_ns) / b->n * (i + 1));
		rc = lh_averaging_dense.average(b->buckets[i], epoch, samples, &one, err);
		sum.host_ns += one.host_ns;
		sum.payload_sent_bytes += one.payload_sent_bytes;
		sum.payload_received_bytes += one.payload_received_bytes;
		sum.group_samples = one.group_samples;
		sum.checked_elements += one.checked_elements;
	}
	lh_clock_sleep_until(end_ns);
	*ret_average = sum;
	return rc;
}

static int bucketed_average(void *state, uint32_t epoch, const uint64_t *samples,
			    struct lh_average *ret_average, struct lh_error *err)
{
	int64_t now_ns = lh_clock_now_ns();

	return average_beside(state, epoch, samples, now_ns, now_ns, ret_average, err);
}

const struct lh_averaging_ops lh_averaging_bucketed = {
	.name = "bucketed",
	.peers = bucketed_peers,
	.open = bucketed_open,
	.average = bucketed_average,
	.average_beside = average_beside,
	.close = bucketed_close,
};
