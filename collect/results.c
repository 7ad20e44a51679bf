/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a run as JSON and as lines for a terminal. See collect.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect.h"
#include "core/cleanup.h"

/* A number, or null for NaN. */
static json_t *real_or_null(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *texts_json(const struct lh_notes *notes)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < notes->n_items; i++)
		json_array_append_new(array, json_string(notes->items[i]));
	return array;
}

static json_t *costs_json(const struct lh_results *results)
{
	json_t *object = json_object();

	for (int i = 0; object && i < LH_N_COST_SCOPES; i++) {
		const struct lh_cost_sum *c = &results->cost.scopes[i];

		if (!c->is_complete)
			continue;
		json_object_set_new(object, lh_cost_scope_name(i),
				    json_pack("{s:I, s:I, s:I, s:I, s:o, s:o}", "vm_usd_micro",
					      (json_int_t)c->vm_usd_micro, "egress_usd_micro",
					      (json_int_t)c->egress_usd_micro, "data_usd_micro",
					      (json_int_t)c->data_usd_micro, "total_usd_micro",
					      (json_int_t)c->total_usd_micro, "usd_per_hour",
					      real_or_null(c->total_usd_per_hour),
					      "usd_per_million_samples",
					      real_or_null(c->total_usd_per_million_samples)));
	}
	return object;
}

/* A count, or null for -1. */
static json_t *count_or_null(int64_t value)
{
	return value >= 0 ? json_integer((json_int_t)value) : json_null();
}

static json_t *network_json(const struct lh_summary *s)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:I}", "sent_bytes", count_or_null(s->sent_bytes),
			 "wire_bytes", count_or_null(s->wire_bytes), "retransmits",
			 count_or_null(s->retransmits), "timeouts", count_or_null(s->timeouts),
			 "dropped_packets", (json_int_t)s->dropped_packets);
}

json_t *lh_results_json(const struct lh_results *results)
{
	lh_cleanup_json json_t *rows = lh_table_format_json(&results->throughput);
	lh_cleanup_json json_t *object = NULL;
	json_t *row = json_array_get(rows, 0);

	if (!row)
		return NULL;
	object = json_incref(row);
	if (json_object_set_new(object, "valid", json_boolean(results->is_valid)) < 0 ||
	    json_object_set_new(object, "invalid_because", texts_json(&results->invalid)) < 0 ||
	    json_object_set_new(object, "notes", texts_json(&results->notes)) < 0 ||
	    json_object_set_new(object, "wait_s", real_or_null(results->summary.wait_s)) < 0 ||
	    json_object_set_new(object, "host_s", real_or_null(results->summary.host_s)) < 0 ||
	    json_object_set_new(object, "transfer_s", real_or_null(results->summary.transfer_s)) <
		    0 ||
	    json_object_set_new(object, "apply_s", real_or_null(results->summary.apply_s)) < 0 ||
	    json_object_set_new(object, "comm_s", real_or_null(results->summary.communication_s)) <
		    0 ||
	    json_object_set_new(object, "network", network_json(&results->summary)) < 0 ||
	    json_object_set_new(object, "cost", costs_json(results)) < 0 ||
	    json_object_set_new(object, "released", lh_table_format_json(&results->released)) < 0 ||
	    json_object_set_new(object, "epochs_table", lh_table_format_json(&results->epochs)) < 0)
		return NULL;
	return lh_steal(&object);
}

/* "  published 261.9, -1.3 %" where it is known. */
static void print_published(FILE *f, double ours, double published, int decimals)
{
	char a[64], b[64];

	if (published > 0 && isfinite(ours))
		fprintf(f, "  (published %s, %s%s %%)",
			lh_number_format(published, decimals, a, sizeof(a)),
			ours >= published ? "+" : "",
			lh_number_format((ours / published - 1) * 100, 1, b, sizeof(b)));
	fputc('\n', f);
}

static void print_figures(FILE *f, const struct lh_results *results)
{
	const struct lh_summary *s = &results->summary;
	const struct lh_published *p = &results->published;
	char a[64], b[64];

	if (isfinite(s->throughput_sps)) {
		fprintf(f, "throughput     %s samples/s",
			lh_number_format(s->throughput_sps, 1, a, sizeof(a)));
		print_published(f, s->throughput_sps, p->throughput_sps, 1);
	} else {
		fputs("throughput     not known: nothing was reported of samples\n", f);
	}
	if (isfinite(s->granularity)) {
		fprintf(f, "granularity    %s", lh_number_format(s->granularity, 2, a, sizeof(a)));
		print_published(f, s->granularity, p->granularity, 2);
	}
	if (isfinite(s->communication_s)) {
		fprintf(f, "communication  %s s per epoch",
			lh_number_format(s->communication_s, 2, a, sizeof(a)));
		print_published(f, s->communication_s, p->comm_s, 2);
	}
	if (isfinite(s->speedup))
		fprintf(f, "speed-up       %s over the first node alone (%s samples/s)\n",
			lh_number_format(s->speedup, 2, a, sizeof(a)),
			lh_number_format(s->baseline_sps, 1, b, sizeof(b)));
	if (p->source && (p->throughput_sps > 0 || p->granularity > 0 || p->comm_s > 0))
		fprintf(f, "published      %s\n", p->source);
}

