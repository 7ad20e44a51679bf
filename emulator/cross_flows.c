/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When flows begin and how long they last. See cross_internal.h. With flows of exponential size F
 * that begin at rate l, the bytes of a time T vary by sqrt(2 l T) F: T long against a flow.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "emulator/cross_internal.h"

enum { CHUNK_NS = 1000000, NS_PER_S = 1000000000 };

static double exponential(struct lh_rng *rng, double mean)
{
	return -mean * log1p(-lh_rng_uniform(rng));
}

void lh_cross_source_init(struct lh_cross_source *s, const struct lh_cross_spec *spec,
			  int64_t peak_bps, uint32_t frame_bytes, uint32_t most_frames,
			  uint64_t seed, const char *name)
{
	double peak_bytes_per_ns = (double)peak_bps / 8 / NS_PER_S;
	double frames = floor(peak_bytes_per_ns * CHUNK_NS / frame_bytes);

	frames = frames < 1 ? 1 : frames > most_frames ? most_frames : frames;
	lh_rng_init(&s->rng, seed, name);
	s->flow_bytes = (double)spec->flow_bytes;
	s->flows_per_ns = (double)spec->mean_bps / 8 / NS_PER_S / s->flow_bytes;
	s->chunk_bytes = frames * frame_bytes;
	s->chunk_ns = s->chunk_bytes / peak_bytes_per_ns;
}

static bool is_before(const struct lh_cross_event *a, const struct lh_cross_event *b)
{
	return a->t_ns != b->t_ns ? a->t_ns < b->t_ns : a->number < b->number;
}

static void swap(struct lh_cross_queue *q, size_t a, size_t b)
{
	struct lh_cross_event e = q->events[a];

	q->events[a] = q->events[b];
	q->events[b] = e;
}

static int push(struct lh_cross_queue *q, struct lh_cross_event e, struct lh_error *err)
{
	if (q->n == q->n_room) {
		size_t n_room = q->n_room ? 2 * q->n_room : 64;
		struct lh_cross_event *grown = realloc(q->events, n_room * sizeof(*grown));

		if (!grown)
			return lh_fail(err, LH_ESYS, ENOMEM, "queue cross traffic");
		q->events = grown;
		q->n_room = n_room;
	}
	e.number = q->n_ever++;
	q->events[q->n] = e;
	for (size_t i = q->n++; i > 0 && is_before(&q->events[i], &q->events[(i - 1) / 2]);
	     i = (i - 1) / 2)
		swap(q, i, (i - 1) / 2);
	return 0;
}

static struct lh_cross_event pop(struct lh_cross_queue *q)
{
	struct lh_cross_event first = q->events[0];
	size_t i = 0;

	q->events[0] = q->events[--q->n];
	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < q->n; child++)
			if (is_before(&q->events[child], &q->events[least]))
				least = child;
		if (least == i)
			return first;
		swap(q, i, least);
		i = least;
	}
}

int lh_cross_begin(struct lh_cross_queue *q, struct lh_cross_source *s, size_t index,
		   int64_t now_ns, struct lh_error *err)
{
	struct lh_cross_event begin = {
		.t_ns = now_ns + (int64_t)exponential(&s->rng, 1 / s->flows_per_ns),
		.source = index,
		.left_bytes = -1,
	};

	return push(q, begin, err);
}

int lh_cross_next(struct lh_cross_queue *q, struct lh_cross_source *sources, int64_t *ret_t_ns,
		  size_t *ret_source, double *ret_bytes, struct lh_error *err)
{
	struct lh_cross_event e = pop(q);
	struct lh_cross_source *s = &sources[e.source];
	int r = 0;

	if (e.left_bytes < 0) {
		e.left_bytes = exponential(&s->rng, s->flow_bytes);
		r = lh_cross_begin(q, s, e.source, e.t_ns, err);
	}
	*ret_t_ns = e.t_ns;
	*ret_source = e.source;
	*ret_bytes = e.left_bytes < s->chunk_bytes ? e.left_bytes : s->chunk_bytes;
	e.left_bytes -= *ret_bytes;
	e.t_ns += (int64_t)(s->chunk_ns * *ret_bytes / s->chunk_bytes);
	return r < 0 || e.left_bytes <= 0 ? r : push(q, e, err);
}
