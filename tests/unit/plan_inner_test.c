/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes with several ranks in the plan: names, addresses, ports, the trainers' job. */
#include "core/rng.h"
#include "emulator/engine.h"
#include "emulator/plan.h"
#include "tests/unit/plan_fixture.h"

enum { ROUNDS = 50, FIRST_ADDRESS = 10 << 24 | 64 << 16 };

/* Both nodes in the east have eight GPUs; the one in the west is a crate, with one. */
static const struct lh_override eights[] = {
	{"machines.box.gpus", "8"},
	{"machines.box.inner", "{bandwidth: 1.2 Tbit/s, delay: 5 us}"},
	{"nodes.1.machine", "crate"},
};

/* row 61 */
static void test_every_gpu_of_an_inner_network_is_a_rank(void **state)
{
	struct planned p = plan_of(eights, N_ELEMENTS(eights));

	(void)state;
	assert_int_equal(p.plan->n_nodes, 3);
	assert_int_equal(p.plan->n_ranks, 17);
	assert_string_equal(p.plan->ranks[0].name, "east/0.0");
	assert_string_equal(p.plan->ranks[15].name, "east/1.7");
	assert_string_equal(p.plan->ranks[16].name, "west/0");
	assert_int_equal(p.plan->ranks[15].node, EAST_1);
	assert_int_equal(p.plan->ranks[15].local, 7);
	assert_int_equal(p.plan->nodes[EAST_1].first_rank, 8);
	assert_int_equal(p.plan->nodes[WEST_0].n_ranks, 1);
	assert_true(p.plan->nodes[WEST_0].inner.bandwidth_bps == 0);
	planned_done(&p);
}

static void test_without_an_inner_network_several_gpus_are_one_rank(void **state)
{
	static const struct lh_override o[] = {{"machines.box.gpus", "8"}};
	struct planned p = plan_of(o, N_ELEMENTS(o));

	(void)state;
	assert_int_equal(p.plan->n_ranks, 3);
	assert_int_equal(p.plan->rank_bits, 0);
	for (size_t i = 0; i < p.plan->n_nodes; i++) {
		assert_string_equal(p.plan->ranks[i].name, p.plan->nodes[i].name);
		assert_int_equal(p.plan->ranks[i].address, FIRST_ADDRESS + 1 + (int)i);
		assert_int_equal(p.plan->nodes[i].prefix_len, 32);
	}
	planned_done(&p);
}

/* Addresses of ranks differ, lie in the block of their node, and lead back to it; those around the
 * blocks lead nowhere. */
static void test_an_address_tells_its_node(void **state)
{
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "inner");
	for (int round = 0; round < ROUNDS; round++) {
		char gpus[16], count[16];
		struct lh_override o[] = {eights[0], eights[1], {"nodes.0.count", count}};
		struct planned p;
		uint32_t last = 0;

		snprintf(gpus, sizeof(gpus), "%d", 1 + (int)lh_rng_below(&rng, 30));
		snprintf(count, sizeof(count), "%d", 1 + (int)lh_rng_below(&rng, 15));
		o[0].value = gpus;
		p = plan_of(o, N_ELEMENTS(o));
		for (size_t i = 0; i < p.plan->n_ranks; i++) {
			const struct lh_plan_rank *rank = &p.plan->ranks[i];
			const struct lh_plan_node *n = &p.plan->nodes[rank->node];
			uint32_t mask = UINT32_MAX << (LH_ADDRESS_BITS - n->prefix_len);

			assert_true(rank->address > last);
			last = rank->address;
			assert_true((rank->address & mask) == n->address);
			assert_int_equal(lh_plan_node_at(p.plan, rank->address), rank->node);
		}
		assert_int_equal(lh_plan_node_at(p.plan, p.plan->nodes[0].address - 1),
				 p.plan->n_nodes);
		assert_int_equal(lh_plan_node_at(p.plan,
						 p.plan->nodes[p.plan->n_nodes - 1].address +
							 (1u << p.plan->rank_bits)),
				 p.plan->n_nodes);
		planned_done(&p);
	}
}

