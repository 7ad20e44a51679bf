/* SPDX-License-Identifier: Apache-2.0 */
/* Sites, addresses and the store of measurements; which reader a file gets. See import.h. */
#include "import/import.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/csv.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "import/import_internal.h"

static const char *const continents[] = {"africa",  "asia",	     "europe", "north-america",
					 "oceania", "south-america", NULL};

static const double RTT_MAX_MS = 3600000, RATE_MAX_BPS = 1e12, RATE_MIN_BPS = 8;
static const int64_t DURATION_MIN_NS = 1000000, DURATION_MAX_NS = 3600000000000;

enum { ADDRESSES_MAX = 10000 };

struct lh_import *lh_import_new(void)
{
	return calloc(1, sizeof(struct lh_import));
}

void lh_import_free(struct lh_import *im)
{
	if (!im)
		return;
	for (size_t i = 0; i < im->n_sites; i++) {
		free(im->sites[i].name);
		free(im->sites[i].provider);
		free(im->sites[i].region);
		free(im->sites[i].zone);
		free(im->sites[i].source);
	}
	for (size_t i = 0; i < im->n_addresses; i++)
		free(im->addresses[i].text);
	for (size_t i = 0; i < im->n_rtts; i++) {
		free(im->rtts[i].ms);
		free(im->rtts[i].source);
	}
	for (size_t i = 0; i < im->n_rates; i++)
		free(im->rates[i].source);
	free(im->sites);
	free(im->addresses);
	free(im->rtts);
	free(im->rates);
	free(im->provider);
	free(im);
}

/* Room for one more of n elements in *array: sizes are the powers of two. */
static void *grow(void *array, size_t n, size_t size)
{
	void **p = array;
	void *bigger;

	if (n & (n - 1))
		return *p;
	bigger = realloc(*p, (n ? 2 * n : 1) * size);
	if (bigger)
		*p = bigger;
	return bigger;
}

static int no_memory(struct lh_error *err)
{
	return lh_fail(err, LH_ESYS, ENOMEM, "import");
}

const char *im_continent(const char *name)
{
	for (size_t i = 0; continents[i]; i++)
		if (strcmp(continents[i], name) == 0)
			return continents[i];
	return NULL;
}

int im_site(struct lh_import *im, const char *name, size_t *ret_site, struct lh_error *err)
{
	const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	for (size_t i = 0; i < im->n_sites; i++)
		if (strcmp(im->sites[i].name, name) == 0) {
			*ret_site = i;
			return 0;
		}
	if (!*name || strspn(name, allowed) != strlen(name) || *name == '.' || *name == '-')
		return lh_fail(err, LH_EINPUT, 0,
			       "'%.60s' is not a name of a site; expected letters, digits, '.', "
			       "'_' and '-'",
			       name);
	if (im->n_sites == LH_IMPORT_SITES_MAX)
		return lh_fail(err, LH_EINPUT, 0, "more than %d sites", LH_IMPORT_SITES_MAX);
	if (!grow(&im->sites, im->n_sites, sizeof(*im->sites)))
		return no_memory(err);
	im->sites[im->n_sites] = (struct im_site){.name = strdup(name)};
	if (!im->sites[im->n_sites].name)
		return no_memory(err);
	*ret_site = im->n_sites++;
	return 0;
}

static ssize_t find_address(const struct lh_import *im, const char *address)
{
	for (size_t i = 0; i < im->n_addresses; i++)
		if (strcmp(im->addresses[i].text, address) == 0)
			return (ssize_t)im->addresses[i].site;
	for (size_t i = 0; i < im->n_sites; i++)
		if (strcmp(im->sites[i].name, address) == 0)
			return (ssize_t)i;
	return -1;
}

bool im_is_known(const struct lh_import *im, const char *address)
{
	return find_address(im, address) >= 0;
}

