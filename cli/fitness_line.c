/* SPDX-License-Identifier: Apache-2.0 */
/* What a run on the real clock found out about this machine. See cli.h. */
#include <stdio.h>

#include "cli/cli.h"
#include "core/cleanup.h"
#include "core/file.h"

static double number(const json_t *doc, const char *key)
{
	return json_number_value(json_object_get(doc, key));
}

void lh_cli_print_fitness(const char *out)
{
	lh_cleanup_free char *path = lh_path_join(out, "engine.json");
	lh_cleanup_json json_t *doc = NULL;
	struct lh_error ignored;
	const json_t *f;

	if (!path || lh_json_read(path, &doc, &ignored) < 0 ||
	    !(f = json_object_get(doc, "fitness")))
		return;
	printf("This machine: timers late by %.3g ms (p99", number(f, "timer_p99_ns") / 1e6);
	if (json_object_get(f, "guest_timer_p99_ns"))
		printf("; in the guest %.3g ms", number(f, "guest_timer_p99_ns") / 1e6);
	printf("), ");
	if (json_object_get(f, "carried_bps"))
		printf("carries %.0f Mbit/s, ", number(f, "carried_bps") / 1e6);
	printf("%.0f Mbit/s asked: %s\n", number(f, "asked_bps") / 1e6,
	       json_is_true(json_object_get(f, "ok")) ? "fit for real time"
						      : "NOT fit for real time");
}
