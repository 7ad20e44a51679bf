/* SPDX-License-Identifier: Apache-2.0 */
/* The report page. See report.h; its added-up tables are report_tables.c's. */
#include "plots/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "plots/html.h"
#include "plots/plots.h"
#include "plots/report_internal.h"

enum { SVG_MAX_BYTES = 64 << 20 };

static const char style[] =
	"body{font:15px/1.5 'DejaVu Sans',Arial,sans-serif;color:#222;max-width:960px;"
	"margin:2em auto;padding:0 1em}\n"
	"h1{font-size:1.7em;margin-bottom:.2em}h2{font-size:1.25em;margin-top:2em;"
	"border-bottom:1px solid #ddd}h3{font-size:1em;margin-bottom:.3em}\n"
	".about{color:#555;margin-top:0}\n"
	".verdict{padding:.7em 1em;border-left:6px solid #009e73;background:#eef8f4}\n"
	".verdict.invalid{border-color:#d55e00;background:#fdf1e8}.verdict ul{margin:.3em 0}\n"
	".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85em;"
	"font-variant-numeric:tabular-nums;margin:.5em 0}\n"
	"th,td{padding:.25em .55em;text-align:right;border-bottom:1px solid #e4e4e4;"
	"white-space:nowrap}th{border-bottom:2px solid #999;white-space:normal;"
	"vertical-align:bottom}\n"
	".t{text-align:left;white-space:normal}.g{color:#777}.n{color:#bbb}"
	".bad{background:#fdf1e8;color:#b00000}\n"
	"figure{margin:1.5em 0}figure svg{max-width:100%;height:auto}"
	"figcaption{font-size:.85em;color:#555}\n"
	"code{background:#f3f3f3;padding:.1em .3em}\n";

static void put_real(FILE *f, double value, int decimals)
{
	char buf[400];

	lh_html_put(f, isfinite(value) ? lh_number_format(value, decimals, buf, sizeof(buf)) : "–");
}

static void put_verdict(FILE *f, const struct lh_results *results)
{
	if (results->is_valid) {
		fputs("<div class=\"verdict\"><b>Valid.</b> The network met its targets, and did "
		      "nothing that its paths do not explain.</div>\n",
		      f);
		return;
	}
	fputs("<div class=\"verdict invalid\"><b>Invalid:</b> the figures below must not be used."
	      "<ul>\n",
	      f);
	for (size_t i = 0; i < results->invalid.n_items; i++) {
		fputs("<li>", f);
		lh_html_put(f, results->invalid.items[i]);
		fputs("</li>\n", f);
	}
	fputs("</ul></div>\n", f);
}

/* Who did what. */
static void put_subject(FILE *f, const struct lh_scenario *sc, const struct lh_summary *s)
{
	const struct lh_workload *w = &sc->workload;

	lh_html_putf(f, "%zu node%s ", s->n_nodes, s->n_nodes == 1 ? "" : "s");
	if (s->n_gpus)
		lh_html_putf(f, "with %" PRId64 " GPU%s ", s->n_gpus, s->n_gpus == 1 ? "" : "s");
	if (sc->model) {
		lh_html_putf(f,
			     "trained %s with strategy %s for %zu epoch%s of %" PRId64 " samples: ",
			     w->model, w->strategy.kind, s->n_epochs, s->n_epochs == 1 ? "" : "s",
			     w->target_batch);
		return;
	}
	fputs("ran <code>", f);
	for (size_t i = 0; i < w->n_command; i++)
		lh_html_putf(f, "%s%s", i ? " " : "", w->command[i]);
	fprintf(f, "</code> for %zu epoch%s: ", s->n_epochs, s->n_epochs == 1 ? "" : "s");
}

static void put_summary(FILE *f, const struct lh_scenario *sc, const struct lh_results *results)
{
	const struct lh_summary *s = &results->summary;
	const struct lh_cost_sum *cost = &results->cost.scopes[sc->pricing.vm];

	fputs("<p>", f);
	put_subject(f, sc, s);
	if (isfinite(s->throughput_sps)) {
		fputs("<b>", f);
		put_real(f, s->throughput_sps, 1);
		fputs(" samples/s</b>", f);
	} else {
		fputs("its throughput is not known", f);
	}
	if (isfinite(s->speedup)) {
		fputs(", ", f);
		put_real(f, s->speedup, 2);
		fputs(" times one node alone", f);
	}
	if (isfinite(s->granularity)) {
		fputs(", at a granularity of ", f);
		put_real(f, s->granularity, 2);
	}
	fputs(". ", f);
	if (cost->is_complete) {
		lh_html_putf(f, "At %s prices it would cost ", lh_cost_scope_name(sc->pricing.vm));
		put_real(f, cost->total_usd_per_hour, 2);
		fputs(" USD per hour", f);
		if (isfinite(cost->total_usd_per_million_samples)) {
			fputs(", ", f);
			put_real(f, cost->total_usd_per_million_samples, 2);
			fputs(" USD per million samples", f);
		}
		fputs(".", f);
	}
	fputs("</p>\n", f);
}

