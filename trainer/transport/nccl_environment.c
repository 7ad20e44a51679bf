/* SPDX-License-Identifier: Apache-2.0 */
/* What of the NCCL transport needs no NCCL: its environment, and waiting. See nccl.h. */
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/clock.h"
#include "trainer/transport/nccl.h"

enum { THREADS_MAX = 16, SOCKETS_MAX = 64 };

static const int64_t PAUSE_FIRST_NS = 10000, PAUSE_MAX_NS = 1000000;

/*
 * The same for every rank: sockets alone, over IPv4; no short cuts within a machine, as ranks of
 * one machine stand for distant ones; one algorithm and protocol, as NCCL's own choice knows
 * nothing of latency, with Simple, whose bytes on the wire are the payload's; few blocks of the
 * GPU, so that several ranks' kernels fit on one.
 */
static const struct lh_nccl_variable fixed[] = {
	{"NCCL_NET", "Socket"},	    {"NCCL_IB_DISABLE", "1"},	{"NCCL_SOCKET_FAMILY", "AF_INET"},
	{"NCCL_P2P_DISABLE", "1"},  {"NCCL_SHM_DISABLE", "1"},	{"NCCL_NVLS_ENABLE", "0"},
	{"NCCL_MNNVL_ENABLE", "0"}, {"NCCL_CUMEM_ENABLE", "0"}, {"NCCL_MULTI_RANK_GPU_ENABLE", "1"},
	{"NCCL_ALGO", "Ring"},	    {"NCCL_PROTO", "Simple"},	{"NCCL_MAX_CTAS", "2"},
};
enum { N_FIXED = sizeof(fixed) / sizeof(fixed[0]) };

static int check_site(const struct lh_nccl_site *site, struct lh_error *err)
{
	size_t length = site->interface ? strlen(site->interface) : 0;

	if (length == 0 || length >= IF_NAMESIZE || strpbrk(site->interface, ",/: "))
		return lh_fail(err, LH_EINPUT, 0,
			       "nccl: interface \"%s\"; expected the name of one network interface",
			       site->interface ? site->interface : "");
	if (site->n_threads < 1 || site->n_threads > THREADS_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "nccl: %" PRIu32 " threads for sockets; expected 1 to %d",
			       site->n_threads, THREADS_MAX);
	if (site->n_sockets < 1 || site->n_sockets > SOCKETS_MAX / site->n_threads)
		return lh_fail(err, LH_EINPUT, 0,
			       "nccl: %" PRIu32 " sockets for each of %" PRIu32
			       " threads; expected 1 to %" PRIu32,
			       site->n_sockets, site->n_threads, SOCKETS_MAX / site->n_threads);
	return 0;
}

int lh_nccl_environment(const struct lh_nccl_site *site,
			struct lh_nccl_variable ret_variables[LH_NCCL_VARIABLES_MAX],
			uint32_t *ret_n, struct lh_error *err)
{
	struct lh_nccl_variable *own = ret_variables + N_FIXED;
	int rc = check_site(site, err);

	if (rc)
		return rc;
	memcpy(ret_variables, fixed, sizeof(fixed));
	memset(own, 0, 4 * sizeof(*own));
	strcpy(own[0].name, "NCCL_HOSTID");
	snprintf(own[0].value, LH_NCCL_VALUE_MAX, "longhaul-rank-%" PRIu32, site->rank);
	strcpy(own[1].name, "NCCL_SOCKET_IFNAME"); /* "=": exactly this one */
	snprintf(own[1].value, LH_NCCL_VALUE_MAX, "=%s", site->interface);
	strcpy(own[2].name, "NCCL_SOCKET_NTHREADS");
	snprintf(own[2].value, LH_NCCL_VALUE_MAX, "%" PRIu32, site->n_threads);
	strcpy(own[3].name, "NCCL_NSOCKS_PERTHREAD");
	snprintf(own[3].value, LH_NCCL_VALUE_MAX, "%" PRIu32, site->n_sockets);
	*ret_n = N_FIXED + 4;
	return 0;
}

int lh_nccl_pin_environment(const struct lh_nccl_site *site, struct lh_error *err)
{
	struct lh_nccl_variable variables[LH_NCCL_VARIABLES_MAX];
	uint32_t n;
	int rc = lh_nccl_environment(site, variables, &n, err);

	for (uint32_t i = 0; rc == 0 && i < n; i++)
		if (setenv(variables[i].name, variables[i].value, 1) < 0)
			rc = lh_fail(err, LH_ESYS, errno, "set %s", variables[i].name);
	return rc;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static int64_t now_monotonic_ns(void *clock)
{
	(void)clock;
	return lh_clock_now_ns();
}

static void sleep_monotonic(void *clock, int64_t at_ns)
{
	(void)clock;
	lh_clock_sleep_until(at_ns);
}

int lh_nccl_wait(const struct lh_nccl_wait *wait, const char *what, struct lh_error *err)
{
	int64_t (*now_ns)(void *) = wait->now_ns ? wait->now_ns : now_monotonic_ns;
	void (*sleep_until)(void *, int64_t) =
		wait->sleep_until_ns ? wait->sleep_until_ns : sleep_monotonic;
	int64_t now = now_ns(wait->clock), end = now + wait->timeout_ns, pause = PAUSE_FIRST_NS;

	for (;;) {
		bool is_last = now >= end, is_done = false;
		int rc = wait->ask(wait->context, &is_done, err);

		if (rc)
			return lh_error_prefix(err, "%s", what);
		if (is_done)
			return 0;
		if (is_last)
			return lh_fail(err, LH_ERUN, 0, "%s: not done after %g s", what,
				       (double)wait->timeout_ns / (double)LH_NS_PER_S);
		sleep_until(wait->clock, now + pause < end ? now + pause : end);
		pause = 2 * pause < PAUSE_MAX_NS ? 2 * pause : PAUSE_MAX_NS;
		now = now_ns(wait->clock);
	}
}
