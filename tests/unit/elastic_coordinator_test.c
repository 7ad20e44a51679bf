/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator as a state machine: decisions by hand, and any faults at random. */
#include "trainer/elastic/coordinator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"
#include "trainer/elastic/grid.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)

enum { N = 8, MICRO_BATCH = 4 };

static const uint32_t micro_batch[N] = {MICRO_BATCH, MICRO_BATCH, MICRO_BATCH, MICRO_BATCH,
					MICRO_BATCH, MICRO_BATCH, MICRO_BATCH, MICRO_BATCH};
static const int64_t step_ns[N] = {S, S, S, S, S, S, S, S};
static const uint32_t site[N] = {0, 0, 0, 0, 1, 1, 1, 1};

static struct lh_coordinator_config config_of(uint32_t n)
{
	return (struct lh_coordinator_config){
		.n_ranks = n,
		.target = 16,
		.epochs = 3,
		.min_group = 2,
		.timeout_ns = 10 * S,
		.heartbeat_ns = S,
		.patience_ns = 100 * S,
		.micro_batch = micro_batch,
		.step_ns = step_ns,
		.site = site,
	};
}

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

/* ---- at random ---------------------------------------------------------------------------- */

/* A rank as the coordinator sees it, with a delay, and everything that can go wrong. */
struct peer {
	bool is_alive;
	bool is_cut;	   /* nothing comes or goes */
	bool is_connected; /* as the coordinator has it, or will have when it notices */
	uint32_t incarnation;
	uint64_t done, from; /* micro-batches; the first that is open */
	uint32_t epoch;
	bool is_computing, is_told_to_stop;
	uint64_t limit, floor;
	uint32_t form_serial;
	int64_t step_end_ns; /* INT64_MAX: none is under way */
	uint32_t load_serial, load_session;
	int64_t load_end_ns; /* INT64_MAX: nothing */
	uint32_t round_serial;
	int64_t round_end_ns;
	uint32_t round_peer; /* who may spoil it */
	int64_t back_ns;     /* INT64_MAX: it is here */
	bool is_over;
};

struct letter {
	int64_t at_ns;
	uint32_t rank;
	bool to_member;
	struct lh_notice notice;
	struct lh_notice_member members[N];
};

enum { LETTERS_MAX = 4096, INCARNATIONS_MAX = 4096 };

struct world {
	struct lh_coordinator *c;
	struct lh_coordinator_config config;
	struct lh_rng rng;
	int64_t now_ns;
	struct peer peers[N];
	struct letter letters[LETTERS_MAX];
	size_t n_letters;
	/* what was committed of each incarnation, and what it ever did */
	uint64_t committed_to[N][INCARNATIONS_MAX];
	uint64_t committed[N][INCARNATIONS_MAX];
	uint64_t computed[N][INCARNATIONS_MAX];
	uint32_t n_commits;
	uint32_t n_aborts;
	uint64_t n_inputs;
	double fault_rate; /* per second */
};

static double uniform(struct world *w)
{
	return lh_rng_uniform(&w->rng);
}

static int64_t some_ns(struct world *w, int64_t from_ns, int64_t to_ns)
{
	return from_ns + (int64_t)(uniform(w) * (double)(to_ns - from_ns));
}

static void post(struct world *w, uint32_t rank, bool to_member, const struct lh_notice *notice)
{
	struct letter *l;
	int64_t at_ns = w->now_ns + 5 * MS + (int64_t)rank * MS;

	assert_true(w->n_letters < LETTERS_MAX);
	for (size_t i = 0; i < w->n_letters; i++) /* in order */
		if (w->letters[i].rank == rank && w->letters[i].to_member == to_member &&
		    w->letters[i].at_ns > at_ns)
			at_ns = w->letters[i].at_ns;
	l = &w->letters[w->n_letters++];
	*l = (struct letter){.at_ns = at_ns, .rank = rank, .to_member = to_member};
	l->notice = *notice;
	l->notice.rank = rank;
	if (notice->n_members)
		memcpy(l->members, notice->members, notice->n_members * sizeof(*l->members));
}

static void forget_letters(struct world *w, uint32_t rank)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->n_letters; i++)
		if (w->letters[i].rank != rank)
			w->letters[kept++] = w->letters[i];
	w->n_letters = kept;
}

