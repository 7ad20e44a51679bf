/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of ranks that come and go: what adds up, and what must not pass. */
#include <string.h>

#include "collect/collect_internal.h"
#include "tests/unit/test.h"

enum { MICRO_BATCH = 8 };

static struct lh_node nodes[] = {{.name = (char[]){"a/0"}, .micro_batch = MICRO_BATCH},
				 {.name = (char[]){"b/0"}, .micro_batch = MICRO_BATCH}};
static struct lh_node_rank places[] = {{.node = 0}, {.node = 1}};
static const struct lh_scenario scenario = {
	.nodes = nodes, .n_nodes = 2, .ranks = places, .n_ranks = 2};

/* Two ranks, the second of which was killed once. It had done 5, of which 3 counted. */
struct run {
	struct lh_incarnation first[1], second[2];
	struct lh_taken counted[4], lost[1];
	struct lh_rank_epoch epochs[2][2];
	struct lh_rank_events ranks[2];
	struct lh_run_events events;
};

static void run_init(struct run *run)
{
	*run = (struct run){
		.first = {{7, true}},
		.second = {{5, false}, {4, true}},
		.counted = {{0, 0, 0, 0, 4, true},
			    {1, 0, 0, 0, 3, true},
			    {0, 0, 1, 4, 7, true},
			    {1, 1, 1, 1, 4, true}},
		.lost = {{1, 1, 1, 0, 1, false}},
		.epochs = {{{.is_finished = true, .group_samples = 7 * 8, .samples = 4 * 8},
			    {.is_finished = true, .group_samples = 6 * 8, .samples = 3 * 8}},
			   {{.is_finished = true, .group_samples = 7 * 8, .samples = 3 * 8},
			    {.is_finished = true, .group_samples = 6 * 8, .samples = 3 * 8}}},
	};
	run->ranks[0].samples = (struct lh_rank_samples){.incarnations = run->first,
							 .n_incarnations = 1,
							 .taken = run->counted,
							 .n_taken = 4};
	run->ranks[1].samples = (struct lh_rank_samples){
		.incarnations = run->second, .n_incarnations = 2, .taken = run->lost, .n_taken = 1};
	for (int i = 0; i < 2; i++) {
		run->ranks[i].epochs = run->epochs[i];
		run->ranks[i].n_epochs = 2;
	}
	run->events = (struct lh_run_events){.ranks = run->ranks, .n_ranks = 2, .n_finished = 2};
}

static int compute(const struct run *run, struct lh_table *table, struct lh_notes *notes,
		   struct lh_error *err)
{
	return lh_samples_compute(&scenario, &run->events, table, notes, err);
}

static void test_each_sample_counts_or_is_told_as_lost(void **state)
{
	static const int64_t expected[3][7] = {
		{0, 0, 0, 56, 56, 0, 0}, {1, 0, 0, 40, 24, 0, 16}, {1, 0, 1, 32, 24, 8, 0}};
	struct lh_notes notes = {0};
	struct lh_table table;
	struct run run;

	(void)state;
	run_init(&run);
	assert_int_equal(compute(&run, &table, &notes, NULL), 0);
	assert_int_equal(table.n_rows, 3);
	for (size_t row = 0; row < 3; row++)
		for (size_t column = 0; column < 7; column++)
			if (column != 1)
				assert_int_equal(lh_table_cell(&table, row, column)->integer,
						 expected[row][column]);
	assert_int_equal(notes.n_items, 1);
	assert_string_equal(notes.items[0],
			    "of 128 samples that were computed 104 count; 16 were lost with ranks "
			    "that were killed, 8 were given up: samples.csv");
	lh_notes_done(&notes);
	lh_table_done(&table);
}

static void assert_fails(const struct run *run, const char *message)
{
	struct lh_notes notes = {0};
	struct lh_error err = {0};
	struct lh_table table;

	assert_int_equal(compute(run, &table, &notes, &err), LH_ERUN);
	if (!strstr(err.message, message))
		fail_msg("%s; expected %s", err.message, message);
	lh_notes_done(&notes);
	lh_table_done(&table);
}

static void test_what_does_not_add_up_is_an_error(void **state)
{
	struct run run;

	(void)state;
	run_init(&run);
	run.counted[2].from = 3; /* one counts twice */
	assert_fails(&run,
		     "rank 0.0: its micro-batches 3 to 7 count in epoch 1; expected them from 4");
	run_init(&run);
	run.counted[2].from = 5; /* one is missing */
	assert_fails(&run, "expected them from 4 on");
	run_init(&run);
	run.counted[1].to = 6; /* more than there were */
	assert_fails(&run, "of 5 that it computed");
	run_init(&run);
	run.first[0].computed = 8; /* one that nobody told of, by a rank that came to the end */
	assert_fails(&run, "rank 0.0: 1 of its micro-batches neither count nor were given up");
	run_init(&run);
	run.counted[3].incarnation = 2;
	assert_fails(&run, "rank 1.1: 3 of its micro-batches");
	run_init(&run);
	run.ranks[1].samples.n_incarnations = 1;
	assert_fails(&run, "micro-batches of rank 1.1 count, which wrote no events");
	run_init(&run);
	run.epochs[1][0].group_samples += 8;
	assert_fails(&run, "epoch 0: 56 samples count; rank 1 ended it with 64");
	run_init(&run);
	run.epochs[1][1].samples -= 8;
	assert_fails(&run, "epoch 1: 24 samples of rank 1 count; it computed 16 for it");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_sample_counts_or_is_told_as_lost),
		cmocka_unit_test(test_what_does_not_add_up_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
