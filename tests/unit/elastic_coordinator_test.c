/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator as a state machine: decisions by hand. */
#include "trainer/elastic/coordinator.h"

#include <string.h>

#include "tests/unit/elastic_office.h"
#include "tests/unit/test.h"
#include "trainer/elastic/grid.h"

/* ---- by hand ------------------------------------------------------------------------------ */

struct desk {
	struct lh_coordinator *c;
	int64_t now_ns;
	/* the last order to each rank that was no heartbeat, and how many there were */
	struct lh_coordinator_order last[N];
	struct lh_notice_member members[N]; /* of the last BEGIN */
	uint32_t n_members;
	uint32_t n_orders[N];
	struct lh_coordinator_record record; /* the last that was no join */
	struct lh_notice_member recorded[N];
};

static void drain(struct desk *d)
{
	struct lh_coordinator_order order;
	struct lh_coordinator_record record;

	while (lh_coordinator_next_order(d->c, &order)) {
		if (order.notice.kind == LH_NOTICE_HEARTBEAT)
			continue;
		if (order.notice.kind == LH_NOTICE_BEGIN) {
			d->n_members = order.notice.n_members;
			memcpy(d->members, order.notice.members,
			       d->n_members * sizeof(*d->members));
		}
		d->last[order.rank] = order;
		d->n_orders[order.rank]++;
	}
	while (lh_coordinator_next_record(d->c, &record)) {
		if (record.kind == LH_RECORD_JOIN)
			continue;
		d->record = record;
		if (record.n_members)
			memcpy(d->recorded, record.members,
			       record.n_members * sizeof(*d->recorded));
	}
}

static int say(struct desk *d, uint32_t rank, struct lh_notice notice)
{
	int rc;

	notice.rank = rank;
	rc = lh_coordinator_take(d->c, &notice, d->now_ns, NULL);
	drain(d);
	return rc;
}

static void join(struct desk *d, uint32_t rank, uint32_t incarnation, uint32_t epoch)
{
	assert_int_equal(say(d, rank,
			     (struct lh_notice){.kind = LH_NOTICE_JOIN,
						.epoch = epoch,
						.number = incarnation}),
			 0);
}

static void progress(struct desk *d, uint32_t rank, uint64_t done)
{
	assert_int_equal(
		say(d, rank,
		    (struct lh_notice){.kind = LH_NOTICE_PROGRESS, .count = done, .time_ns = S}),
		0);
}

static void ready(struct desk *d, uint32_t rank, uint64_t done)
{
	assert_int_equal(d->last[rank].notice.kind, LH_NOTICE_FORM);
	assert_int_equal(say(d, rank,
			     (struct lh_notice){.kind = LH_NOTICE_READY,
						.serial = d->last[rank].notice.serial,
						.count = done}),
			 0);
}

static void result(struct desk *d, uint32_t rank, uint64_t number)
{
	assert_int_equal(d->last[rank].notice.kind, LH_NOTICE_BEGIN);
	assert_int_equal(say(d, rank,
			     (struct lh_notice){.kind = LH_NOTICE_RESULT,
						.serial = d->last[rank].notice.serial,
						.number = number}),
			 0);
}

static void pass(struct desk *d, int64_t ns)
{
	for (int64_t end_ns = d->now_ns + ns; d->now_ns < end_ns;) {
		int64_t due_ns = lh_coordinator_due_ns(d->c);

		assert_true(due_ns > d->now_ns);
		d->now_ns = due_ns < end_ns ? due_ns : end_ns;
		lh_coordinator_tick(d->c, d->now_ns);
		drain(d);
	}
}

static void desk_init(struct desk *d, const struct lh_coordinator_config *config)
{
	*d = (struct desk){.now_ns = 5 * S};
	assert_int_equal(lh_coordinator_new(config, d->now_ns, &d->c, NULL), 0);
	for (uint32_t rank = 0; rank < config->n_ranks; rank++)
		join(d, rank, 0, 0);
}

static enum lh_notice_kind told(const struct desk *d, uint32_t rank)
{
	return d->last[rank].notice.kind;
}

