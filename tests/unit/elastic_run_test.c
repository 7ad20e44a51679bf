/* SPDX-License-Identifier: Apache-2.0 */
/* Members of an elastic training, one process each, over loopback and in real time: what is lost,
 * comes back, is silent or talks nonsense. Whatever happens, samples must add up. */
#include <arpa/inet.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/loopback.h"
#include "tests/unit/test.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/rank.h"
#include "trainer/strategy/strategy.h"
#include "trainer/transport/frame.h"

enum {
	N_MAX = 6,
	INCARNATIONS_MAX = 3,
	PARAMETERS = 100003,
	MICRO_BATCH = 8,
	EPOCHS = 5,
	DEADLINE_S = 60
};

struct world {
	struct lh_job job;
	struct lh_job_rank ranks[N_MAX];
	pid_t pids[N_MAX];
	uint32_t incarnations[N_MAX];
	char dir[32];
};

static void world_init(struct world *w, const char *strategy, uint32_t n, uint32_t epochs)
{
	*w = (struct world){.dir = "/tmp/lh-elastic-XXXXXX"};
	assert_non_null(mkdtemp(w->dir));
	w->job = (struct lh_job){
		.seed = 1,
		.hash = 42,
		.parameters = PARAMETERS,
		.target_batch = 128,
		.epochs = epochs,
		.compress = &lh_codec_fp16,
		.strategy = lh_strategy_find(strategy),
		.settings = {.matchmaking_ns = 10 * LH_NS_PER_MS,
			     .delayed_update = strcmp(strategy, "hivemind") == 0,
			     .streams = 2,
			     .min_group = 2,
			     .rounds = 2,
			     .dimensions = {2, 3},
			     .n_dimensions = 2,
			     .timeout_ns = 2 * LH_NS_PER_S,
			     .heartbeat_ns = 100 * LH_NS_PER_MS},
		.start_timeout_ns = 10 * LH_NS_PER_S,
		.n_ranks = n,
		.ranks = w->ranks,
	};
	for (uint32_t i = 0; i < n; i++) {
		w->ranks[i] = (struct lh_job_rank){
			.micro_batch = MICRO_BATCH,
			.samples_per_s = 800,
			.variation_ratio = 0.01,
			.averaging_bps = 1000000000,
			.apply_ns = LH_NS_PER_MS,
		};
		snprintf(w->ranks[i].node, sizeof(w->ranks[i].node), "room/%u", i);
		snprintf(w->ranks[i].address, sizeof(w->ranks[i].address), "127.0.0.1");
	}
	loopback_find_ports(w->ranks, n);
}

static void world_done(struct world *w)
{
	assert_int_equal(lh_dir_remove(w->dir, NULL), 0);
}

static char *events_path(const struct world *w, uint32_t rank, uint32_t incarnation)
{
	return lh_strf("%s/rank-%u.%u.jsonl", w->dir, rank, incarnation);
}

static void start_rank(struct world *w, uint32_t rank)
{
	lh_cleanup_free char *path = events_path(w, rank, w->incarnations[rank]);
	struct lh_rank_options options = {
		.rank = rank, .incarnation = w->incarnations[rank], .events_path = path};
	struct lh_error err = {0};

	w->pids[rank] = fork();
	assert_true(w->pids[rank] >= 0);
	if (w->pids[rank])
		return;
	alarm(DEADLINE_S);
	lh_rank_run(&w->job, &lh_compute_replay, &options, &err);
	free(path);
	_exit(lh_error_exit_status(&err));
}

static void start_all(struct world *w)
{
	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++)
		start_rank(w, rank);
}

