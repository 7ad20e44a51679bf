/* SPDX-License-Identifier: Apache-2.0 */
/* Derives the paths from their pairs' measurements and writes the network file. See import.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/units.h"
#include "import/write_internal.h"
#include "import/yaml_text.h"

enum { SOURCES_SHOWN = 3, MEASURED_MAX = 1000, PATHS_MAX = 4096 };

/* Repetitions that scatter by more than this share may come from loss, not from a window. */
static const double SCATTER_RATIO = 0.1;
/* Directions whose totals differ by more than this share become two paths. */
static const double ASYMMETRY_RATIO = 0.2;
/* Tests of the same length, within this share, are repetitions. */
static const double DURATION_RATIO = 0.05;

/* ---- what is missing --------------------------------------------------------------------- */

static void complain(struct im_writing *w, const struct im_pair *p, const char *what)
{
	lh_diag_add(w->diag, (struct lh_pos){0}, NULL, "between %s and %s: %s",
		    w->im->sites[p->a].name, w->im->sites[p->b].name, what);
}

/* One message that names all sites without a provider, or without a continent. */
static void check_sites(struct im_writing *w, bool providers)
{
	char names[400] = "";
	size_t used = 0;

	for (size_t i = 0; i < w->im->n_sites; i++) {
		const struct im_site *s = &w->im->sites[i];

		if (providers ? s->provider || w->im->provider : s->continent || w->im->continent)
			continue;
		if (used + strlen(s->name) + 8 < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "", s->name);
		else if (names[used - 1] != '.')
			used += (size_t)snprintf(names + used, sizeof(names) - used, ", ...");
	}
	if (used)
		lh_diag_add(w->diag, (struct lh_pos){0}, NULL,
			    "no %s is known of %s; give --%s SITE=NAME, --%s NAME for all others, "
			    "or a CSV with --sites",
			    providers ? "provider" : "continent", names,
			    providers ? "provider" : "continent",
			    providers ? "provider" : "continent");
}

/* Whether a single number of streams is taken as held by a window. */
static bool assumes_window(const struct im_writing *w, const struct im_pair *p)
{
	bool has_link = w->link || w->o->bandwidth_bps;

	if (p->a == p->b || isnan(p->judged.window_bytes) || w->o->assume == LH_ASSUME_LINK)
		return false;
	return w->o->assume == LH_ASSUME_WINDOW || (w->shows_windows && has_link);
}

static void check_pairs(struct im_writing *w)
{
	for (size_t i = 0; i < w->n_pairs; i++) {
		const struct im_pair *p = &w->pairs[i];

		if (p->rtt_ms < 0)
			complain(w, p, "a throughput, but no round trip (ping)");
		else if (!p->n_rates && !w->o->bandwidth_bps)
			complain(w, p, "a round trip, but no throughput; give --bandwidth RATE");
		else if (p->judged.limit == IM_LIMIT_UNKNOWN && assumes_window(w, p) && !w->link &&
			 !w->o->bandwidth_bps)
			complain(w, p,
				 "--assume window needs the link's rate, which no number of "
				 "streams has shown; give --bandwidth RATE");
	}
	if (w->n_pairs == 0)
		lh_diag_add(w->diag, (struct lh_pos){0}, NULL, "nothing was measured");
	if (w->n_pairs > PATHS_MAX)
		lh_diag_add(w->diag, (struct lh_pos){0}, NULL, "%zu paths; a network has up to %d",
			    w->n_pairs, PATHS_MAX);
}

/* ---- writing ----------------------------------------------------------------------------- */

/* To four significant digits: measurements have no more. */
static int64_t round_to_four(double value)
{
	double scale = 1;

	while (value / scale >= 10000)
		scale *= 10;
	return llround(value / scale) * (int64_t)scale;
}

static const char *rate_text(double bps, char buf[static 48])
{
	return lh_unit_format_short(LH_UNIT_RATE, llround(bps), buf, 48);
}

