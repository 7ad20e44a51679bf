/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor of every collective over TCP within one process, a thread for each member: all come
 * to the interpreter's bits, in whole vectors and in slices, over one stream or several.
 */
#include "trainer/collective/run.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/rng.h"
#include "tests/unit/loopback.h"
#include "tests/unit/test.h"
#include "trainer/clock.h"
#include "trainer/collective/interpret.h"

enum { N_MAX = 8, STREAMS_MAX = 3, DEADLINE_S = 30 };

static const char *const names[N_MAX] = {"n/0", "n/1", "n/2", "n/3", "n/4", "n/5", "n/6", "n/7"};

struct world {
	uint32_t n;
	uint32_t n_streams;
	uint32_t n_rounds;
	uint64_t slice_elements;
	uint64_t host_bps;
	uint64_t wrong_samples_at; /* a member that counts otherwise; n: none */
	const struct lh_codec_ops *codec;
	struct lh_collective_plan *plans;
	struct lh_collective_slices slices;
	int fds[N_MAX][N_MAX][STREAMS_MAX];
	float *values[N_MAX];
	unsigned char *wires[N_MAX]; /* of the last round */
	struct lh_collective_done done[N_MAX];
	int codes[N_MAX];
};

struct member {
	struct world *world;
	uint32_t self;
	pthread_t thread;
};

static bool is_peer(const struct lh_collective_plan *plan, uint32_t rank)
{
	for (uint32_t s = 0; s < plan->n_sends; s++)
		if (plan->sends[s].peer == rank)
			return true;
	for (uint32_t r = 0; r < plan->n_receives; r++)
		if (plan->receives[r].peer == rank)
			return true;
	return false;
}

static struct lh_comm *open_comm(struct world *w, uint32_t self, struct lh_traffic *traffic)
{
	struct lh_comm_config config = {
		.self = self,
		.n_ranks = w->n,
		.names = names,
		.traffic = traffic,
		.seed = 1,
		.fails_together = true,
	};
	struct lh_comm *comm = NULL;

	if (lh_comm_open(&config, &comm, NULL))
		return NULL;
	for (uint32_t peer = 0; peer < w->n; peer++)
		if (w->fds[self][peer][0] >= 0 &&
		    lh_comm_attach(comm, peer, w->fds[self][peer], w->n_streams, NULL)) {
			lh_comm_close(comm);
			return NULL;
		}
	return comm;
}

/* The rounds of a member; cmocka's checks are the main thread's. */
static int run_rounds(struct world *w, uint32_t self, struct lh_comm *comm)
{
	const struct lh_collective_run_config config = {
		.comm = comm,
		.plan = &w->plans[self],
		.codec = w->codec,
		.slice_elements = w->slice_elements,
		.host_bps = w->host_bps,
	};
	uint64_t n = w->slices.at[w->slices.n_chunks];
	float *values = malloc((n + 1) * sizeof(*values));
	struct lh_collective_run *run = NULL;
	int64_t deadline_ns = lh_clock_now_ns() + DEADLINE_S * LH_NS_PER_S;
	int rc = lh_collective_run_open(&config, &run, NULL);

	for (uint32_t epoch = 0; rc == 0 && epoch < w->n_rounds; epoch++) {
		memcpy(values, w->values[self], n * sizeof(*values));
		rc = lh_collective_run_round(run, epoch, self == w->wrong_samples_at ? 8 : 7,
					     values, deadline_ns, &w->done[self], NULL);
	}
	for (uint32_t c = 0; rc == 0 && c < w->slices.n_chunks; c++)
		memcpy(w->wires[self] + w->slices.wire_at[c], lh_collective_run_wire(run, c),
		       w->slices.wire_at[c + 1] - w->slices.wire_at[c]);
	lh_collective_run_close(run);
	free(values);
	return rc;
}

static void *member_main(void *arg)
{
	struct member *m = arg;
	struct world *w = m->world;
	struct lh_traffic *traffic = NULL;
	struct lh_comm *comm;

	w->codes[m->self] = -100;
	if (lh_traffic_new(w->n, lh_clock_now_ns(), &traffic, NULL))
		return NULL;
	comm = open_comm(w, m->self, traffic);
	if (comm)
		w->codes[m->self] = run_rounds(w, m->self, comm);
	lh_comm_close(comm);
	lh_traffic_free(traffic);
	/* what others wait for from here will not come */
	for (uint32_t peer = 0; peer < w->n; peer++)
		for (uint32_t s = 0; w->codes[m->self] && s < w->n_streams; s++)
			if (w->fds[m->self][peer][s] >= 0)
				shutdown(w->fds[m->self][peer][s], SHUT_RDWR);
	return NULL;
}

