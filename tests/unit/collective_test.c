/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective for many numbers of members and sizes of vectors: plans fit together, all
 * members end with the same bits whatever comes when, these are the interpreter's, they are the
 * mean as far as the codec's rounding allows, and bytes are those of the method's formula.
 */
#include "trainer/collective/plan.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/collective_world.h"
#include "tests/unit/test.h"
#include "trainer/strategy/shard.h"

static const uint32_t member_counts[] = {1,  2,	 3,  4,	 5,  6,	 7,  8,	 9,  10,
					 11, 12, 13, 14, 15, 16, 17, 24, 32, 64};
static const uint64_t sizes[] = {0, 1, 2, 7, 64, 193};

/* Half a unit in the last place of a number's significand. */
static double rounding(const struct lh_codec_ops *codec)
{
	return codec == &lh_codec_fp16 ? 0x1p-11 : 0x1p-24;
}

/*
 * The mean against a sum in double precision. A number passes at most n hops, each of which rounds
 * what is summed up so far (at most the sum of magnitudes) once in the codec and once in the sum;
 * beside them the division and its encoding.
 */
static void assert_is_mean(const struct world *w)
{
	uint32_t n = w->form->n;
	uint64_t n_elements = w->slices.at[w->slices.n_chunks];

	for (uint64_t k = 0; k < n_elements; k++) {
		double sum = 0, magnitude = 0;

		for (uint32_t i = 0; i < n; i++) {
			sum += (double)w->values[i][k];
			magnitude += fabs((double)w->values[i][k]);
		}
		assert_near(w->results[0][k], sum / n,
			    (n + 2) * (rounding(w->codec) + 0x1p-24) * magnitude / n + 0x1p-24);
	}
}

/* All members' bits, and the interpreter's. */
static void assert_same_bits(const struct world *w)
{
	uint64_t n_elements = w->slices.at[w->slices.n_chunks];
	uint32_t n = w->form->n;

	for (uint32_t i = 1; i < n; i++)
		assert_memory_equal(w->results[i], w->results[0], n_elements * sizeof(float));
	for (uint32_t c = 0; c < w->slices.n_chunks; c++) {
		uint32_t elements = lh_collective_slice_elements(&w->slices, c);
		float *values = malloc(((size_t)elements * n + 1) * sizeof(*values));
		float *scratch = malloc((elements + 1) * sizeof(*scratch));
		unsigned char *wire = malloc(elements * sizeof(float) + 1);

		for (uint32_t i = 0; i < n; i++)
			memcpy(values + (size_t)i * elements, w->values[i] + w->slices.at[c],
			       elements * sizeof(float));
		if (elements) {
			lh_collective_program_run(w->program, c, w->codec, (float)n, elements,
						  values, scratch, wire);
			w->codec->decode(wire, elements, scratch);
			assert_memory_equal(scratch, w->results[0] + w->slices.at[c],
					    elements * sizeof(float));
		}
		free(values);
		free(scratch);
		free(wire);
	}
}

/* Every chunk's sum is a tree, and so is the way back: n - 1 messages each. */
static void assert_total_bytes(const struct world *w)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < w->form->n; i++) {
		assert_int_equal(w->sent_bytes[i], lh_collective_sent_elements(&w->plans[i]) *
							   w->codec->bytes_per_element);
		sum += w->sent_bytes[i];
	}
	assert_int_equal(sum,
			 2 * (w->form->n - 1) * w->form->elements * w->codec->bytes_per_element);
}

static void exercise(const struct lh_collective_ops *ops, const struct lh_collective_form *form,
		     void (*assert_bytes)(const struct world *))
{
	static const struct lh_codec_ops *const codecs[] = {&lh_codec_none, &lh_codec_fp16};

	for (size_t c = 0; c < N_ELEMENTS(codecs); c++) {
		struct world world;
		struct lh_rng rng;

		lh_rng_init(&rng, form->elements, ops->name);
		world_open(&world, ops, form, codecs[c], form->n);
		world_run(&world, &rng);
		assert_same_bits(&world);
		assert_is_mean(&world);
		assert_total_bytes(&world);
		if (assert_bytes)
			assert_bytes(&world);
		world_close(&world);
	}
}