/* All ranks have done `done` micro-batches and form a group. */
static void form(struct desk *d, uint32_t n, uint64_t done)
{
	for (uint32_t rank = 0; rank < n; rank++)
		progress(d, rank, done - 1);
	for (uint32_t rank = 0; rank < n; rank++)
		ready(d, rank, done);
	for (uint32_t rank = 0; rank < n; rank++)
		assert_int_equal(told(d, rank), LH_NOTICE_BEGIN);
	assert_int_equal(d->n_members, n);
}

static void test_an_epoch_ends_when_all_have_the_result(void **state)
{
	struct lh_coordinator_config config = config_of(2);
	struct desk d;

	(void)state;
	desk_init(&d, &config);
	assert_int_equal(told(&d, 0), LH_NOTICE_COMPUTE);
	progress(&d, 0, 1);
	assert_int_equal(told(&d, 0), LH_NOTICE_COMPUTE);
	/* 3 done and 2 under way are 20 samples: enough */
	progress(&d, 1, 1);
	assert_int_equal(told(&d, 0), LH_NOTICE_FORM);
	ready(&d, 0, 2);
	assert_int_equal(told(&d, 0), LH_NOTICE_FORM);
	ready(&d, 1, 2);
	assert_int_equal(d.members[1].to, 2);
	result(&d, 0, 0);
	assert_int_equal(told(&d, 0), LH_NOTICE_BEGIN);
	result(&d, 1, 0);
	/* the epoch is committed, and the next begins */
	assert_int_equal(told(&d, 0), LH_NOTICE_COMPUTE);
	assert_int_equal(told(&d, 1), LH_NOTICE_COMPUTE);
	assert_int_equal(d.record.kind, LH_RECORD_COMMIT);
	assert_int_equal(lh_coordinator_epoch(d.c), 1);
	form(&d, 2, 4);
	assert_int_equal(d.members[0].from, 2);
	assert_int_equal(d.members[0].to, 4);
	lh_coordinator_free(d.c);
}

static void test_a_lost_member_s_samples_are_computed_again(void **state)
{
	struct lh_coordinator_config config = config_of(4);
	struct desk d;

	(void)state;
	desk_init(&d, &config);
	for (uint32_t rank = 0; rank < 4; rank++)
		progress(&d, rank, 0);
	for (uint32_t rank = 0; rank < 4; rank++)
		ready(&d, rank, 1);
	result(&d, 0, 0);
	lh_coordinator_lose(d.c, 3, d.now_ns);
	drain(&d);
	/* 12 of 16 samples are left, so that the others compute again */
	assert_int_equal(d.record.kind, LH_RECORD_ABORT);
	for (uint32_t rank = 0; rank < 3; rank++)
		assert_int_equal(told(&d, rank), LH_NOTICE_FORM);
	for (uint32_t rank = 0; rank < 3; rank++)
		ready(&d, rank, 2);
	assert_int_equal(d.n_members, 3);
	for (uint32_t rank = 0; rank < 3; rank++) {
		assert_int_equal(d.members[rank].from, 0);
		assert_int_equal(d.members[rank].to, 2);
		result(&d, rank, 0);
	}
	assert_int_equal(d.record.kind, LH_RECORD_COMMIT);
	assert_int_equal(d.record.attempt, 1);
	lh_coordinator_free(d.c);
}

static void test_who_died_after_giving_all_counts(void **state)
{
	struct lh_coordinator_config config = config_of(4);
	struct desk d;

	(void)state;
	desk_init(&d, &config);
	form(&d, 4, 1);
	for (uint32_t rank = 0; rank < 3; rank++)
		result(&d, rank, 0);
	lh_coordinator_lose(d.c, 3, d.now_ns);
	drain(&d);
	assert_int_equal(d.record.kind, LH_RECORD_COMMIT);
	assert_int_equal(d.record.n_members, 4);
	assert_int_equal(d.recorded[3].to, 1);
	/* it comes back as it was, and hears what of it counts */
	assert_int_equal(say(&d, 3, (struct lh_notice){.kind = LH_NOTICE_JOIN, .count = 1}), 0);
	assert_int_equal(told(&d, 3), LH_NOTICE_LOAD);
	assert_int_equal(d.last[3].notice.count, 1);
	lh_coordinator_free(d.c);
}