int lh_import_set_address(struct lh_import *im, const char *address, const char *site,
			  struct lh_error *err)
{
	size_t index;
	int r = im_site(im, site, &index, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < im->n_addresses; i++)
		if (strcmp(im->addresses[i].text, address) == 0 && im->addresses[i].site != index)
			return lh_fail(err, LH_EINPUT, 0, "'%.60s' is already at %s", address,
				       im->sites[im->addresses[i].site].name);
	if (im->n_addresses == ADDRESSES_MAX)
		return lh_fail(err, LH_EINPUT, 0, "more than %d addresses", ADDRESSES_MAX);
	if (!grow(&im->addresses, im->n_addresses, sizeof(*im->addresses)))
		return no_memory(err);
	im->addresses[im->n_addresses] = (struct im_address){strdup(address), index};
	return im->addresses[im->n_addresses++].text ? 0 : no_memory(err);
}

/* Puts a copy of text in place of *field. */
static int set_text(char **field, const char *text, struct lh_error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return no_memory(err);
	free(*field);
	*field = copy;
	return 0;
}

int lh_import_set_provider(struct lh_import *im, const char *site, const char *provider,
			   struct lh_error *err)
{
	size_t index;
	int r = site ? im_site(im, site, &index, err) : 0;

	if (r == 0)
		r = set_text(site ? &im->sites[index].provider : &im->provider, provider, err);
	return r;
}

int lh_import_set_continent(struct lh_import *im, const char *site, const char *continent,
			    struct lh_error *err)
{
	const char *known = im_continent(continent);
	size_t index;
	int r = site ? im_site(im, site, &index, err) : 0;

	if (!known)
		return lh_fail(err, LH_EINPUT, 0,
			       "'%.60s' is no continent; expected africa, asia, europe, "
			       "north-america, oceania or south-america",
			       continent);
	if (r == 0)
		*(site ? &im->sites[index].continent : &im->continent) = known;
	return r;
}

/* Takes one row of a CSV of sites. */
static int take_site(struct im_reader *r, const struct lh_csv *csv)
{
	static const char *const keys[] = {"provider", "region", "zone", "source"};
	int name = lh_csv_find(csv, "site"), continent = lh_csv_find(csv, "continent");
	int address = lh_csv_find(csv, "address");
	size_t index;
	int s = im_reader_site(r, lh_csv_pos(csv, name), csv->cells[name], &index);

	for (size_t k = 0; s == 0 && k < sizeof(keys) / sizeof(keys[0]); k++) {
		struct im_site *site = &r->im->sites[index];
		char **fields[] = {&site->provider, &site->region, &site->zone, &site->source};
		int c = lh_csv_find(csv, keys[k]);

		if (c >= 0 && *csv->cells[c])
			s = set_text(fields[k], csv->cells[c], r->err);
	}
	if (s == 0 && continent >= 0 && *csv->cells[continent] &&
	    lh_import_set_continent(r->im, csv->cells[name], csv->cells[continent], r->err) < 0)
		s = im_bad(r, lh_csv_pos(csv, continent), "continent", "%s", r->err->message);
	if (s == 0 && address >= 0 && *csv->cells[address] &&
	    lh_import_set_address(r->im, csv->cells[address], csv->cells[name], r->err) < 0)
		s = im_bad(r, lh_csv_pos(csv, address), "address", "%s", r->err->message);
	return s;
}

int lh_import_read_sites(struct lh_import *im, const char *name, const char *text, size_t size,
			 struct lh_diag *diag, struct lh_error *err)
{
	struct lh_error unused = {0};
	struct lh_import_file file = {.name = name};
	struct im_reader r = {.im = im, .file = &file, .diag = diag, .err = err ? err : &unused};
	lh_cleanup_csv struct lh_csv csv = {0};
	int s = lh_csv_open_text(name, text, size, &csv, r.err);

	if (s == 0 && lh_csv_find(&csv, "site") < 0)
		s = lh_fail(r.err, LH_EINPUT, 0, "%s:1:1: no column 'site'", name);
	while (s == 0 && diag->n_messages < LH_DIAG_MAX && (s = lh_csv_next(&csv, r.err)) > 0)
		s = take_site(&r, &csv) == LH_ESYS ? LH_ESYS : 0;
	im_bad_csv(&r, s);
	return s == LH_ESYS ? s : lh_diag_check(diag, r.err);
}

void im_lines_init(struct im_lines *l, const char *text, size_t size)
{
	l->next = text;
	l->end = text + size;
	l->number = 0;
}