static void test_ports_let_10_us_pass_and_lose_nothing(void **state)
{
	struct planned p = plan_of(eights, N_ELEMENTS(eights));
	const struct lh_plan_inner *inner = &p.plan->nodes[EAST_0].inner;

	(void)state;
	assert_true(inner->bandwidth_bps == 1200000000000);
	assert_true(inner->delay_ns == 5000);
	assert_int_equal(inner->burst_bytes, 1500000);
	/* more than the largest windows of all ranks towards one */
	assert_true((double)inner->limit_pkts * LH_INNER_MTU_BYTES >
		    512.0 * (double)p.plan->nodes[EAST_0].tcp->rmem_max_bytes);
	assert_true(p.plan->nodes[EAST_0].nic_limit_bytes == UINT32_MAX);
	assert_true(p.plan->nodes[WEST_0].nic_limit_bytes < UINT32_MAX);
	planned_done(&p);
}

static void test_paths_are_of_nodes_as_if_each_had_one_rank(void **state)
{
	static const struct lh_override one[] = {{"nodes.1.machine", "crate"}};
	struct planned p = plan_of(eights, N_ELEMENTS(eights)), q = plan_of(one, N_ELEMENTS(one));

	(void)state;
	for (size_t i = 0; i < 9; i++) {
		assert_true(p.plan->paths[i].delay_ns == q.plan->paths[i].delay_ns);
		assert_true(p.plan->paths[i].bandwidth_bps == q.plan->paths[i].bandwidth_bps);
		assert_int_equal(p.plan->paths[i].limit_pkts, q.plan->paths[i].limit_pkts);
		assert_int_equal(p.plan->paths[i].clamp_segments, q.plan->paths[i].clamp_segments);
	}
	planned_done(&p);
	planned_done(&q);
}

static void test_one_inner_network_of_each_kind_is_measured(void **state)
{
	struct lh_override o[] = {eights[0],
				  eights[1],
				  {"machines.crate.gpus", "8"},
				  {"machines.crate.inner", "{bandwidth: 1.2 Tbit/s, delay: 5 us}"},
				  eights[2]};
	struct planned p = plan_of(o, N_ELEMENTS(o));

	(void)state;
	assert_true(lh_plan_is_first_inner(p.plan, EAST_0));
	assert_false(lh_plan_is_first_inner(p.plan, EAST_1));
	assert_true(lh_plan_is_first_inner(p.plan, WEST_0));
	planned_done(&p);
}

static void test_the_job_names_the_machine_that_ranks_share(void **state)
{
	struct planned p = plan_of(eights, N_ELEMENTS(eights));
	lh_cleanup_json json_t *job = lh_trainer_job(p.plan, 0);
	json_t *ranks = json_object_get(job, "ranks");
	const json_t *shared = json_array_get(ranks, 9), *alone = json_array_get(ranks, 16);

	(void)state;
	assert_int_equal(json_array_size(ranks), 17);
	assert_string_equal(json_string_value(json_object_get(shared, "node")), "east/1.1");
	assert_string_equal(json_string_value(json_object_get(shared, "vm")), "east/1");
	assert_int_equal(json_integer_value(json_object_get(shared, "local_rank")), 1);
	assert_string_equal(json_string_value(json_object_get(shared, "address")), "10.64.0.17");
	assert_null(json_object_get(alone, "vm"));
	assert_null(json_object_get(alone, "local_rank"));
	planned_done(&p);
}

static void test_fewer_ranks_than_gpus_may_be_asked_for(void **state)
{
	struct lh_override o[] = {
		eights[0], eights[1], eights[2], {"workload.ranks_per_node", "1"}};
	struct planned p = plan_of(o, N_ELEMENTS(o));

	(void)state;
	assert_int_equal(p.plan->n_ranks, 3);
	assert_string_equal(p.plan->ranks[0].name, "east/0");
	planned_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_gpu_of_an_inner_network_is_a_rank),
		cmocka_unit_test(test_without_an_inner_network_several_gpus_are_one_rank),
		cmocka_unit_test(test_an_address_tells_its_node),
		cmocka_unit_test(test_ports_let_10_us_pass_and_lose_nothing),
		cmocka_unit_test(test_paths_are_of_nodes_as_if_each_had_one_rank),
		cmocka_unit_test(test_one_inner_network_of_each_kind_is_measured),
		cmocka_unit_test(test_the_job_names_the_machine_that_ranks_share),
		cmocka_unit_test(test_fewer_ranks_than_gpus_may_be_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