static void put_quantity(struct im_writing *w, enum lh_unit_kind kind, const char *before,
			 int64_t value)
{
	char buf[64];

	fprintf(w->out, "%s%s", before, lh_unit_format(kind, value, buf, sizeof(buf)));
}

/* Sources of the sets that count, a few of them. */
static void say_rtt_sources(FILE *text, const struct im_pair *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_rtts; i++) {
		if (!im_counts(p, p->rtts[i]))
			continue;
		if (n++ < SOURCES_SHOWN)
			fprintf(text, "%s%s", n > 1 ? "; " : "", p->rtts[i]->source);
	}
	if (n > SOURCES_SHOWN)
		fprintf(text, "; and %zu more", n - SOURCES_SHOWN);
}

static void say_rtt(FILE *text, const struct im_pair *p)
{
	bool both = p->ab.n && p->ba.n;
	size_t n = p->ab.n + p->ba.n;
	int64_t sent = 0, back = 0;
	double smallest =
		p->a == p->b || !p->ba.n ? p->ab.min_ms : fmin(p->ab.min_ms, p->ba.min_ms);

	fprintf(text, "rtt: %s", both ? "mean of both directions' " : "");
	if (p->rtt_kind == IM_RTT_TCP)
		fprintf(text, "smallest RTT%s that TCP saw, no ping was given", n > 1 ? "s" : "");
	else if (p->rtt_kind == IM_RTT_SUMMARY)
		fprintf(text, "mean%s in the summar%s", n > 1 ? "s" : "", n > 1 ? "ies" : "y");
	else if (n == 1 || (both && n == 2))
		fprintf(text, "value%s as given", n > 1 ? "s" : "");
	else
		fprintf(text, "median%s of %zu samples", both ? "s" : "", n);
	if (p->rtt_kind == IM_RTT_PING || p->rtt_kind == IM_RTT_SUMMARY)
		fprintf(text, ", smallest %.6g ms", smallest);
	for (size_t i = 0; i < p->n_rtts; i++)
		if (im_counts(p, p->rtts[i]) && p->rtts[i]->kind == IM_RTT_PING &&
		    p->rtts[i]->n_sent) {
			sent += p->rtts[i]->n_sent;
			back += (int64_t)p->rtts[i]->n;
		}
	if (sent > back)
		fprintf(text, ", %lld of %lld echoes lost", (long long)(sent - back),
			(long long)sent);
	fputs(" (", text);
	say_rtt_sources(text, p);
	fputc(')', text);
}

/* What the bandwidth and the window of a path are, and why. */
struct derived {
	int64_t bandwidth_bps;
	int64_t window_bytes; /* 0: none */
	bool is_lower_bound;
};

static double on_the_wire(const struct im_writing *w, double bps)
{
	double mtu = (double)w->mtu_bytes;

	return bps * (mtu + ETHERNET_BYTES) / (mtu - TCP_IP_BYTES);
}

/* "80 streams: 6.198 Gbit/s, 6.55 Gbit/s without slow start, x 1514/1448 on the wire" */
static void say_total(const struct im_writing *w, FILE *text, const struct im_judged *j)
{
	char mean[48], steady[48];

	fprintf(text, "bandwidth: %lld stream%s carried %s, %s once grown, x %lld/%lld on the wire",
		(long long)j->largest_streams, j->largest_streams > 1 ? "s" : "",
		rate_text(j->largest_bps, mean), rate_text(j->largest_steady_bps, steady),
		(long long)w->mtu_bytes + ETHERNET_BYTES, (long long)w->mtu_bytes - TCP_IP_BYTES);
}

static void derive_window(const struct im_writing *w, FILE *text, const struct im_judged *j,
			  struct derived *d)
{
	char few[48], many[48];

