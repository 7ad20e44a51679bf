/* SPDX-License-Identifier: Apache-2.0 */
/* Two communicators that talk over sockets within one process. */
#include "trainer/transport/comm.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/loopback.h"
#include "tests/unit/test.h"
#include "trainer/clock.h"
#include "trainer/transport/frame.h"

enum { STREAMS_MAX = 8 };

static const char *const names[] = {"room/0", "room/1", "room/2"};

/* Ranks 0 and 1, each with its communicator; rank 2 of rank 0 is played by the test. */
struct pair {
	struct lh_comm *comm[2];
	struct lh_traffic *traffic[2];
	int fds[2][STREAMS_MAX];
	uint32_t n_streams;
	int stranger[2]; /* rank 0's end, the test's end */
};

static void open_one(struct pair *p, uint32_t rank, bool fails_together, bool drops_stale)
{
	struct lh_comm_config config = {
		.self = rank,
		.n_ranks = 3,
		.names = names,
		.seed = 1,
		.fails_together = fails_together,
		.drops_stale = drops_stale,
	};

	assert_int_equal(lh_traffic_new(3, lh_clock_now_ns(), &p->traffic[rank], NULL), 0);
	config.traffic = p->traffic[rank];
	assert_int_equal(lh_comm_open(&config, &p->comm[rank], NULL), 0);
	assert_int_equal(lh_comm_attach(p->comm[rank], 1 - rank, p->fds[rank], p->n_streams, NULL),
			 0);
}

static void open_pair(struct pair *p, uint32_t n_streams, bool fails_together, bool drops_stale)
{
	*p = (struct pair){.n_streams = n_streams};
	for (uint32_t i = 0; i < n_streams; i++) {
		int fds[2];

		loopback_connect(fds);
		p->fds[0][i] = fds[0];
		p->fds[1][i] = fds[1];
	}
	open_one(p, 0, fails_together, drops_stale);
	open_one(p, 1, fails_together, drops_stale);
	loopback_connect(p->stranger);
	assert_int_equal(lh_comm_attach(p->comm[0], 2, &p->stranger[0], 1, NULL), 0);
}

static void close_pair(struct pair *p)
{
	for (int rank = 0; rank < 2; rank++) {
		lh_comm_close(p->comm[rank]);
		lh_traffic_free(p->traffic[rank]);
		for (uint32_t i = 0; i < p->n_streams; i++)
			close(p->fds[rank][i]);
		close(p->stranger[rank]);
	}
}

static int64_t soon(void)
{
	return lh_clock_now_ns() + 10 * LH_NS_PER_S;
}

static int64_t in_a_moment(void)
{
	return lh_clock_now_ns() + 20 * LH_NS_PER_MS;
}

static void fill(uint8_t *bytes, size_t n, unsigned salt)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 251 + salt);
}

/* Sends a message from rank 0 to 1 and one back, with real heads. */
static void exchange(struct pair *p, uint64_t length, uint32_t head_bytes)
{
	struct lh_message m = {.epoch = 3,
			       .phase = 1,
			       .samples = 77,
			       .note = 5,
			       .length = length,
			       .head_bytes = head_bytes};
	uint8_t *there = malloc(head_bytes + 1), *back = malloc(head_bytes + 1);
	uint8_t *got[2] = {malloc(head_bytes + 1), malloc(head_bytes + 1)};
	struct lh_request r[4];
	uint64_t sent, received;

	assert_true(there && back && got[0] && got[1]);
	fill(there, head_bytes, 1);
	fill(back, head_bytes, 2);
	lh_comm_receive(p->comm[1], 0, &m, got[1], &r[0]);
	lh_comm_send(p->comm[0], 1, &m, there, &r[1]);
	lh_comm_send(p->comm[1], 0, &m, back, &r[2]);
	lh_comm_receive(p->comm[0], 1, &m, got[0], &r[3]);
	for (int i = 0; i < 4; i++) {
		struct lh_error err = {0};

		if (lh_comm_wait(p->comm[i == 0 || i == 2], &r[i], soon(), &err))
			fail_msg("request %d: %s", i, err.message);
	}
	assert_memory_equal(got[1], there, head_bytes);
	assert_memory_equal(got[0], back, head_bytes);
	assert_true(r[0].message.samples == 77 && r[0].message.note == 5);
	for (int rank = 0; rank < 2; rank++) {
		lh_comm_take_bytes(p->comm[rank], &sent, &received);
		assert_true(sent == length && received == length);
	}
	free(there);
	free(back);
	free(got[0]);
	free(got[1]);
}

