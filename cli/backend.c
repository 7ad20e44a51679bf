/* SPDX-License-Identifier: Apache-2.0 */
/* Whose kernel emulates. See cli.h. */
#include "cli/cli.h"

/* What a network or run has that a guest cannot do which is the network alone; NULL: nothing. */
static const char *beyond_a_split(const struct lh_scenario *sc)
{
	const struct lh_network *net = &sc->network;
	bool crosses = false, varies = sc->n_events > 0;

	for (size_t i = 0; i < net->n_paths; i++) {
		crosses |= net->paths[i].cross.mean_bps > 0;
		varies |= net->paths[i].trace.sets != 0;
	}
	for (size_t i = 0; i < net->n_sites; i++)
		crosses |= net->sites[i].uplink.cross.mean_bps > 0 ||
			   net->sites[i].downlink.cross.mean_bps > 0;
	return crosses			 ? "cross_traffic"
	       : varies			 ? "timeline` or a `trace"
	       : sc->run.capture.n_where ? "capture"
					 : NULL;
}

int lh_cli_choose_backend(const struct lh_scenario *scenario, enum lh_backend *ret_backend,
			  char **ret_kernel, struct lh_error *err)
{
	const struct lh_run_spec *spec = &scenario->run;
	char why[LH_ERROR_MESSAGE_MAX];
	const char *beyond;

	*ret_backend = (enum lh_backend)spec->backend;
	if (*ret_backend == LH_BACKEND_AUTO)
		*ret_backend = spec->clock == LH_CLOCK_REAL && lh_cli_host_is_fit(why, sizeof(why))
				       ? LH_BACKEND_HOST
				       : LH_BACKEND_GUEST;
	else if (*ret_backend == LH_BACKEND_HOST && !lh_cli_host_is_fit(why, sizeof(why)))
		return lh_fail(err, LH_EENV, 0,
			       "this host cannot emulate by itself: %s (longhaul doctor says what "
			       "mends it; --backend guest needs nothing)",
			       why);
	if (*ret_backend == LH_BACKEND_HOST)
		return 0;
	if (spec->nodes == LH_NODES_HOST && !lh_cli_has_host_nodes(why, sizeof(why)))
		return lh_fail(err, LH_EENV, 0, "nodes cannot be on this host: %s", why);
	beyond = spec->nodes == LH_NODES_HOST ? beyond_a_split(scenario) : NULL;
	if (beyond)
		return lh_fail(err, LH_EINPUT, 0,
			       "there is a `%s`, which this version does not do where nodes are on "
			       "the host and their network in a guest; expected --nodes guest, or "
			       "--backend host",
			       beyond);
	return lh_cli_guest_kernel(ret_kernel, err);
}
