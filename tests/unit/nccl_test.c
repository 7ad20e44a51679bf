/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL transport without NCCL: its environment, waiting on a clock that the test turns, and
 * what is said where it is missing. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"
#include "trainer/transport/nccl.h"

static const char *value_of(const struct lh_nccl_variable *variables, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(variables[i].name, name) == 0)
			return variables[i].value;
	fail_msg("%s is not set", name);
	return NULL;
}

static void test_ranks_on_one_machine_are_machines_to_nccl(void **state)
{
	struct lh_nccl_site site = {
		.rank = 3, .interface = "veth3", .n_threads = 2, .n_sockets = 4};
	struct lh_nccl_variable a[LH_NCCL_VARIABLES_MAX], b[LH_NCCL_VARIABLES_MAX];
	struct lh_error err = {0};
	uint32_t n;

	(void)state;
	assert_int_equal(lh_nccl_environment(&site, a, &n, &err), 0);
	assert_true(n <= LH_NCCL_VARIABLES_MAX);
	assert_string_equal(value_of(a, n, "NCCL_NET"), "Socket");
	assert_string_equal(value_of(a, n, "NCCL_SOCKET_IFNAME"), "=veth3");
	assert_string_equal(value_of(a, n, "NCCL_SOCKET_NTHREADS"), "2");
	assert_string_equal(value_of(a, n, "NCCL_NSOCKS_PERTHREAD"), "4");
	assert_string_equal(value_of(a, n, "NCCL_P2P_DISABLE"), "1");
	assert_string_equal(value_of(a, n, "NCCL_SHM_DISABLE"), "1");
	assert_string_equal(value_of(a, n, "NCCL_PROTO"), "Simple");
	site.rank = 4;
	assert_int_equal(lh_nccl_environment(&site, b, &n, &err), 0);
	assert_string_not_equal(value_of(a, n, "NCCL_HOSTID"), value_of(b, n, "NCCL_HOSTID"));
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++)
			assert_string_not_equal(b[i].name, b[j].name);
}

static void test_sites_out_of_range_are_refused(void **state)
{
	static const struct {
		struct lh_nccl_site site;
		const char *message;
	} cases[] = {
		{{.interface = NULL, .n_threads = 1, .n_sockets = 1}, "interface \"\""},
		{{.interface = "a,b", .n_threads = 1, .n_sockets = 1}, "interface \"a,b\""},
		{{.interface = "averyverylongname", .n_threads = 1, .n_sockets = 1}, "interface"},
		{{.interface = "eth0", .n_threads = 0, .n_sockets = 1}, "0 threads"},
		{{.interface = "eth0", .n_threads = 17, .n_sockets = 1}, "17 threads"},
		{{.interface = "eth0", .n_threads = 16, .n_sockets = 5}, "expected 1 to 4"},
		{{.interface = "eth0", .n_threads = 1, .n_sockets = 0}, "expected 1 to 64"},
	};
	struct lh_nccl_variable variables[LH_NCCL_VARIABLES_MAX];
	uint32_t n;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_error err = {0};

		assert_int_equal(lh_nccl_environment(&cases[i].site, variables, &n, &err),
				 LH_EINPUT);
		if (!strstr(err.message, cases[i].message))
			fail_msg("\"%s\" lacks \"%s\"", err.message, cases[i].message);
	}
}