static void world_open(struct world *w, const struct lh_collective_ops *ops,
		       const struct lh_collective_form *form)
{
	struct lh_rng rng;

	w->n = form->n;
	assert_int_equal(lh_collective_plans_make(ops, form, &w->plans, NULL), 0);
	assert_int_equal(lh_collective_slices_init(&w->slices, &w->plans[0], w->codec,
						   w->slice_elements, NULL),
			 0);
	lh_rng_init(&rng, 1, "run");
	memset(w->fds, 0xff, sizeof(w->fds));
	for (uint32_t i = 0; i < w->n; i++) {
		uint64_t n = w->slices.at[w->slices.n_chunks];

		w->values[i] = malloc((n + 1) * sizeof(float));
		w->wires[i] = malloc(w->slices.wire_at[w->slices.n_chunks] + 1);
		for (uint64_t k = 0; k < n; k++)
			w->values[i][k] = (float)(2 * lh_rng_uniform(&rng) - 1);
		for (uint32_t peer = 0; peer < i; peer++)
			for (uint32_t s = 0; is_peer(&w->plans[i], peer) && s < w->n_streams; s++) {
				int fds[2];

				loopback_connect(fds);
				w->fds[i][peer][s] = fds[0];
				w->fds[peer][i][s] = fds[1];
			}
	}
}

static void world_run(struct world *w)
{
	struct member members[N_MAX];

	for (uint32_t i = 0; i < w->n; i++) {
		members[i] = (struct member){.world = w, .self = i};
		assert_int_equal(pthread_create(&members[i].thread, NULL, member_main, &members[i]),
				 0);
	}
	for (uint32_t i = 0; i < w->n; i++)
		pthread_join(members[i].thread, NULL);
}

static void world_close(struct world *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		free(w->values[i]);
		free(w->wires[i]);
		for (uint32_t peer = 0; peer < w->n; peer++)
			for (uint32_t s = 0; s < w->n_streams; s++)
				if (w->fds[i][peer][s] >= 0)
					close(w->fds[i][peer][s]);
	}
	lh_collective_slices_done(&w->slices);
	lh_collective_plans_free(w->plans, w->n);
}

static void assert_interpreted(const struct world *w)
{
	struct lh_collective_program *program;
	struct lh_error err = {0};

	assert_int_equal(lh_collective_program_build(w->plans, w->n, &program, &err), 0);
	for (uint32_t c = 0; c < w->slices.n_chunks; c++) {
		uint32_t elements = lh_collective_slice_elements(&w->slices, c);
		float *values = malloc(((size_t)elements * w->n + 1) * sizeof(*values));
		float *scratch = malloc((elements + 1) * sizeof(*scratch));
		unsigned char *wire = malloc(w->codec->wire_bytes(elements) + 1);

		for (uint32_t i = 0; i < w->n; i++)
			memcpy(values + (size_t)i * elements, w->values[i] + w->slices.at[c],
			       elements * sizeof(*values));
		if (elements)
			lh_collective_program_run(program, c, w->codec, (float)w->n, elements,
						  values, scratch, wire);
		for (uint32_t i = 0; elements && i < w->n; i++)
			assert_memory_equal(w->wires[i] + w->slices.wire_at[c], wire,
					    w->codec->wire_bytes(elements));
		free(values);
		free(scratch);
		free(wire);
	}
	lh_collective_program_free(program);
}

static void assert_runs(struct world w, const struct lh_collective_ops *ops,
			const struct lh_collective_form *form)
{
	uint64_t sent = 0, received = 0;

	w.wrong_samples_at = form->n;
	world_open(&w, ops, form);
	world_run(&w);
	for (uint32_t i = 0; i < w.n; i++) {
		assert_int_equal(w.codes[i], 0);
		sent += w.done[i].sent_bytes;
		received += w.done[i].received_bytes;
	}
	assert_int_equal(sent, received);
	if (w.codec->bytes_per_element)
		assert_int_equal(sent, 2 * (w.n - 1) * form->elements * w.codec->bytes_per_element);
	assert_interpreted(&w);
	world_close(&w);
}

