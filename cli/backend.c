/* SPDX-License-Identifier: Apache-2.0 */
/* Whose kernel emulates. See cli.h. */
#include "cli/cli.h"

/* Whether others' traffic crosses the network. */
static bool has_cross_traffic(const struct lh_network *net)
{
	for (size_t i = 0; i < net->n_paths; i++)
		if (net->paths[i].cross.mean_bps > 0)
			return true;
	for (size_t i = 0; i < net->n_sites; i++)
		if (net->sites[i].uplink.cross.mean_bps > 0 ||
		    net->sites[i].downlink.cross.mean_bps > 0)
			return true;
	return false;
}

int lh_cli_choose_backend(const struct lh_scenario *scenario, enum lh_backend *ret_backend,
			  char **ret_kernel, struct lh_error *err)
{
	const struct lh_run_spec *spec = &scenario->run;
	char why[LH_ERROR_MESSAGE_MAX];

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
	if (spec->nodes == LH_NODES_HOST && has_cross_traffic(&scenario->network))
		return lh_fail(err, LH_EINPUT, 0,
			       "the network has `cross_traffic`, which this version has only where "
			       "nodes are beside it; expected --nodes guest, or --backend host");
	return lh_cli_guest_kernel(ret_kernel, err);
}