/* The exit status, or 128 + signal; the alarm is the deadline. */
static int wait_rank(struct world *w, uint32_t rank)
{
	int status = 0;

	assert_int_equal(waitpid(w->pids[rank], &status, 0), w->pids[rank]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void wait_all(struct world *w)
{
	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++)
		assert_int_equal(wait_rank(w, rank), 0);
}

/* All events of an incarnation, an array; NULL: it never was. Owned by the caller. */
static json_t *read_events(const struct world *w, uint32_t rank, uint32_t incarnation)
{
	lh_cleanup_free char *path = events_path(w, rank, incarnation);

	return loopback_events(path);
}

/* How often the text stands in a rank's file. */
static int count_in_file(const struct world *w, uint32_t rank, const char *text)
{
	lh_cleanup_free char *path = events_path(w, rank, w->incarnations[rank]);
	lh_cleanup_free char *all = NULL;
	int n = 0;

	if (lh_file_read(path, 64 << 20, &all, NULL, NULL) == 0)
		for (const char *at = all; (at = strstr(at, text)); at++)
			n++;
	return n;
}

/* Waits until it stands there n times. */
static void wait_for_event(const struct world *w, uint32_t rank, const char *text, int n)
{
	int64_t deadline_ns = lh_clock_now_ns() + DEADLINE_S * LH_NS_PER_S;

	while (count_in_file(w, rank, text) < n) {
		assert_true(lh_clock_now_ns() < deadline_ns);
		usleep(1000);
	}
}

/* What each incarnation computed, and what of that was committed or given up, in order. */
struct tally {
	int64_t computed;
	int64_t committed;
	int64_t given_up;
	int64_t end; /* of what is not open any more */
	bool has_ended;
};

static void add_commit(struct tally tallies[N_MAX][INCARNATIONS_MAX], const json_t *commit,
		       int64_t *ret_samples)
{
	size_t i;
	const json_t *m;

	*ret_samples = 0;
	json_array_foreach (json_object_get(commit, "members"), i, m) {
		struct tally *t =
			&tallies[loopback_integer(m, "rank")][loopback_integer(m, "incarnation")];

		assert_true(loopback_integer(m, "from") >= t->end);
		t->end = loopback_integer(m, "to");
		t->committed += loopback_integer(m, "to") - loopback_integer(m, "from");
		*ret_samples +=
			(loopback_integer(m, "to") - loopback_integer(m, "from")) * MICRO_BATCH;
	}
}

static void read_tally(const json_t *events, struct tally *t)
{
	size_t i;
	const json_t *event;

	json_array_foreach ((json_t *)(uintptr_t)events, i, event) {
		if (loopback_is_event(event, "computed"))
			assert_int_equal(loopback_integer(event, "micro_batches"), ++t->computed);
		if (loopback_is_event(event, "lost"))
			t->given_up +=
				loopback_integer(event, "to") - loopback_integer(event, "from");
		t->has_ended = t->has_ended || loopback_is_event(event, "end");
	}
}

/* Each epoch was committed once, with enough samples, and each micro-batch at most once; what an
 * incarnation that came to its end computed and did not commit it has reported. */
static void check_samples(const struct world *w)
{
	struct tally tallies[N_MAX][INCARNATIONS_MAX] = {0};
	lh_cleanup_json json_t *decisions = read_events(w, 0, 0);
	uint32_t n_epochs = 0;
	int64_t samples;
	size_t i;
	const json_t *event;

	json_array_foreach (decisions, i, event) {
		if (!loopback_is_event(event, "commit"))
			continue;
		assert_int_equal(loopback_integer(event, "epoch"), n_epochs++);
		add_commit(tallies, event, &samples);
		if (n_epochs <= w->job.epochs)
			assert_true(samples >= (int64_t)w->job.target_batch);
	}
	assert_int_equal(n_epochs, w->job.epochs + (w->job.strategy->name[0] == 'm'));
	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++)
		for (uint32_t k = 0; k < INCARNATIONS_MAX; k++) {
			lh_cleanup_json json_t *events = read_events(w, rank, k);
			struct tally *t = &tallies[rank][k];

			if (!events)
				continue;
			read_tally(events, t);
			assert_true(t->committed + t->given_up <= t->computed);
			if (t->has_ended)
				assert_int_equal(t->committed + t->given_up, t->computed);
		}
}

/* ---- without faults ----------------------------------------------------------------------- */

static void test_four_members_average_and_count_exactly(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, "hivemind", 4, EPOCHS);
	start_all(&w);
	wait_all(&w);
	check_samples(&w);
	for (uint32_t rank = 0; rank < 4; rank++) {
		lh_cleanup_json json_t *events = read_events(&w, rank, 0);

		/* who came a moment too late has missed the first */
		assert_true(loopback_count(events, "load") ||
			    loopback_count(events, "epoch") == EPOCHS);
		assert_true(loopback_count(events, "failed_average") == 0);
		assert_true(loopback_count(events, "cut_off") == 0);
		/* one connection by stream and peer, kept over all rounds */
		assert_int_equal(loopback_count(events, "connection"), 3 * 2);
	}
	world_done(&w);
}