static void test_messages_arrive_as_they_were_sent(void **state)
{
	static const uint64_t lengths[] = {1, 63, 65536, 131071, 131072, 1000003, 9000000};
	struct pair p;

	(void)state;
	for (uint32_t n_streams = 1; n_streams <= STREAMS_MAX; n_streams *= 2) {
		open_pair(&p, n_streams, true, false);
		for (size_t i = 0; i < N_ELEMENTS(lengths); i++) {
			exchange(&p, lengths[i], 0);
			exchange(&p, lengths[i], (uint32_t)lengths[i]);
			exchange(&p, lengths[i], (uint32_t)(lengths[i] / 3));
		}
		close_pair(&p);
	}
}

static void test_messages_keep_their_order(void **state)
{
	enum { N = 40 };
	struct pair p;
	struct lh_request sends[N], receives[N];
	uint64_t numbers[N], got[N];

	(void)state;
	open_pair(&p, 3, true, false);
	for (uint32_t i = 0; i < N; i++) {
		struct lh_message m = {.epoch = i, .length = 300000, .head_bytes = 8};

		numbers[i] = i * 17;
		lh_comm_receive(p.comm[1], 0, &m, &got[i], &receives[i]);
		lh_comm_send(p.comm[0], 1, &m, &numbers[i], &sends[i]);
	}
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(lh_comm_wait(p.comm[1], &receives[i], soon(), NULL), 0);
		assert_int_equal(lh_comm_wait(p.comm[0], &sends[i], soon(), NULL), 0);
		assert_true(got[i] == numbers[i]);
		assert_true(i == 0 || receives[i].done_order > receives[i - 1].done_order);
	}
	close_pair(&p);
}

static void test_a_variable_message_tells_its_length(void **state)
{
	struct lh_message most = {.length = 1000, .head_bytes = 1000, .is_variable = true};
	struct lh_message m = {.length = 24, .head_bytes = 24, .is_variable = true};
	struct lh_request sent, got;
	uint8_t bytes[24], room[1000];
	struct pair p;

	(void)state;
	fill(bytes, sizeof(bytes), 9);
	open_pair(&p, 2, true, false);
	lh_comm_receive(p.comm[1], 0, &most, room, &got);
	lh_comm_send(p.comm[0], 1, &m, bytes, &sent);
	assert_int_equal(lh_comm_wait(p.comm[1], &got, soon(), NULL), 0);
	assert_true(got.message.length == 24 && got.message.head_bytes == 24);
	assert_memory_equal(room, bytes, 24);
	assert_int_equal(lh_comm_wait(p.comm[0], &sent, soon(), NULL), 0);
	m.length = 1001;
	lh_comm_receive(p.comm[1], 0, &most, room, &got);
	lh_comm_send(p.comm[0], 1, &m, bytes, &sent);
	assert_int_equal(lh_comm_wait(p.comm[1], &got, soon(), NULL), LH_ERUN);
	close_pair(&p);
}

/* What a peer could send that is no message of its. */
static void send_garbage(int fd, unsigned kind)
{
	struct lh_frame frame = {.type = LH_FRAME_DATA,
				 .rank = 2,
				 .epoch = 1,
				 .length = 8,
				 .token = 8,
				 .head_bytes = 8};
	uint8_t bytes[LH_FRAME_BYTES];

	switch (kind) {
	case 0:
		frame.rank = 1;
		break;
	case 1:
		frame.epoch = 7;
		break;
	case 2:
		frame.length = UINT64_MAX / 2;
		break;
	case 3:
		frame.head_bytes = UINT32_MAX;
		break;
	case 4:
		frame.type = LH_FRAME_BYE;
		break;
	case 5:
		frame.step_ns = 1;
		break;
	default:
		break;
	}
	lh_frame_format(&frame, bytes);
	if (kind == 6)
		bytes[20] ^= 1;
	if (kind == 7)
		memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
}

static void test_a_garbled_peer_costs_its_own_lane_alone(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 8; kind++) {
		struct lh_message m = {.epoch = 1, .length = 8, .head_bytes = 8};
		struct lh_error err = {0};
		struct lh_request r, after;
		uint64_t room = 0;
		struct pair p;

		open_pair(&p, 1, false, false);
		lh_comm_receive(p.comm[0], 2, &m, &room, &r);
		send_garbage(p.stranger[1], kind);
		assert_int_equal(lh_comm_wait(p.comm[0], &r, soon(), &err), LH_ERUN);
		assert_non_null(strstr(err.message, "rank 2 (room/2)"));
		assert_true(room == 0);
		lh_comm_receive(p.comm[0], 2, &m, &room, &after);
		assert_int_equal(after.state, LH_REQUEST_FAILED);
		assert_int_equal(lh_comm_check(p.comm[0], NULL), LH_ERUN);
		exchange(&p, 100000, 1000);
		close_pair(&p);
	}
}