static void test_a_joiner_loads_and_is_waited_for(void **state)
{
	struct lh_coordinator_config config = config_of(4);
	struct desk d;

	(void)state;
	desk_init(&d, &config);
	lh_coordinator_lose(d.c, 3, d.now_ns);
	drain(&d);
	form(&d, 3, 2);
	for (uint32_t rank = 0; rank < 3; rank++)
		result(&d, rank, 0);
	join(&d, 3, 1, 0);
	assert_int_equal(told(&d, 3), LH_NOTICE_LOAD);
	assert_int_equal(d.last[3].notice.serial, 0);
	for (uint32_t rank = 0; rank < 3; rank++)
		progress(&d, rank, 3);
	for (uint32_t rank = 0; rank < 3; rank++)
		ready(&d, rank, 4);
	assert_int_equal(told(&d, 0), LH_NOTICE_FORM);
	/* its donor goes: it gets another */
	lh_coordinator_lose(d.c, 0, d.now_ns);
	drain(&d);
	assert_int_equal(told(&d, 3), LH_NOTICE_LOAD);
	assert_int_equal(d.last[3].notice.serial, 1);
	assert_int_equal(say(&d, 3,
			     (struct lh_notice){.kind = LH_NOTICE_LOADED, .epoch = 1, .count = 0}),
			 0);
	ready(&d, 3, 0);
	assert_int_equal(told(&d, 1), LH_NOTICE_BEGIN);
	assert_int_equal(d.n_members, 3);
	assert_int_equal(d.members[2].rank, 3);
	assert_int_equal(d.members[2].to, 0);
	lh_coordinator_free(d.c);
}

static void test_a_joiner_that_is_slow_to_load_is_not_waited_for(void **state)
{
	struct lh_coordinator_config config = config_of(3);
	struct desk d;

	(void)state;
	config.heartbeat_ns = 100 * S;
	desk_init(&d, &config);
	form(&d, 3, 2);
	for (uint32_t rank = 0; rank < 3; rank++)
		result(&d, rank, 0);
	lh_coordinator_lose(d.c, 2, d.now_ns);
	join(&d, 2, 1, 0);
	assert_int_equal(told(&d, 2), LH_NOTICE_LOAD);
	for (uint32_t rank = 0; rank < 2; rank++)
		progress(&d, rank, 3);
	for (uint32_t rank = 0; rank < 2; rank++)
		ready(&d, rank, 4);
	assert_int_equal(told(&d, 0), LH_NOTICE_FORM);
	pass(&d, 11 * S);
	assert_int_equal(told(&d, 0), LH_NOTICE_BEGIN);
	assert_int_equal(d.n_members, 2);
	lh_coordinator_free(d.c);
}

static void test_silence_and_delay_cost_the_member(void **state)
{
	struct lh_coordinator_config config = config_of(3);
	struct desk d;

	(void)state;
	desk_init(&d, &config);
	for (int i = 0; i < 6; i++) {
		for (uint32_t rank = 0; rank < 2; rank++)
			assert_int_equal(
				say(&d, rank, (struct lh_notice){.kind = LH_NOTICE_HEARTBEAT}), 0);
		pass(&d, S);
	}
	assert_true(d.last[2].closes);
	assert_int_equal(lh_coordinator_n_connected(d.c), 2);
	assert_int_equal(d.record.kind, LH_RECORD_LEAVE);
	lh_coordinator_free(d.c);

	config.heartbeat_ns = 100 * S;
	desk_init(&d, &config);
	for (uint32_t rank = 0; rank < 3; rank++)
		progress(&d, rank, 1);
	ready(&d, 0, 2);
	ready(&d, 1, 2);
	pass(&d, 10 * S);
	assert_true(d.last[2].closes);
	assert_int_equal(told(&d, 0), LH_NOTICE_BEGIN);
	lh_coordinator_free(d.c);
}