static void test_one_member_is_a_group_where_it_may_be(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, "hivemind", 1, 3);
	w.job.settings.min_group = 1;
	start_all(&w);
	wait_all(&w);
	check_samples(&w);
	world_done(&w);
}

static void test_a_grid_of_six_averages_in_rounds(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, "moshpit", 6, EPOCHS);
	start_all(&w);
	wait_all(&w);
	check_samples(&w);
	for (uint32_t rank = 0; rank < 6; rank++) {
		lh_cleanup_json json_t *events = read_events(&w, rank, 0);

		assert_true(loopback_count(events, "load") ||
			    loopback_count(events, "epoch") == EPOCHS);
		assert_true(loopback_count(events, "failed_average") == 0);
	}
	world_done(&w);
}

/* ---- with faults -------------------------------------------------------------------------- */

static void lose_and_return(const char *strategy)
{
	lh_cleanup_json json_t *back = NULL;
	struct world w;

	world_init(&w, strategy, 4, 30);
	start_all(&w);
	wait_for_event(&w, 2, "\"event\":\"epoch\"", 2);
	assert_int_equal(kill(w.pids[2], SIGKILL), 0);
	assert_int_equal(wait_rank(&w, 2), 128 + SIGKILL);
	wait_for_event(&w, 0, "\"event\":\"leave\"", 1);
	w.incarnations[2] = 1;
	start_rank(&w, 2);
	wait_all(&w);
	check_samples(&w);
	back = read_events(&w, 2, 1);
	assert_true(loopback_count(back, "load") >= 1);
	assert_true(loopback_count(back, "epoch") >= 1);
	world_done(&w);
}

static void test_a_killed_member_comes_back_and_loads_the_state(void **state)
{
	(void)state;
	lose_and_return("hivemind");
}

static void test_a_member_killed_on_a_grid_comes_back(void **state)
{
	(void)state;
	lose_and_return("moshpit");
}

static void test_a_late_member_joins(void **state)
{
	lh_cleanup_json json_t *late = NULL;
	struct world w;

	(void)state;
	world_init(&w, "hivemind", 3, 12);
	start_rank(&w, 0);
	start_rank(&w, 1);
	wait_for_event(&w, 1, "\"event\":\"epoch\"", 2);
	start_rank(&w, 2);
	wait_all(&w);
	check_samples(&w);
	late = read_events(&w, 2, 0);
	assert_true(loopback_count(late, "load") >= 1);
	world_done(&w);
}

static void test_a_silent_member_is_dropped_and_rejoins(void **state)
{
	lh_cleanup_json json_t *events = NULL;
	int n_epochs;
	struct world w;

	(void)state;
	world_init(&w, "hivemind", 4, 40);
	start_all(&w);
	wait_for_event(&w, 3, "\"event\":\"epoch\"", 1);
	assert_int_equal(kill(w.pids[3], SIGSTOP), 0);
	wait_for_event(&w, 0, "it was silent", 1);
	n_epochs = count_in_file(&w, 0, "\"event\":\"epoch\"");
	wait_for_event(&w, 0, "\"event\":\"epoch\"", n_epochs + 1);
	assert_int_equal(kill(w.pids[3], SIGCONT), 0);
	wait_all(&w);
	check_samples(&w);
	events = read_events(&w, 3, 0);
	assert_true(loopback_count(events, "cut_off") >= 1);
	assert_true(loopback_count(events, "load") >= 1);
	world_done(&w);
}

