/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the table of a trace and as a packet-delivery trace: what is taken has rows that
 * follow each other, and time goes on through them, round after round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scenarios/catalog.h"
#include "scenarios/trace.h"
#include "tests/fuzz/fuzz.h"

const char lh_fuzz_name[] = "trace";
const char *const lh_fuzz_words[] = {"time_s", "delay_ms", "rate_mbps", "loss_ratio", ",", "\n",
				     "1e9",    "-1",	   "nan",	"0x1p3",      "0", NULL};

enum { STEPS = 50 };

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "trace: %s\n", what);
	abort();
}

static void walk(const struct lh_trace *t)
{
	int64_t at = -1, next;

	expect(t->n_rows > 0 && t->length_ns > 0, "no rows");
	for (size_t i = 1; i < t->n_rows; i++)
		expect(t->rows[i].at_ns >= t->rows[i - 1].at_ns + LH_TRACE_STEP_NS, "order");
	for (int i = 0; i < STEPS && (next = lh_trace_next_ns(t, at)) != INT64_MAX; i++) {
		expect(next > at, "time stands still");
		expect(lh_trace_row_at(t, next) != NULL, "a row without values");
		at = next;
	}
}

/* Resolves a trace's tree, and goes through what it is. */
static void resolve(const struct lh_yaml *tree, bool repeat)
{
	const struct lh_yaml *table = lh_yaml_get(tree, "table");
	struct lh_trace trace = {.repeat = repeat, .length_ns = -1};
	struct lh_diag diag = {0};

	if (!table)
		return;
	trace.table = table->text;
	lh_trace_resolve(&trace, tree, "trace", &diag);
	expect(diag.n_messages > 0 || trace.sets, "neither a trace nor a message");
	if (!diag.n_messages)
		walk(&trace);
	lh_trace_done(&trace);
	lh_diag_done(&diag);
}

/* The same bytes in a file. */
static void read_as(const char *key, const uint8_t *data, size_t size)
{
	struct lh_catalog catalog = {".", NULL};
	struct lh_pos pos = {"fuzz", 1, 1};
	struct lh_yaml *tree = lh_yaml_mapping(pos);
	struct lh_diag diag = {0};
	char path[] = "/tmp/lh-fuzz-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || !tree || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
	lh_yaml_set(tree, key, lh_yaml_scalar(path, pos));
	lh_trace_inline(&catalog, tree, "trace", &diag);
	unlink(path);
	expect(diag.n_messages > 0 || lh_yaml_get(tree, "table"), "neither a table nor a message");
	if (!diag.n_messages)
		resolve(tree, true);
	lh_yaml_free(tree);
	lh_diag_done(&diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lh_pos pos = {"fuzz", 1, 1};
	struct lh_yaml *tree = lh_yaml_mapping(pos);
	char *text = strndup((const char *)data, size);

	if (!tree || !text)
		abort();
	lh_yaml_set(tree, "table", lh_yaml_scalar(text, pos));
	resolve(tree, size % 2);
	lh_yaml_free(tree);
	free(text);
	read_as("csv", data, size);
	read_as("mahimahi", data, size);
	return 0;
}
