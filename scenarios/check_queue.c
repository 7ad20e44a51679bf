/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold for queues and for the links that sites share. See check_internal.h. */
#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/check_internal.h"

static const double CROSS_SHARE_MAX = 0.95;

void lh_check_queue(const struct lh_queue_spec *queue, struct lh_pos pos, const char *key_path,
		    struct lh_diag *diag)
{
	const struct {
		const char *key;
		bool stands;
	} keys[] = {{"queue_target", queue->target_ns > 0},
		    {"queue_interval", queue->interval_ns > 0},
		    {"ecn", queue->ecn}};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (queue->discipline == LH_DROP_TAIL && keys[i].stands)
			lh_diag_add(diag, pos, key_path,
				    "%s without an active queue management; expected "
				    "queue_discipline: codel or fq_codel beside it",
				    keys[i].key);
	if (queue->target_ns > 0 && queue->interval_ns > 0 &&
	    queue->target_ns >= queue->interval_ns)
		lh_diag_add(diag, pos, key_path,
			    "queue_target is not below queue_interval; expected about a twentieth "
			    "of it");
}

void lh_check_cross(const struct lh_cross_spec *cross, int64_t bandwidth_bps, const char *key_path,
		    struct lh_diag *diag)
{
	if (cross->mean_bps > 0 && bandwidth_bps > 0 &&
	    (double)cross->mean_bps > CROSS_SHARE_MAX * (double)bandwidth_bps)
		lh_diag_add(
			diag, cross->pos, key_path,
			"cross_traffic.mean is more than %.0f %% of the bandwidth: it would leave "
			"nothing",
			100 * CROSS_SHARE_MAX);
}

static void check_link(const struct lh_site_link *link, const char *site, const char *key,
		       struct lh_diag *diag)
{
	lh_cleanup_free char *key_path = lh_strf("network.sites.%s.%s", site, key);

	if (link->bandwidth_bps <= 0)
		return;
	lh_check_queue(&link->queue, link->pos, key_path, diag);
	lh_check_cross(&link->cross, link->bandwidth_bps, key_path, diag);
	if (link->queue.size.unit == LH_QUEUE_BDP)
		lh_diag_add(diag, link->pos, key_path,
			    "queue: a link that many paths share has no round trip of its own; "
			    "expected a time, bytes or packets");
}

void lh_check_site_links(const struct lh_network *network, struct lh_diag *diag)
{
	for (size_t i = 0; i < network->n_sites; i++) {
		const struct lh_site *site = &network->sites[i];
		const struct lh_path_spec *inside =
			lh_path_spec_find(network, site->name, site->name);

		check_link(&site->uplink, site->name, "uplink", diag);
		check_link(&site->downlink, site->name, "downlink", diag);
		if ((site->uplink.bandwidth_bps > 0 || site->downlink.bandwidth_bps > 0) &&
		    inside && inside->queue.discipline != LH_DROP_TAIL)
			lh_diag_add(diag, inside->pos, "network.paths",
				    "the path inside %s, a site with shared links, cannot have an "
				    "active queue management; expected drop-tail",
				    site->name);
	}
}
