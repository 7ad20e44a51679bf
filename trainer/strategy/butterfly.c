/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy `butterfly`: averaging as Hivemind does it, all to all. Every rank owns a shard.
 * Phase 0 (reduce-scatter) sends each other rank its shard of this rank's gradients; the
 * owner averages; phase 1 (all-gather) sends the averaged shard to all others. A rank sends
 * parameters + (n - 2) x shard elements, all ranks together 2 (n - 1) x parameters.
 *
 * The host's work (serialising, reducing) takes sent bytes x 8 / averaging_bps: half of it
 * before each phase's sending, so that it adds to the transfers. A rank begins phase 1 when
 * it has all of phase 0; there is no barrier.
 *
 * Where gradients are replayed, only the slices of sample.h are real numbers, and every rank
 * checks all of them. Else all numbers are real, and what has been averaged replaces them.
 * Source: Hivemind, hivemind/averaging/allreduce.py; arXiv 2306.03163, section 3.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/strategy/averaging.h"
#include "trainer/strategy/sample.h"
#include "trainer/strategy/shard.h"
#include "trainer/transport/bulk.h"

enum phase { REDUCE_SCATTER, ALL_GATHER, N_PHASES };

struct butterfly {
	struct lh_mesh *mesh;
	struct lh_bulk *bulk;
	struct lh_averaged averaged;
	struct lh_sample_layout layout;
	uint32_t element_bytes;
	uint64_t sent_bytes; /* payload per averaging */
	int64_t host_ns;
	/* In layout->total elements where replayed, else in layout->longest: */
	float *values;
	float *sum;
	/* In layout->total elements: */
	uint8_t *mine;	   /* own gradients as sent */
	uint8_t *expected; /* replayed: the averages, by own reckoning, as sent */
	/* In layout->longest elements: */
	uint8_t *reduced; /* own shard's averages */
};

static uint64_t shard_bytes(const struct butterfly *b, uint32_t shard)
{
	return lh_shard_elements(b->averaged.n, b->mesh->n, shard) * b->element_bytes;
}

static uint32_t head_bytes(const struct butterfly *b, uint32_t shard)
{
	return b->layout.elements[shard] * b->element_bytes;
}

static uint8_t *at_shard(const struct butterfly *b, uint8_t *bytes, uint32_t shard)
{
	return bytes + (size_t)b->layout.at[shard] * b->element_bytes;
}

static int open_bulk(struct butterfly *b, struct lh_traffic *traffic, struct lh_error *err)
{
	uint32_t n = b->mesh->n, self = b->mesh->self;
	lh_cleanup_free struct lh_bulk_expected *expected =
		calloc((size_t)n * N_PHASES, sizeof(*expected));
	struct lh_bulk_config config = {
		.mesh = b->mesh,
		.traffic = traffic,
		.n_phases = N_PHASES,
		.n_epochs = b->mesh->job->epochs,
		.expected = expected,
	};

	if (!expected)
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy butterfly");
	for (uint32_t peer = 0; peer < n; peer++) {
		expected[REDUCE_SCATTER * n + peer] =
			(struct lh_bulk_expected){shard_bytes(b, self), head_bytes(b, self)};
		expected[ALL_GATHER * n + peer] =
			(struct lh_bulk_expected){shard_bytes(b, peer), head_bytes(b, peer)};
	}
	return lh_bulk_open(&config, &b->bulk, err);
}

static void butterfly_close(void *state)
{
	struct butterfly *b = state;

	if (!b)
		return;
	lh_bulk_close(b->bulk);
	free(b->values);
	free(b->sum);
	free(b->mine);
	free(b->expected);
	free(b->reduced);
	free(b);
}

static int alloc_buffers(struct butterfly *b, struct lh_error *err)
{
	bool is_replayed = !b->averaged.values;
	uint32_t n = is_replayed ? b->layout.total : b->layout.longest;

	b->values = calloc(n, sizeof(*b->values));
	b->sum = calloc(n, sizeof(*b->sum));
	b->mine = calloc(b->layout.total, b->element_bytes);
	b->expected = is_replayed ? calloc(b->layout.total, b->element_bytes) : NULL;
	b->reduced = calloc(b->layout.longest, b->element_bytes);
	if (!b->values || !b->sum || !b->mine || (is_replayed && !b->expected) || !b->reduced)
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy butterfly");
	return 0;
}

