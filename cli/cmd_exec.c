/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul exec: any program in one or all nodes of a network. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/execute.h"
#include "cli/run_options.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "core/units.h"

static const int64_t stuck_after_ns = INT64_C(60000000000);
static const char temporary_prefix[] = "longhaul-exec-";

struct exec_options {
	const char *target;
	const char *node; /* NULL: the first */
	bool all;
	const char *out;
	struct lh_override overrides[LH_OVERRIDES_MAX];
	size_t n_overrides;
	char *owned[LH_OVERRIDES_MAX]; /* copies that overrides point into */
	size_t n_owned;
	int64_t time_limit_ns;
	int64_t stuck_after_ns;
	bool keep_going;
	char **command; /* NULL: the scenario's own */
};

enum option_id {
	OPT_NODE = 256,
	OPT_ALL,
	OPT_CLOCK,
	OPT_BACKEND,
	OPT_NODES,
	OPT_OUT,
	OPT_SET,
	OPT_SEED,
	OPT_NO_PROBE,
	OPT_TIME_LIMIT,
	OPT_STUCK_AFTER,
	OPT_KEEP_GOING,
	OPT_HELP,
};

static const struct option_row {
	const char *name;
	const char *arg;
	enum option_id id;
	const char *key;   /* of the scenario; NULL: none */
	const char *value; /* that an option without an argument stands for */
	const char *doc;
} rows[] = {
	{"node", "SITE/N", OPT_NODE, NULL, NULL, "run it in this node (the first)"},
	{"all", NULL, OPT_ALL, NULL, NULL, "run it in all nodes at the same time"},
	{"clock", "C", OPT_CLOCK, "run.clock", NULL, "virtual or real"},
	{"backend", "B", OPT_BACKEND, "run.backend", NULL, "auto, host or guest"},
	{"nodes", "W", OPT_NODES, "run.nodes", NULL,
	 "where nodes are: guest, or host (a GPU), by the real clock"},
	{"out", "DIR", OPT_OUT, NULL, NULL, "keep output and measurements there; nothing without"},
	{"set", "PATH=VALUE", OPT_SET, NULL, NULL,
	 "change a key of the scenario: --set 'network.paths.0.rtt=20 ms'"},
	{"seed", "N", OPT_SEED, "run.seed", NULL, "seed of everything random"},
	{"no-probe", NULL, OPT_NO_PROBE, "run.probe", "none", "do not measure the network first"},
	{"time-limit", "T", OPT_TIME_LIMIT, NULL, NULL,
	 "end the programs after that long, such as '10 min', of the run's clock"},
	{"stuck-after", "T", OPT_STUCK_AFTER, NULL, NULL,
	 "give up when programs compute that long (60 s) without waiting, and virtual time stands"},
	{"keep-going", NULL, OPT_KEEP_GOING, NULL, NULL,
	 "when one program fails, let the others go on"},
	{"help", NULL, OPT_HELP, NULL, NULL, "this text"},
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static void print_help(void)
{
	printf("Usage: longhaul exec [OPTION...] NETWORK|SCENARIO [-- COMMAND [ARGUMENT...]]\n\n"
	       "Builds a network, measures it, and runs a program in one of its nodes or in all\n"
	       "of them. NETWORK is a network file or the name of one in the catalog, and gets a\n"
	       "node at each site; a SCENARIO has nodes of its own. Node SITE/N has the host name\n"
	       "SITE-N in all nodes. What the program says is passed on, its status is ours. "
	       "Without\n"
	       "COMMAND the scenario's own runs, its workload.command.\n\n");
	for (size_t i = 0; i < N_ROWS; i++)
		printf("  --%s%s%-*s %s\n", rows[i].name, rows[i].arg ? " " : "",
		       (int)(20 - strlen(rows[i].name) - (rows[i].arg != NULL)),
		       rows[i].arg ? rows[i].arg : "", rows[i].doc);
}

static int take_duration(const char *name, const char *text, int64_t *ret_ns)
{
	char why[256];

	if (lh_unit_parse(LH_UNIT_DURATION, text, ret_ns, why, sizeof(why)) < 0)
		return lh_cli_usage("exec", "--%s: '%s' %s; expected such as '10 min'", name, text,
				    why);
	return -1;
}

static int add_override(struct exec_options *o, const char *path, const char *value)
{
	if (o->n_overrides == LH_OVERRIDES_MAX)
		return lh_cli_usage("exec", "more than %d changes", LH_OVERRIDES_MAX);
	o->overrides[o->n_overrides++] = (struct lh_override){path, value};
	return -1;
}

static int add_set(struct exec_options *o, const char *arg)
{
	const char *equals = strchr(arg, '=');
	char *path;

	if (!equals || equals == arg)
		return lh_cli_usage("exec", "--set takes PATH=VALUE, not '%s'", arg);
	if (o->n_owned == LH_OVERRIDES_MAX || !(path = strndup(arg, (size_t)(equals - arg))))
		return lh_cli_usage("exec", "more than %d changes", LH_OVERRIDES_MAX);
	o->owned[o->n_owned++] = path;
	return add_override(o, path, equals + 1);
}

static const struct option_row *row_of(int id)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if ((int)rows[i].id == id)
			return &rows[i];
	return NULL;
}

