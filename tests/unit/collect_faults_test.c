/* SPDX-License-Identifier: Apache-2.0 */
/* A run whose nodes were away: faults.csv, and events of several incarnations of a rank. */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/events.h"
#include "collect/faults.h"
#include "core/cleanup.h"
#include "core/file.h"

#define S INT64_C(1000000000)

static char a0[] = "a/0", b0[] = "b/0";
static struct lh_node nodes[] = {{.name = a0}, {.name = b0}};
static struct lh_node_rank ranks[] = {{.name = a0}, {.name = b0, .node = 1}};
static const struct lh_scenario scenario = {
	.nodes = nodes, .n_nodes = 2, .ranks = ranks, .n_ranks = 2};

static int make_folder(void **state)
{
	char dir[] = "/tmp/lh-faults-XXXXXX";

	*state = mkdtemp(dir) ? strdup(dir) : NULL;
	return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
	int r = lh_dir_remove(*state, NULL);

	free(*state);
	return r;
}

static void put(void *const *state, const char *name, const char *text)
{
	lh_cleanup_free char *path = lh_path_join(*state, name);

	assert_int_equal(lh_file_write(path, text, strlen(text), NULL), 0);
}

#define HEAD "t_s,node,event,planned_s,cause\n"

static void test_time_away_is_what_lies_between_going_and_coming(void **state)
{
	struct lh_run_faults f;

	put(state, "faults.csv",
	    HEAD "0.000000001,b/0,absent,0.000000000,late-start\n"
		 "3,a/0,notice,3,spot\n"
		 "5,b/0,join,5,late-start\n"
		 "10.5,a/0,preempt,10,spot\n"
		 "12,a/0,return,12,spot\n"
		 "20,a/0,preempt,20,spot\n");
	assert_int_equal(lh_run_faults_read(*state, &scenario, &f, NULL), 0);
	assert_int_equal(f.n_preemptions, 2);
	assert_int_equal(f.n_returns, 1);
	assert_int_equal(f.n_joins, 1);
	assert_true(lh_run_faults_away_ns(&f, 1, 0, 100 * S) == 5 * S);
	assert_true(lh_run_faults_away_ns(&f, 1, 2 * S, 4 * S) == 2 * S);
	assert_true(lh_run_faults_away_ns(&f, 0, 0, 15 * S) == 3 * S / 2);
	assert_true(lh_run_faults_away_ns(&f, 0, 11 * S, 25 * S) == 6 * S);
	assert_true(lh_run_faults_is_away_at_end(&f, 0) && !lh_run_faults_is_away_at_end(&f, 1));
	lh_run_faults_done(&f);
}

static void test_no_file_is_no_fault(void **state)
{
	struct lh_run_faults f;

	assert_int_equal(lh_run_faults_read(*state, &scenario, &f, NULL), 0);
	assert_false(lh_run_faults_has(&f, 0));
	assert_true(lh_run_faults_away_ns(&f, 0, 0, S) == 0);
}

static void test_rows_that_cannot_be_are_refused(void **state)
{
	static const struct {
		const char *row, *message;
	} cases[] = {
		{"5,c/0,preempt,5,spot\n", "faults.csv:2: node 'c/0'; expected a node of the run"},
		{"-5,a/0,preempt,5,spot\n", "faults.csv:2: t_s '-5'"},
		{"5,a/0,return,5,spot\n", "expected nodes to go and come in turn"},
		{"5,a/0,preempt,5,spot\n6,a/0,preempt,6,spot\n", "faults.csv:3: event 'preempt'"},
		{"5,a/0\n", "faults.csv:2"},
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *text = lh_strf("%s%s", HEAD, cases[i].row);
		struct lh_error err = {0};
		struct lh_run_faults f;

		put(state, "faults.csv", text);
		assert_int_equal(lh_run_faults_read(*state, &scenario, &f, &err), LH_EINPUT);
		if (!strstr(err.message, cases[i].message))
			fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].message);
	}
}

/* ---- events ------------------------------------------------------------------------------ */

#define START(rank, t) "{\"event\":\"start\",\"t_ns\":" t ",\"rank\":" rank "}\n"
#define COMPUTE(rank, epoch, begin, end, samples)                                    \
	"{\"event\":\"compute\",\"t_ns\":" end ",\"rank\":" rank ",\"epoch\":" epoch \
	",\"begin_ns\":" begin ",\"end_ns\":" end ",\"samples\":" samples "}\n"
#define EPOCH(rank, epoch, begin, end, samples)                                    \
	"{\"event\":\"epoch\",\"t_ns\":" end ",\"rank\":" rank ",\"epoch\":" epoch \
	",\"begin_ns\":" begin ",\"end_ns\":" end ",\"samples\":" samples "}\n"
#define ERROR(rank, t) "{\"event\":\"error\",\"t_ns\":" t ",\"rank\":" rank ",\"message\":\"no\"}\n"

/* Rank 0 does four epochs of 10 s. Rank 1 is lost in the second, in the midst of a line, and is
 * back for the fourth. */
