/* SPDX-License-Identifier: Apache-2.0 */
/* Strategy parameter-server: whole ranks, one process each, over loopback and in real time. */
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

enum {
	N_MAX = 6,
	EPOCHS = 12,
	PARAMETERS = 100003,
	TARGET = 384,
	MICRO_BATCH = 32,
	DEADLINE_S = 20
};

struct world {
	struct lh_job job;
	struct lh_job_rank ranks[N_MAX];
	json_t *events[N_MAX];
	char dir[32];
};

/* Ranks by site: "aab" are two ranks at site a and one at b. */
static void world_init(struct world *w, const char *sites)
{
	*w = (struct world){.dir = "/tmp/lh-servers-XXXXXX"};
	assert_non_null(mkdtemp(w->dir));
	w->job = (struct lh_job){
		.seed = 1,
		.hash = 42,
		.mode = "replay",
		.parameters = PARAMETERS,
		.target_batch = TARGET,
		.epochs = EPOCHS,
		.compress = &lh_codec_none,
		.strategy = lh_strategy_find("parameter-server"),
		.settings = {.streams = 1, .period = 1},
		.start_timeout_ns = 10 * LH_NS_PER_S,
		.n_ranks = (uint32_t)strlen(sites),
		.ranks = w->ranks,
	};
	for (uint32_t i = 0; i < w->job.n_ranks; i++) {
		w->ranks[i] = (struct lh_job_rank){
			.micro_batch = MICRO_BATCH,
			.samples_per_s = 100000,
			.variation_ratio = 0.01,
			.averaging_bps = 10000000000,
			.apply_ns = LH_NS_PER_MS / 10,
			.site = {sites[i]},
		};
		snprintf(w->ranks[i].node, sizeof(w->ranks[i].node), "%c/%u", sites[i], i);
		snprintf(w->ranks[i].address, sizeof(w->ranks[i].address), "127.0.0.1");
	}
	loopback_find_ports(w->ranks, w->job.n_ranks);
}

static char *events_path(const struct world *w, uint32_t rank)
{
	return lh_strf("%s/rank-%u.jsonl", w->dir, rank);
}

static pid_t start_rank(struct world *w, uint32_t rank)
{
	lh_cleanup_free char *path = events_path(w, rank);
	const struct lh_rank_options own = {.rank = rank, .events_path = path};
	struct lh_error err = {0};
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	alarm(DEADLINE_S);
	if (lh_rank_run(&w->job, &lh_compute_replay, &own, &err))
		fprintf(stderr, "rank %u: %s\n", rank, err.message);
	free(path);
	_exit(lh_error_exit_status(&err));
}

/* All events of a rank, an array; owned by the caller. */
static json_t *read_events(const struct world *w, uint32_t rank)
{
	lh_cleanup_free char *path = events_path(w, rank);
	json_t *events = loopback_events(path);

	assert_non_null(events);
	return events;
}

/* Runs all ranks to their end, and reads their events. */
static void world_run(struct world *w)
{
	struct lh_error err = {0};
	pid_t pids[N_MAX];

	assert_int_equal(w->job.strategy->check(&w->job, &err), 0);
	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++)
		pids[rank] = start_rank(w, rank);
	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++) {
		int status;

		assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
		assert_int_equal(status, 0);
		w->events[rank] = read_events(w, rank);
	}
}

static void world_done(struct world *w)
{
	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++)
		json_decref(w->events[rank]);
	assert_int_equal(lh_dir_remove(w->dir, NULL), 0);
}

static int64_t sum_of(const struct world *w, uint32_t rank, const char *name, const char *key)
{
	return loopback_sum(w->events[rank], name, key, NULL);
}

/* The last event of that name, or NULL. */
static const json_t *last_of(const struct world *w, uint32_t rank, const char *name)
{
	const json_t *last = NULL, *event;
	size_t i;

	json_array_foreach (w->events[rank], i, event)
		last = loopback_is_event(event, name) ? event : last;
	return last;
}

static int64_t n_of(const struct world *w, uint32_t rank, const char *name)
{
	return (int64_t)loopback_count(w->events[rank], name);
}

/* What holds for every exchange: samples add up, all ends, what is sent is received. */
static void check_sums(const struct world *w)
{
	int64_t samples = 0, sent = 0, received = 0;

	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++) {
		samples += sum_of(w, rank, "compute", "samples");
		sent += sum_of(w, rank, "average", "payload_sent_bytes") +
			sum_of(w, rank, "agree", "payload_sent_bytes");
		received += sum_of(w, rank, "average", "payload_received_bytes") +
			    sum_of(w, rank, "agree", "payload_received_bytes");
		assert_int_equal(n_of(w, rank, "epoch"), EPOCHS);
		assert_int_equal(n_of(w, rank, "end"), 1);
		assert_true(sum_of(w, rank, "epoch", "samples") == EPOCHS * (int64_t)TARGET);
	}
	assert_true(samples == EPOCHS * (int64_t)TARGET);
	assert_true(sent == received);
}

