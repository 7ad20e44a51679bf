/* SPDX-License-Identifier: Apache-2.0 */
/* Control connections against a peer that the test plays, and the count of traffic. */
#include "trainer/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/test.h"
#include "trainer/clock.h"

/* Rank 0 of two; the test holds rank 1's end. */
struct pair {
	struct lh_job_rank ranks[2];
	struct lh_job job;
	struct lh_mesh mesh;
	struct lh_traffic *traffic;
	struct lh_progress progress;
	struct lh_control control;
	int peer_fd;
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));
	int fds[2];

	assert_non_null(p);
	for (int i = 0; i < 2; i++)
		p->ranks[i] = (struct lh_job_rank){.micro_batch = 32, .samples_per_s = 32};
	snprintf(p->ranks[1].node, sizeof(p->ranks[1].node), "room/1");
	p->job =
		(struct lh_job){.n_ranks = 2, .target_batch = 1000, .epochs = 3, .ranks = p->ranks};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	p->mesh = (struct lh_mesh){.job = &p->job, .n = 2, .n_channels = 1};
	p->mesh.fds = calloc(2, sizeof(int));
	p->mesh.clock_offset_ns = calloc(2, sizeof(int64_t));
	assert_true(p->mesh.fds && p->mesh.clock_offset_ns);
	p->mesh.fds[0] = -1;
	p->mesh.fds[1] = fds[0];
	p->mesh.clock_offset_ns[1] = 1000;
	p->peer_fd = fds[1];
	assert_int_equal(lh_traffic_new(2, 0, &p->traffic, NULL), 0);
	lh_progress_init(&p->progress, &p->job, 0);
	lh_progress_begin_epoch(&p->progress, 0, 0);
	lh_control_init(&p->control, &p->mesh, p->traffic, &p->progress);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	lh_mesh_close(&p->mesh);
	if (p->peer_fd >= 0)
		close(p->peer_fd);
	lh_traffic_free(p->traffic);
	free(p);
	return 0;
}

static void put(struct pair *p, const struct lh_frame *frame, size_t from, size_t to)
{
	uint8_t bytes[LH_FRAME_BYTES];

	lh_frame_format(frame, bytes);
	assert_int_equal(write(p->peer_fd, bytes + from, to - from), to - from);
}

static const struct lh_frame news = {.type = LH_FRAME_PROGRESS,
				     .rank = 1,
				     .samples = 96,
				     .time_ns = 5000,
				     .step_ns = 7,
				     .flags = LH_FRAME_JOINED};

static void test_news_are_taken_in_however_they_are_cut(void **state)
{
	struct pair *p = *state;
	struct lh_frame later = news;

	put(p, &news, 0, 10);
	assert_int_equal(lh_control_read(&p->control, NULL), 0);
	assert_int_equal(p->progress.news[1].samples, 0);
	put(p, &news, 10, LH_FRAME_BYTES);
	later.samples = 128;
	put(p, &later, 0, LH_FRAME_BYTES);
	assert_int_equal(lh_control_read(&p->control, NULL), 0);
	assert_int_equal(p->progress.news[1].samples, 128);
	assert_true(p->progress.news[1].is_joined && !p->progress.news[1].is_stopped);
	/* In this rank's clock. */
	assert_true(p->progress.news[1].at_ns == 4000);
}

static void assert_refused(struct pair *p, const char *message)
{
	struct lh_error err = {0};

	assert_true(lh_control_read(&p->control, &err) < 0);
	if (!strstr(err.message, message) || !strstr(err.message, "rank 1 (room/1), control"))
		fail_msg("\"%s\" does not say \"%s\"", err.message, message);
}

static void test_garbage_is_refused(void **state)
{
	struct pair *p = *state;
	char garbage[4096];

	memset(garbage, 'x', sizeof(garbage));
	assert_int_equal(write(p->peer_fd, garbage, sizeof(garbage)), sizeof(garbage));
	assert_refused(p, "not a longhaul frame");
}

static void test_another_ranks_frame_is_refused(void **state)
{
	struct lh_frame wrong = news;

	wrong.rank = 0;
	put(*state, &wrong, 0, LH_FRAME_BYTES);
	assert_refused(*state, "out of place");
}

static void test_a_frame_of_another_kind_is_refused(void **state)
{
	struct lh_frame wrong = news;

	wrong.type = LH_FRAME_DATA;
	put(*state, &wrong, 0, LH_FRAME_BYTES);
	assert_refused(*state, "expected news");
}

