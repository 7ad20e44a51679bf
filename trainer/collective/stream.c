/* SPDX-License-Identifier: Apache-2.0 */
/* When a TCP connection's bytes arrive. See stream.h. */
#include "trainer/collective/stream.h"

#include <math.h>
#include <stdlib.h>

static const double NS_PER_S = 1e9;
static const double RTO_MIN_NS = 200e6;

/* HyStart's constants. */
static const double HYSTART_LOW_WINDOW = 16;
static const double HYSTART_TRAIN_GAP_NS = 2e6;

/* CUBIC's: growth per s^3, and the slowest while no loss has been seen: a segment in 20. */
static const double CUBIC_SCALE = 0.4;
static const double CUBIC_SLOWEST = 20;
static const double CUBIC_FASTEST = 2;

bool lh_stream_model_init(struct lh_stream_model *model, double delay_ns, double rtt_ns,
			  double segment_ns, double ack_ns, double initial_window,
			  double window_max)
{
	*model = (struct lh_stream_model){
		.delay_ns = delay_ns,
		.rtt_ns = rtt_ns,
		.segment_ns = segment_ns,
		.ack_ns = ack_ns,
		.initial_window = initial_window,
		.window_max = window_max,
		.window = fmin(initial_window, window_max),
		.slow_start_end = INFINITY,
		.last_sent_ns = -INFINITY,
		.least_ns = INFINITY,
		.growth_begin_ns = -1,
		.room = 1,
	};
	while (model->room < window_max + 1)
		model->room *= 2;
	model->flying = calloc(model->room, sizeof(*model->flying));
	return model->flying != NULL;
}

void lh_stream_model_done(struct lh_stream_model *model)
{
	free(model->flying);
}

/* Whether acknowledgements have come one after another for half a round trip. */
static bool hystart_ends(struct lh_stream_model *m, double now_ns, double rtt_ns)
{
	m->least_ns = fmin(m->least_ns, rtt_ns);
	if (m->n_acked > m->round_end) {
		m->round_end = m->n_sent;
		m->round_begin_ns = now_ns;
		m->train_end_ns = now_ns;
	}
	if (m->window < HYSTART_LOW_WINDOW || now_ns - m->train_end_ns > HYSTART_TRAIN_GAP_NS)
		return false;
	m->train_end_ns = now_ns;
	return now_ns - m->round_begin_ns > m->least_ns / 2;
}

static void grow_by_cubic(struct lh_stream_model *m, double now_ns)
{
	double t_s, target, per_segment = CUBIC_SLOWEST;

	if (m->growth_begin_ns < 0) {
		m->growth_begin_ns = now_ns;
		m->growth_origin = m->window;
	}
	t_s = (now_ns - m->growth_begin_ns + m->least_ns) / NS_PER_S;
	target = m->growth_origin + CUBIC_SCALE * t_s * t_s * t_s;
	if (target > m->window)
		per_segment = fmin(per_segment, m->window / (target - m->window));
	m->window += 1 / fmax(per_segment, CUBIC_FASTEST);
}

void lh_stream_model_ack(struct lh_stream_model *m)
{
	const struct lh_stream_segment *segment = &m->flying[m->n_acked % m->room];
	double now_ns = segment->acked_ns;
	bool is_slow_start = m->window < m->slow_start_end;
	bool is_limited =
		m->is_limited || (is_slow_start && m->window < 2 * (double)m->most_flying);

	m->n_acked++;
	if (is_slow_start) {
		if (isinf(m->slow_start_end) && hystart_ends(m, now_ns, now_ns - segment->sent_ns))
			m->slow_start_end = m->window;
		else if (is_limited)
			m->window++;
	} else if (is_limited) {
		grow_by_cubic(m, now_ns);
	}
	m->window = fmin(m->window, m->window_max);
}

/* After an idle time the window halves for every time-out that it is long, and slow start leads
 * back to where it was. CUBIC's clock stands meanwhile. */
static void restart_after_idle(struct lh_stream_model *m, double now_ns)
{
	double rto_ns = m->rtt_ns + RTO_MIN_NS;
	double idle_ns = now_ns - m->last_sent_ns;

	if (isinf(idle_ns) || m->n_sent != m->n_acked)
		return;
	if (m->growth_begin_ns >= 0)
		m->growth_begin_ns += idle_ns;
	if (idle_ns <= rto_ns)
		return;
	if (isfinite(m->slow_start_end))
		m->slow_start_end = fmax(m->slow_start_end, 0.75 * m->window);
	for (; idle_ns > rto_ns && m->window > m->initial_window; idle_ns -= rto_ns)
		m->window /= 2;
	m->window = fmax(m->window, fmin(m->initial_window, m->window_max));
}

/* Whether the window is used, which it must be to grow; seen when something is sent. */
static void note_usage(struct lh_stream_model *m)
{
	uint64_t n_flying = m->n_sent - m->n_acked;
	bool is_full = (double)n_flying >= floor(m->window);

	if (m->n_acked < m->usage_end && !is_full && n_flying <= m->most_flying)
		return;
	m->is_limited = is_full;
	m->most_flying = n_flying;
	m->usage_end = m->n_sent;
}

uint64_t lh_stream_model_send(struct lh_stream_model *m, double now_ns, uint64_t n_bytes,
			      uint32_t segment_bytes)
{
	uint64_t left = n_bytes;

	if (left)
		restart_after_idle(m, now_ns);
	while (left && (double)(m->n_sent - m->n_acked) < floor(m->window)) {
		uint64_t size = left < segment_bytes ? left : segment_bytes;

		m->free_ns =
			fmax(m->free_ns, now_ns) + (double)size / segment_bytes * m->segment_ns;
		m->flying[m->n_sent++ % m->room] = (struct lh_stream_segment){
			.sent_ns = now_ns, .arrive_ns = m->free_ns + m->delay_ns};
		m->last_sent_ns = now_ns;
		note_usage(m);
		left -= size;
	}
	return n_bytes - left;
}

void lh_stream_model_arrive(struct lh_stream_model *m, struct lh_stream_model *back, double now_ns)
{
	back->free_ns = fmax(back->free_ns, now_ns) + back->ack_ns;
	m->flying[m->n_arrived++ % m->room].acked_ns = back->free_ns + back->delay_ns;
}

const struct lh_stream_segment *lh_stream_model_coming(const struct lh_stream_model *m)
{
	return m->n_arrived < m->n_sent ? &m->flying[m->n_arrived % m->room] : NULL;
}

const struct lh_stream_segment *lh_stream_model_arrived(const struct lh_stream_model *m)
{
	return m->n_acked < m->n_arrived ? &m->flying[m->n_acked % m->room] : NULL;
}