static void idle(struct peer *p)
{
	p->is_computing = p->is_told_to_stop = false;
	p->step_end_ns = p->load_end_ns = p->round_end_ns = INT64_MAX;
}

static void peer_join(struct world *w, uint32_t rank)
{
	struct peer *p = &w->peers[rank];

	idle(p);
	p->back_ns = INT64_MAX;
	p->is_connected = true;
	post(w, rank, false,
	     &(struct lh_notice){.kind = LH_NOTICE_JOIN,
				 .number = p->incarnation,
				 .epoch = p->epoch,
				 .count = p->done,
				 .serial = (uint32_t)p->from});
}

static void check_commit(struct world *w, const struct lh_coordinator_record *r)
{
	uint64_t samples = 0;

	for (uint32_t i = 0; i < r->n_members; i++) {
		const struct lh_notice_member *m = &r->members[i];
		uint32_t k = r->incarnations[i];

		assert_true(m->from >= w->committed_to[m->rank][k]);
		assert_true(m->to >= m->from);
		assert_true(m->to <= w->computed[m->rank][k]);
		w->committed_to[m->rank][k] = m->to;
		w->committed[m->rank][k] += m->to - m->from;
		samples += (m->to - m->from) * MICRO_BATCH;
	}
	assert_int_equal(r->epoch, w->n_commits);
	w->n_commits++;
	if (r->epoch < w->config.epochs && w->fault_rate == 0)
		assert_true(samples <= w->config.target + w->config.target / 10 + N * MICRO_BATCH);
	if (r->epoch < w->config.epochs && !w->config.rounds) {
		assert_true(samples >= w->config.target);
		assert_true(r->n_members >= w->config.min_group);
	}
}

static void take_orders(struct world *w)
{
	struct lh_coordinator_order order;
	struct lh_coordinator_record record;

	while (lh_coordinator_next_order(w->c, &order)) {
		if (order.notice.kind && !w->peers[order.rank].is_cut)
			post(w, order.rank, true, &order.notice);
		if (order.closes) {
			w->peers[order.rank].is_connected = false;
			if (w->peers[order.rank].is_alive && !w->peers[order.rank].is_cut) {
				forget_letters(w, order.rank);
				idle(&w->peers[order.rank]);
				w->peers[order.rank].back_ns = w->now_ns + 50 * MS;
			}
		}
	}
	while (lh_coordinator_next_record(w->c, &record))
		if (record.kind == LH_RECORD_COMMIT)
			check_commit(w, &record);
		else
			w->n_aborts += record.kind == LH_RECORD_ABORT;
}

static void begin_round(struct world *w, uint32_t rank, const struct letter *l)
{
	struct peer *p = &w->peers[rank];
	uint32_t group = 0;

	p->round_serial = l->notice.serial;
	p->round_end_ns = w->now_ns + some_ns(w, 20 * MS, 60 * MS);
	p->round_peer = UINT32_MAX;
	for (uint32_t i = 0; i < l->notice.n_members; i++)
		if (l->members[i].rank == rank) {
			group = l->members[i].group;
			assert_true(l->members[i].from == p->from);
			assert_true(l->members[i].to == p->done);
		}
	for (uint32_t i = 0; i < l->notice.n_members; i++) {
		const struct peer *other = &w->peers[l->members[i].rank];

		if (l->members[i].group == group && (!other->is_alive || other->is_cut)) {
			p->round_peer = l->members[i].rank;
			p->round_end_ns = w->now_ns + w->config.timeout_ns;
		}
	}
}