	d->window_bytes = isnan(j->window_bytes) ? 0 : round_to_four(j->window_bytes);
	fprintf(text,
		"stream_window: %lld stream%s carried %s and %lld carried %s, so not the link but "
		"a "
		"window limits one; %s; ",
		(long long)j->few, j->few > 1 ? "s" : "", rate_text(j->few_bps, few),
		(long long)j->many, rate_text(j->many_bps, many),
		d->window_bytes ? "slow start from 10 segments taken out"
				: "but the test was too short to show it");
	say_total(w, text, j);
	fputs(j->saturates ? ", less than so many windows: the link"
			   : ", as many windows: the link carries at least this",
	      text);
	d->bandwidth_bps = round_to_four(on_the_wire(w, j->largest_steady_bps));
	d->is_lower_bound = !j->saturates;
}

static void derive_assumed_window(const struct im_writing *w, FILE *text, const struct im_judged *j,
				  struct derived *d)
{
	double link = w->o->bandwidth_bps ? (double)w->o->bandwidth_bps
					  : on_the_wire(w, w->link->judged.largest_steady_bps);
	char few[48];

	d->window_bytes = round_to_four(j->window_bytes);
	d->bandwidth_bps = round_to_four(fmax(link, on_the_wire(w, j->largest_steady_bps)));
	fprintf(text,
		"stream_window: %lld stream%s carried %s; window and link cannot be told apart "
		"from "
		"one number of streams, and a window is assumed%s; slow start from 10 segments "
		"taken out; bandwidth: assumed, ",
		(long long)j->few, j->few > 1 ? "s" : "", rate_text(j->few_bps, few),
		w->o->assume == LH_ASSUME_WINDOW ? "" : ", as other paths show one");
	if (w->o->bandwidth_bps)
		fputs("given to longhaul import", text);
	else
		fprintf(text, "as measured between %s and %s", w->im->sites[w->link->a].name,
			w->im->sites[w->link->b].name);
}

/* Derives bandwidth and window of rates and says why. */
static struct derived derive(const struct im_writing *w, const struct im_pair *p,
			     const struct im_judged *j, FILE *text)
{
	struct derived d = {0};

	switch (j->limit) {
	case IM_LIMIT_NONE:
		fputs("bandwidth: not measured, given to longhaul import", text);
		d.bandwidth_bps = w->o->bandwidth_bps;
		return d;
	case IM_LIMIT_WINDOW:
		derive_window(w, text, j, &d);
		return d;
	case IM_LIMIT_UNKNOWN:
		if (assumes_window(w, p)) {
			derive_assumed_window(w, text, j, &d);
			return d;
		}
		say_total(w, text, j);
		fputs("; window and link cannot be told apart from one number of streams, and the "
		      "link is assumed",
		      text);
		d.is_lower_bound = true;
		break;
	case IM_LIMIT_LINK:
		say_total(w, text, j);
		fprintf(text, "; %lld and %lld streams carry the same: the link limits",
			(long long)j->few, (long long)j->many);
		break;
	}
	d.bandwidth_bps = round_to_four(on_the_wire(w, j->largest_steady_bps));
	return d;
}

