/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest that is the network and nothing else, for nodes on the host. Both sides of it: the host
 * starts it and asks, the guest serves. They talk over a serial line of the guest; counters come
 * in a file of the run's folder. Private to the emulator.
 */
#ifndef LH_EMULATOR_WAN_H
#define LH_EMULATOR_WAN_H

#include "emulator/network.h"

struct lh_wan;

struct lh_wan_request {
	const char *kernel_path;  /* the guest's */
	const char *program_path; /* absolute: this program, the guest's init */
	int64_t memory_bytes;
	int64_t seed;
};

/*
 * Boots the guest and waits until its links stand: TAP devices (cable.h) then wait in the current
 * namespace. run_dir/run.json holds the scenario of the plan. Main thread only; the guest ends with
 * this process. LH_EENV, LH_ERUN.
 */
int lh_wan_start(const struct lh_wan_request *request, const char *run_dir,
		 const struct lh_plan *plan, struct lh_wan **ret_wan, struct lh_error *err);

/* Ends the guest. NULL is fine. */
void lh_wan_stop(struct lh_wan *wan);

/* As lh_net_shape, in the guest. */
int lh_wan_shape(struct lh_wan *wan, struct lh_error *err);

/* As lh_net_read_counters, lh_net_read_site_links, lh_net_read_faults and lh_net_counted_ns at
 * once, in the guest. */
int lh_wan_read(struct lh_wan *wan, struct lh_net_counter *counters, struct lh_site_counter *links,
		struct lh_net_faults *faults, int64_t *ret_counted_ns, struct lh_error *err);

/* How late the guest's timers are: see fitness.h. */
int lh_wan_timer(struct lh_wan *wan, int64_t *ret_p99_ns, struct lh_error *err);

/* In the guest: builds the network and answers, until nobody asks any more. */
int lh_wan_serve(const struct lh_scenario *scenario, const char *run_dir, struct lh_error *err);

#endif