static void member_reads(struct world *w, const struct letter *l)
{
	struct peer *p = &w->peers[l->rank];
	const struct lh_notice *n = &l->notice;

	switch (n->kind) {
	case LH_NOTICE_COMPUTE:
		p->is_computing = true;
		p->is_told_to_stop = false;
		p->limit = n->count;
		break;
	case LH_NOTICE_FORM:
		p->is_told_to_stop = true;
		p->is_computing = true;
		p->form_serial = n->serial;
		p->floor = n->count;
		break;
	case LH_NOTICE_BEGIN:
		begin_round(w, l->rank, l);
		break;
	case LH_NOTICE_ABORT:
		if (p->round_end_ns != INT64_MAX && w->config.rounds)
			post(w, l->rank, false,
			     &(struct lh_notice){.kind = LH_NOTICE_RESULT,
						 .serial = p->round_serial,
						 .number = 1 + (l->rank + 1) % N});
		p->round_end_ns = INT64_MAX;
		break;
	case LH_NOTICE_COMMIT:
		assert_int_equal(n->epoch, p->epoch);
		p->epoch++;
		p->from = p->done;
		break;
	case LH_NOTICE_LOAD:
		idle(p);
		p->from = p->done;
		p->load_end_ns = w->now_ns + some_ns(w, 50 * MS, 500 * MS);
		p->load_serial = n->serial;
		break;
	case LH_NOTICE_END:
		p->is_over = true;
		p->is_connected = false;
		post(w, l->rank, false, &(struct lh_notice){.kind = LH_NOTICE_BYE});
		break;
	case LH_NOTICE_REFUSE:
		fail_msg("rank %u was refused: %s", l->rank, n->text);
		break;
	default:
		break;
	}
}

static void deliver(struct world *w)
{
	size_t first = SIZE_MAX;
	struct letter l;

	for (size_t i = 0; i < w->n_letters; i++)
		if (w->letters[i].at_ns <= w->now_ns &&
		    (first == SIZE_MAX || w->letters[i].at_ns < w->letters[first].at_ns))
			first = i;
	if (first == SIZE_MAX)
		return;
	l = w->letters[first];
	memmove(&w->letters[first], &w->letters[first + 1],
		(--w->n_letters - first) * sizeof(w->letters[0]));
	if (w->peers[l.rank].is_cut)
		return;
	l.notice.members = l.members;
	if (l.to_member) {
		if (w->peers[l.rank].is_alive)
			member_reads(w, &l);
	} else {
		if (l.notice.kind == LH_NOTICE_JOIN)
			lh_coordinator_lose(w->c, l.rank, w->now_ns);
		w->n_inputs++;
		assert_int_equal(lh_coordinator_take(w->c, &l.notice, w->now_ns, NULL), 0);
		take_orders(w);
	}
}

static void peer_works(struct world *w, uint32_t rank)
{
	struct peer *p = &w->peers[rank];

	if (!p->is_alive)
		return;
	if (p->back_ns <= w->now_ns)
		peer_join(w, rank);
	if (p->step_end_ns <= w->now_ns) {
		p->step_end_ns = INT64_MAX;
		w->computed[rank][p->incarnation] = ++p->done;
		post(w, rank, false,
		     &(struct lh_notice){
			     .kind = LH_NOTICE_PROGRESS, .count = p->done, .time_ns = 100 * MS});
	}
	if (p->is_computing && p->step_end_ns == INT64_MAX) {
		if (p->done < (p->is_told_to_stop ? p->floor : p->limit)) {
			p->step_end_ns = w->now_ns + some_ns(w, 80 * MS, 120 * MS);
		} else if (p->is_told_to_stop) {
			p->is_computing = false;
			post(w, rank, false,
			     &(struct lh_notice){.kind = LH_NOTICE_READY,
						 .serial = p->form_serial,
						 .count = p->done});
		}
	}
	if (p->round_end_ns <= w->now_ns) {
		p->round_end_ns = INT64_MAX;
		post(w, rank, false,
		     &(struct lh_notice){
			     .kind = LH_NOTICE_RESULT,
			     .serial = p->round_serial,
			     .number = p->round_peer == UINT32_MAX ? 0 : 1 + p->round_peer});
	}
	if (p->load_end_ns <= w->now_ns) {
		const struct peer *donor = &w->peers[p->load_serial];
		bool works = donor->is_alive && !donor->is_cut && donor->epoch > 0;

		p->load_end_ns = INT64_MAX;
		if (works)
			p->epoch = donor->epoch;
		post(w, rank, false,
		     &(struct lh_notice){.kind = LH_NOTICE_LOADED,
					 .epoch = p->epoch,
					 .count = p->done,
					 .number = !works});
	}
}