static void test_who_cannot_be_reached_is_left_out_of_the_epoch(void **state)
{
	struct lh_coordinator_config config = config_of(4);
	struct desk d;

	(void)state;
	config.target = 8;
	desk_init(&d, &config);
	for (uint32_t rank = 0; rank < 4; rank++)
		ready(&d, rank, 1);
	result(&d, 1, 1 + 3);
	for (uint32_t rank = 0; rank < 4; rank++)
		assert_int_equal(told(&d, rank), LH_NOTICE_BEGIN);
	assert_int_equal(d.n_members, 4);
	result(&d, 2, 1 + 3);
	assert_int_equal(told(&d, 3), LH_NOTICE_ABORT);
	assert_int_equal(d.n_members, 3);
	for (uint32_t rank = 0; rank < 3; rank++)
		result(&d, rank, 0);
	assert_int_equal(d.record.kind, LH_RECORD_COMMIT);
	/* then it may try again, with a state of the new epoch */
	assert_int_equal(told(&d, 3), LH_NOTICE_LOAD);
	lh_coordinator_free(d.c);
}

static void test_too_few_members_end_in_an_error(void **state)
{
	struct lh_coordinator_config config = config_of(2);
	struct lh_error err = {0};
	struct desk d;

	(void)state;
	config.heartbeat_ns = 1000 * S;
	desk_init(&d, &config);
	lh_coordinator_lose(d.c, 1, d.now_ns);
	pass(&d, 99 * S);
	assert_int_equal(lh_coordinator_check(d.c, &err), 0);
	pass(&d, 2 * S);
	assert_int_equal(lh_coordinator_check(d.c, &err), LH_ERUN);
	assert_non_null(strstr(err.message, "fewer than min_group = 2"));
	lh_coordinator_free(d.c);
}

static void test_what_cannot_be_costs_its_sender_alone(void **state)
{
	struct lh_coordinator_config config = config_of(3);
	struct desk d;

	(void)state;
	desk_init(&d, &config);
	progress(&d, 2, 3);
	assert_int_equal(say(&d, 2, (struct lh_notice){.kind = LH_NOTICE_PROGRESS, .count = 2}),
			 LH_ERUN);
	assert_int_equal(lh_coordinator_n_connected(d.c), 2);
	assert_int_equal(say(&d, 2, (struct lh_notice){.kind = LH_NOTICE_READY}), LH_ERUN);
	assert_int_equal(say(&d, 7, (struct lh_notice){.kind = LH_NOTICE_JOIN}), LH_ERUN);
	assert_int_equal(say(&d, 1, (struct lh_notice){.kind = LH_NOTICE_JOIN}), LH_ERUN);
	assert_int_equal(say(&d, 1, (struct lh_notice){.kind = LH_NOTICE_COMMIT}), LH_ERUN);
	assert_int_equal(lh_coordinator_n_connected(d.c), 1);
	/* an older one of a rank that has been back */
	join(&d, 1, 2, 0);
	lh_coordinator_lose(d.c, 1, d.now_ns);
	join(&d, 1, 1, 0);
	assert_int_equal(told(&d, 1), LH_NOTICE_REFUSE);
	assert_true(d.last[1].closes);
	lh_coordinator_free(d.c);
}

static void test_matchmaking_takes_its_time(void **state)
{
	struct lh_coordinator_config config = config_of(2);
	struct desk d;

	(void)state;
	config.matchmaking_ns = 4 * S;
	desk_init(&d, &config);
	for (uint32_t rank = 0; rank < 2; rank++)
		progress(&d, rank, 1);
	for (uint32_t rank = 0; rank < 2; rank++)
		ready(&d, rank, 2);
	assert_int_equal(told(&d, 0), LH_NOTICE_FORM);
	pass(&d, 4 * S);
	assert_int_equal(told(&d, 0), LH_NOTICE_BEGIN);
	assert_int_equal(d.last[0].notice.time_ns, 4 * S);
	lh_coordinator_free(d.c);
}

/* ---- the grid ----------------------------------------------------------------------------- */

