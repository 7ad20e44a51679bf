/* SPDX-License-Identifier: Apache-2.0 */
/* Whole ranks, one process each, over loopback and in real time. */
#include "trainer/rank.h"

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
#include "trainer/strategy/shard.h"
#include "trainer/strategy/strategy.h"

enum { N_MAX = 6, EPOCHS = 3, PARAMETERS = 1000003, TARGET = 2048, DEADLINE_S = 20 };

struct world {
	struct lh_job job;
	struct lh_job_rank ranks[N_MAX];
	pid_t pids[N_MAX];
	char dir[32];
	uint32_t incarnation;
};

static void world_init(struct world *w, uint32_t n, double samples_per_s)
{
	*w = (struct world){.dir = "/tmp/lh-trainer-XXXXXX"};
	assert_non_null(mkdtemp(w->dir));
	w->job = (struct lh_job){
		.seed = 1,
		.hash = 42,
		.parameters = PARAMETERS,
		.target_batch = TARGET,
		.epochs = EPOCHS,
		.compress = &lh_codec_fp16,
		.strategy = lh_strategy_find("butterfly"),
		.settings = {.matchmaking_ns = 10 * LH_NS_PER_MS,
			     .delayed_update = true,
			     .streams = 1},
		.start_timeout_ns = 10 * LH_NS_PER_S,
		.n_ranks = n,
		.ranks = w->ranks,
	};
	for (uint32_t i = 0; i < n; i++) {
		w->ranks[i] = (struct lh_job_rank){
			.micro_batch = 32,
			.samples_per_s = samples_per_s,
			.variation_ratio = 0.01,
			.averaging_bps = 1000000000,
			.apply_ns = LH_NS_PER_MS,
		};
		snprintf(w->ranks[i].node, sizeof(w->ranks[i].node), "room/%u", i);
		snprintf(w->ranks[i].address, sizeof(w->ranks[i].address), "127.0.0.1");
	}
	loopback_find_ports(w->ranks, n);
}

static char *events_path(const struct world *w, uint32_t rank)
{
	return lh_strf("%s/rank-%u.jsonl", w->dir, rank);
}

static void start_rank(struct world *w, uint32_t rank)
{
	lh_cleanup_free char *path = events_path(w, rank);
	struct lh_error err = {0};

	w->pids[rank] = fork();
	assert_true(w->pids[rank] >= 0);
	if (w->pids[rank])
		return;
	alarm(DEADLINE_S);
	lh_rank_run(&w->job, &lh_compute_replay,
		    &(struct lh_rank_options){
			    .rank = rank, .incarnation = w->incarnation, .events_path = path},
		    &err);
	free(path);
	_exit(lh_error_exit_status(&err));
}

