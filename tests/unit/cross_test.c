/* SPDX-License-Identifier: Apache-2.0 */
/* Cross traffic against the closed form of Poisson flows: mean, spread, peak, order, seeds. */
#include <math.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "emulator/cross_internal.h"
#include "tests/unit/test.h"

enum { FRAME_BYTES = 1514, WINDOW_S = 10, WINDOWS = 4000, MOST_FRAMES = 40 };

/* Bytes that a source of 40 Mbit/s in flows of 2 MB at 80 Mbit/s sends in windows of 10 s. */
static void fill_windows(uint64_t seed, double *windows, size_t n)
{
	static const struct lh_cross_spec spec = {.mean_bps = 40000000, .flow_bytes = 2000000};
	struct lh_cross_queue queue = {.n = 0};
	struct lh_cross_source source;
	struct lh_error err;
	int64_t t_ns = 0, before_ns = 0;
	size_t index;
	double bytes;

	lh_cross_source_init(&source, &spec, 80000000, FRAME_BYTES, MOST_FRAMES, seed, "test");
	assert_near(source.chunk_bytes, 6 * FRAME_BYTES, 0.5);
	assert_int_equal(lh_cross_begin(&queue, &source, 0, 0, &err), 0);
	for (size_t i = 0; i < n; i++)
		windows[i] = 0;
	for (;;) {
		assert_int_equal(lh_cross_next(&queue, &source, &t_ns, &index, &bytes, &err), 0);
		assert_true(t_ns >= before_ns && index == 0 && bytes > 0);
		assert_true(bytes <= source.chunk_bytes);
		before_ns = t_ns;
		if (t_ns / (WINDOW_S * INT64_C(1000000000)) >= (int64_t)n)
			break;
		windows[t_ns / (WINDOW_S * INT64_C(1000000000))] += bytes;
	}
	free(queue.events);
}

static void test_mean_and_spread_are_those_of_poisson_flows(void **state)
{
	lh_cleanup_free double *windows = calloc(WINDOWS, sizeof(*windows));
	double sum = 0, squares = 0, mean, sd;

	(void)state;
	fill_windows(1, windows, WINDOWS);
	for (size_t i = 0; i < WINDOWS; i++) {
		double bps = windows[i] * 8 / WINDOW_S;

		sum += bps;
		squares += bps * bps;
	}
	mean = sum / WINDOWS;
	sd = sqrt(squares / WINDOWS - mean * mean);
	/* sqrt(16 m F / T) is 11.3 Mbit/s; flows last 0.2 s, so that few reach over a window's end
	 */
	assert_near(mean, 40e6, 5 * 11.3e6 / sqrt(WINDOWS));
	assert_near(sd / sqrt(16.0 * 40e6 * 2e6 / WINDOW_S), 1, 0.05);
}

static void test_the_seed_decides(void **state)
{
	double a[20], b[20], c[20];

	(void)state;
	fill_windows(1, a, 20);
	fill_windows(1, b, 20);
	fill_windows(2, c, 20);
	assert_memory_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, c, sizeof(a));
}

static void test_flows_go_at_their_peak(void **state)
{
	/* one flow of a gigabyte, about every three months */
	static const struct lh_cross_spec spec = {.mean_bps = 1000, .flow_bytes = 1000000000};
	struct lh_cross_queue queue = {.n = 0};
	struct lh_cross_source source;
	struct lh_error err;
	int64_t t_ns, first_ns = 0;
	size_t index;
	double bytes, sent = 0;

	(void)state;
	lh_cross_source_init(&source, &spec, 1000000, FRAME_BYTES, MOST_FRAMES, 7, "test");
	assert_int_equal(lh_cross_begin(&queue, &source, 0, 0, &err), 0);
	for (int i = 0; i <= 1000; i++) {
		assert_int_equal(lh_cross_next(&queue, &source, &t_ns, &index, &bytes, &err), 0);
		if (!i)
			first_ns = t_ns;
		else
			sent += bytes;
	}
	assert_near(sent * 8 / ((double)(t_ns - first_ns) / 1e9), 1e6, 1);
	free(queue.events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mean_and_spread_are_those_of_poisson_flows),
		cmocka_unit_test(test_the_seed_decides),
		cmocka_unit_test(test_flows_go_at_their_peak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