/* Up to some sources of rates, told apart by which ones are taken. */
static void put_measured(struct im_writing *w, const struct im_rate *const *rates, size_t n,
			 bool *taken, size_t first)
{
	const struct im_rate *r = rates[first];
	double sum = 0, squares = 0, sd = r->sd_bps;
	size_t k = 0;
	char *source = NULL;
	size_t size;
	lh_cleanup_free char *held = NULL;
	FILE *text = open_memstream(&source, &size);

	for (size_t i = first; i < n && text; i++) {
		const struct im_rate *x = rates[i];
		double longer = fabs((double)(x->duration_ns - r->duration_ns));

		if (i != first &&
		    (taken[i] || r->sd_bps >= 0 || x->sd_bps >= 0 || x->steady != r->steady ||
		     x->from != r->from || x->to != r->to || x->streams != r->streams ||
		     longer > DURATION_RATIO * (double)r->duration_ns))
			continue;
		taken[i] = true;
		if (k++ < SOURCES_SHOWN)
			fprintf(text, "%s%s", k > 1 ? "; " : "", x->source);
		sum += x->bps;
		squares += x->bps * x->bps;
	}
	if (!text)
		return;
	if (k > 1)
		fprintf(text, "%s; %zu runs", k > SOURCES_SHOWN ? "; ..." : "", k);
	fclose(text);
	held = source;
	sum /= (double)k;
	if (k > 1)
		sd = sqrt(fmax(0, squares / (double)k - sum * sum) * (double)k / (double)(k - 1));
	fprintf(w->out, "      %s{from: %s, to: %s, streams: %lld",
		r->steady ? "# without slow start, so not to be repeated: " : "- ",
		w->im->sites[r->from].name, w->im->sites[r->to].name, (long long)r->streams);
	put_quantity(w, LH_UNIT_DURATION,
		     ", duration: ", (r->duration_ns + 500000) / 1000000 * 1000000);
	put_quantity(w, LH_UNIT_RATE, ", throughput: ",
		     llround(sum / 1000) ? llround(sum / 1000) * 1000 : llround(sum));
	if (sd >= 0)
		put_quantity(w, LH_UNIT_RATE, ", sd: ", llround(sd / 1000) * 1000);
	fputs(", source: ", w->out);
	lh_yaml_put_quoted(w->out, held);
	fputs("}\n", w->out);
}

/* The rates of a pair, or of one direction, as `measured`. */
static int put_all_measured(struct im_writing *w, const struct im_rate *const *rates, size_t n)
{
	lh_cleanup_free bool *taken = calloc(n + 1, sizeof(*taken));
	bool has_list = false;
	size_t rows = 0;

	if (!taken)
		return -1;
	for (size_t i = 0; i < n; i++)
		has_list |= !rates[i]->steady;
	if (n)
		fputs(has_list ? "    measured:\n" : "    # measured:\n", w->out);
	for (size_t i = 0; i < n && rows < MEASURED_MAX; i++) {
		if (taken[i])
			continue;
		put_measured(w, rates, n, taken, i);
		rows++;
	}
	return 0;
}

/* All keys of a path but its ends. delay_ns is written as rtt where is_both. */
static int put_path(struct im_writing *w, const struct im_pair *p,
		    const struct im_rate *const *rates, size_t n, const struct im_judged *j,
		    bool is_both)
{
	int64_t rtt_ns = llround(p->rtt_ms * 1e6);
	double jitter_ms = p->sd_ms / sqrt(2);
	struct derived d;
	char *source = NULL;
	size_t size;
	lh_cleanup_free char *held = NULL;
	FILE *text = open_memstream(&source, &size);

	if (!text)
		return -1;
	say_rtt(text, p);
	fputs("; ", text);
	d = derive(w, p, j, text);
	fclose(text);
	held = source;
	put_quantity(w, LH_UNIT_DURATION,
		     is_both ? "    rtt: " : "    delay: ", is_both ? rtt_ns : rtt_ns / 2);
	fputs(is_both ? "\n" : "	# half the round trip\n", w->out);
	if (p->sd_ms >= 0) {
		fprintf(w->out,
			"    # round trips: sd %.3g ms; one way, if both are alike: sd / sqrt(2) = "
			"%.3g ms\n",
			p->sd_ms, jitter_ms);
		if (w->o->jitter) {
			put_quantity(w, LH_UNIT_DURATION,
				     "    jitter: ", llround(jitter_ms * 1e3) * 1000);
			fputc('\n', w->out);
		}
	}
	put_quantity(w, LH_UNIT_RATE, "    bandwidth: ", d.bandwidth_bps);
	fputs(d.is_lower_bound ? "	# a lower bound: more streams may carry more\n" : "\n",
	      w->out);
	if (d.window_bytes) {
		put_quantity(w, LH_UNIT_SIZE, "    stream_window: ", d.window_bytes);
		fputc('\n', w->out);
	}
	if (j->limit != IM_LIMIT_NONE && d.window_bytes && j->scatter_ratio > SCATTER_RATIO)
		fprintf(w->out,
			"    # repetitions scatter by %.0f %%: loss or cross traffic would look "
			"like "
			"this window, too\n",
			100 * j->scatter_ratio);
	fputs("    source: ", w->out);
	lh_yaml_put_quoted(w->out, held);
	fputc('\n', w->out);
	return put_all_measured(w, rates, n);
}