/* Takes one option; -1 to go on, else the exit status. */
static int take(struct exec_options *o, int id, const char *shown)
{
	const struct option_row *row = row_of(id);

	switch (id) {
	case OPT_NODE:
		o->node = optarg;
		return -1;
	case OPT_ALL:
		o->all = true;
		return -1;
	case OPT_OUT:
		o->out = optarg;
		return -1;
	case OPT_SET:
		return add_set(o, optarg);
	case OPT_TIME_LIMIT:
		return take_duration(row->name, optarg, &o->time_limit_ns);
	case OPT_STUCK_AFTER:
		return take_duration(row->name, optarg, &o->stuck_after_ns);
	case OPT_KEEP_GOING:
		o->keep_going = true;
		return -1;
	case OPT_HELP:
		print_help();
		return 0;
	case ':':
		return lh_cli_usage("exec", "'%s' needs a value", shown);
	case OPT_NODES:
		if (strcmp(optarg, "host") == 0 && add_override(o, "run.clock", "real") >= 0)
			return 2;
		return add_override(o, row->key, optarg);
	default:
		if (row && row->key)
			return add_override(o, row->key, row->value ? row->value : optarg);
		return lh_cli_usage("exec", "there is no option '%s'%s", shown,
				    strchr(shown, '=') ? ", or it takes no value" : "");
	}
}

/* The place of the word `--`, or argc. */
static int find_command(int argc, char **argv)
{
	int i = 1;

	while (i < argc && strcmp(argv[i], "--") != 0)
		i++;
	return i;
}

static int parse(struct exec_options *o, int argc, char **argv)
{
	struct option table[N_ROWS + 1] = {0};
	int own = find_command(argc, argv);
	int id;

	for (size_t i = 0; i < N_ROWS; i++)
		table[i] =
			(struct option){rows[i].name, rows[i].arg ? required_argument : no_argument,
					NULL, (int)rows[i].id};
	o->stuck_after_ns = stuck_after_ns;
	optind = 1;
	opterr = 0;
	while ((id = getopt_long(own, argv, ":", table, NULL)) != -1) {
		int status = take(o, id, argv[optind - 1]);

		if (status >= 0)
			return status;
	}
	if (optind != own - 1)
		return lh_cli_usage("exec", optind == own ? "no network was named"
							  : "one network at a time; the command "
							    "stands behind --");
	if (own + 1 == argc)
		return lh_cli_usage("exec", "no command behind --");
	if (o->all && o->node)
		return lh_cli_usage("exec", "--node or --all, not both");
	o->target = argv[optind];
	o->command = own < argc ? argv + own + 1 : NULL;
	return -1;
}