static void exercise_sizes(const struct lh_collective_ops *ops, struct lh_collective_form form,
			   void (*assert_bytes)(const struct world *))
{
	for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
		form.elements = sizes[i];
		exercise(ops, &form, assert_bytes);
	}
}

static void assert_sent(const struct world *w, uint32_t member, uint64_t elements)
{
	assert_int_equal(w->sent_bytes[member], elements * w->codec->bytes_per_element);
}

/* Every shard twice, but for the one that is finished here and the one that comes last. */
static void assert_ring_bytes(const struct world *w)
{
	uint32_t n = w->form->n;
	uint64_t elements = w->form->elements;

	for (uint32_t i = 0; n > 1 && i < n; i++)
		assert_sent(w, i,
			    2 * elements - lh_shard_elements(elements, n, (i + 1) % n) -
				    lh_shard_elements(elements, n, (i + 2) % n));
}

static void test_rings(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(member_counts); i++)
		for (uint32_t n_segments = 0; n_segments <= 3; n_segments += 3)
			exercise_sizes(&lh_collective_ring,
				       (struct lh_collective_form){.n = member_counts[i],
								   .n_segments = n_segments},
				       assert_ring_bytes);
}

static void assert_butterfly_bytes(const struct world *w)
{
	uint32_t n = w->form->n;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t share = w->plans[i].at[i + 1] - w->plans[i].at[i];

		assert_sent(w, i, n == 1 ? 0 : w->form->elements + (n - 2) * share);
		if (!w->form->bandwidths)
			assert_int_equal(share, lh_shard_elements(w->form->elements, n, i));
		else if (w->form->bandwidths[i] <= 0)
			assert_int_equal(share, 0);
	}
}

static void test_butterflies(void **state)
{
	double bandwidths[64];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(member_counts); i++) {
		struct lh_collective_form form = {.n = member_counts[i]};

		exercise_sizes(&lh_collective_butterfly, form, assert_butterfly_bytes);
		for (uint32_t k = 0; k < form.n; k++)
			bandwidths[k] = k % 3 == 1 ? 0 : 1 + k % 5;
		form.bandwidths = bandwidths;
		exercise_sizes(&lh_collective_butterfly, form, assert_butterfly_bytes);
	}
}

/* Exact where the vector can be halved; the surplus members' vectors beside. */
static void assert_halving_bytes(const struct world *w)
{
	uint64_t elements = w->form->elements, p = 1, surplus;

	while (p * 2 <= w->form->n)
		p *= 2;
	surplus = w->form->n - p;
	for (uint32_t i = 0; elements % p == 0 && i < w->form->n; i++) {
		uint64_t own = 2 * (p - 1) * (elements / p);

		if (i < 2 * surplus)
			assert_sent(w, i, i % 2 ? own + elements : elements);
		else
			assert_sent(w, i, own);
	}
}

static void test_halving_doubling(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(member_counts); i++)
		exercise_sizes(&lh_collective_halving_doubling,
			       (struct lh_collective_form){.n = member_counts[i]},
			       assert_halving_bytes);
}

/* A member is an inner node, which sends up once and down twice, in one tree (or both, in odd
 * numbers, once each); a leaf sends up. Exact halves where there are 8 equal segments. */
static void assert_tree_bytes(const struct world *w)
{
	uint64_t most = 2 * w->form->elements * w->codec->bytes_per_element;

	for (uint32_t i = 0; w->form->elements % 8 == 0 && i < w->form->n; i++)
		assert_true(w->sent_bytes[i] <= most);
}

