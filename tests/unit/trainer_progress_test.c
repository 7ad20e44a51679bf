/* SPDX-License-Identifier: Apache-2.0 */
/* Progress and matchmaking: a whole group simulated without a network. */
#include "trainer/progress.h"

#include "core/rng.h"
#include "tests/unit/test.h"
#include "trainer/matchmaking.h"

enum { N = 8, MICRO_BATCH = 32, TARGET = 32768 };
static const int64_t STEP_NS = 867000000;
static const int64_t DELAY_NS = 150000000;

static struct lh_job_rank ranks[N];
static struct lh_job job = {.n_ranks = N, .target_batch = TARGET, .ranks = ranks};

static int setup(void **state)
{
	(void)state;
	for (int i = 0; i < N; i++)
		ranks[i] =
			(struct lh_job_rank){.micro_batch = MICRO_BATCH,
					     .samples_per_s = MICRO_BATCH * 1e9 / (double)STEP_NS};
	return 0;
}

static int64_t step_of(uint32_t rank)
{
	return (int64_t)(1e9 * ranks[rank].micro_batch / ranks[rank].samples_per_s);
}

static void note(struct lh_progress *p, uint32_t peer, uint64_t samples, int64_t at_ns,
		 bool is_stopped)
{
	struct lh_progress_news news = {
		.samples = samples, .at_ns = at_ns, .is_stopped = is_stopped};

	assert_int_equal(lh_progress_note(p, peer, p->epoch, &news, step_of(peer), at_ns, NULL), 0);
}

/* News under way: who, how much, when, and when they come. */
struct letter {
	uint32_t from;
	uint64_t samples;
	int64_t at_ns;
	bool is_stopped;
};

/* Runs one epoch of N ranks whose steps vary by ratio, news taking DELAY_NS; returns samples,
 * what they owe, and the time from the first fast rank's stop to the last rank's. */
static uint64_t simulate(double ratio, uint64_t seed, uint64_t *ret_owed, int64_t *ret_spread_ns)
{
	static struct lh_progress p[N];
	static struct letter letters[N * 2000];
	int64_t end_ns[N];
	size_t n_letters = 0, read[N] = {0};
	struct lh_rng rng;
	uint64_t sum = 0;
	int64_t first_ns = INT64_MAX, last_ns = 0;

	lh_rng_init(&rng, seed, "simulate");
	for (uint32_t i = 0; i < N; i++) {
		lh_progress_init(&p[i], &job, i);
		lh_progress_begin_epoch(&p[i], 0, 0);
		end_ns[i] = (int64_t)((double)step_of(i) * (1 + ratio * lh_rng_normal(&rng)));
	}
	for (;;) {
		uint32_t next = 0;
		int64_t now_ns;

		for (uint32_t i = 1; i < N; i++)
			if (end_ns[i] < end_ns[next])
				next = i;
		now_ns = end_ns[next];
		if (now_ns == INT64_MAX)
			break;
		for (; read[next] < n_letters && letters[read[next]].at_ns + DELAY_NS <= now_ns;
		     read[next]++) {
			const struct letter *l = &letters[read[next]];

			if (l->from != next)
				note(&p[next], l->from, l->samples, l->at_ns, l->is_stopped);
		}
		lh_progress_advance(&p[next], now_ns, step_of(next));
		last_ns = now_ns;
		if (lh_progress_should_begin(&p[next], now_ns)) {
			end_ns[next] += (int64_t)((double)step_of(next) *
						  (1 + ratio * lh_rng_normal(&rng)));
		} else {
			lh_progress_stop(&p[next]);
			if (p[0].is_fast[next] && now_ns < first_ns)
				first_ns = now_ns;
			end_ns[next] = INT64_MAX;
		}
		letters[n_letters++] = (struct letter){next, p[next].news[next].samples, now_ns,
						       p[next].news[next].is_stopped};
	}
	for (uint32_t i = 1; i < N; i++)
		note(&p[0], i, p[i].news[i].samples, p[i].news[i].at_ns, true);
	assert_true(lh_progress_has_all_stopped(&p[0]));
	*ret_owed = 0;
	*ret_spread_ns = last_ns - first_ns;
	for (uint32_t i = 0; i < N; i++) {
		*ret_owed += lh_progress_owed(&p[0], i);
		sum += p[0].news[i].samples;
	}
	return sum;
}

static void test_equal_ranks_meet_the_target_exactly(void **state)
{
	uint64_t n_owed;
	int64_t spread_ns;

	(void)state;
	assert_true(simulate(0, 1, &n_owed, &spread_ns) == TARGET);
	assert_true(n_owed == 0);
}

static void test_varying_ranks_overshoot_little_and_owe_rarely(void **state)
{
	int n_short = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++) {
		int64_t spread_ns;
		uint64_t n_owed, sum = simulate(0.01, seed, &n_owed, &spread_ns);

		assert_true(sum + n_owed * MICRO_BATCH >= TARGET);
		assert_true(sum + n_owed * MICRO_BATCH <= TARGET + 2 * MICRO_BATCH);
		n_short += n_owed > 0;
	}
	assert_true(n_short <= 20);
}

