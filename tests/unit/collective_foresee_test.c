/* SPDX-License-Identifier: Apache-2.0 */
/* How long collectives take: against what follows by hand for equal links. */
#include "trainer/collective/foresee.h"

#include <stdlib.h>

#include "tests/unit/test.h"
#include "trainer/collective/stream.h"

enum { N_MAX = 16, SEGMENT = 1000, WIDE = 1 << 16 };

/* 8 us a segment of a gigabit's link without headers. */
static const double SEGMENT_NS = 8000;

/* Sends bytes over a fresh connection and tells when the last has arrived. */
static double send_alone(double rtt_ns, double window, double window_max, uint64_t n_segments)
{
	struct lh_stream_model there, back;
	uint64_t left = n_segments * SEGMENT;
	double now_ns = 0, last_ns = 0;

	assert_true(lh_stream_model_init(&there, rtt_ns / 2, rtt_ns, SEGMENT_NS, 0, window,
					 window_max));
	assert_true(
		lh_stream_model_init(&back, rtt_ns / 2, rtt_ns, SEGMENT_NS, 0, window, window_max));
	while (left || lh_stream_model_coming(&there)) {
		const struct lh_stream_segment *acked;

		left -= lh_stream_model_send(&there, now_ns, left, SEGMENT);
		while (lh_stream_model_coming(&there)) {
			last_ns = lh_stream_model_coming(&there)->arrive_ns;
			lh_stream_model_arrive(&there, &back, last_ns);
		}
		acked = lh_stream_model_arrived(&there);
		if (acked && left) {
			now_ns = acked->acked_ns;
			lh_stream_model_ack(&there);
		}
	}
	lh_stream_model_done(&there);
	lh_stream_model_done(&back);
	return last_ns;
}

/* 10, 20, 40 ... segments a round trip, and half of one for the last. */
static void test_slow_start_doubles_every_round_trip(void **state)
{
	const double rtt_ns = 100e6;

	(void)state;
	assert_near(send_alone(rtt_ns, 10, WIDE, 10), rtt_ns / 2 + 10 * SEGMENT_NS, 1);
	assert_near(send_alone(rtt_ns, 10, WIDE, 30), 1.5 * rtt_ns, 40 * SEGMENT_NS);
	assert_near(send_alone(rtt_ns, 10, WIDE, 70), 2.5 * rtt_ns, 80 * SEGMENT_NS);
	assert_near(send_alone(rtt_ns, 10, WIDE, 10 * 127), 6.5 * rtt_ns, 1280 * SEGMENT_NS);
}

static void test_a_window_passes_once_a_round_trip(void **state)
{
	(void)state;
	assert_near(send_alone(100e6, 50, 50, 500), 9.5 * 100e6, 60 * SEGMENT_NS);
}

static void test_a_link_is_filled_at_its_rate(void **state)
{
	(void)state;
	assert_near(send_alone(2e6, WIDE, WIDE, 50000), 1e6 + 50000 * SEGMENT_NS, 1);
}

static int64_t foresee(const struct lh_collective_ops *ops, uint32_t n, uint64_t elements,
		       uint32_t window, const int64_t *begin_ns, uint32_t n_rounds)
{
	struct lh_collective_link links[N_MAX * N_MAX];
	const struct lh_collective_form form = {.elements = elements, .n = n, .n_segments = 1};
	const struct lh_collective_network network = {
		.links = links,
		.segment_bytes = SEGMENT,
		.frame_bytes = SEGMENT,
		.initial_window_segments = window,
		.n_streams = 1,
	};
	struct lh_collective_plan *plans;
	int64_t end_ns[4];

	for (uint32_t i = 0; i < n * n; i++)
		links[i] = (struct lh_collective_link){
			.delay_ns = 50000000, .bandwidth_bps = 1000000000, .window_segments = WIDE};
	assert_int_equal(lh_collective_plans_make(ops, &form, &plans, NULL), 0);
	assert_int_equal(lh_collective_foresee(plans, n, &lh_codec_none, &network, begin_ns, 0,
					       n_rounds, end_ns, NULL),
			 0);
	lh_collective_plans_free(plans, n);
	return end_ns[n_rounds - 1];
}

/* Windows that hold it all: 2 (n - 1) times a delay and a share of the vector. */
static void test_a_rings_chain_of_delays(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 8; n++) {
		double share_ns = 4 * 250.0 * 1000 / SEGMENT * SEGMENT_NS;

		assert_near((double)foresee(&lh_collective_ring, n, n * 250000, WIDE, NULL, 1),
			    2 * (n - 1) * (50e6 + share_ns), n);
	}
}

static void test_a_butterflys_two_delays(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 8; n++)
		assert_near((double)foresee(&lh_collective_butterfly, n, n * 250000, WIDE, NULL, 1),
			    2 * (50e6 + 1000 * SEGMENT_NS), n);
}

static void test_the_last_to_begin_delays_all(void **state)
{
	const int64_t begin_ns[] = {0, 0, 7000000000, 0};
	int64_t at_once = foresee(&lh_collective_ring, 4, 1000000, WIDE, NULL, 1);

	(void)state;
	assert_near((double)foresee(&lh_collective_ring, 4, 1000000, WIDE, begin_ns, 1),
		    7e9 + (double)at_once, 1);
}

/* Cold connections begin with ten segments, warm ones with what they have come to. */
static void test_warm_is_quicker_than_cold(void **state)
{
	int64_t cold = foresee(&lh_collective_butterfly, 4, 1000000, 10, NULL, 1);
	int64_t two = foresee(&lh_collective_butterfly, 4, 1000000, 10, NULL, 2);
	int64_t three = foresee(&lh_collective_butterfly, 4, 1000000, 10, NULL, 3);

	(void)state;
	assert_true(two - cold < cold);
	assert_true(three - two <= two - cold);
	assert_near((double)(three - two), 2 * (50e6 + 1000 * SEGMENT_NS), 1e6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_start_doubles_every_round_trip),
		cmocka_unit_test(test_a_window_passes_once_a_round_trip),
		cmocka_unit_test(test_a_link_is_filled_at_its_rate),
		cmocka_unit_test(test_a_rings_chain_of_delays),
		cmocka_unit_test(test_a_butterflys_two_delays),
		cmocka_unit_test(test_the_last_to_begin_delays_all),
		cmocka_unit_test(test_warm_is_quicker_than_cold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