static void print_cost(FILE *f, const struct lh_results *results)
{
	for (int i = 0; i < LH_N_COST_SCOPES; i++) {
		const struct lh_cost_sum *c = &results->cost.scopes[i];
		double hours = (double)results->summary.wall_ns / 3.6e12;
		char t[64], m[64], v[64], e[64], d[64];

		if (!c->is_complete)
			continue;
		fprintf(f, "cost %-9s %s USD/h (VMs %s, egress %s, data %s)", lh_cost_scope_name(i),
			lh_number_format(c->total_usd_per_hour, 3, t, sizeof(t)),
			lh_number_format((double)c->vm_usd_micro * 1e-6 / hours, 3, v, sizeof(v)),
			lh_number_format((double)c->egress_usd_micro * 1e-6 / hours, 3, e,
					 sizeof(e)),
			lh_number_format((double)c->data_usd_micro * 1e-6 / hours, 3, d,
					 sizeof(d)));
		if (isfinite(c->total_usd_per_million_samples))
			fprintf(f, ", %s USD per million samples",
				lh_number_format(c->total_usd_per_million_samples, 3, m,
						 sizeof(m)));
		fputc('\n', f);
	}
}

enum { EPOCHS_SHOWN_MAX = 24, EPOCHS_SHOWN_AT_EACH_END = 8 };

/* The lines of the epochs table; of a long one its begin and its end. */
static void print_epochs(FILE *f, const char *lines, size_t n_epochs)
{
	size_t skip_from = n_epochs, skip_to = n_epochs, row = 0;

	if (n_epochs > EPOCHS_SHOWN_MAX) {
		skip_from = EPOCHS_SHOWN_AT_EACH_END;
		skip_to = n_epochs - EPOCHS_SHOWN_AT_EACH_END;
	}
	/* line 0 holds the heads, line n the n-th epoch from 1 on */
	for (const char *p = lines; *p; row++) {
		const char *end = strchrnul(p, '\n');
		bool is_skipped = row > skip_from && row <= skip_to;

		if (row == skip_from + 1 && is_skipped)
			fprintf(f, "... %zu more epochs in epochs.csv\n", skip_to - skip_from);
		if (!is_skipped)
			fprintf(f, "%.*s\n", (int)(end - p), p);
		p = *end ? end + 1 : end;
	}
}

static void print_verdict(FILE *f, const struct lh_results *results)
{
	const struct lh_summary *s = &results->summary;

	fprintf(f, "%s: %zu node%s, ", results->scenario, s->n_nodes, s->n_nodes == 1 ? "" : "s");
	if (s->n_gpus)
		fprintf(f, "%" PRId64 " GPU%s, ", s->n_gpus, s->n_gpus == 1 ? "" : "s");
	fprintf(f, "%zu epoch%s, seed %" PRId64 ": %s\n", s->n_epochs, s->n_epochs == 1 ? "" : "s",
		results->seed, results->is_valid ? "valid" : "INVALID");
	for (size_t i = 0; i < results->invalid.n_items; i++)
		fprintf(f, "  invalid: %s\n", results->invalid.items[i]);
}

int lh_results_format(const struct lh_results *results, size_t width, char **ret_text,
		      struct lh_error *err)
{
	lh_cleanup_free char *epochs = NULL;
	char *text = NULL;
	size_t size;
	FILE *f;
	int r = lh_table_format_text(&results->epochs, width, &epochs, err);

	if (r < 0)
		return r;
	f = open_memstream(&text, &size);
	if (!f)
		return lh_fail(err, LH_ESYS, errno, "format the results");
	print_verdict(f, results);
	fputc('\n', f);
	print_epochs(f, epochs, results->epochs.n_rows);
	fputc('\n', f);
	print_figures(f, results);
	print_cost(f, results);
	for (size_t i = 0; i < results->notes.n_items; i++)
		fprintf(f, "note: %s\n", results->notes.items[i]);
	if (fclose(f) != 0) {
		free(text);
		return lh_fail(err, LH_ESYS, ENOMEM, "format the results");
	}
	*ret_text = text;
	return 0;
}