static void test_slow_ranks_leave_the_last_samples_to_fast_ones(void **state)
{
	int n_short = 0;

	(void)state;
	for (int i = 0; i < 2; i++)
		ranks[i].samples_per_s /= 10;
	for (uint64_t seed = 0; seed < 200; seed++) {
		int64_t spread_ns;
		uint64_t n_owed, sum = simulate(0.01, seed, &n_owed, &spread_ns);

		assert_true(sum + n_owed * MICRO_BATCH >= TARGET);
		assert_true(sum + n_owed * MICRO_BATCH <= TARGET + 3 * MICRO_BATCH);
		/* No fast rank waits longer than half a slow micro-batch and two of its own. */
		assert_true(spread_ns < 10 * STEP_NS / 2 + 2 * STEP_NS);
		n_short += n_owed > 0;
	}
	assert_true(n_short <= 20);
	setup(NULL);
}

static void test_owed_batches_fill_the_target_in_turns(void **state)
{
	static struct lh_progress p;

	(void)state;
	lh_progress_init(&p, &job, 0);
	lh_progress_begin_epoch(&p, 6, 0);
	lh_progress_stop(&p);
	for (uint32_t i = 1; i < N; i++)
		note(&p, i, 4096, 0, true);
	/* 4096 are missing: 128 micro-batches, 16 each. */
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(lh_progress_owed(&p, i), 16);
	assert_false(lh_progress_is_complete(&p));
	/* One less missing: rank 5, the last in turn from 6 on, computes one less. */
	p.news[3].samples_at_stop += MICRO_BATCH;
	assert_int_equal(lh_progress_owed(&p, 5), 15);
	assert_int_equal(lh_progress_owed(&p, 6), 16);
}

static void test_news_of_other_epochs_and_shrinking_counts_are_refused(void **state)
{
	static struct lh_progress p;
	struct lh_progress_news news = {.samples = 64, .is_joined = true};

	(void)state;
	lh_progress_init(&p, &job, 0);
	lh_progress_begin_epoch(&p, 3, 0);
	assert_int_equal(lh_progress_note(&p, 1, 2, &news, 1, 0, NULL), LH_ERUN);
	assert_int_equal(lh_progress_note(&p, 1, 5, &news, 1, 0, NULL), LH_ERUN);
	assert_int_equal(lh_progress_note(&p, 1, 4, &news, 1, 77, NULL), 0);
	assert_int_equal(lh_progress_note(&p, 1, 3, &news, 0, 0, NULL), LH_ERUN);
	lh_progress_begin_epoch(&p, 4, 5);
	assert_true(p.news[1].samples == 64 && p.news[1].is_joined);
	assert_true(p.news[1].joined_ns == 77);
	news.samples = 32;
	assert_int_equal(lh_progress_note(&p, 1, 4, &news, 1, 0, NULL), LH_ERUN);
	news.samples = UINT64_MAX;
	assert_int_equal(lh_progress_note(&p, 1, 4, &news, 1, 0, NULL), LH_ERUN);
}

static void test_matchmaking_ends_as_the_target_is_reached(void **state)
{
	struct lh_matchmaking m = {.at_least_ns = 5000000000};
	static struct lh_progress p;
	int64_t left_ns, due_ns;

	(void)state;
	lh_progress_init(&p, &job, 0);
	lh_progress_begin_epoch(&p, 0, 0);
	left_ns = lh_progress_left_ns(&p, 0);
	assert_near((double)left_ns, TARGET / (N * MICRO_BATCH) * (double)STEP_NS, 1e4);
	due_ns = lh_matchmaking_due_ns(&m, &p, 0);
	assert_true(due_ns == left_ns - m.at_least_ns);
	lh_matchmaking_begin(&m, &p, due_ns);
	assert_true(lh_matchmaking_end_ns(&m, &p) == INT64_MAX);
	for (uint32_t i = 1; i < N; i++) {
		struct lh_progress_news news = {.is_joined = true};

		assert_int_equal(lh_progress_note(&p, i, 0, &news, 1, due_ns + i, NULL), 0);
	}
	assert_true(lh_matchmaking_end_ns(&m, &p) == left_ns);
	p.news[4].joined_ns = left_ns + 9;
	assert_true(lh_matchmaking_end_ns(&m, &p) == left_ns + 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_ranks_meet_the_target_exactly),
		cmocka_unit_test(test_varying_ranks_overshoot_little_and_owe_rarely),
		cmocka_unit_test(test_slow_ranks_leave_the_last_samples_to_fast_ones),
		cmocka_unit_test(test_owed_batches_fill_the_target_in_turns),
		cmocka_unit_test(test_news_of_other_epochs_and_shrinking_counts_are_refused),
		cmocka_unit_test(test_matchmaking_ends_as_the_target_is_reached),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