bool im_lines_next(struct im_lines *l)
{
	const char *end;
	size_t n;

	if (l->next >= l->end)
		return false;
	end = memchr(l->next, '\n', (size_t)(l->end - l->next));
	end = end ? end : l->end;
	n = (size_t)(end - l->next);
	if (n && l->next[n - 1] == '\r')
		n--;
	n = n < sizeof(l->line) ? n : sizeof(l->line) - 1;
	memcpy(l->line, l->next, n);
	l->line[n] = '\0';
	l->next = end + 1;
	l->number++;
	return true;
}

struct lh_pos im_lines_pos(const struct im_lines *l, const struct im_reader *r, const char *p)
{
	return (struct lh_pos){r->file->name, l->number, p ? (int)(p - l->line) + 1 : 1};
}

int im_bad(struct im_reader *r, struct lh_pos pos, const char *key, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	lh_diag_add(r->diag, pos, key, "%s", text);
	return LH_EINPUT;
}

int im_bad_csv(struct im_reader *r, int code)
{
	return code == LH_EINPUT ? im_bad(r, (struct lh_pos){0}, NULL, "%s", r->err->message)
				 : code;
}

int im_reader_site(struct im_reader *r, struct lh_pos pos, const char *name, size_t *ret_site)
{
	int s = im_site(r->im, name, ret_site, r->err);

	return s == LH_EINPUT ? im_bad(r, pos, NULL, "%s", r->err->message) : s;
}

int im_reader_host(struct im_reader *r, struct lh_pos pos, bool is_from, const char *address,
		   size_t *ret_site)
{
	const char *given = is_from ? r->file->from : r->file->to;
	ssize_t site;

	if (given)
		return im_reader_site(r, pos, given, ret_site);
	if (!address)
		return im_bad(r, pos, NULL,
			      "the file does not say where it was measured; give --from SITE "
			      "before it");
	site = find_address(r->im, address);
	if (site < 0)
		return im_bad(r, pos, NULL,
			      "the site of %.60s is not known; give --site %.60s=NAME", address,
			      address);
	*ret_site = (size_t)site;
	return 0;
}

int im_add_rate(struct im_reader *r, struct lh_pos pos, const struct im_rate *rate)
{
	struct lh_import *im = r->im;

	if (!(rate->bps >= RATE_MIN_BPS && rate->bps <= RATE_MAX_BPS))
		return im_bad(r, pos, NULL,
			      "a throughput of %.6g bit/s; expected 8 bit/s to 1 Tbit/s",
			      rate->bps);
	if (rate->streams < 1 || rate->streams > LH_IMPORT_STREAMS_MAX)
		return im_bad(r, pos, NULL, "%lld streams; expected 1 to %d",
			      (long long)rate->streams, LH_IMPORT_STREAMS_MAX);
	if (rate->duration_ns < DURATION_MIN_NS || rate->duration_ns > DURATION_MAX_NS)
		return im_bad(r, pos, NULL, "a duration of %.6g s; expected 1 ms to 1 h",
			      (double)rate->duration_ns / 1e9);
	if (rate->sd_bps > RATE_MAX_BPS)
		return im_bad(r, pos, NULL, "a standard deviation of %.6g bit/s", rate->sd_bps);
	if (im->n_rates == LH_IMPORT_SETS_MAX)
		return im_bad(r, pos, NULL, "more than %d throughputs", LH_IMPORT_SETS_MAX);
	if (!grow(&im->rates, im->n_rates, sizeof(*im->rates)))
		return no_memory(r->err);
	im->rates[im->n_rates] = *rate;
	im->rates[im->n_rates].source = strdup(rate->source);
	return im->rates[im->n_rates++].source ? 0 : no_memory(r->err);
}