/* Whether both directions were measured with a like number of streams and differ. */
static bool is_asymmetric(const struct im_writing *w, const struct im_pair *p,
			  const struct im_rate *const *ab, size_t n_ab,
			  const struct im_rate *const *ba, size_t n_ba)
{
	double sum[2][LH_IMPORT_STREAMS_MAX + 1] = {{0}};
	size_t n[2][LH_IMPORT_STREAMS_MAX + 1] = {{0}};

	for (size_t i = 0; i < n_ab + n_ba; i++) {
		const struct im_rate *r = i < n_ab ? ab[i] : ba[i - n_ab];

		sum[i >= n_ab][r->streams] += im_steady_bps(r, p->rtt_ms / 1e3, w->initial);
		n[i >= n_ab][r->streams]++;
	}
	for (size_t s = 1; s <= LH_IMPORT_STREAMS_MAX; s++) {
		double x, y;

		if (!n[0][s] || !n[1][s])
			continue;
		x = sum[0][s] / (double)n[0][s];
		y = sum[1][s] / (double)n[1][s];
		if (fabs(x - y) > ASYMMETRY_RATIO * fmax(x, y))
			return true;
	}
	return false;
}

/* One direction of a pair as a path of its own. */
static int put_directed(struct im_writing *w, const struct im_pair *p, size_t from, size_t to,
			const struct im_rate *const *rates, size_t n)
{
	struct im_judged j = {.limit = IM_LIMIT_NONE};

	if (n)
		im_judge(rates, n, p->rtt_ms / 1e3, w->initial, &j);
	fprintf(w->out, "  - from: %s\n    to: %s\n", w->im->sites[from].name,
		w->im->sites[to].name);
	return put_path(w, p, rates, n, &j, false);
}

static int put_pair(struct im_writing *w, const struct im_pair *p)
{
	lh_cleanup_free const struct im_rate **ab = calloc(p->n_rates + 1, sizeof(*ab));
	lh_cleanup_free const struct im_rate **ba = calloc(p->n_rates + 1, sizeof(*ba));
	size_t n_ab = 0, n_ba = 0;
	int r;

	if (!ab || !ba)
		return -1;
	for (size_t i = 0; i < p->n_rates; i++)
		if (p->rates[i]->from == p->a)
			ab[n_ab++] = p->rates[i];
		else
			ba[n_ba++] = p->rates[i];
	if (is_asymmetric(w, p, ab, n_ab, ba, n_ba)) {
		r = put_directed(w, p, p->a, p->b, ab, n_ab);
		return r < 0 ? r : put_directed(w, p, p->b, p->a, ba, n_ba);
	}
	fprintf(w->out, "  - between: [%s, %s]\n", w->im->sites[p->a].name,
		w->im->sites[p->b].name);
	return put_path(w, p, p->rates, p->n_rates, &p->judged, true);
}

static void put_site(struct im_writing *w, const struct im_site *s)
{
	fprintf(w->out, "  %s: {provider: ", s->name);
	lh_yaml_put_quoted(w->out, s->provider ? s->provider : w->im->provider);
	fprintf(w->out, ", continent: %s", s->continent ? s->continent : w->im->continent);
	for (int i = 0; i < 2; i++) {
		const char *text = i ? s->zone : s->region;

		if (!text)
			continue;
		fprintf(w->out, ", %s: ", i ? "zone" : "region");
		lh_yaml_put_quoted(w->out, text);
	}
	fputs(", source: ", w->out);
	lh_yaml_put_quoted(w->out, s->source ? s->source : "given to longhaul import");
	fputs("}\n", w->out);
}