static void put_host_cost(FILE *f, const struct lh_host_cost *host)
{
	char buf[64];

	fputs("; the host is charged ", f);
	lh_html_put(f, host->accumulate_ns > 0
			       ? lh_unit_format_short(LH_UNIT_DURATION, host->accumulate_ns, buf,
						      sizeof(buf))
			       : "nothing");
	fputs(" per micro-batch, ", f);
	if (host->averaging_bps > 0)
		lh_html_putf(f, "averages at %s",
			     lh_unit_format_short(LH_UNIT_RATE, host->averaging_bps, buf,
						  sizeof(buf)));
	else
		fputs("averages in no time", f);
	if (host->apply_ns > 0)
		lh_html_putf(f, ", applies in %s",
			     lh_unit_format_short(LH_UNIT_DURATION, host->apply_ns, buf,
						  sizeof(buf)));
	lh_html_putf(f, " (%s)", host->source ? host->source : "no source given");
}

/* The profiles and host costs in use, each once. */
static void put_compute_sources(FILE *f, const struct lh_scenario *sc)
{
	for (size_t n = 0; n < sc->n_nodes; n++) {
		const struct lh_node *node = &sc->nodes[n];
		bool is_first = true;

		for (size_t i = 0; i < n && is_first; i++)
			is_first = sc->nodes[i].machine != node->machine;
		if (!is_first || !node->profile)
			continue;
		fputs("<li>", f);
		lh_html_putf(f, "%s: ", node->machine->name);
		put_real(f, node->profile->samples_per_s, 1);
		lh_html_putf(f, " samples/s alone, %" PRId64 " a micro-batch (%s)",
			     node->micro_batch,
			     node->profile->source ? node->profile->source : "no source given");
		if (node->host)
			put_host_cost(f, node->host);
		fputs("</li>\n", f);
	}
}

/* What the nodes computed, and how long it took. */
static void put_computing(FILE *f, const struct lh_scenario *sc)
{
	if (sc->model) {
		fputs("<li>Replayed: computing takes as long as the profile of the machine says. "
		      "It does not run here:<ul>\n",
		      f);
		put_compute_sources(f, sc);
		fputs("</ul></li>\n", f);
	} else {
		fputs("<li>Real: the programs, which ran here, and all that they sent. Times are "
		      "when their reports came.</li>\n",
		      f);
	}
	if (lh_run_is_exact(&sc->run))
		fprintf(f, "<li>The clock is virtual: CPU work takes no time%s.</li>\n",
			sc->model ? " unless a profile or a host's cost above charges it" : "");
	else if (sc->run.clock == LH_CLOCK_VIRTUAL)
		fputs("<li>The clock is virtual, and CPU work of this machine was charged, that of "
		      "emulating included: another run differs.</li>\n",
		      f);
	else
		fprintf(f,
			"<li>The clock is real: CPU work of this machine is part of the times%s"
			".</li>\n",
			sc->model ? ", beside what profiles and hosts' costs charge" : "");
}

static void put_honesty(FILE *f, const struct lh_scenario *sc)
{
	fputs("<h2>What is real and what is emulated</h2>\n<ul>\n"
	      "<li>Real: every packet crosses Linux's TCP stack and its netem queues",
	      f);
	fputs(sc->model ? "; all bytes that the strategy sends are sent. Their content is filler: "
			  "nothing is learnt in replay mode.</li>\n"
			: ".</li>\n",
	      f);
	fputs("<li>Emulated: delay, bandwidth and windows of the paths, from measurements (", f);
	lh_html_put(f, sc->network.source ? sc->network.source : "no source given");
	fputs(").</li>\n", f);
	put_computing(f, sc);
	fputs("</ul>\n", f);
}

static void put_metric(FILE *f, const char *name, double ours, double published, int decimals)
{
	fprintf(f, "<tr><td class=\"t\">%s</td><td>", name);
	put_real(f, ours, decimals);
	fputs("</td><td>", f);
	put_real(f, published > 0 ? published : NAN, decimals);
	fputs("</td><td>", f);
	if (published > 0 && isfinite(ours)) {
		fputs(ours >= published ? "+" : "", f);
		put_real(f, (ours / published - 1) * 100, 1);
		fputs(" %", f);
	} else {
		fputs("–", f);
	}
	fputs("</td></tr>\n", f);
}

