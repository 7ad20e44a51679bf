/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures packets at nodes' links with libpcap, in a process of its own. The files are
 * pcap with stamps in nanoseconds, of the kernel, by CLOCK_MONOTONIC as all other files of a
 * run. A super-packet (GSO) is one packet there. Private to the emulator.
 */
#ifndef LH_EMULATOR_CAPTURE_H
#define LH_EMULATOR_CAPTURE_H

#include <jansson.h>

#include "core/error.h"
#include "emulator/network.h"

struct lh_capture;

/*
 * Starts capturing what the scenario's run.capture names, into run_dir/capture/SITE-N.pcap.
 * *ret_capture is the caller's, for lh_capture_stop; NULL where nothing is named. LH_ESYS.
 */
int lh_capture_start(struct lh_net *net, const struct lh_plan *plan, const char *run_dir,
		     struct lh_capture **ret_capture, struct lh_error *err);

/*
 * Ends it: what has passed until now is kept, what passes later is not. Waits until all is
 * written: up to minutes of virtual time, parts of a second of real time. Returns what engine.json
 * says about it (docs/formats.md), the caller's; NULL where capture is NULL.
 */
json_t *lh_capture_stop(struct lh_capture *capture);

#endif