/* Which nodes the command runs in. */
static int choose_nodes(const struct exec_options *o, const struct lh_scenario *sc,
			struct lh_command *command, struct lh_error *err)
{
	command->nodes = calloc(sc->n_nodes, sizeof(*command->nodes));
	if (!command->nodes)
		return lh_fail(err, LH_ESYS, ENOMEM, "choose nodes");
	for (size_t i = 0; i < sc->n_nodes; i++)
		if (o->all || (o->node ? strcmp(o->node, sc->nodes[i].name) == 0 : i == 0))
			command->nodes[command->n_nodes++] = i;
	if (!command->n_nodes)
		return lh_fail(err, LH_EUSAGE, 0, "no node '%s'; there are %zu, from %s to %s",
			       o->node, sc->n_nodes, sc->nodes[0].name,
			       sc->nodes[sc->n_nodes - 1].name);
	return 0;
}

/* Removes the temporary folders of those that were killed. */
static void clear_stale(const char *tmp)
{
	lh_cleanup_closedir DIR *dir = opendir(tmp);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		lh_cleanup_free char *path = NULL;
		struct lh_error ignored;
		int pid;

		if (strncmp(e->d_name, temporary_prefix, sizeof(temporary_prefix) - 1) != 0)
			continue;
		pid = atoi(e->d_name + sizeof(temporary_prefix) - 1);
		if (pid > 0 && kill(pid, 0) < 0 && errno == ESRCH &&
		    (path = lh_path_join(tmp, e->d_name)))
			lh_dir_remove(path, &ignored);
	}
}

/* Where the run is made when nothing of it is kept; owned by the caller. */
static char *temporary_out(void)
{
	const char *tmp = getenv("TMPDIR");

	tmp = tmp && *tmp ? tmp : "/tmp";
	clear_stale(tmp);
	return lh_strf("%s/%s%d", tmp, temporary_prefix, (int)getpid());
}

/* Says how it ended; the exit status. */
static int conclude(int r, const struct lh_ending *ending, const struct lh_error *err)
{
	bool is_plain = ending->n_nodes == 1 && ending->status < 124;

	if (ending->what && !is_plain && r != LH_ESIGNAL)
		fprintf(stderr, "longhaul: %s\n", ending->what);
	if (r < 0)
		lh_cli_fail(NULL, err);
	return ending->status && r != LH_ESIGNAL ? ending->status : lh_error_exit_status(err);
}

static int run_in(const struct exec_options *o, const struct lh_scenario *sc, struct lh_error *err)
{
	lh_cleanup_free char *cwd = getcwd(NULL, 0);
	lh_cleanup_free char *out = o->out ? strdup(o->out) : temporary_out();
	struct lh_command command = {.environment = environ,
				     .cwd = cwd,
				     .time_limit_ns = o->time_limit_ns,
				     .keep_going = o->keep_going};
	struct lh_execution ex = {.scenario = sc,
				  .out = out,
				  .command = &command,
				  .stuck_after_ns = o->stuck_after_ns,
				  .keeps = o->out != NULL};
	struct lh_ending ending = {.status = 0};
	int status, r = choose_nodes(o, sc, &command, err);

	if (r == 0 && (!cwd || !out))
		r = lh_fail(err, LH_ESYS, errno, "find the current folder");
	if (r == 0)
		r = lh_execute_command(&ex, &ending, err);
	status = conclude(r, &ending, err);
	free(command.nodes);
	free(ending.what);
	return status;
}

int lh_cmd_exec(int argc, char **argv)
{
	struct exec_options o = {0};
	struct lh_scenario *scenario = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int status = parse(&o, argc, argv);

	if (status < 0) {
		struct lh_command_source source = {o.target, lh_cli_catalog_dir(), o.overrides,
						   o.n_overrides, o.command};
		int r = lh_scenario_read_command(&source, &scenario, &diag, &err);

		if (r == LH_EUSAGE)
			status = lh_cli_usage("exec", "%s", err.message);
		else
			status = r < 0 ? lh_cli_fail(&diag, &err) : run_in(&o, scenario, &err);
	}
	for (size_t i = 0; i < o.n_owned; i++)
		free(o.owned[i]);
	lh_scenario_free(scenario);
	lh_diag_done(&diag);
	return status;
}