static void put_events(void *const *state)
{
	put(state, "faults.csv",
	    HEAD "15,b/0,preempt,15,timeline\n"
		 "32,b/0,return,32,timeline\n");
	put(state, "rank-0.jsonl",
	    START("0", "1") COMPUTE("0", "0", "1", "9", "60") EPOCH("0", "0", "1", "10", "100")
		    COMPUTE("0", "1", "10", "19", "90") EPOCH("0", "1", "10", "20", "95")
			    COMPUTE("0", "2", "20", "29", "100") EPOCH("0", "2", "20", "30", "100")
				    COMPUTE("0", "3", "30", "39", "50")
					    EPOCH("0", "3", "30", "40", "100"));
	put(state, "rank-1.jsonl",
	    START("1", "1") COMPUTE("1", "0", "1", "9", "40") EPOCH("1", "0", "1", "10", "100")
		    COMPUTE("1", "1", "10", "15", "25") "{\"event\":\"epo");
	put(state, "rank-1.1.jsonl",
	    START("1", "32") COMPUTE("1", "3", "33", "39", "50")
		    EPOCH("1", "3", "33", "41", "100"));
}

static void test_a_lost_rank_leaves_out_what_it_did_not_finish(void **state)
{
	struct lh_run_faults f;
	struct lh_run_events events;
	struct lh_error err = {0};

	put_events(state);
	assert_int_equal(lh_run_faults_read(*state, &scenario, &f, NULL), 0);
	assert_int_equal(lh_run_events_read(*state, 2, &f, &events, &err), 0);
	assert_int_equal(events.n_finished, 4);
	assert_int_equal(lh_run_events_epoch(&events, 1, 0)->samples, 40);
	for (size_t i = 1; i < 3; i++) {
		assert_false(lh_run_events_epoch(&events, 1, i)->is_finished);
		assert_int_equal(lh_run_events_epoch(&events, 1, i)->samples, 0);
	}
	assert_int_equal(lh_run_events_epoch(&events, 1, 3)->samples, 50);
	assert_true(events.ranks[1].start_ns == 1 && events.ranks[1].restart_ns == 32);
	assert_true(events.ranks[1].was_away && !events.ranks[0].was_away);
	assert_false(events.ranks[1].is_cut);
	assert_true(lh_run_events_epoch_begin_ns(&events, 2) == 20);
	assert_true(lh_run_events_epoch_end_ns(&events, 3) == 41);
	lh_run_events_done(&events);
	lh_run_faults_done(&f);
}

static void test_an_epoch_that_is_done_anew_counts_once(void **state)
{
	struct lh_run_faults f;
	struct lh_run_events events;

	put_events(state);
	/* back from a checkpoint of before the first epoch's end */
	put(state, "rank-1.1.jsonl",
	    START("1", "32") COMPUTE("1", "0", "33", "36", "41")
		    EPOCH("1", "0", "33", "37", "101"));
	assert_int_equal(lh_run_faults_read(*state, &scenario, &f, NULL), 0);
	assert_int_equal(lh_run_events_read(*state, 2, &f, &events, NULL), 0);
	assert_int_equal(lh_run_events_epoch(&events, 1, 0)->samples, 41);
	assert_int_equal(lh_run_events_epoch(&events, 1, 0)->begin_ns, 33);
	assert_int_equal(events.n_finished, 4);
	lh_run_events_done(&events);
	lh_run_faults_done(&f);
}

static void test_only_the_last_complaint_of_a_rank_that_is_there_counts(void **state)
{
	struct lh_run_faults f;
	struct lh_run_events events;

	put_events(state);
	put(state, "rank-1.jsonl", START("1", "1") ERROR("1", "15"));
	assert_int_equal(lh_run_faults_read(*state, &scenario, &f, NULL), 0);
	assert_int_equal(lh_run_events_read(*state, 2, &f, &events, NULL), 0);
	assert_null(events.ranks[1].error);
	lh_run_events_done(&events);
	put(state, "rank-1.1.jsonl", START("1", "32") ERROR("1", "35"));
	assert_int_equal(lh_run_events_read(*state, 2, &f, &events, NULL), 0);
	assert_string_equal(events.ranks[1].error, "no");
	lh_run_events_done(&events);
	lh_run_faults_done(&f);
	put(state, "faults.csv",
	    HEAD "15,b/0,preempt,15,timeline\n"
		 "32,b/0,return,32,timeline\n"
		 "36,b/0,preempt,36,timeline\n");
	assert_int_equal(lh_run_faults_read(*state, &scenario, &f, NULL), 0);
	assert_int_equal(lh_run_events_read(*state, 2, &f, &events, NULL), 0);
	assert_null(events.ranks[1].error);
	lh_run_events_done(&events);
	lh_run_faults_done(&f);
}

static void test_a_rank_that_was_there_must_finish_and_must_have_a_file(void **state)
{
	struct lh_run_events events;
	struct lh_error err = {0};

	put_events(state);
	/* without faults nobody excuses rank 1, and nobody looks for its other file */
	assert_int_equal(lh_run_events_read(*state, 2, NULL, &events, NULL), 0);
	assert_int_equal(events.n_finished, 1);
	assert_true(events.ranks[1].is_cut);
	lh_run_events_done(&events);
	assert_int_equal(lh_run_events_read(*state, 3, NULL, &events, &err), LH_ESYS);
}

#define FOLDER_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FOLDER_TEST(test_time_away_is_what_lies_between_going_and_coming),
		FOLDER_TEST(test_no_file_is_no_fault),
		FOLDER_TEST(test_rows_that_cannot_be_are_refused),
		FOLDER_TEST(test_a_lost_rank_leaves_out_what_it_did_not_finish),
		FOLDER_TEST(test_an_epoch_that_is_done_anew_counts_once),
		FOLDER_TEST(test_only_the_last_complaint_of_a_rank_that_is_there_counts),
		FOLDER_TEST(test_a_rank_that_was_there_must_finish_and_must_have_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
