/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul import: a network file out of measurements. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "core/units.h"
#include "import/import.h"

enum option_id {
	OPT_SITE = 256,
	OPT_FROM,
	OPT_TO,
	OPT_UNIT,
	OPT_STREAMS,
	OPT_DURATION,
	OPT_SITES,
	OPT_PROVIDER,
	OPT_CONTINENT,
	OPT_NAME,
	OPT_ABOUT,
	OPT_MTU,
	OPT_ASSUME,
	OPT_BANDWIDTH,
	OPT_JITTER,
	OPT_OUT,
	OPT_HELP,
	A_FILE = 1, /* what getopt gives for an argument */
};

/* getopt's form and the help in one. */
static const struct option_row {
	const char *name;
	const char *arg; /* NULL: none */
	enum option_id id;
	const char *doc;
} rows[] = {
	{"site", "ADDRESS=NAME", OPT_SITE, "the host with this address stands at site NAME"},
	{"from", "SITE", OPT_FROM, "for the files after it: where the client, or ping, ran"},
	{"to", "SITE", OPT_TO, "for the files after it: where the server, or the target, was"},
	{"unit", "UNIT", OPT_UNIT, "for the matrices after it: ms, Mbit/s ..."},
	{"streams", "N", OPT_STREAMS, "for the CSV after it, where it does not say: streams (1)"},
	{"duration", "TIME", OPT_DURATION, "the same: length of the throughput tests (10 s)"},
	{"sites", "FILE", OPT_SITES,
	 "CSV with site and provider, continent, region, zone, address, source"},
	{"provider", "[SITE=]NAME", OPT_PROVIDER, "provider of a site, or of all others"},
	{"continent", "[SITE=]NAME", OPT_CONTINENT, "the same"},
	{"name", "NAME", OPT_NAME, "of the network (imported)"},
	{"about", "TEXT", OPT_ABOUT, "one line about it"},
	{"mtu", "SIZE", OPT_MTU, "largest IP packet (from iperf3, else 1500 B)"},
	{"assume", "window|link", OPT_ASSUME,
	 "what limits a stream where one number of streams was measured"},
	{"bandwidth", "RATE", OPT_BANDWIDTH, "of links whose rate was not measured, on the wire"},
	{"jitter", NULL, OPT_JITTER, "write jitter into the paths, not only as a comment"},
	{"out", "FILE", OPT_OUT, "write there, not to standard output; it must not exist"},
	{"help", NULL, OPT_HELP, "this text"},
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]), FILES_MAX = 10000 };

/* The command line. */
struct request {
	struct lh_import *im;
	struct lh_import_options o;
	struct lh_import_file now; /* what holds for the next file */
	struct lh_import_file files[FILES_MAX];
	size_t n_files;
	const char *sites[64];
	size_t n_sites;
	const char *out;
};

static void print_help(void)
{
	printf("Usage: longhaul import [OPTION...] FILE...\n\n"
	       "Makes a network file out of measurements, with the source of every value: iperf3 "
	       "-J,\n"
	       "iperf and iperf -y C, ping, fping -C, and CSV (rows with from, to, rtt_ms,\n"
	       "throughput_mbps, streams; or a matrix with sites in header and first column).\n"
	       "Measure with one and with many streams: that tells a stream's window from the "
	       "link.\n\n");
	for (size_t i = 0; i < N_ROWS; i++)
		printf("  --%s%s%-*s %s\n", rows[i].name, rows[i].arg ? " " : "",
		       (int)(24 - strlen(rows[i].name) - (rows[i].arg != NULL)),
		       rows[i].arg ? rows[i].arg : "", rows[i].doc);
}

static int usage_of(const struct lh_error *err)
{
	return lh_cli_usage("import", "%s", err->message);
}

/* ADDRESS=NAME. */
static int take_site(struct request *q, const char *arg)
{
	const char *equals = strrchr(arg, '=');
	lh_cleanup_free char *address = equals ? strndup(arg, (size_t)(equals - arg)) : NULL;
	struct lh_error err = {0};

	if (!address || !*address)
		return lh_cli_usage("import", "--site takes ADDRESS=NAME, not '%s'", arg);
	return lh_import_set_address(q->im, address, equals + 1, &err) < 0 ? usage_of(&err) : -1;
}