static void test_trees(void **state)
{
	static const uint32_t segments[] = {1, 2, 8, 13};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(member_counts); i++)
		for (size_t s = 0; s < N_ELEMENTS(segments); s++)
			exercise_sizes(&lh_collective_tree,
				       (struct lh_collective_form){.n = member_counts[i],
								   .n_segments = segments[s]},
				       segments[s] == 8 ? assert_tree_bytes : NULL);
}

/* 2 (sum of (d - 1) / product of dimensions so far), exact where the vector can be cut so. */
static void assert_torus_bytes(const struct world *w)
{
	uint64_t sent = 0, below = 1;

	for (uint32_t d = 0; d < w->form->n_dimensions; d++) {
		below *= w->form->dimensions[d];
		sent += 2 * (w->form->dimensions[d] - 1) * (w->form->elements / below);
	}
	for (uint32_t i = 0; w->form->elements % below == 0 && i < w->form->n; i++)
		assert_sent(w, i, sent);
}

static void test_tori(void **state)
{
	static const struct {
		uint32_t n;
		uint32_t n_dimensions;
		uint32_t dimensions[4];
	} grids[] = {
		{1, 1, {1}},	    {4, 2, {2, 2}},	   {6, 2, {3, 2}},  {6, 2, {2, 3}},
		{12, 3, {2, 3, 2}}, {16, 4, {2, 2, 2, 2}}, {64, 2, {8, 8}}, {5, 2, {1, 5}},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(grids); i++)
		exercise_sizes(&lh_collective_torus,
			       (struct lh_collective_form){.n = grids[i].n,
							   .dimensions = grids[i].dimensions,
							   .n_dimensions = grids[i].n_dimensions},
			       assert_torus_bytes);
}

/* Members in groups of drawn sizes, two levels of them below the whole. */
static void test_hierarchies_of_unequal_groups(void **state)
{
	uint32_t nodes[64], places[64];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "groups");
	for (size_t i = 0; i < N_ELEMENTS(member_counts); i++)
		for (int exchanges = 0; exchanges < 4; exchanges++) {
			uint32_t n = member_counts[i];
			struct lh_collective_level levels[] = {
				{nodes, LH_COLLECTIVE_AROUND},
				{places,
				 exchanges & 1 ? LH_COLLECTIVE_AROUND : LH_COLLECTIVE_ALL_TO_ALL},
				{NULL,
				 exchanges & 2 ? LH_COLLECTIVE_AROUND : LH_COLLECTIVE_ALL_TO_ALL},
			};

			nodes[0] = 0;
			places[0] = 0;
			for (uint32_t m = 1; m < n; m++) {
				bool is_new = lh_rng_below(&rng, 3) == 0;

				nodes[m] = nodes[m - 1] + is_new;
				places[m] = places[m - 1] + (is_new && lh_rng_below(&rng, 2));
			}
			exercise_sizes(&lh_collective_hierarchical,
				       (struct lh_collective_form){
					       .n = n, .levels = levels, .n_levels = 3},
				       NULL);
		}
}

/* Two sites of three nodes of four: sums alone cross, one vector's worth in and out of each. */
static void test_a_hierarchy_crosses_with_sums_alone(void **state)
{
	enum { N = 24, ELEMENTS = 2400 };
	uint32_t nodes[N], places[N];
	const struct lh_collective_level levels[] = {
		{nodes, LH_COLLECTIVE_AROUND},
		{places, LH_COLLECTIVE_AROUND},
		{NULL, LH_COLLECTIVE_AROUND},
	};
	const struct lh_collective_form form = {
		.elements = ELEMENTS, .n = N, .levels = levels, .n_levels = 3};
	struct lh_collective_plan *plans;
	uint64_t crossing[2] = {0};

	(void)state;
	for (uint32_t m = 0; m < N; m++) {
		nodes[m] = m / 4;
		places[m] = m / 12;
	}
	assert_int_equal(lh_collective_plans_make(&lh_collective_hierarchical, &form, &plans, NULL),
			 0);
	for (uint32_t m = 0; m < N; m++)
		for (uint32_t s = 0; s < plans[m].n_sends; s++)
			if (places[m] != places[plans[m].sends[s].peer])
				crossing[places[m]] +=
					lh_collective_move_elements(&plans[m], &plans[m].sends[s]);
	assert_int_equal(crossing[0], ELEMENTS);
	assert_int_equal(crossing[1], ELEMENTS);
	lh_collective_plans_free(plans, N);
}

