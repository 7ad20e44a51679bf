/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul capture: tables and a figure of the TCP flows in captured packets. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "collect/capture.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "core/log.h"
#include "core/units.h"
#include "plots/plots.h"

enum { ROWS_SHOWN_MAX = 20, INTERVAL_LEAST_NS = 1000000 };

static const int64_t interval_default_ns = INT64_C(1000000000);

struct options {
	const char *target;
	const char *out;
	int64_t interval_ns;
	bool no_figures;
};

/* What is read, and where it goes. */
struct job {
	const struct options *o;
	char *out;
	char **paths;
	size_t n_paths;
	bool is_run;
	struct lh_node_names names;
	struct lh_capture_tables tables;
	struct lh_capture_tally sum;
	size_t n_damaged;
};

static void print_help(void)
{
	printf("Usage: longhaul capture [OPTION...] FILE|RUN\n\n"
	       "Reads captured packets: a file (pcap or pcapng, of tcpdump, Wireshark or others), "
	       "or\n"
	       "all that a run made with --capture has kept. Writes flows.csv (for each direction "
	       "of\n"
	       "each TCP connection: packets, bytes, retransmissions, duplicate ACKs, RTT, "
	       "throughput),\n"
	       "flow-intervals.csv (the same over time) and a figure.\n\n"
	       "  --out DIR            folder for the tables (RUN/capture; results/capture-NAME)\n"
	       "  --interval T         length of an interval, such as '100 ms' (1 s)\n"
	       "  --no-figures         tables alone\n"
	       "  --help               this text\n\n"
	       "A file that is cut or damaged is read until there, and the exit status is 3.\n");
}

static int take_interval(struct options *o, const char *text)
{
	char why[256];

	if (lh_unit_parse(LH_UNIT_DURATION, text, &o->interval_ns, why, sizeof(why)) < 0)
		return lh_cli_usage("capture", "--interval: '%s' %s; expected such as '100 ms'",
				    text, why);
	if (o->interval_ns < INTERVAL_LEAST_NS)
		return lh_cli_usage("capture", "--interval: '%s' is too small; at least 1 ms",
				    text);
	return -1;
}