/* NAME or SITE=NAME, to one of the setters. */
static int take_property(struct request *q, const char *arg,
			 int (*set)(struct lh_import *, const char *, const char *,
				    struct lh_error *))
{
	const char *equals = strchr(arg, '=');
	lh_cleanup_free char *site = equals ? strndup(arg, (size_t)(equals - arg)) : NULL;
	struct lh_error err = {0};

	return set(q->im, site, equals ? equals + 1 : arg, &err) < 0 ? usage_of(&err) : -1;
}

static int take_quantity(enum lh_unit_kind kind, const char *name, const char *arg, int64_t min,
			 int64_t max, int64_t *ret)
{
	char why[256];

	if (lh_unit_parse(kind, arg, ret, why, sizeof(why)) < 0)
		return lh_cli_usage("import", "--%s: '%s' %s; write it as %s", name, arg, why,
				    lh_unit_example(kind));
	if (*ret < min || *ret > max)
		return lh_cli_usage("import", "--%s: '%s' is out of bounds", name, arg);
	return -1;
}

static int take_streams(struct request *q, const char *arg)
{
	char *end;
	long n = strtol(arg, &end, 10);

	if (*end || end == arg || n < 1 || n > LH_IMPORT_STREAMS_MAX)
		return lh_cli_usage("import", "--streams takes a number from 1 to %d, not '%s'",
				    LH_IMPORT_STREAMS_MAX, arg);
	q->now.streams = n;
	return -1;
}

static int take_assume(struct request *q, const char *arg)
{
	if (strcmp(arg, "window") == 0)
		q->o.assume = LH_ASSUME_WINDOW;
	else if (strcmp(arg, "link") == 0)
		q->o.assume = LH_ASSUME_LINK;
	else
		return lh_cli_usage("import", "--assume takes window or link, not '%s'", arg);
	return -1;
}

static int take_file(struct request *q, const char *name)
{
	if (q->n_files == FILES_MAX)
		return lh_cli_usage("import", "more than %d files", FILES_MAX);
	q->files[q->n_files] = q->now;
	q->files[q->n_files++].name = name;
	return -1;
}

static int take_sites(struct request *q, const char *name)
{
	if (q->n_sites == sizeof(q->sites) / sizeof(q->sites[0]))
		return lh_cli_usage("import", "too many files with --sites");
	q->sites[q->n_sites++] = name;
	return -1;
}

/* Takes one option, shown as the user wrote it; -1 to go on, else the exit status. */
static int take(struct request *q, int id, const char *shown)
{
	switch (id) {
	case A_FILE:
		return take_file(q, optarg);
	case OPT_SITE:
		return take_site(q, optarg);
	case OPT_FROM:
		q->now.from = optarg;
		return -1;
	case OPT_TO:
		q->now.to = optarg;
		return -1;
	case OPT_UNIT:
		q->now.unit = optarg;
		return -1;
	case OPT_STREAMS:
		return take_streams(q, optarg);
	case OPT_DURATION:
		return take_quantity(LH_UNIT_DURATION, "duration", optarg, 1000000, 3600000000000,
				     &q->now.duration_ns);
	case OPT_SITES:
		return take_sites(q, optarg);
	case OPT_PROVIDER:
		return take_property(q, optarg, lh_import_set_provider);
	case OPT_CONTINENT:
		return take_property(q, optarg, lh_import_set_continent);
	case OPT_NAME:
		q->o.name = optarg;
		return -1;
	case OPT_ABOUT:
		q->o.about = optarg;
		return -1;
	case OPT_MTU:
		return take_quantity(LH_UNIT_SIZE, "mtu", optarg, 576, 65535, &q->o.mtu_bytes);
	case OPT_ASSUME:
		return take_assume(q, optarg);
	case OPT_BANDWIDTH:
		return take_quantity(LH_UNIT_RATE, "bandwidth", optarg, 8, 1000000000000,
				     &q->o.bandwidth_bps);
	case OPT_JITTER:
		q->o.jitter = true;
		return -1;
	case OPT_OUT:
		q->out = optarg;
		return -1;
	case OPT_HELP:
		print_help();
		return 0;
	case ':':
		return lh_cli_usage("import", "'%s' needs a value", shown);
	default:
		return lh_cli_usage("import", "there is no option '%s'%s", shown,
				    strchr(shown, '=') ? ", or it takes no value" : "");
	}
}