/* The exit status, or 128 + signal; the alarm is the deadline. */
static int wait_rank(struct world *w, uint32_t rank)
{
	int status = 0;

	assert_int_equal(waitpid(w->pids[rank], &status, 0), w->pids[rank]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* All events of a rank, an array; owned by the caller. */
static json_t *read_events(const struct world *w, uint32_t rank)
{
	lh_cleanup_free char *path = events_path(w, rank);
	json_t *events = loopback_events(path);

	assert_non_null(events);
	return events;
}

static int64_t sum_of_traffic(const json_t *events, const char *key)
{
	int64_t sum = 0;
	size_t i, peer;
	const json_t *event, *bytes;

	json_array_foreach ((json_t *)(uintptr_t)events, i, event) {
		if (!loopback_is_event(event, "traffic"))
			continue;
		json_array_foreach (json_object_get(event, key), peer, bytes)
			sum += json_integer_value(bytes);
	}
	return sum;
}

static void world_done(struct world *w)
{
	assert_int_equal(lh_dir_remove(w->dir, NULL), 0);
}

static const char *error_of(const json_t *events)
{
	const json_t *last = json_array_get(events, json_array_size(events) - 1);

	assert_true(loopback_is_event(last, "error"));
	return json_string_value(json_object_get(last, "message"));
}

/* What a rank sends in an averaging. Around the ring it sends every shard twice, but for the next
 * rank's and the one's after that once. */
static int64_t sent_elements(const struct world *w, uint32_t rank)
{
	uint32_t n = w->job.n_ranks;

	if (w->job.strategy == lh_strategy_find("butterfly") || n == 1)
		return (int64_t)lh_shard_butterfly_elements(PARAMETERS, n, rank);
	return (int64_t)(2 * PARAMETERS - lh_shard_elements(PARAMETERS, n, (rank + 1) % n) -
			 lh_shard_elements(PARAMETERS, n, (rank + 2) % n));
}

static int64_t received_elements(const struct world *w, uint32_t rank)
{
	uint32_t n = w->job.n_ranks;

	return sent_elements(w, w->job.strategy == lh_strategy_find("ring") ? (rank + n - 1) % n
									    : rank);
}

/* Checks one rank's bytes; returns its samples of all epochs. */
static int64_t check_rank(const struct world *w, uint32_t rank)
{
	lh_cleanup_json json_t *events = read_events(w, rank);
	uint32_t n = w->job.n_ranks;
	int64_t bytes = w->job.compress->bytes_per_element;
	int64_t sent = sent_elements(w, rank) * bytes;
	int64_t received = received_elements(w, rank) * bytes;
	int64_t last_ns = 0, payload, control, greeting = 0;
	size_t n_average, n_epochs, n_other, i;
	const json_t *event;

	payload = loopback_sum(events, "average", "payload_sent_bytes", &n_average);
	assert_int_equal(n_average, n > 1 ? EPOCHS : 0);
	assert_true(payload == EPOCHS * sent);
	assert_true(loopback_sum(events, "average", "payload_received_bytes", &n_average) ==
		    EPOCHS * received);
	assert_true(sum_of_traffic(events, "payload_bytes") == payload);
	assert_true(loopback_sum(events, "epoch", "samples", &n_epochs) >= EPOCHS * TARGET);
	assert_int_equal(n_epochs, EPOCHS);
	json_array_foreach (events, i, event) {
		assert_true(loopback_integer(event, "t_ns") >= last_ns);
		last_ns = loopback_integer(event, "t_ns");
		if (loopback_is_event(event, "average"))
			assert_true(loopback_integer(event, "checked_elements") > 0);
	}
	assert_true(loopback_is_event(json_array_get(events, json_array_size(events) - 1), "end"));
	/* What TCP sent is what was counted, and the greetings. */
	control = sum_of_traffic(events, "control_bytes");
	json_array_foreach (events, i, event)
		if (loopback_is_event(event, "connection"))
			greeting += loopback_integer(event, "peer") < rank ? 128 : 64;
	assert_true(loopback_sum(events, "connection", "bytes_sent", &n_other) -
			    loopback_sum(events, "connection", "bytes_retrans", &n_other) ==
		    payload + control + greeting);
	return loopback_sum(events, "compute", "samples", &n_other);
}

static void run_all(uint32_t n, const struct lh_strategy_ops *strategy,
		    const struct lh_codec_ops *compress, bool delayed_update)
{
	struct world w;
	int64_t samples = 0;
	size_t n_epochs;

	world_init(&w, n, 10000);
	w.job.strategy = strategy;
	w.job.compress = compress;
	w.job.settings.delayed_update = delayed_update;
	for (uint32_t rank = 0; rank < n; rank++)
		start_rank(&w, rank);
	for (uint32_t rank = 0; rank < n; rank++)
		assert_int_equal(wait_rank(&w, rank), 0);
	for (uint32_t rank = 0; rank < n; rank++)
		samples += check_rank(&w, rank);
	for (uint32_t rank = 0; rank < n; rank++) {
		lh_cleanup_json json_t *events = read_events(&w, rank);

		/* Everyone counts the same group. */
		assert_true(loopback_sum(events, "epoch", "samples", &n_epochs) == samples);
	}
	world_done(&w);
}

static void test_four_ranks_average_and_count_exactly(void **state)
{
	(void)state;
	run_all(4, lh_strategy_find("butterfly"), &lh_codec_fp16, true);
}

static void test_two_ranks_in_single_precision_apply_at_once(void **state)
{
	(void)state;
	run_all(2, lh_strategy_find("butterfly"), &lh_codec_none, false);
}

static void test_a_ring_of_two_to_five_averages(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 5; n++)
		run_all(n, lh_strategy_find("ring"), n % 2 ? &lh_codec_fp16 : &lh_codec_none, true);
}

static void test_one_rank_trains_alone(void **state)
{
	(void)state;
	run_all(1, lh_strategy_find("butterfly"), &lh_codec_fp16, false);
}

static void test_more_ranks_than_parameters_work(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, 6, 10000);
	w.job.parameters = 4;
	w.job.epochs = 1;
	for (uint32_t rank = 0; rank < 6; rank++)
		start_rank(&w, rank);
	for (uint32_t rank = 0; rank < 6; rank++)
		assert_int_equal(wait_rank(&w, rank), 0);
	world_done(&w);
}

