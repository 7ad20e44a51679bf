/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator with members that are simulated, and any faults at random: nothing counts twice,
 * and everything ends. */
#include "trainer/elastic/coordinator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "tests/unit/elastic_office.h"
#include "tests/unit/test.h"

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
		cmocka_unit_test(test_any_faults_count_nothing_twice_and_end),
		cmocka_unit_test(test_any_faults_on_a_grid_count_nothing_twice_and_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