static void test_some_ranks_in_any_order_are_members(void **state)
{
	static const uint32_t members[] = {90, 3, 17, 4, 1000};
	const struct lh_collective_ops *const all[] = {&lh_collective_ring,
						       &lh_collective_butterfly,
						       &lh_collective_halving_doubling,
						       &lh_collective_tree};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(all); i++)
		exercise_sizes(all[i],
			       (struct lh_collective_form){.n = N_ELEMENTS(members),
							   .members = members,
							   .n_segments = 2},
			       NULL);
}

static void test_blocks_are_gathered(void **state)
{
	static const uint64_t blocks[] = {5, 0, 1, 300, 0, 7, 7};
	const struct lh_collective_ops *const all[] = {&lh_collective_gather_ring,
						       &lh_collective_gather_direct};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(all); i++)
		for (uint32_t n = 1; n <= N_ELEMENTS(blocks); n++) {
			struct lh_collective_form form = {.n = n, .block_elements = blocks};
			struct lh_rng rng;
			struct world world;

			lh_rng_init(&rng, n, "gather");
			world_open(&world, all[i], &form, &lh_codec_none, 1);
			world_run(&world, &rng);
			for (uint32_t m = 0; m < n; m++)
				for (uint32_t c = 0; c < n; c++)
					for (uint64_t k = world.slices.at[c];
					     k < world.slices.at[c + 1]; k++)
						assert_memory_equal(&world.results[m][k],
								    &world.values[c][k],
								    sizeof(float));
			world_close(&world);
		}
}

static void test_a_second_round_is_as_the_first(void **state)
{
	struct lh_collective_form form = {.elements = 100, .n = 6, .n_segments = 4};
	float first[100];
	struct world world;
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "rounds");
	world_open(&world, &lh_collective_tree, &form, &lh_codec_fp16, 1);
	world_run(&world, &rng);
	memcpy(first, world.results[0], sizeof(first));
	for (uint32_t i = 0; i < form.n; i++)
		memcpy(world.results[i], world.values[i], sizeof(first));
	world_run(&world, &rng);
	assert_same_bits(&world);
	assert_memory_equal(world.results[0], first, sizeof(first));
	world_close(&world);
}

static void test_slices_are_the_begin_of_chunks(void **state)
{
	struct lh_collective_form form = {.elements = 10, .n = 3};
	struct lh_collective_slices slices;
	struct lh_collective_plan plan;

	(void)state;
	assert_int_equal(lh_collective_ring.make(&form, 0, &plan, NULL), 0);
	assert_int_equal(lh_collective_slices_init(&slices, &plan, &lh_codec_fp16, 3, NULL), 0);
	for (uint32_t c = 0; c < 3; c++)
		assert_int_equal(lh_collective_slice_elements(&slices, c), 3);
	assert_int_equal(slices.wire_at[3], 18);
	assert_int_equal(slices.longest, 3);
	lh_collective_slices_done(&slices);
	lh_collective_plan_done(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rings),
		cmocka_unit_test(test_butterflies),
		cmocka_unit_test(test_halving_doubling),
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_tori),
		cmocka_unit_test(test_hierarchies_of_unequal_groups),
		cmocka_unit_test(test_a_hierarchy_crosses_with_sums_alone),
		cmocka_unit_test(test_some_ranks_in_any_order_are_members),
		cmocka_unit_test(test_blocks_are_gathered),
		cmocka_unit_test(test_a_second_round_is_as_the_first),
		cmocka_unit_test(test_slices_are_the_begin_of_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
