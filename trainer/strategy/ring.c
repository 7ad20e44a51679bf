/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy `ring`: the all-reduce of data-parallel training. Rank r sends to r + 1 alone. The
 * vector is cut into n shards; in n - 1 steps each travels once around and is added to at
 * every rank (reduce-scatter), in n - 1 more the averages travel around (all-gather). A rank
 * sends 2 (n - 1)/n x parameters elements, give or take shards of unequal size. A step begins
 * when the one before has arrived, so it takes at least the mean delay of the ring's links.
 *
 * The host's work (serialising, reducing) takes sent bytes x 8 / averaging_bps, in equal parts
 * before every step. What is replayed and checked is as in butterfly.c.
 *
 * Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * 2009.
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

struct ring {
	struct lh_mesh *mesh;
	struct lh_bulk *bulk;
	struct lh_averaged averaged;
	struct lh_sample_layout layout;
	uint32_t element_bytes;
	uint32_t n_steps; /* 2 (n - 1) */
	uint64_t sent_bytes;
	uint64_t received_bytes;
	int64_t host_ns;
	float *own;	   /* replayed: this rank's numbers, in layout->total elements */
	float *sum;	   /* a shard, in layout->longest elements */
	float *values;	   /* replayed: layout->total elements; else layout->longest */
	uint8_t *sent;	   /* each shard as this rank sends it first, layout->total elements */
	uint8_t *averages; /* each shard as averaged, layout->total elements */
	uint8_t *expected; /* replayed: by own reckoning, layout->total elements */
};

/* The shard that rank sends in a step; it receives that of the rank before it. */
static uint32_t shard_of(const struct ring *g, uint32_t rank, uint32_t step)
{
	uint32_t n = g->mesh->n;

	/* the all-gather begins with what the reduce-scatter ended with, one further */
	return step < n - 1 ? (rank + n - step) % n : (rank + 1 + n - (step - (n - 1))) % n;
}

static uint32_t previous(const struct ring *g)
{
	return (g->mesh->self + g->mesh->n - 1) % g->mesh->n;
}

static uint64_t shard_bytes(const struct ring *g, uint32_t shard)
{
	return lh_shard_elements(g->averaged.n, g->mesh->n, shard) * g->element_bytes;
}

static uint32_t head_bytes(const struct ring *g, uint32_t shard)
{
	return g->layout.elements[shard] * g->element_bytes;
}

static uint8_t *at_shard(const struct ring *g, uint8_t *bytes, uint32_t shard)
{
	return bytes + (size_t)g->layout.at[shard] * g->element_bytes;
}

static int open_bulk(struct ring *g, struct lh_traffic *traffic, struct lh_error *err)
{
	uint32_t n = g->mesh->n;
	lh_cleanup_free struct lh_bulk_expected *expected =
		calloc((size_t)n * g->n_steps, sizeof(*expected));
	struct lh_bulk_config config = {
		.mesh = g->mesh,
		.traffic = traffic,
		.n_phases = g->n_steps,
		.n_epochs = g->mesh->job->epochs,
		.expected = expected,
	};

	if (!expected)
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy ring");
	for (uint32_t step = 0; step < g->n_steps; step++) {
		uint32_t coming = shard_of(g, previous(g), step);

		expected[step * n + previous(g)] =
			(struct lh_bulk_expected){shard_bytes(g, coming), head_bytes(g, coming)};
		g->received_bytes += shard_bytes(g, coming);
		g->sent_bytes += shard_bytes(g, shard_of(g, g->mesh->self, step));
	}
	return lh_bulk_open(&config, &g->bulk, err);
}

static void ring_close(void *state)
{
	struct ring *g = state;

	if (!g)
		return;
	lh_bulk_close(g->bulk);
	free(g->own);
	free(g->sum);
	free(g->values);
	free(g->sent);
	free(g->averages);
	free(g->expected);
	free(g);
}

static int alloc_buffers(struct ring *g, struct lh_error *err)
{
	bool is_replayed = !g->averaged.values;
	uint32_t total = g->layout.total;

	g->own = is_replayed ? calloc(total, sizeof(*g->own)) : NULL;
	g->sum = calloc(g->layout.longest, sizeof(*g->sum));
	g->values = calloc(is_replayed ? total : g->layout.longest, sizeof(*g->values));
	g->sent = calloc(total, g->element_bytes);
	g->averages = calloc(total, g->element_bytes);
	g->expected = is_replayed ? calloc(total, g->element_bytes) : NULL;
	if (!g->sum || !g->values || !g->sent || !g->averages ||
	    (is_replayed && (!g->own || !g->expected)))
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy ring");
	return 0;
}