/* Waits until rank's file holds the event. */
static void wait_for_event(const struct world *w, uint32_t rank, const char *name)
{
	int64_t deadline_ns = lh_clock_now_ns() + DEADLINE_S * LH_NS_PER_S;
	lh_cleanup_free char *path = events_path(w, rank);

	for (;;) {
		lh_cleanup_free char *text = NULL;

		if (lh_file_read(path, 1 << 20, &text, NULL, NULL) == 0 && strstr(text, name))
			return;
		assert_true(lh_clock_now_ns() < deadline_ns);
		usleep(1000);
	}
}

static void test_a_killed_rank_ends_the_others_with_an_error(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, 4, 1000);
	w.job.target_batch = 100000000;
	for (uint32_t rank = 0; rank < 4; rank++)
		start_rank(&w, rank);
	for (uint32_t rank = 0; rank < 4; rank++)
		wait_for_event(&w, rank, "connected");
	assert_int_equal(kill(w.pids[2], SIGKILL), 0);
	for (uint32_t rank = 0; rank < 4; rank++)
		assert_int_equal(wait_rank(&w, rank), rank == 2 ? 128 + SIGKILL : 1);
	for (uint32_t rank = 0; rank < 4; rank++) {
		lh_cleanup_json json_t *events = NULL;

		if (rank == 2)
			continue;
		events = read_events(&w, rank);
		assert_non_null(strstr(error_of(events), "epoch 0, computing"));
		assert_non_null(strstr(error_of(events), "rank "));
	}
	world_done(&w);
}

static void test_a_missing_peer_is_named_in_time(void **state)
{
	struct world w;
	lh_cleanup_json json_t *events = NULL;

	(void)state;
	world_init(&w, 2, 1000);
	w.job.start_timeout_ns = 100 * LH_NS_PER_MS;
	start_rank(&w, 1);
	assert_int_equal(wait_rank(&w, 1), 1);
	events = read_events(&w, 1);
	assert_non_null(strstr(error_of(events), "no connection with rank 0 (room/0, 127.0.0.1"));
	assert_non_null(strstr(error_of(events), "refused"));
	world_done(&w);
}

static void test_a_lost_rank_is_not_taken_back(void **state)
{
	struct world w;
	lh_cleanup_json json_t *events = NULL;

	(void)state;
	world_init(&w, 2, 100000);
	w.incarnation = 3;
	start_rank(&w, 1);
	assert_int_equal(wait_rank(&w, 1), 3);
	events = read_events(&w, 1);
	assert_string_equal(error_of(events),
			    "strategy butterfly takes no rank back that was lost: rank 1 was "
			    "started 3 times before");
	world_done(&w);
}

static void test_another_job_is_refused(void **state)
{
	struct world w;
	lh_cleanup_json json_t *events = NULL;

	(void)state;
	world_init(&w, 2, 1000);
	start_rank(&w, 0);
	w.job.hash = 43;
	start_rank(&w, 1);
	assert_int_equal(wait_rank(&w, 0), 1);
	assert_int_equal(wait_rank(&w, 1), 1);
	events = read_events(&w, 0);
	assert_non_null(strstr(error_of(events), "its job file is not this one"));
	world_done(&w);
}

static void test_garbage_costs_an_error(void **state)
{
	static const char garbage[] =
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: a browser gone astray\r\n\r\n";
	struct world w;
	lh_cleanup_json json_t *events = NULL;
	int64_t deadline_ns = lh_clock_now_ns() + DEADLINE_S * LH_NS_PER_S;
	int fd;

	(void)state;
	world_init(&w, 2, 1000);
	start_rank(&w, 0);
	for (;;) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&w.ranks[0].socket_address,
			    w.ranks[0].socket_address_size) == 0)
			break;
		close(fd);
		assert_true(lh_clock_now_ns() < deadline_ns);
		usleep(1000);
	}
	assert_true(write(fd, garbage, sizeof(garbage)) == sizeof(garbage));
	assert_int_equal(wait_rank(&w, 0), 1);
	close(fd);
	events = read_events(&w, 0);
	assert_non_null(strstr(error_of(events), "not a longhaul frame"));
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_four_ranks_average_and_count_exactly),
		cmocka_unit_test(test_two_ranks_in_single_precision_apply_at_once),
		cmocka_unit_test(test_a_ring_of_two_to_five_averages),
		cmocka_unit_test(test_one_rank_trains_alone),
		cmocka_unit_test(test_more_ranks_than_parameters_work),
		cmocka_unit_test(test_a_killed_rank_ends_the_others_with_an_error),
		cmocka_unit_test(test_a_missing_peer_is_named_in_time),
		cmocka_unit_test(test_a_lost_rank_is_not_taken_back),
		cmocka_unit_test(test_another_job_is_refused),
		cmocka_unit_test(test_garbage_costs_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