static void test_a_full_grid_averages_exactly_after_a_round_for_each_axis(void **state)
{
	static const uint32_t dimensions[] = {3, 4, 2};
	enum { PEERS = 24 };
	struct lh_grid_place places[PEERS], *moved[PEERS];
	const struct lh_grid_place *seen[PEERS];
	uint32_t groups[PEERS];
	double values[PEERS];

	(void)state;
	for (uint32_t i = 0; i < PEERS; i++) {
		lh_grid_place_init(&places[i], i, dimensions, 3);
		seen[i] = moved[i] = &places[i];
		values[i] = i * i;
	}
	for (uint32_t round = 0; round < 3; round++) {
		double sum[PEERS] = {0}, n[PEERS] = {0};

		lh_grid_group(seen, PEERS, 3, lh_grid_axis(round, 3), groups);
		for (uint32_t i = 0; i < PEERS; i++) {
			sum[groups[i]] += values[i];
			n[groups[i]]++;
		}
		for (uint32_t i = 0; i < PEERS; i++) {
			values[i] = sum[groups[i]] / n[groups[i]];
			assert_true(n[groups[i]] == dimensions[round]);
		}
		lh_grid_move(moved, PEERS, groups, lh_grid_axis(round, 3));
	}
	for (uint32_t i = 0; i < PEERS; i++)
		assert_true(values[i] > 4323.0 / 24 - 1e-9 && values[i] < 4325.0 / 24 + 1e-9);
}

static void test_a_lost_member_spoils_its_group_alone(void **state)
{
	struct lh_coordinator_config config = config_of(4);
	struct desk d;

	(void)state;
	config.rounds = 2;
	config.n_dimensions = 2;
	config.dimensions[0] = config.dimensions[1] = 2;
	config.epochs = 1;
	desk_init(&d, &config);
	form(&d, 4, 1);
	/* along the first axis: 0 with 1, 2 with 3 */
	assert_int_equal(d.members[0].group, d.members[1].group);
	assert_int_equal(d.members[2].group, d.members[3].group);
	assert_true(d.members[0].group != d.members[2].group);
	result(&d, 0, 0);
	result(&d, 1, 0);
	lh_coordinator_lose(d.c, 3, d.now_ns);
	drain(&d);
	assert_int_equal(told(&d, 2), LH_NOTICE_ABORT);
	assert_int_equal(told(&d, 0), LH_NOTICE_BEGIN);
	assert_int_equal(d.n_members, 4);
	assert_int_equal(say(&d, 2,
			     (struct lh_notice){.kind = LH_NOTICE_RESULT,
						.serial = d.last[2].notice.serial,
						.number = 1 + 3}),
			 0);
	/* along the second: 0 with 2; 1 has nobody left */
	assert_int_equal(d.n_members, 3);
	assert_int_equal(d.members[0].flags, 0);
	assert_int_equal(d.members[2].flags, LH_NOTICE_SPOILED);
	assert_int_equal(d.members[0].group, d.members[2].group);
	assert_true(d.members[0].group != d.members[1].group);
	for (uint32_t rank = 0; rank < 3; rank++)
		result(&d, rank, 0);
	/* what the lost one did does not count; then all come together */
	assert_int_equal(d.record.kind, LH_RECORD_COMMIT);
	assert_int_equal(d.record.n_members, 3);
	for (uint32_t rank = 0; rank < 3; rank++)
		ready(&d, rank, 1);
	assert_int_equal(d.last[0].notice.epoch, 1);
	for (uint32_t rank = 0; rank < 3; rank++) {
		assert_int_equal(d.members[rank].group, 0);
		result(&d, rank, 0);
	}
	assert_true(lh_coordinator_is_over(d.c));
	assert_int_equal(told(&d, 0), LH_NOTICE_END);
	lh_coordinator_free(d.c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_epoch_ends_when_all_have_the_result),
		cmocka_unit_test(test_a_lost_member_s_samples_are_computed_again),
		cmocka_unit_test(test_who_died_after_giving_all_counts),
		cmocka_unit_test(test_a_joiner_loads_and_is_waited_for),
		cmocka_unit_test(test_a_joiner_that_is_slow_to_load_is_not_waited_for),
		cmocka_unit_test(test_silence_and_delay_cost_the_member),
		cmocka_unit_test(test_who_cannot_be_reached_is_left_out_of_the_epoch),
		cmocka_unit_test(test_too_few_members_end_in_an_error),
		cmocka_unit_test(test_what_cannot_be_costs_its_sender_alone),
		cmocka_unit_test(test_matchmaking_takes_its_time),
		cmocka_unit_test(test_a_full_grid_averages_exactly_after_a_round_for_each_axis),
		cmocka_unit_test(test_a_lost_member_spoils_its_group_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