static int ring_open(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
		     struct lh_error *err)
{
	struct lh_mesh *mesh = &rank->mesh;
	struct ring *g = calloc(1, sizeof(*g));
	int rc;

	if (!g)
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy ring");
	g->mesh = mesh;
	g->averaged = averaged;
	g->element_bytes = mesh->job->compress->bytes_per_element;
	g->n_steps = 2 * (mesh->n - 1);
	if (averaged.values)
		lh_sample_layout_init_whole(&g->layout, averaged.n, mesh->n);
	else
		lh_sample_layout_init(&g->layout, averaged.n, mesh->n);
	rc = alloc_buffers(g, err);
	if (rc == 0)
		rc = open_bulk(g, rank->traffic, err);
	if (rc) {
		ring_close(g);
		return rc;
	}
	g->host_ns = lh_rank_host_ns(rank, g->sent_bytes);
	*ret_state = g;
	return 0;
}

/* wire = wire (NULL: nothing) + values x weight, through the compressor. */
static void add_to_wire(const struct ring *g, const uint8_t *wire, const float *values, uint32_t n,
			float weight, uint8_t *ret_wire)
{
	const struct lh_codec_ops *compress = g->mesh->job->compress;

	if (wire)
		compress->decode(wire, n, g->sum);
	else
		memset(g->sum, 0, n * sizeof(*g->sum));
	for (uint32_t i = 0; i < n; i++)
		g->sum[i] += weight * values[i];
	compress->encode(g->sum, n, ret_wire);
}

/* Works out the averages that must come of everybody's replayed numbers; shard s starts at rank s.
 */
static void reckon(struct ring *g, uint32_t epoch, const uint64_t *samples, uint64_t total)
{
	uint32_t n = g->mesh->n;

	for (uint32_t i = 0; i < 2 * n; i++) {
		uint32_t rank = i % n;
		float weight = (float)((double)samples[rank] / (double)total);

		lh_sample_draw(&g->layout, g->mesh->job->seed, rank, epoch, g->values);
		if (rank == g->mesh->self)
			memcpy(g->own, g->values, g->layout.total * sizeof(*g->own));
		/* twice round: shard s takes ranks s, s + 1 ... s + n - 1 */
		for (uint32_t shard = 0; shard < n; shard++)
			if (i >= shard && i < shard + n && g->layout.elements[shard])
				add_to_wire(g, i == shard ? NULL : at_shard(g, g->expected, shard),
					    g->values + g->layout.at[shard],
					    g->layout.elements[shard], weight,
					    at_shard(g, g->expected, shard));
	}
}

static void send_step(struct ring *g, uint32_t epoch, uint32_t step, uint64_t samples,
		      const uint8_t *head)
{
	uint32_t shard = shard_of(g, g->mesh->self, step);
	struct lh_frame frame = {
		.type = LH_FRAME_DATA,
		.rank = (uint16_t)g->mesh->self,
		.part = (uint16_t)step,
		.epoch = epoch,
		.samples = samples,
		.length = shard_bytes(g, shard),
		.head_bytes = head_bytes(g, shard),
	};

	lh_clock_sleep_until(lh_clock_now_ns() + g->host_ns / g->n_steps);
	if (frame.length)
		lh_bulk_post(g->bulk, (g->mesh->self + 1) % g->mesh->n, &frame, head);
}

/* What came in a step, or NULL where the shard is empty. */
static int receive_step(struct ring *g, uint32_t epoch, uint32_t step, uint64_t samples,
			const uint8_t **ret_head, struct lh_error *err)
{
	struct lh_bulk_received got;
	int rc = lh_bulk_wait_received(g->bulk, step, err);

	*ret_head = NULL;
	if (rc || shard_bytes(g, shard_of(g, previous(g), step)) == 0)
		return rc;
	got = lh_bulk_received(g->bulk, step, previous(g));
	if (got.frame.samples != samples)
		return lh_fail(err, LH_ERUN, 0,
			       "epoch %" PRIu32 ": rank %" PRIu32 " averages %" PRIu64
			       " samples; expected %" PRIu64,
			       epoch, previous(g), got.frame.samples, samples);
	*ret_head = got.head;
	return 0;
}