static void put_results(FILE *f, const struct lh_results *results)
{
	const struct lh_summary *s = &results->summary;
	const struct lh_published *p = &results->published;

	fputs("<h2>Results</h2>\n<div class=\"wide\"><table>\n<tr><th class=\"t\">metric</th>"
	      "<th>this run</th><th>published</th><th>difference</th></tr>\n",
	      f);
	put_metric(f, "throughput (samples/s)", s->throughput_sps, p->throughput_sps, 1);
	put_metric(f, "granularity ((wall - communication) / communication)", s->granularity,
		   p->granularity, 2);
	put_metric(f, "communication per epoch (s)", s->communication_s, p->comm_s, 2);
	put_metric(f, "ranks without averaging (samples/s)", s->local_sps, NAN, 1);
	put_metric(f, "one node alone (samples/s)", s->baseline_sps, NAN, 1);
	put_metric(f, "speed-up", s->speedup, NAN, 2);
	put_metric(f, "contribution per GPU", s->contribution_per_gpu, NAN, 2);
	put_metric(f, "training time (s)", (double)s->wall_ns * 1e-9, NAN, 1);
	fputs("</table></div>\n", f);
	if (p->source) {
		fputs("<p>Source of the published figures: ", f);
		lh_html_put(f, p->source);
		fputs("</p>\n", f);
	}
	for (size_t i = 0; i < results->notes.n_items; i++) {
		fputs("<p>Note: ", f);
		lh_html_put(f, results->notes.items[i]);
		fputs("</p>\n", f);
	}
}

static int put_figures(FILE *f, const char *run_dir, struct lh_error *err)
{
	for (const struct lh_plot *plot = lh_plots; plot->name; plot++) {
		lh_cleanup_free char *path = lh_strf("%s/figures/%s.svg", run_dir, plot->name);
		lh_cleanup_free char *text = NULL;
		const char *svg;
		int r;

		if (!path)
			return lh_fail(err, LH_ESYS, ENOMEM, "write the report");
		if (!lh_path_exists(path))
			continue;
		r = lh_file_read(path, SVG_MAX_BYTES, &text, NULL, err);
		if (r < 0)
			return r;
		svg = strstr(text, "<svg");
		if (!svg)
			continue;
		fprintf(f, "<figure>\n%s\n<figcaption>", svg);
		lh_html_put(f, plot->caption);
		fputs("</figcaption></figure>\n", f);
	}
	return 0;
}

static void put_repeat(FILE *f, const struct lh_results *results)
{
	fputs("<h2>Repeat it</h2>\n<p>", f);
	lh_html_putf(f,
		     "Seed %" PRId64 ". The folder of this page holds run.json with the scenario "
		     "and all its catalog values. In that folder: ",
		     results->seed);
	fputs("<code>longhaul rerun .</code></p>\n", f);
}

static int put_page(FILE *f, const char *run_dir, const struct lh_scenario *sc,
		    const struct lh_results *results, struct lh_error *err)
{
	int r;

	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
	      f);
	lh_html_put(f, results->scenario);
	fprintf(f, "</title>\n<style>\n%s</style></head><body>\n<h1>", style);
	lh_html_put(f, results->scenario);
	fputs("</h1>\n<p class=\"about\">", f);
	lh_html_put(f, sc->about);
	fputs("</p>\n", f);
	put_verdict(f, results);
	put_summary(f, sc, results);
	put_honesty(f, sc);
	put_results(f, results);
	fputs("<h2>Figures</h2>\n", f);
	r = put_figures(f, run_dir, err);
	if (r < 0)
		return r;
	fputs("<h2>Epochs</h2>\n", f);
	lh_html_put_table(f, &results->epochs);
	fputs("<h2>Cost by item</h2>\n", f);
	lh_report_put_cost(f, results);
	fputs("<h2>Traffic by pair of sites</h2>\n", f);
	r = lh_report_put_traffic(f, results, err);
	if (r == 0)
		r = lh_report_put_links(f, run_dir, err);
	if (r == 0)
		r = lh_report_put_settings(f, run_dir, err);
	put_repeat(f, results);
	fputs("</body></html>\n", f);
	return r;
}

int lh_report_write(const char *run_dir, const struct lh_scenario *sc,
		    const struct lh_results *results, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "report.html");
	lh_cleanup_free char *text = NULL;
	size_t size;
	FILE *f = path ? open_memstream(&text, &size) : NULL;
	int r;

	if (!f)
		return lh_fail(err, LH_ESYS, ENOMEM, "write the report of %s", run_dir);
	r = put_page(f, run_dir, sc, results, err);
	if (fclose(f) != 0 && r == 0)
		r = lh_fail(err, LH_ESYS, ENOMEM, "write the report of %s", run_dir);
	if (r < 0)
		return r;
	return lh_file_write(path, text, size, err);
}