static int parse(struct options *o, int argc, char **argv)
{
	static const struct option table[] = {
		{"out", required_argument, NULL, 'o'},
		{"interval", required_argument, NULL, 'i'},
		{"no-figures", no_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int id, status;

	optind = 1;
	opterr = 0;
	while ((id = getopt_long(argc, argv, ":", table, NULL)) != -1) {
		const char *shown = argv[optind - 1];

		switch (id) {
		case 'o':
			o->out = optarg;
			break;
		case 'i':
			status = take_interval(o, optarg);
			if (status >= 0)
				return status;
			break;
		case 'n':
			o->no_figures = true;
			break;
		case 'h':
			print_help();
			return 0;
		case ':':
			return lh_cli_usage("capture", "'%s' needs a value", shown);
		default:
			return lh_cli_usage("capture", "there is no option '%s'%s", shown,
					    strchr(shown, '=') ? ", or it takes no value" : "");
		}
	}
	if (optind != argc - 1)
		return lh_cli_usage("capture", optind == argc ? "no file and no run was named"
							      : "one file or run at a time");
	o->target = argv[optind];
	return -1;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* results/capture-NAME, or with -2, -3 ... where that exists; owned by the caller. */
static char *default_out(const char *target)
{
	lh_cleanup_free char *name = strdup(base_name(target));
	char *dot = name ? strrchr(name, '.') : NULL;
	lh_cleanup_free char *out = NULL;

	if (dot && dot != name)
		*dot = '\0';
	out = name ? lh_strf("results/capture-%s", name) : NULL;
	return out ? lh_path_unused(out) : NULL;
}

static int is_capture(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 5 && strcmp(e->d_name + n - 5, ".pcap") == 0;
}

/* The captures of a run, in the order of their names. */
static int find_captures(struct job *job, struct lh_error *err)
{
	lh_cleanup_free char *folder = lh_path_join(job->o->target, "capture");
	lh_cleanup_free struct dirent **list = NULL;
	int n = folder ? scandir(folder, &list, is_capture, versionsort) : -1;

	job->paths = calloc(n > 0 ? (size_t)n : 1, sizeof(*job->paths));
	for (int i = 0; i < n; i++) {
		if (job->paths)
			job->paths[job->n_paths++] = lh_path_join(folder, list[i]->d_name);
		free(list[i]);
	}
	if (n <= 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s holds no captures; longhaul run and exec make them with "
			       "--capture",
			       job->o->target);
	return lh_node_names_read(job->o->target, &job->names, err);
}

static int prepare(struct job *job, struct lh_error *err)
{
	const struct options *o = job->o;
	struct stat st;

	if (stat(o->target, &st) < 0)
		return lh_fail(err, LH_EINPUT, errno, "%s", o->target);
	job->is_run = S_ISDIR(st.st_mode);
	if (job->is_run) {
		job->out = o->out ? strdup(o->out) : lh_path_join(o->target, "capture");
		if (job->out)
			return find_captures(job, err);
	} else {
		job->out = o->out ? strdup(o->out) : default_out(o->target);
		job->paths = calloc(1, sizeof(*job->paths));
		if (job->paths && (job->paths[0] = strdup(o->target)))
			job->n_paths = 1;
	}
	if (!job->out || !job->n_paths)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", o->target);
	if (o->out && lh_path_exists(o->out))
		return lh_fail(err, LH_EUSAGE, 0, "%s exists; results are never overwritten",
			       o->out);
	return 0;
}

/* The node at whose link a file was captured: NODE is SITE-N in its name. */
static const char *node_of(const struct job *job, const char *path)
{
	const char *name = base_name(path);

	for (size_t i = 0; i < job->names.n; i++) {
		const char *node = job->names.items[i].node;
		const char *slash = strrchr(node, '/');
		size_t n = slash ? (size_t)(slash - node) : 0;

		if (slash && strncmp(name, node, n) == 0 && name[n] == '-' &&
		    strncmp(name + n + 1, slash + 1, strlen(slash + 1)) == 0 &&
		    strcmp(name + n + 1 + strlen(slash + 1), ".pcap") == 0)
			return node;
	}
	return NULL;
}

static void add_tally(struct lh_capture_tally *sum, const struct lh_capture_tally *t)
{
	sum->packets += t->packets;
	for (int i = 0; i < LH_N_PACKET_KINDS; i++)
		sum->kinds[i] += t->kinds[i];
	sum->connections += t->connections;
	sum->left_out_packets += t->left_out_packets;
}

/* Reads one file; what is wrong with it is said, and what stands before that is kept. */
static int read_one(struct job *job, const char *path, struct lh_error *err)
{
	struct lh_capture_source source = {job->is_run ? base_name(path) : path,
					   node_of(job, path)};
	struct lh_capture_tally tally;
	FILE *in = fopen(path, "re");
	int r;

	if (!in)
		return lh_fail(err, LH_EINPUT, errno, "open %s", path);
	r = lh_capture_read(in, &source, &job->tables, &tally, err);
	add_tally(&job->sum, &tally);
	if (r == LH_EINPUT && tally.packets) {
		lh_log(LH_LOG_ERROR, "%s; the tables have the %" PRIu64 " packets before it",
		       err->message, tally.packets);
		job->n_damaged++;
		return 0;
	}
	return r;
}

static int write_tables(struct job *job, FILE *intervals, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(job->out, "flows.csv");
	int r = 0;

	for (size_t i = 0; i < job->n_paths && r == 0; i++)
		r = read_one(job, job->paths[i], err);
	if (r == 0 && (fflush(intervals) != 0 || ferror(intervals)))
		r = lh_fail(err, LH_ESYS, errno, "write flow-intervals.csv");
	if (r < 0 || !path)
		return r < 0 ? r : lh_fail(err, LH_ESYS, ENOMEM, "write flows.csv");
	return lh_table_write_csv(&job->tables.flows, path, err);
}

static double real_at(const struct lh_table *t, size_t row, const char *column)
{
	const struct lh_cell *c = lh_table_cell(t, row, (size_t)lh_table_find_column(t, column));

	return c->is_known ? (double)c->integer : NAN;
}

static const char *text_at(const struct lh_table *t, size_t row, const char *column)
{
	const struct lh_cell *c = lh_table_cell(t, row, (size_t)lh_table_find_column(t, column));

	return c->is_known ? c->text : NULL;
}

/* A row of the flows in units for people. */
static void show_row(const struct lh_table *flows, size_t row, struct lh_table *shown)
{
	const char *ends[2][2] = {{"from_node", "from"}, {"to_node", "to"}};
	static const char *const ports[2] = {"from_port", "to_port"};

	lh_table_row(shown);
	lh_table_put_text(shown, text_at(flows, row, "capture"));
	for (int i = 0; i < 2; i++) {
		const char *name = text_at(flows, row, ends[i][0]);
		lh_cleanup_free char *end =
			lh_strf("%s:%.0f", name ? name : text_at(flows, row, ends[i][1]),
				real_at(flows, row, ports[i]));

		lh_table_put_text(shown, end);
	}
	lh_table_put_real(shown, real_at(flows, row, "payload_bytes") / 1e6);
	lh_table_put_real(shown, real_at(flows, row, "goodput_bps") / 1e6);
	lh_table_put_real(shown, real_at(flows, row, "rtt_min_ns") / 1e6);
	lh_table_put_real(shown, real_at(flows, row, "rtt_median_ns") / 1e6);
	lh_table_put_real(shown, real_at(flows, row, "rtt_p99_ns") / 1e6);
	lh_table_put_real(shown, real_at(flows, row, "retransmitted_segments"));
	lh_table_put_real(shown, real_at(flows, row, "out_of_order_packets"));
	lh_table_put_real(shown, real_at(flows, row, "duplicate_acks"));
	lh_table_put_real(shown, real_at(flows, row, "missing_bytes"));
}

/* The row with the most payload of those that are not shown yet, or -1: none has any. */
static long next_row(const struct lh_table *flows, const bool *is_shown)
{
	long best = -1;

	for (size_t i = 0; i < flows->n_rows; i++) {
		double payload = real_at(flows, i, "payload_bytes");

		if (!is_shown[i] && payload > 0 &&
		    (best < 0 || payload > real_at(flows, (size_t)best, "payload_bytes")))
			best = (long)i;
	}
	return best;
}

static int print_flows(const struct lh_table *flows, struct lh_error *err)
{
	static const struct lh_column columns[] = {
		{"capture", NULL, LH_CELL_TEXT, 0, 0, 5},
		{"from", NULL, LH_CELL_TEXT, 0, 0, 0},
		{"to", NULL, LH_CELL_TEXT, 0, 0, 0},
		{"payload_mb", "payload MB", LH_CELL_REAL, 0, 3, 0},
		{"goodput_mbps", "goodput Mbit/s", LH_CELL_REAL, 0, 3, 0},
		{"rtt_min_ms", "RTT min ms", LH_CELL_REAL, 0, 3, 2},
		{"rtt_median_ms", "RTT ms", LH_CELL_REAL, 0, 3, 0},
		{"rtt_p99_ms", "RTT 99 % ms", LH_CELL_REAL, 0, 3, 1},
		{"retransmitted", "retransmitted", LH_CELL_REAL, 0, 0, 0},
		{"late", "out of order", LH_CELL_REAL, 0, 0, 4},
		{"duplicate_acks", "dup. ACKs", LH_CELL_REAL, 0, 0, 3},
		{"missing", "missing B", LH_CELL_REAL, 0, 0, 6},
	};
	lh_cleanup_free bool *is_shown = calloc(flows->n_rows + 1, sizeof(*is_shown));
	lh_cleanup_free char *text = NULL;
	struct lh_table shown;
	long row;
	int r;

	if (!is_shown)
		return lh_fail(err, LH_ESYS, ENOMEM, "print the flows");
	lh_table_init(&shown, columns, sizeof(columns) / sizeof(columns[0]));
	while (shown.n_rows < ROWS_SHOWN_MAX && (row = next_row(flows, is_shown)) >= 0) {
		is_shown[row] = true;
		show_row(flows, (size_t)row, &shown);
	}
	r = shown.n_rows ? lh_table_format_text(&shown, lh_cli_width(), &text, err) : 0;
	if (text)
		printf("%s\n", text);
	lh_table_done(&shown);
	return r;
}

/* What there is, and what of it is not in the tables. */
static void print_tally(const struct job *job)
{
	const struct lh_capture_tally *t = &job->sum;
	const struct {
		uint64_t n;
		const char *what;
	} others[] = {
		{t->kinds[LH_PACKET_OTHER], "not TCP"},
		{t->kinds[LH_PACKET_FRAGMENT], "IP fragments"},
		{t->kinds[LH_PACKET_CUT], "with too little captured"},
		{t->kinds[LH_PACKET_DAMAGED], "damaged"},
		{t->left_out_packets, "of connections beyond the first 100000 of a file"},
	};

	printf("%" PRIu64 " packets of %" PRIu64 " TCP connections", t->packets, t->connections);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i].n)
			printf("; %" PRIu64 " %s", others[i].n, others[i].what);
	printf("\n");
}

/* Of a run: what the kernel dropped, and what was beyond the bounds. */
static int print_notes(const struct job *job, struct lh_error *err)
{
	struct lh_notes notes = {0};
	int r = lh_capture_notes_read(job->o->target, &notes, err);

	for (size_t i = 1; i < notes.n_items; i++)
		printf("note: %s\n", notes.items[i]);
	lh_notes_done(&notes);
	return r;
}

static int draw(const struct job *job, struct lh_error *err)
{
	lh_cleanup_free char *about = lh_strf("%s", job->o->target);
	int r = lh_plots_make_flows(job->out, lh_cli_plot_dir(), about ? about : "", err);

	if (r == LH_EENV) {
		lh_log(LH_LOG_WARNING, "no figure: %s", err->message);
		return 0;
	}
	return r;
}

static int carry_out(struct job *job, struct lh_error *err)
{
	lh_cleanup_free char *path = NULL, *figure = NULL;
	lh_cleanup_fclose FILE *intervals = NULL;
	int r = prepare(job, err);

	if (r == 0)
		r = lh_dir_make(job->out, err);
	if (r < 0)
		return r;
	path = lh_path_join(job->out, "flow-intervals.csv");
	intervals = path ? fopen(path, "we") : NULL;
	if (!intervals)
		return lh_fail(err, LH_ESYS, errno, "create %s/flow-intervals.csv", job->out);
	lh_capture_tables_init(&job->tables, &job->names, job->o->interval_ns, intervals);
	r = write_tables(job, intervals, err);
	if (r < 0) {
		unlink(path);
		(void)rmdir(job->out); /* not where anything else is in it */
	}
	if (r == 0)
		r = print_flows(&job->tables.flows, err);
	if (r == 0)
		print_tally(job);
	if (r == 0 && job->is_run)
		r = print_notes(job, err);
	if (r == 0 && !job->o->no_figures)
		r = draw(job, err);
	figure = lh_path_join(job->out, "figures/flows.svg");
	if (r == 0)
		printf("Results: %s (flows.csv, flow-intervals.csv%s)\n", job->out,
		       figure && lh_path_exists(figure) ? ", figures/" : "");
	if (r == 0 && job->n_damaged)
		r = lh_fail(err, LH_EINPUT, 0, "%zu of %zu file%s %s not whole", job->n_damaged,
			    job->n_paths, job->n_paths == 1 ? "" : "s",
			    job->n_damaged == 1 ? "is" : "are");
	return r;
}

int lh_cmd_capture(int argc, char **argv)
{
	struct options o = {.interval_ns = interval_default_ns};
	struct job job = {.o = &o};
	struct lh_error err = {0};
	int status = parse(&o, argc, argv);

	if (status < 0)
		status = carry_out(&job, &err) < 0 ? lh_cli_fail(NULL, &err) : 0;
	for (size_t i = 0; i < job.n_paths; i++)
		free(job.paths[i]);
	free(job.paths);
	free(job.out);
	lh_node_names_done(&job.names);
	lh_capture_tables_done(&job.tables);
	return status;
}
