/* SPDX-License-Identifier: Apache-2.0 */
/* How the field tables are written. */
#ifndef LH_SCENARIOS_SCHEMA_INTERNAL_H
#define LH_SCENARIOS_SCHEMA_INTERNAL_H

#include "scenarios/scenario.h"
#include "scenarios/schema.h"

/* clang-format off */
#define REQUIRED LH_FIELD_REQUIRED
#define AT(owner, member) .offset = offsetof(owner, member)
#define COUNT(owner, member) .count_offset = offsetof(owner, member)
#define VERSION \
	{.key = "longhaul", .type = LH_FIELD_VERSION, .doc = "version of the file's format: 1"}
#define SOURCE(owner)                                                   \
	{.key = "source", .type = LH_FIELD_STRING, AT(owner, source),    \
	 .doc = "where the values come from"}
#define END {.key = NULL}
#define RATE_MAX 1000000000000 /* 1 Tbit/s */
#define INNER_RATE_MAX 100000000000000 /* 100 Tbit/s */
#define JITTER_MAX 2000000000 /* 2 s: netem holds a deviation in 31 bits of ns */
#define QUEUE_TARGET_MAX 4000000000 /* 4 s: the kernel holds it in 32 bits of us */
#define DELAY_MAX 3600000000000 /* 1 h */
#define SIZE_MAX_BYTES 1000000000000 /* 1 TB */
/* clang-format on */

extern const struct lh_section lh_train_section; /* struct lh_train_spec */

#endif
