/* SPDX-License-Identifier: Apache-2.0 */
/* Measured speeds as a compute profile. See profile_file.h. */
#include "cli/profile_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collect/table.h"
#include "config.h"
#include "core/cleanup.h"
#include "import/yaml_text.h"

/* What scenarios take (scenarios/check.c). */
static const double VARIATION_MAX = 0.33;

static double number(const json_t *m, const char *key)
{
	return json_number_value(json_object_get(m, key));
}

/* Of a part of a step, in ms. */
static double time_ms(const json_t *m, const char *part, const char *key)
{
	return 1e3 * number(json_object_get(json_object_get(m, "times"), part), key);
}

static const char *device_text(const json_t *m, const char *key)
{
	const char *text = json_string_value(json_object_get(json_object_get(m, "device"), key));

	return text ? text : "";
}

const json_t *lh_profile_fastest(const json_t *measurements)
{
	const json_t *best = NULL, *m;
	size_t i;

	json_array_foreach (measurements, i, m)
		if (!best || number(m, "samples_per_s") > number(best, "samples_per_s"))
			best = m;
	return best;
}

/* ---- the table ------------------------------------------------------------------------------ */

int lh_profile_table(const json_t *measurements, size_t width, char **ret_text,
		     struct lh_error *err)
{
	static const struct lh_column columns[] = {
		{"micro_batch", "micro-batch", LH_CELL_INT, 0, 0, 0},
		{"samples_per_s", "samples/s", LH_CELL_REAL, 0, 1, 0},
		{"variation", "+- %", LH_CELL_REAL, 0, 1, 0},
		{"median", "median ms", LH_CELL_REAL, 0, 3, 0},
		{"p10", "10 %", LH_CELL_REAL, 0, 3, 3},
		{"p90", "90 %", LH_CELL_REAL, 0, 3, 3},
		{"load", "load ms", LH_CELL_REAL, 0, 3, 1},
		{"forward", "forward ms", LH_CELL_REAL, 0, 3, 1},
		{"backward", "backward ms", LH_CELL_REAL, 0, 3, 1},
		{"update", "update ms", LH_CELL_REAL, 0, 3, 1},
		{"memory", "memory MB", LH_CELL_REAL, 0, 1, 2},
		{"steps", "steps", LH_CELL_INT, 0, 0, 4},
	};
	static const char *const parts[] = {"load", "forward", "backward", "update"};
	struct lh_table table;
	const json_t *m;
	size_t i;
	int r;

	lh_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	json_array_foreach (measurements, i, m) {
		lh_table_row(&table);
		lh_table_put_int(&table, (int64_t)number(m, "micro_batch"));
		lh_table_put_real(&table, number(m, "samples_per_s"));
		lh_table_put_real(&table, 100 * number(m, "variation_ratio"));
		lh_table_put_real(&table, time_ms(m, "micro_batch", "median_s"));
		lh_table_put_real(&table, time_ms(m, "micro_batch", "p10_s"));
		lh_table_put_real(&table, time_ms(m, "micro_batch", "p90_s"));
		for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
			lh_table_put_real(&table, time_ms(m, parts[k], "median_s"));
		lh_table_put_real(&table, number(m, "peak_bytes") / 1e6);
		lh_table_put_int(&table, (int64_t)number(m, "steps"));
	}
	r = lh_table_format_text(&table, width, ret_text, err);
	lh_table_done(&table);
	return r;
}

/* ---- the file ------------------------------------------------------------------------------- */

static void put_about(FILE *out, const json_t *m)
{
	double threads = number(json_object_get(m, "device"), "threads");
	char text[320];

	snprintf(text, sizeof(text), "%s%s%s, device %s, %.0f thread%s, %s",
		 *device_text(m, "processor") ? device_text(m, "processor") : "this machine",
		 *device_text(m, "software") ? "; " : "", device_text(m, "software"),
		 device_text(m, "name"), threads, threads == 1 ? "" : "s",
		 device_text(m, "precision"));
	fputs("about: ", out);
	lh_yaml_put_quoted(out, text);
	fputc('\n', out);
}

static void put_source(FILE *out, const json_t *m)
{
	char text[256], date[16];
	time_t now = time(NULL);
	struct tm tm;

	strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &tm));
	snprintf(text, sizeof(text),
		 "measured by longhaul " PACKAGE_VERSION
		 " on %s: %.0f micro-batches after a warm-up, loading, forward and backward; "
		 "variation: their standard deviation%s",
		 date, number(m, "steps"),
		 number(m, "variation_ratio") > VARIATION_MAX ? ", cut off at 33 %" : "");
	lh_yaml_put_quoted(out, text);
}

/* The table, and what a scenario does not take from here, as comments. */
static int put_comments(FILE *out, const json_t *measurements, const json_t *fastest,
			struct lh_error *err)
{
	lh_cleanup_free char *table = NULL;
	char *rest, *line;
	int r = lh_profile_table(measurements, 0, &table, err);

	if (r < 0)
		return r;
	for (rest = table; (line = strsep(&rest, "\n")) && (*line || rest);)
		fprintf(out, "# %s\n", line);
	fprintf(out,
		"# The optimizer's step is not in samples_per_s: %.3f ms each, for `apply` in a "
		"machine's host costs.\n",
		time_ms(fastest, "update", "median_s"));
	return 0;
}

int lh_profile_format(const char *name, const json_t *measurements, char **ret_text,
		      struct lh_error *err)
{
	const json_t *m = lh_profile_fastest(measurements);
	double variation = number(m, "variation_ratio");
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int r;

	if (!out)
		return lh_fail(err, LH_ESYS, errno, "write the profile");
	r = put_comments(out, measurements, m, err);
	fputs("longhaul: 1\nprofile: ", out);
	lh_yaml_put_quoted(out, name);
	fputc('\n', out);
	put_about(out, m);
	fprintf(out,
		"models:\n  %s: {micro_batch: %.0f, samples_per_s: %.5g, variation: %.2f %%,\n"
		"    source: ",
		json_string_value(json_object_get(m, "model")), number(m, "micro_batch"),
		number(m, "samples_per_s"),
		100 * (variation < VARIATION_MAX ? variation : VARIATION_MAX));
	put_source(out, m);
	fputs("}\n", out);
	if (fclose(out) != 0 && r == 0)
		r = lh_fail(err, LH_ESYS, ENOMEM, "write the profile");
	if (r < 0) {
		free(text);
		return r;
	}
	*ret_text = text;
	return 0;
}