static void test_who_fails_together_ends_every_wait(void **state)
{
	struct lh_message m = {.epoch = 1, .length = 8, .head_bytes = 8};
	struct lh_request r, other;
	struct lh_error err = {0};
	uint64_t room[2];
	struct pair p;

	(void)state;
	open_pair(&p, 1, true, false);
	lh_comm_receive(p.comm[0], 1, &m, &room[0], &r);
	lh_comm_receive(p.comm[0], 2, &m, &room[1], &other);
	close(p.stranger[1]);
	p.stranger[1] = -1;
	assert_int_equal(lh_comm_wait(p.comm[0], &r, soon(), &err), LH_ERUN);
	assert_non_null(strstr(err.message, "room/2"));
	close_pair(&p);
}

static void test_a_wait_ends_at_its_deadline_and_can_be_taken_back(void **state)
{
	struct lh_message m = {.epoch = 1, .length = 8, .head_bytes = 8};
	struct lh_request r, *all[2] = {NULL, &r};
	struct lh_error err = {0};
	uint64_t room;
	uint32_t index;
	struct pair p;

	(void)state;
	open_pair(&p, 2, false, false);
	lh_comm_receive(p.comm[0], 1, &m, &room, &r);
	assert_int_equal(lh_comm_wait(p.comm[0], &r, in_a_moment(), &err), LH_ERUN);
	assert_int_equal(err.sys, ETIMEDOUT);
	assert_int_equal(lh_comm_wait_any(p.comm[0], all, 2, in_a_moment(), &index, &err), LH_ERUN);
	assert_int_equal(err.sys, ETIMEDOUT);
	assert_true(lh_comm_cancel(p.comm[0], &r));
	assert_int_equal(r.state, LH_REQUEST_FREE);
	assert_false(lh_comm_cancel(p.comm[0], &r));
	exchange(&p, 500000, 100);
	close_pair(&p);
}

static void test_stale_messages_are_dropped_and_late_receives_fail(void **state)
{
	struct lh_request sent[3], r;
	uint64_t numbers[3] = {1, 2, 3}, room = 0;
	struct lh_message m = {.length = 400000, .head_bytes = 8};
	struct lh_error err = {0};
	struct pair p;

	(void)state;
	open_pair(&p, 2, false, true);
	for (uint32_t i = 0; i < 3; i++) {
		m.epoch = 10 + i;
		lh_comm_send(p.comm[0], 1, &m, &numbers[i], &sent[i]);
	}
	m.epoch = 11;
	lh_comm_receive(p.comm[1], 0, &m, &room, &r);
	assert_int_equal(lh_comm_wait(p.comm[1], &r, soon(), NULL), 0);
	assert_true(room == 2);
	m.epoch = 9;
	lh_comm_receive(p.comm[1], 0, &m, &room, &r);
	assert_int_equal(lh_comm_wait(p.comm[1], &r, soon(), &err), LH_ERUN);
	assert_non_null(strstr(err.message, "has left epoch 9"));
	m.epoch = 12;
	lh_comm_receive(p.comm[1], 0, &m, &room, &r);
	assert_int_equal(lh_comm_wait(p.comm[1], &r, soon(), NULL), 0);
	assert_true(room == 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(lh_comm_wait(p.comm[0], &sent[i], soon(), NULL), 0);
	close_pair(&p);
}

static void test_detaching_fails_what_is_pending(void **state)
{
	struct lh_message m = {.epoch = 1, .length = 8, .head_bytes = 8};
	struct lh_request r[2], *all[2] = {&r[0], &r[1]};
	struct lh_error err = {0};
	uint64_t room[2];
	uint32_t index = 9;
	struct pair p;

	(void)state;
	open_pair(&p, 1, false, false);
	lh_comm_receive(p.comm[0], 1, &m, &room[0], &r[0]);
	lh_comm_receive(p.comm[0], 2, &m, &room[1], &r[1]);
	lh_comm_detach(p.comm[0], 2);
	assert_false(lh_comm_is_attached(p.comm[0], 2));
	assert_int_equal(lh_comm_wait_any(p.comm[0], all, 2, soon(), &index, NULL), 0);
	assert_int_equal(index, 1);
	assert_int_equal(lh_comm_wait(p.comm[0], &r[1], soon(), &err), LH_ERUN);
	assert_non_null(strstr(err.message, "not connected"));
	assert_int_equal(r[0].state, LH_REQUEST_PENDING);
	assert_int_equal(lh_comm_check(p.comm[0], NULL), 0);
	close_pair(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_arrive_as_they_were_sent),
		cmocka_unit_test(test_messages_keep_their_order),
		cmocka_unit_test(test_a_variable_message_tells_its_length),
		cmocka_unit_test(test_a_garbled_peer_costs_its_own_lane_alone),
		cmocka_unit_test(test_who_fails_together_ends_every_wait),
		cmocka_unit_test(test_a_wait_ends_at_its_deadline_and_can_be_taken_back),
		cmocka_unit_test(test_stale_messages_are_dropped_and_late_receives_fail),
		cmocka_unit_test(test_detaching_fails_what_is_pending),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