static void go_wrong(struct world *w)
{
	uint32_t rank = 1 + (uint32_t)lh_rng_below(&w->rng, w->config.n_ranks - 1);
	struct peer *p = &w->peers[rank];

	if (p->is_over || !p->is_alive || p->is_cut)
		return;
	forget_letters(w, rank);
	idle(p);
	p->back_ns = INT64_MAX;
	if (uniform(w) < 0.6) {
		/* preempted; half of the times its connection tells */
		p->is_alive = false;
		if (uniform(w) < 0.5) {
			lh_coordinator_lose(w->c, rank, w->now_ns);
			take_orders(w);
		}
	} else {
		p->is_cut = true;
	}
}

static void come_back(struct world *w)
{
	uint32_t rank = 1 + (uint32_t)lh_rng_below(&w->rng, w->config.n_ranks - 1);
	struct peer *p = &w->peers[rank];

	if (p->is_over)
		return;
	if (p->is_cut) {
		p->is_cut = false;
		peer_join(w, rank);
	} else if (!p->is_alive && p->incarnation + 1 < INCARNATIONS_MAX) {
		*p = (struct peer){.is_alive = true, .incarnation = p->incarnation + 1};
		peer_join(w, rank);
	}
}

static void beat(struct world *w)
{
	for (uint32_t rank = 0; rank < w->config.n_ranks; rank++)
		if (w->peers[rank].is_alive && w->peers[rank].is_connected &&
		    !w->peers[rank].is_over)
			post(w, rank, false, &(struct lh_notice){.kind = LH_NOTICE_HEARTBEAT});
}

/* How often rounds were void, in all worlds so far. */
static void run_world(uint64_t seed, uint32_t rounds, double fault_rate, uint32_t *n_aborts)
{
	struct world *w = calloc(1, sizeof(*w));
	int64_t beat_ns = 0;

	assert_non_null(w);
	w->config = config_of(N);
	w->fault_rate = fault_rate;
	w->config.target = 100;
	w->config.epochs = 20;
	w->config.heartbeat_ns = 100 * MS;
	w->config.timeout_ns = S;
	w->config.matchmaking_ns = 50 * MS;
	w->config.rounds = rounds;
	w->config.n_dimensions = 2;
	w->config.dimensions[0] = 4;
	w->config.dimensions[1] = 2;
	lh_rng_init(&w->rng, seed, "world");
	assert_int_equal(lh_coordinator_new(&w->config, 0, &w->c, NULL), 0);
	for (uint32_t rank = 0; rank < N; rank++) {
		w->peers[rank].is_alive = true;
		peer_join(w, rank);
	}
	for (; !lh_coordinator_is_over(w->c); w->now_ns += MS) {
		assert_true(w->now_ns < 2000 * S);
		assert_int_equal(lh_coordinator_check(w->c, NULL), 0);
		if (uniform(w) < fault_rate / 1000)
			go_wrong(w);
		if (uniform(w) < fault_rate / 700)
			come_back(w);
		if (w->now_ns >= beat_ns) {
			beat_ns += 100 * MS;
			beat(w);
		}
		for (uint32_t rank = 0; rank < N; rank++)
			peer_works(w, rank);
		for (size_t n = w->n_letters; n; n--)
			deliver(w);
		if (lh_coordinator_due_ns(w->c) <= w->now_ns) {
			lh_coordinator_tick(w->c, w->now_ns);
			take_orders(w);
			assert_true(lh_coordinator_due_ns(w->c) > w->now_ns);
		}
	}
	assert_int_equal(w->n_commits, w->config.epochs + (rounds ? 1 : 0));
	assert_true(fault_rate || !w->n_aborts);
	*n_aborts += w->n_aborts;
	lh_coordinator_free(w->c);
	free(w);
}

static void test_any_faults_count_nothing_twice_and_end(void **state)
{
	static const double rates[] = {0, 0.2, 1, 3};
	uint32_t n_aborts = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++)
		run_world(seed, 0, rates[seed % 4], &n_aborts);
	print_message("%u rounds were void\n", n_aborts);
	assert_true(n_aborts > 20);
}

static void test_any_faults_on_a_grid_count_nothing_twice_and_end(void **state)
{
	static const double rates[] = {0, 0.2, 1, 3};
	uint32_t n_aborts = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++)
		run_world(seed, 2, rates[seed % 4], &n_aborts);
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
		cmocka_unit_test(test_any_faults_count_nothing_twice_and_end),
		cmocka_unit_test(test_any_faults_on_a_grid_count_nothing_twice_and_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
