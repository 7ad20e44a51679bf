/* SPDX-License-Identifier: Apache-2.0 */
/* Larger graphs than the cases of all devices (layer_cases.h): enough for several threads and
 * blocks of the CPU device. */
#ifndef LH_TESTS_CPU_CASES_H
#define LH_TESTS_CPU_CASES_H

#include "tests/unit/layer_cases.h"

struct lh_cpu_case {
	struct lh_layer_case c;
	bool is_own; /* every number is one of own loops, the same for any number of threads */
};

extern const struct lh_cpu_case lh_cpu_cases[]; /* the last one has no name */

/* Of these, by name. */
const struct lh_layer_case *lh_cpu_case_find(const char *name);

#endif