static void test_an_early_goodbye_is_refused(void **state)
{
	const struct lh_frame bye = {.type = LH_FRAME_BYE, .rank = 1};

	put(*state, &bye, 0, LH_FRAME_BYTES);
	assert_refused(*state, "goodbye before the last epoch");
}

static void test_a_closed_connection_is_an_error(void **state)
{
	struct pair *p = *state;

	close(p->peer_fd);
	p->peer_fd = -1;
	assert_refused(p, "closed");
}

static void test_parting_waits_for_the_peers_goodbye(void **state)
{
	const struct lh_frame bye = {.type = LH_FRAME_BYE, .rank = 1};
	struct pair *p = *state;

	p->progress.epoch = 2;
	put(p, &bye, 0, LH_FRAME_BYTES);
	assert_int_equal(lh_control_part(&p->control, NULL), 0);
}

static void test_waiting_ends_in_time(void **state)
{
	struct pair *p = *state;
	int64_t until_ns = lh_clock_now_ns() + 5 * LH_NS_PER_MS;

	assert_int_equal(lh_control_wait(&p->control, until_ns, NULL), 0);
	assert_true(lh_clock_now_ns() >= until_ns);
	assert_int_equal(lh_control_wait(&p->control, 0, NULL), 0);
}

/* One event of what was counted, as text; owned by the caller. */
static char *traffic_text(struct lh_traffic *traffic, int64_t now_ns)
{
	char path[] = "/tmp/lh-traffic-XXXXXX";
	struct lh_events *events = NULL;
	char *text = NULL;

	close(mkstemp(path));
	assert_int_equal(lh_events_open(path, 0, &events, NULL), 0);
	assert_int_equal(lh_traffic_write(traffic, now_ns, events, NULL), 0);
	assert_int_equal(lh_events_flush(events, NULL), 0);
	lh_events_close(events);
	assert_int_equal(lh_file_read(path, 1 << 20, &text, NULL, NULL), 0);
	unlink(path);
	return text;
}

static void test_bytes_are_spread_over_the_time_they_took(void **state)
{
	struct pair *p = *state;
	lh_cleanup_free char *first = NULL;
	lh_cleanup_free char *second = NULL;

	lh_traffic_add(p->traffic, 1, LH_TRAFFIC_PAYLOAD, LH_NS_PER_S / 2, 3 * LH_NS_PER_S, 1000);
	lh_traffic_add(p->traffic, 1, LH_TRAFFIC_CONTROL, 1, 1, 64);
	lh_traffic_add(p->traffic, 1, LH_TRAFFIC_HEADER, 2, 2, 64);
	/* Only seconds that have ended; each once. */
	first = traffic_text(p->traffic, 2 * LH_NS_PER_S + 1);
	assert_string_equal(first,
			    "{\"event\":\"traffic\",\"t_ns\":2000000001,\"rank\":0,\"from_ns\":0,"
			    "\"to_ns\":1000000000,\"payload_bytes\":[0,200],"
			    "\"control_bytes\":[0,128]}\n"
			    "{\"event\":\"traffic\",\"t_ns\":2000000001,\"rank\":0,"
			    "\"from_ns\":1000000000,\"to_ns\":2000000000,"
			    "\"payload_bytes\":[0,400],\"control_bytes\":[0,0]}\n");
	second = traffic_text(p->traffic, 9 * LH_NS_PER_S);
	assert_string_equal(second, "{\"event\":\"traffic\",\"t_ns\":9000000000,\"rank\":0,"
				    "\"from_ns\":2000000000,\"to_ns\":3000000000,"
				    "\"payload_bytes\":[0,400],\"control_bytes\":[0,0]}\n");
}

#define PAIR_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_news_are_taken_in_however_they_are_cut),
		PAIR_TEST(test_garbage_is_refused),
		PAIR_TEST(test_another_ranks_frame_is_refused),
		PAIR_TEST(test_a_frame_of_another_kind_is_refused),
		PAIR_TEST(test_an_early_goodbye_is_refused),
		PAIR_TEST(test_a_closed_connection_is_an_error),
		PAIR_TEST(test_parting_waits_for_the_peers_goodbye),
		PAIR_TEST(test_waiting_ends_in_time),
		PAIR_TEST(test_bytes_are_spread_over_the_time_they_took),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
