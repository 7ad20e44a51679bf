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
static const double HYSTART_DELAY_MIN_NS = 4e6;
static const double HYSTART_DELAY_MAX_NS = 16e6;
enum { HYSTART_SAMPLES = 8 };

/* CUBIC's: growth per s^3, and the slowest while no loss has been seen: a segment in 20. */
static const double CUBIC_SCALE = 0.4;
static const double CUBIC_SLOWEST = 20;
static const double CUBIC_FASTEST = 2;

bool lh_stream_model_init(struct lh_stream_model *model, double delay_ns, double rtt_ns,
			  double segment_ns, double initial_window, double window_max)
{
	*model = (struct lh_stream_model){
		.delay_ns = delay_ns,
		.rtt_ns = rtt_ns,
		.segment_ns = segment_ns,
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

/* Whether acknowledgements have come one after another for too long, or later than they did. */
static bool hystart_ends(struct lh_stream_model *m, double now_ns, double rtt_ns)
{
	double late_ns = fmin(fmax(m->least_ns / 8, HYSTART_DELAY_MIN_NS), HYSTART_DELAY_MAX_NS);

	m->least_ns = fmin(m->least_ns, rtt_ns);
	if (m->n_acked > m->round_end) {
		m->round_end = m->n_sent;
		m->round_begin_ns = now_ns;
		m->train_end_ns = now_ns;
		m->round_least_ns = INFINITY;
		m->n_round_samples = 0;
	}
	if (m->window < HYSTART_LOW_WINDOW)
		return false;
	if (now_ns - m->train_end_ns <= HYSTART_TRAIN_GAP_NS) {
		m->train_end_ns = now_ns;
		if (now_ns - m->round_begin_ns > m->least_ns / 2)
			return true;
	}
	if (m->n_round_samples >= HYSTART_SAMPLES)
		return m->round_least_ns > m->least_ns + late_ns;
	m->round_least_ns = fmin(m->round_least_ns, rtt_ns);
	m->n_round_samples++;
	return false;
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

/* Looks at the oldest segment's acknowledgement. */
static double take_ack(struct lh_stream_model *m)
{
	const struct lh_stream_segment *segment = &m->flying[m->n_acked % m->room];
	double now_ns = segment->acked_ns;
	bool is_slow_start = m->window < m->slow_start_end;
	bool is_limited =
		m->is_limited || (is_slow_start && m->window < 2 * (double)m->most_flying);

	m->n_acked++;
	if (is_slow_start) {
		if (hystart_ends(m, now_ns, now_ns - segment->sent_ns))
			m->slow_start_end = m->window;
		else if (is_limited)
			m->window++;
	} else if (is_limited) {
		grow_by_cubic(m, now_ns);
	}
	m->window = fmin(m->window, m->window_max);
	return now_ns;
}

/* After an idle time the window halves for every time-out that it is long, and slow start may lead
 * back to where it was. */
static void restart_after_idle(struct lh_stream_model *m, double now_ns)
{
	double rto_ns = m->rtt_ns + RTO_MIN_NS;
	double idle_ns = now_ns - m->last_sent_ns;

	if (isinf(idle_ns) || idle_ns <= rto_ns || m->n_sent != m->n_acked)
		return;
	if (isfinite(m->slow_start_end))
		m->slow_start_end = fmax(m->slow_start_end, 0.75 * m->window);
	for (; idle_ns > rto_ns && m->window > m->initial_window; idle_ns -= rto_ns)
		m->window /= 2;
	m->window = fmax(m->window, fmin(m->initial_window, m->window_max));
	m->growth_begin_ns = -1;
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

double lh_stream_model_send(struct lh_stream_model *m, double from_ns, uint64_t n_bytes,
			    uint32_t segment_bytes)
{
	uint64_t n_segments = (n_bytes + segment_bytes - 1) / segment_bytes;
	double now_ns = fmax(from_ns, m->last_sent_ns);

	while (m->n_acked < m->n_sent && m->flying[m->n_acked % m->room].acked_ns <= now_ns)
		take_ack(m);
	restart_after_idle(m, now_ns);
	for (uint64_t i = 0; i < n_segments; i++) {
		uint64_t last_bytes = n_bytes - (n_segments - 1) * segment_bytes;
		double share = i + 1 < n_segments ? 1 : (double)last_bytes / segment_bytes;

		while (m->n_acked < m->n_sent &&
		       ((double)(m->n_sent - m->n_acked) >= floor(m->window) ||
			m->flying[m->n_acked % m->room].acked_ns <= now_ns))
			now_ns = fmax(now_ns, take_ack(m));
		m->free_ns = fmax(m->free_ns, now_ns) + share * m->segment_ns;
		m->flying[m->n_sent++ % m->room] =
			(struct lh_stream_segment){now_ns, m->free_ns + m->rtt_ns};
		note_usage(m);
	}
	m->last_sent_ns = now_ns;
	return m->free_ns + m->delay_ns;
}