static double distance_of(const struct world *w, uint32_t rank)
{
	const json_t *agree = last_of(w, rank, "agree");

	assert_non_null(agree);
	return json_number_value(json_object_get(agree, "distance_ratio"));
}

static void test_asgd_sends_every_update_and_counts_every_byte(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, "ab");
	world_run(&w);
	check_sums(&w);
	for (uint32_t rank = 0; rank < 2; rank++) {
		const json_t *last = last_of(&w, rank, "exchange");

		assert_int_equal(loopback_integer(last, "messages_sent"), EPOCHS);
		assert_int_equal(loopback_integer(last, "messages_received"), EPOCHS);
		assert_int_equal(loopback_integer(last, "updates_heard"), EPOCHS);
		assert_true(sum_of(&w, rank, "average", "payload_sent_bytes") ==
			    EPOCHS * 4 * (int64_t)PARAMETERS);
		assert_true(sum_of(&w, rank, "agree", "payload_sent_bytes") ==
			    4 * (int64_t)PARAMETERS);
		assert_true(sum_of(&w, rank, "average", "checked_elements") > 0);
		/* the same sum in another order: rounding alone */
		assert_true(distance_of(&w, rank) < 1e-6);
	}
	world_done(&w);
}

static void test_workers_push_and_pull_within_their_site(void **state)
{
	struct world w;
	int64_t dense = 4 * (int64_t)PARAMETERS;

	(void)state;
	world_init(&w, "aaabb");
	world_run(&w);
	check_sums(&w);
	for (uint32_t rank = 0; rank < 5; rank++) {
		bool is_server = rank == 0 || rank == 3;
		int64_t n_workers = rank == 0 ? 2 : 1;

		assert_true(sum_of(&w, rank, "average", "payload_sent_bytes") ==
			    EPOCHS * (is_server ? 1 + n_workers : 1) * dense);
		assert_int_equal(n_of(&w, rank, "agree"), 1);
		if (is_server)
			assert_true(distance_of(&w, rank) < 1e-6);
	}
	world_done(&w);
}

/* Messages of a period: one for each, and one more for what is left at the end. */
static int64_t messages_of(uint32_t period)
{
	return EPOCHS / period + (EPOCHS % period != 0);
}

static void test_asgd_ga_sends_at_most_one_message_a_period(void **state)
{
	struct world w;

	(void)state;
	for (uint32_t period = 1; period <= EPOCHS + 1; period += 4) {
		world_init(&w, "abc");
		w.job.settings.exchange = LH_EXCHANGE_ASGD_GA;
		w.job.settings.period = period;
		world_run(&w);
		check_sums(&w);
		for (uint32_t rank = 0; rank < 3; rank++) {
			const json_t *last = last_of(&w, rank, "exchange");
			int64_t sent = loopback_integer(last, "messages_sent");

			/* a path that was busy makes two messages one */
			assert_in_range(sent, 2, 2 * messages_of(period));
			assert_int_equal(loopback_integer(last, "updates_heard"), EPOCHS);
			assert_true(sum_of(&w, rank, "average", "payload_sent_bytes") ==
				    sent * 4 * (int64_t)PARAMETERS);
			assert_true(distance_of(&w, rank) < 1e-6);
		}
		world_done(&w);
	}
}

static void test_servers_that_average_wait_for_all_and_agree(void **state)
{
	struct world w;

	(void)state;
	for (uint32_t period = 1; period <= EPOCHS; period += 4) {
		world_init(&w, "aabc");
		w.job.settings.exchange = LH_EXCHANGE_AVERAGING;
		w.job.settings.period = period;
		w.job.compress = period == 1 ? &lh_codec_none : &lh_codec_fp16;
		world_run(&w);
		check_sums(&w);
		for (uint32_t rank = 0; rank < 4; rank++) {
			assert_int_equal(n_of(&w, rank, "agree"), 0);
			if (rank == 1)
				continue;
			assert_int_equal(loopback_integer(last_of(&w, rank, "exchange"),
							  "messages_sent"),
					 2 * messages_of(period));
			assert_true(sum_of(&w, rank, "average", "checked_elements") ==
				    2 * messages_of(period) * 4096);
		}
		world_done(&w);
	}
}

static void test_servers_may_average_without_waiting(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, "ab");
	w.job.settings.exchange = LH_EXCHANGE_AVERAGING;
	w.job.settings.asynchronous = true;
	w.job.settings.period = 2;
	world_run(&w);
	check_sums(&w);
	for (uint32_t rank = 0; rank < 2; rank++) {
		assert_int_equal(loopback_integer(last_of(&w, rank, "exchange"), "updates_heard"),
				 EPOCHS);
		assert_true(sum_of(&w, rank, "average", "checked_elements") == 0);
		assert_true(distance_of(&w, 0) == distance_of(&w, 1));
	}
	world_done(&w);
}

