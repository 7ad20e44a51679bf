/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on a network as verify.csv and verify.json. See verify.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/verify.h"

static const struct {
	const char *name;
	const char *unit;
} properties[LH_N_PROPERTIES] = {
	[LH_PROPERTY_TIMER] = {"timer-lateness", "ms"},
	[LH_PROPERTY_DELAY] = {"delay", "ms"},
	[LH_PROPERTY_DELAY_MEAN] = {"delay-mean", "ms"},
	[LH_PROPERTY_JITTER] = {"jitter", "ms"},
	[LH_PROPERTY_JITTER_SHAPE] = {"jitter-shape", ""},
	[LH_PROPERTY_ORDER] = {"overtaken", "packets"},
	[LH_PROPERTY_LOSS] = {"loss", ""},
	[LH_PROPERTY_LOSS_BURST] = {"loss-burst", "packets"},
	[LH_PROPERTY_DUPLICATE] = {"duplicate", ""},
	[LH_PROPERTY_CORRUPT] = {"corrupt", ""},
	[LH_PROPERTY_REORDER] = {"reorder", ""},
	[LH_PROPERTY_RATE] = {"rate", "Mbit/s"},
	[LH_PROPERTY_SERIALISATION] = {"serialisation", "ms"},
	[LH_PROPERTY_QUEUE] = {"queue", "ms"},
	[LH_PROPERTY_UPLINK_RATE] = {"uplink-rate", "Mbit/s"},
	[LH_PROPERTY_UPLINK_QUEUE] = {"uplink-queue", "ms"},
	[LH_PROPERTY_DOWNLINK_RATE] = {"downlink-rate", "Mbit/s"},
	[LH_PROPERTY_DOWNLINK_QUEUE] = {"downlink-queue", "ms"},
	[LH_PROPERTY_INNER_RTT] = {"inner-rtt", "ms"},
	[LH_PROPERTY_INNER_RATE] = {"inner-rate", "Mbit/s"},
	[LH_PROPERTY_FAULTS] = {"unexplained-losses", "packets"},
};

const char *lh_property_name(enum lh_property property)
{
	return properties[property].name;
}

const char *lh_property_unit(enum lh_property property)
{
	return properties[property].unit;
}

static const double LEAST_WITHOUT_EXPONENT = 1e-4; /* of %g */

static const char *node_name(const struct lh_plan *plan, long node)
{
	return node < 0 ? "" : plan->nodes[node].name;
}

/* The ends of a row: of an inner network the first two ranks. */
static const char *from_name(const struct lh_plan *plan, const struct lh_verify_row *row)
{
	return row->from_node >= 0 && row->from_node == row->to_node
		       ? plan->ranks[plan->nodes[row->from_node].first_rank].name
		       : node_name(plan, row->from_node);
}

static const char *to_name(const struct lh_plan *plan, const struct lh_verify_row *row)
{
	return row->from_node >= 0 && row->from_node == row->to_node
		       ? plan->ranks[plan->nodes[row->from_node].first_rank + 1].name
		       : node_name(plan, row->to_node);
}

static const char *site_name(const struct lh_plan *plan, long node)
{
	return node < 0 ? "" : plan->scenario->network.sites[plan->nodes[node].site].name;
}

/* A number in decimals: those who read the file know no exponents. */
static void print_number(FILE *f, double v)
{
	fprintf(f, v != 0 && fabs(v) < LEAST_WITHOUT_EXPONENT ? "%.12f" : "%.9g", v);
}

static void write_row(FILE *f, const struct lh_plan *plan, const struct lh_verify_row *row)
{
	fprintf(f, "%s,%s,%s,%s,%s,%s,%.9g,", lh_property_name(row->property),
		site_name(plan, row->from_node), site_name(plan, row->to_node),
		from_name(plan, row), to_name(plan, row), lh_property_unit(row->property),
		row->target);
	if (!isnan(row->achieved))
		print_number(f, row->achieved);
	fprintf(f, ",%.6g,%.6g,", row->tolerance, row->chance);
	if (row->p >= 0)
		fprintf(f, "%.4g", row->p);
	fprintf(f, ",%" PRId64 ",%s\n", row->n, row->ok ? "yes" : "no");
}