static int butterfly_open(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
			  struct lh_error *err)
{
	struct lh_mesh *mesh = &rank->mesh;
	const struct lh_job *job = mesh->job;
	struct butterfly *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy butterfly");
	b->mesh = mesh;
	b->averaged = averaged;
	b->element_bytes = job->compress->bytes_per_element;
	if (averaged.values)
		lh_sample_layout_init_whole(&b->layout, averaged.n, mesh->n);
	else
		lh_sample_layout_init(&b->layout, averaged.n, mesh->n);
	b->sent_bytes =
		lh_shard_butterfly_elements(averaged.n, mesh->n, mesh->self) * b->element_bytes;
	b->host_ns = lh_rank_host_ns(rank, b->sent_bytes);
	rc = alloc_buffers(b, err);
	if (rc == 0)
		rc = open_bulk(b, rank->traffic, err);
	if (rc) {
		butterfly_close(b);
		return rc;
	}
	*ret_state = b;
	return 0;
}

/* Works out everybody's gradients and the averages that must come of them. */
static void reckon(struct butterfly *b, uint32_t epoch, const uint64_t *samples, uint64_t total)
{
	const struct lh_job *job = b->mesh->job;
	uint32_t n = b->layout.total;

	memset(b->sum, 0, n * sizeof(*b->sum));
	for (uint32_t rank = 0; rank < b->mesh->n; rank++) {
		lh_sample_draw(&b->layout, job->seed, rank, epoch, b->values);
		job->compress->encode(b->values, n, b->expected);
		if (rank == b->mesh->self)
			memcpy(b->mine, b->expected, (size_t)n * b->element_bytes);
		job->compress->decode(b->expected, n, b->values);
		lh_sample_add(b->sum, b->values, n, samples[rank]);
	}
	lh_sample_divide(b->sum, n, total);
	job->compress->encode(b->sum, n, b->expected);
}

/* Posts this phase's transfers, to the next rank first: not all to rank 0 at once. */
static void post_all(struct butterfly *b, enum phase phase, uint32_t epoch, uint64_t samples)
{
	uint32_t n = b->mesh->n, self = b->mesh->self;

	for (uint32_t i = 1; i < n; i++) {
		uint32_t peer = (self + i) % n;
		uint32_t shard = phase == REDUCE_SCATTER ? peer : self;
		struct lh_frame frame = {
			.type = LH_FRAME_DATA,
			.rank = (uint16_t)self,
			.part = (uint16_t)phase,
			.epoch = epoch,
			.samples = samples,
			.length = shard_bytes(b, shard),
			.head_bytes = head_bytes(b, shard),
		};
		const uint8_t *head =
			phase == ALL_GATHER ? b->reduced : at_shard(b, b->mine, shard);

		if (frame.length)
			lh_bulk_post(b->bulk, peer, &frame, head);
	}
}

/* Averages the own shard from what all ranks sent, in rank order, into b->reduced. */
static int reduce(struct butterfly *b, uint32_t epoch, const uint64_t *samples, uint64_t total,
		  struct lh_error *err)
{
	const struct lh_codec_ops *compress = b->mesh->job->compress;
	uint32_t self = b->mesh->self, n = b->layout.elements[self];
	const uint8_t *own = at_shard(b, b->mine, self);

	if (n == 0)
		return 0;
	memset(b->sum, 0, n * sizeof(*b->sum));
	for (uint32_t rank = 0; rank < b->mesh->n; rank++) {
		struct lh_bulk_received got = {.head = own};

		if (rank != self) {
			got = lh_bulk_received(b->bulk, REDUCE_SCATTER, rank);
			if (got.frame.samples != samples[rank])
				return lh_fail(err, LH_ERUN, 0,
					       "epoch %" PRIu32 ": rank %" PRIu32
					       " averages %" PRIu64 " samples; reported %" PRIu64,
					       epoch, rank, got.frame.samples, samples[rank]);
		}
		compress->decode(got.head, n, b->values);
		lh_sample_add(b->sum, b->values, n, samples[rank]);
	}
	lh_sample_divide(b->sum, n, total);
	compress->encode(b->sum, n, b->reduced);
	return 0;
}

