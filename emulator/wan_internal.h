/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of a guest that is the network alone agree on. */
#ifndef LH_EMULATOR_WAN_INTERNAL_H
#define LH_EMULATOR_WAN_INTERNAL_H

#include <stdint.h>

#include "core/error.h"
#include "emulator/network.h"

/* One letter asks; the answer has a fixed size. The first answer, that the links stand, comes
 * unasked. */
enum lh_wan_question {
	LH_WAN_SHAPE = 's',
	LH_WAN_READ = 'r', /* afterwards LH_WAN_COUNTERS holds faults and counters */
	LH_WAN_TIMER = 't',
};

enum { LH_WAN_MESSAGE_MAX = LH_ERROR_MESSAGE_MAX };

/* Two programs that are one file, on one machine: no other order or size of bytes. */
struct lh_wan_answer {
	int32_t code; /* enum lh_code */
	int32_t reserved;
	int64_t value;
	char message[LH_WAN_MESSAGE_MAX];
};

/* In the run's folder: struct lh_net_faults, the counters of all pairs, those of all accesses. */
#define LH_WAN_COUNTERS ".guest/counters"

/* The guest's end of the line. */
#define LH_WAN_LINE "/dev/ttyS0"

#endif