static void test_the_environment_is_pinned_whatever_it_was(void **state)
{
	const struct lh_nccl_site site = {
		.rank = 1, .interface = "veth1", .n_threads = 1, .n_sockets = 1};
	struct lh_error err = {0};

	(void)state;
	setenv("NCCL_ALGO", "Tree", 1);
	assert_int_equal(lh_nccl_pin_environment(&site, &err), 0);
	assert_string_equal(getenv("NCCL_ALGO"), "Ring");
	assert_string_equal(getenv("NCCL_HOSTID"), "longhaul-rank-1");
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* A clock that only sleeping turns, and something that is done, or broken, at a time. */
struct scene {
	int64_t now_ns, done_at_ns, broken_at_ns;
	int n_asked;
	int64_t longest_pause_ns;
};

static int64_t scene_now(void *clock)
{
	return ((struct scene *)clock)->now_ns;
}

static void scene_sleep(void *clock, int64_t at_ns)
{
	struct scene *scene = clock;

	assert_true(at_ns > scene->now_ns);
	if (at_ns - scene->now_ns > scene->longest_pause_ns)
		scene->longest_pause_ns = at_ns - scene->now_ns;
	scene->now_ns = at_ns;
}

static int scene_ask(void *context, bool *ret_done, struct lh_error *err)
{
	struct scene *scene = context;

	scene->n_asked++;
	if (scene->now_ns >= scene->broken_at_ns)
		return lh_fail(err, LH_ERUN, 0, "the other side is gone");
	*ret_done = scene->now_ns >= scene->done_at_ns;
	return 0;
}

static int play(struct scene *scene, int64_t timeout_ns, struct lh_error *err)
{
	const struct lh_nccl_wait wait = {.ask = scene_ask,
					  .context = scene,
					  .timeout_ns = timeout_ns,
					  .now_ns = scene_now,
					  .sleep_until_ns = scene_sleep,
					  .clock = scene};

	return lh_nccl_wait(&wait, "all-reduce", err);
}

static void test_what_is_done_is_not_waited_for(void **state)
{
	struct scene scene = {.now_ns = 5, .broken_at_ns = INT64_MAX};
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(play(&scene, 1000000000, &err), 0);
	assert_int_equal(scene.n_asked, 1);
	assert_int_equal(scene.now_ns, 5);
}

static void test_waiting_ends_soon_after_the_thing_is_done(void **state)
{
	struct scene scene = {.done_at_ns = 50000000, .broken_at_ns = INT64_MAX};
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(play(&scene, 1000000000, &err), 0);
	assert_true(scene.now_ns >= scene.done_at_ns);
	assert_true(scene.now_ns <= scene.done_at_ns + 1000000);
	assert_true(scene.longest_pause_ns <= 1000000);
}

static void test_waiting_ends_at_the_time_out_and_no_earlier(void **state)
{
	struct scene scene = {.done_at_ns = INT64_MAX, .broken_at_ns = INT64_MAX};
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(play(&scene, 2500000000, &err), LH_ERUN);
	assert_int_equal(scene.now_ns, 2500000000);
	assert_string_equal(err.message, "all-reduce: not done after 2.5 s");
}

static void test_what_is_done_at_the_very_end_is_done(void **state)
{
	struct scene scene = {.done_at_ns = 30000000, .broken_at_ns = INT64_MAX};
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(play(&scene, 30000000, &err), 0);
}

static void test_an_error_ends_the_waiting(void **state)
{
	struct scene scene = {.done_at_ns = INT64_MAX, .broken_at_ns = 7000000};
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(play(&scene, 1000000000, &err), LH_ERUN);
	assert_true(scene.now_ns < 9000000);
	assert_string_equal(err.message, "all-reduce: the other side is gone");
}

/* ---- without NCCL, or a GPU ------------------------------------------------------------------ */

static void test_it_is_refused_where_it_is_missing(void **state)
{
#ifdef LH_HAVE_NCCL
	(void)state;
	skip();
#else
	struct lh_nccl_options options = {.n_ranks = 1};
	struct lh_error err = {0};
	struct lh_nccl *nccl;

	(void)state;
	assert_int_equal(lh_nccl_open(&options, &nccl, &err), LH_EENV);
	assert_non_null(strstr(err.message, "built without NCCL; install"));
	assert_int_equal(lh_error_exit_status(&err), 4);
	lh_nccl_close(NULL);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks_on_one_machine_are_machines_to_nccl),
		cmocka_unit_test(test_sites_out_of_range_are_refused),
		cmocka_unit_test(test_the_environment_is_pinned_whatever_it_was),
		cmocka_unit_test(test_what_is_done_is_not_waited_for),
		cmocka_unit_test(test_waiting_ends_soon_after_the_thing_is_done),
		cmocka_unit_test(test_waiting_ends_at_the_time_out_and_no_earlier),
		cmocka_unit_test(test_what_is_done_at_the_very_end_is_done),
		cmocka_unit_test(test_an_error_ends_the_waiting),
		cmocka_unit_test(test_it_is_refused_where_it_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