int im_add_rtt(struct im_reader *r, struct lh_pos pos, const struct im_rtt *rtt)
{
	struct lh_import *im = r->im;
	struct im_rtt copy = *rtt;

	for (size_t i = 0; i < rtt->n; i++)
		if (!(rtt->ms[i] >= 0 && rtt->ms[i] <= RTT_MAX_MS))
			return im_bad(r, pos, NULL, "a round trip of %.6g ms; expected 0 to 1 h",
				      rtt->ms[i]);
	if (!(rtt->sd_ms <= RTT_MAX_MS) || !(rtt->min_ms <= RTT_MAX_MS))
		return im_bad(r, pos, NULL, "a round trip of more than 1 h");
	if (im->n_rtts == LH_IMPORT_SETS_MAX || im->n_samples + rtt->n > LH_IMPORT_SAMPLES_MAX)
		return im_bad(r, pos, NULL, "more than %d sets or %d samples of round trips",
			      LH_IMPORT_SETS_MAX, LH_IMPORT_SAMPLES_MAX);
	if (!grow(&im->rtts, im->n_rtts, sizeof(*im->rtts)))
		return no_memory(r->err);
	copy.ms = malloc(rtt->n * sizeof(*copy.ms));
	copy.source = strdup(rtt->source);
	if (!copy.ms || !copy.source) {
		free(copy.ms);
		free(copy.source);
		return no_memory(r->err);
	}
	memcpy(copy.ms, rtt->ms, rtt->n * sizeof(*copy.ms));
	im->n_samples += rtt->n;
	im->rtts[im->n_rtts++] = copy;
	return 0;
}

int im_number(const char *text, double *ret, const char **ret_end)
{
	const char *p = text;
	double digits = 0, scale = 1;
	bool is_after_point = false;
	int n = 0;

	for (;; p++) {
		if (*p == '.' && !is_after_point) {
			is_after_point = true;
			continue;
		}
		if (*p < '0' || *p > '9')
			break;
		if (++n > 300)
			return -1;
		digits = digits * 10 + (*p - '0');
		scale *= is_after_point ? 10 : 1;
	}
	if (!n)
		return -1;
	*ret = digits / scale;
	*ret_end = p;
	return 0;
}

/* Whether the text begins a row of `iperf -y C`: fourteen digits of a time. */
static bool is_iperf_csv(const char *line)
{
	size_t n = strspn(line, "0123456789.-+");

	return n >= 14 && strspn(line, "0123456789") >= 14 && line[n] == ',';
}

/* Whether a line is fping's: a name, " : ", numbers. */
static bool is_fping(const char *line)
{
	const char *colon = strstr(line, " : ");

	return colon && colon > line && !memchr(line, ',', (size_t)(colon - line)) &&
	       (isdigit((unsigned char)colon[3]) || colon[3] == '-' ||
		strncmp(colon + 3, "xmt/", 4) == 0);
}

/* The reader for what the text is; told from its first lines. */
static int (*reader_of(const char *text, size_t size))(struct im_reader *r)
{
	struct im_lines l;

	im_lines_init(&l, text, size);
	while (im_lines_next(&l)) {
		const char *p = l.line + strspn(l.line, " \t");

		if (!*p || strspn(p, "-") == strlen(p))
			continue;
		if (*p == '{')
			return im_read_iperf3;
		if (strncmp(p, "PING ", 5) == 0 ||
		    (strncmp(p, "--- ", 4) == 0 && strstr(p, " ping statistics")))
			return im_read_ping;
		if (strncmp(p, "Client connecting to ", 21) == 0 ||
		    strncmp(p, "Server listening on ", 20) == 0)
			return im_read_iperf;
		if (is_iperf_csv(p))
			return im_read_iperf_csv;
		if (is_fping(p))
			return im_read_fping;
		return strchr(p, ',') ? im_read_csv : NULL;
	}
	return NULL;
}

int lh_import_read(struct lh_import *im, const struct lh_import_file *file, const char *text,
		   size_t size, struct lh_diag *diag, struct lh_error *err)
{
	struct lh_error unused = {0};
	struct im_reader r = {im, file, text, size, diag, err ? err : &unused};
	int (*read)(struct im_reader *) = reader_of(text, size);
	int s;

	if (!read || memchr(text, '\0', size)) {
		im_bad(&r, (struct lh_pos){file->name, 1, 1}, NULL,
		       "not recognised; expected iperf3 -J, iperf, iperf -y C, ping, fping -C, or "
		       "CSV");
		return lh_diag_check(diag, r.err);
	}
	s = read(&r);
	return s == LH_ESYS ? s : lh_diag_check(diag, r.err);
}