static const uint32_t nodes[N_MAX] = {0, 0, 0, 3, 3, 5, 6, 6};
static const uint32_t places[N_MAX] = {0, 0, 0, 0, 0, 5, 5, 5};
static const struct lh_collective_level levels[] = {
	{nodes, LH_COLLECTIVE_AROUND},
	{places, LH_COLLECTIVE_ALL_TO_ALL},
	{NULL, LH_COLLECTIVE_ALL_TO_ALL},
};
static const uint32_t dimensions[] = {4, 2};

/* A form that fits any of them. */
static struct lh_collective_form form_of(uint64_t elements)
{
	return (struct lh_collective_form){
		.elements = elements,
		.n = N_MAX,
		.n_segments = 5,
		.dimensions = dimensions,
		.n_dimensions = 2,
		.levels = levels,
		.n_levels = 3,
	};
}

static void test_whole_vectors(void **state)
{
	const struct lh_collective_form form = form_of(10007);

	(void)state;
	for (size_t i = 0; lh_collectives[i]; i++)
		for (uint32_t n_streams = 1; n_streams <= STREAMS_MAX; n_streams += 2)
			assert_runs((struct world){.n_streams = n_streams,
						   .n_rounds = 3,
						   .slice_elements = UINT64_MAX,
						   .codec = &lh_codec_fp16},
				    lh_collectives[i], &form);
}

static void test_slices_with_filler(void **state)
{
	const struct lh_collective_form form = form_of(2000003);

	(void)state;
	for (size_t i = 0; lh_collectives[i]; i++)
		assert_runs((struct world){.n_streams = 2,
					   .n_rounds = 2,
					   .slice_elements = 100,
					   .codec = &lh_codec_none},
			    lh_collectives[i], &form);
}

static void test_every_codec_at_every_hop(void **state)
{
	const struct lh_collective_form form = form_of(9001);

	(void)state;
	for (size_t c = 0; lh_codecs[c]; c++)
		for (size_t i = 0; lh_collectives[i]; i++)
			assert_runs((struct world){.n_streams = 1,
						   .n_rounds = 1,
						   .slice_elements = UINT64_MAX,
						   .codec = lh_codecs[c]},
				    lh_collectives[i], &form);
}

static void test_fewer_elements_than_members(void **state)
{
	const struct lh_collective_form form = form_of(3);

	(void)state;
	for (size_t i = 0; lh_collectives[i]; i++)
		assert_runs((struct world){.n_streams = 1,
					   .n_rounds = 2,
					   .slice_elements = UINT64_MAX,
					   .codec = &lh_codec_none},
			    lh_collectives[i], &form);
}

/* 2 x 3/4 x 4 kB at 1 Mbit/s: 48 ms. */
static void test_the_hosts_time_passes(void **state)
{
	struct world w = {.n_streams = 1,
			  .n_rounds = 1,
			  .slice_elements = UINT64_MAX,
			  .host_bps = 1000000,
			  .wrong_samples_at = 4,
			  .codec = &lh_codec_none};
	const struct lh_collective_form form = {.elements = 1000, .n = 4};
	int64_t begin_ns = lh_clock_now_ns();

	(void)state;
	world_open(&w, &lh_collective_ring, &form);
	world_run(&w);
	for (uint32_t i = 0; i < w.n; i++) {
		assert_int_equal(w.codes[i], 0);
		assert_true(w.done[i].host_ns == 48 * LH_NS_PER_MS);
	}
	assert_true(lh_clock_now_ns() - begin_ns >= 48 * LH_NS_PER_MS);
	world_close(&w);
}

static void test_another_count_of_samples_ends_all(void **state)
{
	(void)state;
	for (size_t i = 0; lh_collectives[i]; i++) {
		const struct lh_collective_form form = form_of(5000);
		struct world w = {.n_streams = 2,
				  .n_rounds = 2,
				  .slice_elements = 10,
				  .wrong_samples_at = 1,
				  .codec = &lh_codec_none};

		world_open(&w, lh_collectives[i], &form);
		world_run(&w);
		for (uint32_t k = 0; k < w.n; k++)
			assert_int_not_equal(w.codes[k], 0);
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_vectors),
		cmocka_unit_test(test_slices_with_filler),
		cmocka_unit_test(test_every_codec_at_every_hop),
		cmocka_unit_test(test_fewer_elements_than_members),
		cmocka_unit_test(test_the_hosts_time_passes),
		cmocka_unit_test(test_another_count_of_samples_ends_all),
	};

	alarm(2 * DEADLINE_S);
	signal(SIGPIPE, SIG_IGN); /* sendfile has no flag against it */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