static int put_network(struct im_writing *w)
{
	const struct lh_import *im = w->im;

	fprintf(w->out,
		"# Written by longhaul import from %zu throughputs and %zu sets of "
		"round trips.\n"
		"longhaul: 1\nnetwork: ",
		im->n_rates, im->n_rtts);
	lh_yaml_put_quoted(w->out, w->o->name);
	if (w->o->about) {
		fputs("\nabout: ", w->out);
		lh_yaml_put_quoted(w->out, w->o->about);
	}
	fputs("\nsource: \"measurements; see each path; throughputs are goodput, means with slow "
	      "start\"\n",
	      w->out);
	fprintf(w->out, "mtu: %lld B	# %s\nsites:\n", (long long)w->mtu_bytes,
		w->o->mtu_bytes	  ? "given"
		: im->mtu_differs ? "the smallest of iperf3's segment sizes and 52 bytes of headers"
		: im->mtu_bytes	  ? "iperf3's segment size and 52 bytes of headers"
				  : "not measured: the usual one");
	for (size_t i = 0; i < im->n_sites; i++)
		put_site(w, &im->sites[i]);
	fputs("paths:\n", w->out);
	for (size_t i = 0; i < w->n_pairs; i++)
		if (put_pair(w, &w->pairs[i]) < 0)
			return -1;
	return ferror(w->out) ? -1 : 0;
}

/* ---- all of it --------------------------------------------------------------------------- */

static size_t n_unmeasured(const struct im_writing *w)
{
	size_t n = w->im->n_sites, between = 0;

	for (size_t i = 0; i < w->n_pairs; i++)
		between += w->pairs[i].a != w->pairs[i].b;
	return n ? n * (n - 1) / 2 - between : 0;
}

static int write_all(struct im_writing *w, char **ret_yaml, struct lh_error *err)
{
	char *yaml = NULL;
	size_t size;
	int r;

	check_sites(w, true);
	check_sites(w, false);
	check_pairs(w);
	r = lh_diag_check(w->diag, err);
	if (r < 0)
		return r;
	w->out = open_memstream(&yaml, &size);
	if (!w->out)
		return lh_fail(err, LH_ESYS, errno, "import");
	r = put_network(w);
	if (fclose(w->out) != 0 || r < 0) {
		free(yaml);
		return lh_fail(err, LH_ESYS, ENOMEM, "import");
	}
	*ret_yaml = yaml;
	return 0;
}

int lh_import_write(struct lh_import *im, const struct lh_import_options *o, char **ret_yaml,
		    size_t *ret_n_unmeasured, struct lh_diag *diag, struct lh_error *err)
{
	struct im_writing w = {.im = im, .o = o, .diag = diag};
	lh_cleanup_free struct im_pair *pairs =
		calloc(im->n_rtts + im->n_rates + 1, sizeof(*pairs));
	lh_cleanup_free const struct im_rtt **rtts = calloc(im->n_rtts + 1, sizeof(*rtts));
	lh_cleanup_free const struct im_rate **rates = calloc(im->n_rates + 1, sizeof(*rates));
	int r;

	if (!pairs || !rtts || !rates)
		return lh_fail(err, LH_ESYS, ENOMEM, "import");
	for (size_t i = 0; i < im->n_rtts; i++)
		rtts[i] = &im->rtts[i];
	for (size_t i = 0; i < im->n_rates; i++)
		rates[i] = &im->rates[i];
	w.pairs = pairs;
	w.mtu_bytes = o->mtu_bytes ? o->mtu_bytes : im->mtu_bytes ? im->mtu_bytes : 1500;
	w.initial = (double)(INITIAL_SEGMENTS * (w.mtu_bytes - TCP_IP_BYTES));
	if (im_gather(&w, rtts, rates) < 0)
		return lh_fail(err, LH_ESYS, ENOMEM, "import");
	r = write_all(&w, ret_yaml, err);
	if (r == 0)
		*ret_n_unmeasured = n_unmeasured(&w);
	return r;
}