static int parse(struct request *q, int argc, char **argv)
{
	struct option table[N_ROWS + 1] = {{0}};
	int id;

	for (size_t i = 0; i < N_ROWS; i++)
		table[i] =
			(struct option){rows[i].name, rows[i].arg ? required_argument : no_argument,
					NULL, (int)rows[i].id};
	optind = 1;
	opterr = 0;
	/* '-': files come in their place between the options */
	while ((id = getopt_long(argc, argv, "-:", table, NULL)) != -1) {
		int status = take(q, id, argv[optind - 1]);

		if (status >= 0)
			return status;
	}
	for (; optind < argc; optind++)
		if (take_file(q, argv[optind]) >= 0)
			return 2;
	if (!q->n_files)
		return lh_cli_usage("import", "no measurements were named");
	if (q->out && lh_path_exists(q->out))
		return lh_cli_usage("import", "%s exists; it is not overwritten", q->out);
	return -1;
}

/* Reads one file; a file that cannot be read is wrong input. */
static int read_file(struct request *q, const struct lh_import_file *file, bool is_sites,
		     struct lh_diag *diag, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	size_t size;

	if (lh_file_read(file->name, LH_IMPORT_FILE_MAX_BYTES, &text, &size, err) < 0) {
		lh_diag_add(diag, (struct lh_pos){0}, NULL, "%s", err->message);
		return err->code = LH_EINPUT;
	}
	if (is_sites)
		return lh_import_read_sites(q->im, file->name, text, size, diag, err);
	return lh_import_read(q->im, file, text, size, diag, err);
}

/* Reads all files, so that everything that is wrong with them is told at once. */
static int read_all(struct request *q, struct lh_diag *diag, struct lh_error *err)
{
	for (size_t i = 0; i < q->n_sites + q->n_files; i++) {
		bool is_sites = i < q->n_sites;
		struct lh_import_file sites = {.name = is_sites ? q->sites[i] : NULL};
		int r = read_file(q, is_sites ? &sites : &q->files[i - q->n_sites], is_sites, diag,
				  err);

		if (r < 0 && r != LH_EINPUT)
			return r;
	}
	return lh_diag_check(diag, err);
}

/* Writes a file that is not there yet. */
static int write_new(const char *path, const char *text, struct lh_error *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0 && errno == EEXIST)
		return lh_fail(err, LH_EUSAGE, 0, "%s exists; it is not overwritten", path);
	if (fd < 0)
		return lh_fail(err, LH_EENV, errno, "write %s", path);
	close(fd);
	return lh_file_write(path, text, strlen(text), err);
}

static int carry_out(struct request *q, struct lh_diag *diag, struct lh_error *err)
{
	lh_cleanup_free char *yaml = NULL;
	size_t n_unmeasured;
	int r = read_all(q, diag, err);

	if (r == 0)
		r = lh_import_write(q->im, &q->o, &yaml, &n_unmeasured, diag, err);
	if (r < 0)
		return r;
	if (n_unmeasured)
		fprintf(stderr,
			"longhaul import: %zu pair%s of sites %s no measurement and no "
			"path\n",
			n_unmeasured, n_unmeasured > 1 ? "s" : "",
			n_unmeasured > 1 ? "have" : "has");
	if (q->out)
		return write_new(q->out, yaml, err);
	fputs(yaml, stdout);
	return 0;
}

int lh_cmd_import(int argc, char **argv)
{
	struct request *q = calloc(1, sizeof(*q));
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int status;

	if (!q || !(q->im = lh_import_new())) {
		free(q);
		lh_fail(&err, LH_ESYS, ENOMEM, "import");
		return lh_cli_fail(NULL, &err);
	}
	q->o.name = "imported";
	status = parse(q, argc, argv);
	if (status < 0)
		status = carry_out(q, &diag, &err) < 0 ? lh_cli_fail(&diag, &err) : 0;
	lh_import_free(q->im);
	free(q);
	lh_diag_done(&diag);
	return status;
}