static int write_csv(const struct lh_verdict *v, const struct lh_plan *plan, const char *path,
		     struct lh_error *err)
{
	FILE *f = path ? fopen(path, "we") : NULL;
	bool failed;

	if (!f)
		return lh_fail(err, LH_ESYS, errno, "create %s", path ? path : "verify.csv");
	fputs("property,from,to,from_node,to_node,unit,target,achieved,tolerance,chance,p,packets,"
	      "ok\n",
	      f);
	for (size_t i = 0; i < v->n_rows; i++)
		write_row(f, plan, &v->rows[i]);
	failed = ferror(f);
	failed |= fclose(f) != 0;
	return failed ? lh_fail(err, LH_ESYS, errno, "write %s", path) : 0;
}

static int write_quantiles(const struct lh_verdict *v, const struct lh_plan *plan, const char *path,
			   struct lh_error *err)
{
	FILE *f = path ? fopen(path, "we") : NULL;
	bool failed;

	if (!f)
		return lh_fail(err, LH_ESYS, errno, "create %s", path ? path : "jitter.csv");
	fputs("from_node,to_node,share,asked_ms,achieved_ms,asked_mean_ms,asked_sd_ms,packets\n",
	      f);
	for (size_t i = 0; i < v->n_quantiles; i++) {
		const struct lh_verify_quantile *q = &v->quantiles[i];

		fprintf(f, "%s,%s,%g,%.9g,%.9g,%.9g,%.9g,%" PRId64 "\n",
			node_name(plan, q->from_node), node_name(plan, q->to_node), q->share,
			q->asked_ms, q->achieved_ms, q->asked_mean_ms, q->asked_sd_ms, q->n);
	}
	failed = ferror(f);
	failed |= fclose(f) != 0;
	return failed ? lh_fail(err, LH_ESYS, errno, "write %s", path) : 0;
}

static json_t *row_to_json(const struct lh_plan *plan, const struct lh_verify_row *row)
{
	json_t *doc =
		json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:I, s:b}", "property",
			  lh_property_name(row->property), "from_node", from_name(plan, row),
			  "to_node", to_name(plan, row), "unit", lh_property_unit(row->property),
			  "target", row->target, "tolerance", row->tolerance, "chance", row->chance,
			  "packets", (json_int_t)row->n, "ok", row->ok);

	json_object_set_new(doc, "achieved",
			    isnan(row->achieved) ? json_null() : json_real(row->achieved));
	if (row->p >= 0)
		json_object_set_new(doc, "p", json_real(row->p));
	return doc;
}

int lh_verdict_write(const struct lh_verdict *v, const struct lh_plan *plan, const char *dir,
		     struct lh_error *err)
{
	lh_cleanup_free char *csv = lh_path_join(dir, "verify.csv");
	lh_cleanup_free char *jitter = lh_path_join(dir, "jitter.csv");
	lh_cleanup_free char *path = lh_path_join(dir, "verify.json");
	json_t *rows = json_array();
	lh_cleanup_json json_t *doc = NULL;
	int r = write_csv(v, plan, csv, err);

	if (r == 0 && v->n_quantiles)
		r = write_quantiles(v, plan, jitter, err);
	for (size_t i = 0; i < v->n_rows; i++)
		json_array_append_new(rows, row_to_json(plan, &v->rows[i]));
	doc = json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:f, s:o}", "format", "longhaul-verify/1",
			"network", plan->scenario->network.name, "ok", v->ok, "paths",
			(json_int_t)v->n_paths, "all_paths", (json_int_t)v->n_all_paths, "tests",
			(json_int_t)v->n_tests, "alpha", v->alpha, "rows", rows);
	if (r == 0 && (!doc || !path))
		r = lh_fail(err, LH_ESYS, ENOMEM, "write verify.json");
	return r < 0 ? r : lh_json_write(path, doc, err);
}