static void test_too_few_members_end_with_an_error(void **state)
{
	lh_cleanup_json json_t *events = NULL;
	const json_t *last;
	struct world w;

	(void)state;
	world_init(&w, "hivemind", 2, 1000);
	w.job.settings.timeout_ns = 100 * LH_NS_PER_MS;
	start_all(&w);
	wait_for_event(&w, 1, "\"event\":\"epoch\"", 1);
	assert_int_equal(kill(w.pids[1], SIGKILL), 0);
	assert_int_equal(wait_rank(&w, 1), 128 + SIGKILL);
	assert_int_equal(wait_rank(&w, 0), 1);
	events = read_events(&w, 0, 0);
	last = json_array_get(events, json_array_size(events) - 1);
	assert_true(loopback_is_event(last, "error"));
	assert_non_null(strstr(json_string_value(json_object_get(last, "message")),
			       "fewer than min_group = 2"));
	world_done(&w);
}

static void test_a_missing_coordinator_is_named(void **state)
{
	lh_cleanup_json json_t *events = NULL;
	const json_t *last;
	struct world w;

	(void)state;
	world_init(&w, "hivemind", 2, 1);
	w.job.start_timeout_ns = 100 * LH_NS_PER_MS;
	start_rank(&w, 1);
	assert_int_equal(wait_rank(&w, 1), 1);
	events = read_events(&w, 1, 0);
	last = json_array_get(events, json_array_size(events) - 1);
	assert_non_null(strstr(json_string_value(json_object_get(last, "message")),
			       "no connection with the coordinator, rank 0 (room/0, 127.0.0.1"));
	world_done(&w);
}

/* ---- strangers ---------------------------------------------------------------------------- */

static void send_to(const struct world *w, uint32_t rank, const void *bytes, size_t size)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (connect(fd, (const struct sockaddr *)&w->ranks[rank].socket_address,
		    w->ranks[rank].socket_address_size) == 0)
		assert_true(send(fd, bytes, size, MSG_NOSIGNAL) >= 0);
	close(fd);
}

/* A greeting that is right, and nonsense behind it: as every kind of visitor, of every rank. */
static void send_hostile(const struct world *w, uint32_t rank, uint16_t part)
{
	uint8_t bytes[3 * LH_FRAME_BYTES];
	struct lh_frame hello = {.type = LH_FRAME_HELLO,
				 .rank = (uint16_t)(w->job.n_ranks - 1),
				 .part = part,
				 .token = w->job.hash};
	struct lh_frame notice = {.type = LH_FRAME_NOTICE,
				  .rank = hello.rank,
				  .part = 1,
				  .samples = UINT64_MAX,
				  .length = UINT64_MAX};

	memset(bytes, 0x5a, sizeof(bytes));
	lh_frame_format(&hello, bytes);
	send_to(w, rank, bytes, sizeof(bytes));
	lh_frame_format(&notice, bytes + LH_FRAME_BYTES);
	send_to(w, rank, bytes, sizeof(bytes));
	hello.token++;
	lh_frame_format(&hello, bytes);
	send_to(w, rank, bytes, sizeof(bytes));
}

static void test_strangers_cost_their_own_connection(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: a browser gone astray, with a long "
				   "greeting that fills a frame\r\n\r\n";
	lh_cleanup_json json_t *events = NULL;
	struct world w;

	(void)state;
	world_init(&w, "hivemind", 3, 10);
	start_all(&w);
	for (uint32_t rank = 0; rank < 3; rank++)
		wait_for_event(&w, rank, "connected", 1);
	for (int i = 0; i < 20; i++)
		for (uint32_t rank = 0; rank < 3; rank++) {
			send_to(&w, rank, text, sizeof(text));
			for (uint16_t part = 0; part < 4; part++)
				send_hostile(&w, rank, part);
		}
	wait_all(&w);
	check_samples(&w);
	events = read_events(&w, 0, 0);
	assert_true(loopback_count(events, "leave") == 0);
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_four_members_average_and_count_exactly),
		cmocka_unit_test(test_one_member_is_a_group_where_it_may_be),
		cmocka_unit_test(test_a_grid_of_six_averages_in_rounds),
		cmocka_unit_test(test_a_killed_member_comes_back_and_loads_the_state),
		cmocka_unit_test(test_a_member_killed_on_a_grid_comes_back),
		cmocka_unit_test(test_a_late_member_joins),
		cmocka_unit_test(test_a_silent_member_is_dropped_and_rejoins),
		cmocka_unit_test(test_too_few_members_end_with_an_error),
		cmocka_unit_test(test_a_missing_coordinator_is_named),
		cmocka_unit_test(test_strangers_cost_their_own_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