/* Adds the own numbers to every shard that passes; the last one is complete then. */
static int reduce_scatter(struct ring *g, uint32_t epoch, uint64_t samples, uint64_t total,
			  struct lh_error *err)
{
	const float *own = g->averaged.values ? g->averaged.values : g->own;
	float weight = (float)((double)samples / (double)total);
	uint32_t shard = g->mesh->self, n = g->mesh->n;
	uint8_t *next = at_shard(g, g->sent, shard);
	int rc = 0;

	add_to_wire(g, NULL, own + g->layout.at[shard], g->layout.elements[shard], weight, next);
	for (uint32_t step = 0; rc == 0 && step < n - 1; step++) {
		const uint8_t *got;

		send_step(g, epoch, step, total, next);
		rc = receive_step(g, epoch, step, total, &got, err);
		shard = shard_of(g, previous(g), step);
		next = at_shard(g, step == n - 2 ? g->averages : g->sent, shard);
		if (rc == 0 && got)
			add_to_wire(g, got, own + g->layout.at[shard], g->layout.elements[shard],
				    weight, next);
	}
	return rc;
}

static int all_gather(struct ring *g, uint32_t epoch, uint64_t total, struct lh_error *err)
{
	uint32_t n = g->mesh->n;
	int rc = 0;

	for (uint32_t step = n - 1; rc == 0 && step < g->n_steps; step++) {
		uint32_t shard = shard_of(g, previous(g), step);
		const uint8_t *got;

		send_step(g, epoch, step, total,
			  at_shard(g, g->averages, shard_of(g, g->mesh->self, step)));
		rc = receive_step(g, epoch, step, total, &got, err);
		if (rc == 0 && got)
			memcpy(at_shard(g, g->averages, shard), got, head_bytes(g, shard));
	}
	return rc;
}

static int ring_average(void *state, uint32_t epoch, const uint64_t *samples,
			struct lh_average *ret_average, struct lh_error *err)
{
	struct ring *g = state;
	uint64_t total = 0, sent_bytes, received_bytes;
	int rc;

	for (uint32_t rank = 0; rank < g->mesh->n; rank++)
		total += samples[rank];
	assert(total);
	if (!g->averaged.values)
		reckon(g, epoch, samples, total);
	if ((rc = reduce_scatter(g, epoch, samples[g->mesh->self], total, err)) ||
	    (rc = all_gather(g, epoch, total, err)) || (rc = lh_bulk_wait_sent(g->bulk, err)))
		return rc;
	if (g->averaged.values)
		g->mesh->job->compress->decode(g->averages, g->layout.total, g->averaged.values);
	for (uint32_t shard = 0; rc == 0 && !g->averaged.values && shard < g->mesh->n; shard++)
		rc = lh_sample_check(&g->layout, g->mesh->job->compress, epoch, shard,
				     at_shard(g, g->averages, shard),
				     at_shard(g, g->expected, shard), err);
	for (uint32_t step = 0; step < g->n_steps; step++)
		lh_bulk_release(g->bulk, step);
	lh_bulk_take_bytes(g->bulk, &sent_bytes, &received_bytes);
	assert(rc || (sent_bytes == g->sent_bytes && received_bytes == g->received_bytes));
	*ret_average = (struct lh_average){
		.host_ns = g->host_ns,
		.payload_sent_bytes = sent_bytes,
		.payload_received_bytes = received_bytes,
		.group_samples = total,
		.checked_elements = g->averaged.values ? 0 : g->layout.total,
	};
	return rc;
}

static int ring_check(void *state, struct lh_error *err)
{
	return lh_bulk_check(((struct ring *)state)->bulk, err);
}

static int ring_failure_fd(void *state)
{
	return lh_bulk_failure_fd(((struct ring *)state)->bulk);
}

const struct lh_averaging_ops lh_averaging_ring = {
	.name = "ring",
	.open = ring_open,
	.average = ring_average,
	.check = ring_check,
	.failure_fd = ring_failure_fd,
	.close = ring_close,
};