static void test_what_a_codec_leaves_out_is_sent_later(void **state)
{
	static const struct lh_codec_ops *const codecs[] = {&lh_codec_fp16, &lh_codec_uniform8,
							    &lh_codec_blockwise8, &lh_codec_onebit};

	(void)state;
	for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
		struct world w;

		world_init(&w, "ab");
		w.job.settings.exchange = LH_EXCHANGE_ASGD_GA;
		w.job.settings.period = 3;
		w.job.compress = codecs[i];
		world_run(&w);
		check_sums(&w);
		for (uint32_t rank = 0; rank < 2; rank++) {
			int64_t sent =
				loopback_integer(last_of(&w, rank, "exchange"), "messages_sent");

			assert_true(sum_of(&w, rank, "average", "payload_sent_bytes") ==
				    sent * (int64_t)codecs[i]->wire_bytes(PARAMETERS));
			assert_true(sum_of(&w, rank, "average", "checked_elements") > 0);
		}
		world_done(&w);
	}
}

static void test_gradients_may_be_sent_in_part(void **state)
{
	static const struct {
		const char *kind;
		bool feedback;
		uint32_t warm_up_epochs, streams;
	} cases[] = {{"topk", true, 0, 3},
		     {"mstopk", true, 0, 1},
		     {"random-k", false, 0, 1},
		     {"dgc", true, 3, 2}};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct world w;

		world_init(&w, "aab");
		w.job.settings.exchange = LH_EXCHANGE_ASGD_GA;
		w.job.settings.period = 3;
		w.job.settings.streams = cases[i].streams;
		w.job.compressing = (struct lh_compress_settings){
			.density_ratio = 0.01,
			.feedback = cases[i].feedback,
			.momentum = 0.9,
			.warm_up_epochs = cases[i].warm_up_epochs,
		};
		snprintf(w.job.compressing.kind, sizeof(w.job.compressing.kind), "%s",
			 cases[i].kind);
		world_run(&w);
		check_sums(&w);
		for (uint32_t rank = 0; rank < 3; rank += 2) {
			int64_t messages =
				loopback_integer(last_of(&w, rank, "exchange"), "messages_sent");
			int64_t sent = sum_of(&w, rank, "average", "payload_sent_bytes") -
				       EPOCHS * (rank ? 0 : 1) * 4 * (int64_t)PARAMETERS;

			assert_true(sum_of(&w, rank, "average", "checked_elements") > 0);
			if (!cases[i].warm_up_epochs)
				assert_true(sent == messages * (4 + 8 * 1000));
			else /* 25, 6.25, 1.56 and 1 %, and less where messages are merged */
				assert_in_range(sent, 4 + 8 * 1000, 4 * 4 + 8 * 33814);
		}
		world_done(&w);
	}
}

static void test_one_site_has_no_peers(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, "aaa");
	world_run(&w);
	check_sums(&w);
	for (uint32_t rank = 0; rank < 3; rank++)
		assert_int_equal(n_of(&w, rank, "exchange") + n_of(&w, rank, "agree"), 0);
	world_done(&w);
}

static void test_a_lost_server_ends_all_with_a_message(void **state)
{
	struct world w;
	pid_t pids[3];
	int status;

	(void)state;
	world_init(&w, "aab");
	w.job.epochs = 1000000;
	for (uint32_t rank = 0; rank < 3; rank++)
		pids[rank] = start_rank(&w, rank);
	usleep(300000);
	assert_int_equal(kill(pids[2], SIGKILL), 0);
	for (uint32_t rank = 0; rank < 3; rank++) {
		assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
		assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : -1, rank == 2 ? -1 : 1);
		w.events[rank] = read_events(&w, rank);
		if (rank == 0)
			assert_non_null(strstr(json_string_value(json_object_get(
						       last_of(&w, 0, "error"), "message")),
					       "rank 2 (b/2)"));
	}
	world_done(&w);
}

static void test_jobs_that_cannot_be_are_refused(void **state)
{
	struct lh_error err = {0};
	struct world w;

	(void)state;
	world_init(&w, "aba");
	assert_int_equal(w.job.strategy->check(&w.job, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "site a again"));
	memcpy(w.ranks[2].site, "b", 2);
	w.job.settings.period = 2;
	assert_int_equal(w.job.strategy->check(&w.job, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "asgd sends every update"));
	w.job.settings.period = 1;
	w.job.settings.delayed_update = true;
	assert_int_equal(w.job.strategy->check(&w.job, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "delayed_update"));
	w.job.settings.delayed_update = false;
	w.job.target_batch = 2 * MICRO_BATCH;
	assert_int_equal(w.job.strategy->check(&w.job, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "less than a micro-batch"));
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asgd_sends_every_update_and_counts_every_byte),
		cmocka_unit_test(test_workers_push_and_pull_within_their_site),
		cmocka_unit_test(test_asgd_ga_sends_at_most_one_message_a_period),
		cmocka_unit_test(test_servers_that_average_wait_for_all_and_agree),
		cmocka_unit_test(test_servers_may_average_without_waiting),
		cmocka_unit_test(test_what_a_codec_leaves_out_is_sent_later),
		cmocka_unit_test(test_gradients_may_be_sent_in_part),
		cmocka_unit_test(test_one_site_has_no_peers),
		cmocka_unit_test(test_a_lost_server_ends_all_with_a_message),
		cmocka_unit_test(test_jobs_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