/* Every shard's averages: checked where replayed, else they replace the own numbers. */
static int take_all(const struct butterfly *b, uint32_t epoch, uint64_t total, struct lh_error *err)
{
	int rc = 0;

	for (uint32_t shard = 0; rc == 0 && shard < b->mesh->n; shard++) {
		const uint8_t *got = b->reduced;

		if (b->layout.elements[shard] == 0)
			continue;
		if (shard != b->mesh->self) {
			struct lh_bulk_received r = lh_bulk_received(b->bulk, ALL_GATHER, shard);

			got = r.head;
			if (r.frame.samples != total)
				return lh_fail(err, LH_ERUN, 0,
					       "epoch %" PRIu32 ": rank %" PRIu32
					       " averaged %" PRIu64 " samples; expected %" PRIu64,
					       epoch, shard, r.frame.samples, total);
		}
		if (b->averaged.values)
			b->mesh->job->compress->decode(got, b->layout.elements[shard],
						       b->averaged.values + b->layout.at[shard]);
		else
			rc = lh_sample_check(&b->layout, b->mesh->job->compress, epoch, shard, got,
					     at_shard(b, b->expected, shard), err);
	}
	return rc;
}

/* What this rank sends: its own numbers, or replayed ones and what all must come to. */
static void encode_own(struct butterfly *b, uint32_t epoch, const uint64_t *samples, uint64_t total)
{
	if (b->averaged.values)
		b->mesh->job->compress->encode(b->averaged.values, b->layout.total, b->mine);
	else
		reckon(b, epoch, samples, total);
}

static int butterfly_average(void *state, uint32_t epoch, const uint64_t *samples,
			     struct lh_average *ret_average, struct lh_error *err)
{
	struct butterfly *b = state;
	uint32_t self = b->mesh->self;
	int64_t first_half_ns = b->host_ns / 2;
	uint64_t total = 0, sent_bytes, received_bytes;
	int rc;

	for (uint32_t rank = 0; rank < b->mesh->n; rank++)
		total += samples[rank];
	assert(total);
	lh_clock_sleep_until(lh_clock_now_ns() + first_half_ns);
	encode_own(b, epoch, samples, total);
	post_all(b, REDUCE_SCATTER, epoch, samples[self]);
	if ((rc = lh_bulk_wait_received(b->bulk, REDUCE_SCATTER, err)) ||
	    (rc = reduce(b, epoch, samples, total, err)))
		return rc;
	lh_bulk_release(b->bulk, REDUCE_SCATTER);
	lh_clock_sleep_until(lh_clock_now_ns() + b->host_ns - first_half_ns);
	post_all(b, ALL_GATHER, epoch, total);
	if ((rc = lh_bulk_wait_received(b->bulk, ALL_GATHER, err)) ||
	    (rc = lh_bulk_wait_sent(b->bulk, err)) || (rc = take_all(b, epoch, total, err)))
		return rc;
	lh_bulk_release(b->bulk, ALL_GATHER);
	lh_bulk_take_bytes(b->bulk, &sent_bytes, &received_bytes);
	/* As many come as go: n - 1 times the own shard, and all other shards. */
	assert(sent_bytes == b->sent_bytes && received_bytes == b->sent_bytes);
	*ret_average = (struct lh_average){
		.host_ns = b->host_ns,
		.payload_sent_bytes = sent_bytes,
		.payload_received_bytes = received_bytes,
		.group_samples = total,
		.checked_elements = b->averaged.values ? 0 : b->layout.total,
	};
	return 0;
}

static int butterfly_check(void *state, struct lh_error *err)
{
	return lh_bulk_check(((struct butterfly *)state)->bulk, err);
}

static int butterfly_failure_fd(void *state)
{
	return lh_bulk_failure_fd(((struct butterfly *)state)->bulk);
}

const struct lh_averaging_ops lh_averaging_butterfly = {
	.name = "butterfly",
	.open = butterfly_open,
	.average = butterfly_average,
	.check = butterfly_check,
	.failure_fd = butterfly_failure_fd,
	.close = butterfly_close,
};
