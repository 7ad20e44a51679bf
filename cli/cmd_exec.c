/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul exec: any program in one or all nodes of a network. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/execute.h"
#include "cli/invoke.h"
#include "cli/options.h"

struct exec_options {
	const char *target;
	const char *node; /* NULL: the first */
	bool all;
	const char *out;
	struct lh_overrides overrides;
	int64_t time_limit_ns;
	int64_t stuck_after_ns;
	bool keep_going;
	char **command; /* NULL: the scenario's own */
};

static int take_node(void *context, const char *value)
{
	((struct exec_options *)context)->node = value;
	return -1;
}

static int take_all(void *context, const char *value)
{
	(void)value;
	((struct exec_options *)context)->all = true;
	return -1;
}

static int take_out(void *context, const char *value)
{
	((struct exec_options *)context)->out = value;
	return -1;
}

static int take_time_limit(void *context, const char *value)
{
	return lh_option_duration("exec", "time-limit", value,
				  &((struct exec_options *)context)->time_limit_ns);
}

static int take_stuck_after(void *context, const char *value)
{
	return lh_option_duration("exec", "stuck-after", value,
				  &((struct exec_options *)context)->stuck_after_ns);
}

static int take_keep_going(void *context, const char *value)
{
	(void)value;
	((struct exec_options *)context)->keep_going = true;
	return -1;
}

static const struct lh_option option_rows[] = {
	{.name = "node",
	 .arg = "SITE/N",
	 .doc = "run it in this node (the first)",
	 .take = take_node},
	{.name = "all", .doc = "run it in all nodes at the same time", .take = take_all},
	LH_OPTION_CLOCK,
	LH_OPTION_CHARGE_CPU,
	LH_OPTION_BACKEND,
	LH_OPTION_NODES,
	{.name = "out",
	 .arg = "DIR",
	 .doc = "keep output and measurements there; nothing without",
	 .take = take_out},
	LH_OPTION_SET,
	LH_OPTION_SEED,
	{.name = "no-probe",
	 .doc = "do not measure the network first",
	 .key = "run.probe",
	 .value = "none"},
	LH_OPTION_CAPTURE,
	{.name = "time-limit",
	 .arg = "T",
	 .doc = "end the programs after that long, such as '10 min', of the run's clock",
	 .take = take_time_limit},
	{.name = "stuck-after",
	 .arg = "T",
	 .doc = "give up when programs compute that long (60 s) without waiting, and virtual time "
		"stands",
	 .take = take_stuck_after},
	{.name = "keep-going",
	 .doc = "when one program fails, let the others go on",
	 .take = take_keep_going},
	LH_OPTION_HELP,
	{.name = NULL},
};

static void print_help(void)
{
	printf("Usage: longhaul exec [OPTION...] NETWORK|SCENARIO [-- COMMAND [ARGUMENT...]]\n\n"
	       "Builds a network, measures it, and runs a program in one of its nodes or in all\n"
	       "of them. NETWORK is a network file or the name of one in the catalog, and gets a\n"
	       "node at each site; a SCENARIO has nodes of its own. Node SITE/N has the host name\n"
	       "SITE-N in all nodes. What the program says is passed on, its status is ours. "
	       "Without\n"
	       "COMMAND the scenario's own runs, its workload.command.\n\n");
	lh_options_print(option_rows);
}

static const struct lh_options options = {"exec", option_rows, print_help, NULL};

static int parse(struct exec_options *o, int argc, char **argv)
{
	int index, end, status;

	o->stuck_after_ns = LH_STUCK_AFTER_NS;
	status = lh_options_parse(&options, argc, argv, o, &o->overrides, &index, &end);
	if (status >= 0)
		return status;
	if (index != end - 1)
		return lh_cli_usage("exec", index == end ? "no network was named"
							 : "one network at a time; the command "
							   "stands behind --");
	if (end + 1 == argc)
		return lh_cli_usage("exec", "no command behind --");
	if (o->all && o->node)
		return lh_cli_usage("exec", "--node or --all, not both");
	o->target = argv[index];
	o->command = end < argc ? argv + end + 1 : NULL;
	return -1;
}

static int run_in(const void *context, const struct lh_scenario *sc)
{
	const struct exec_options *o = context;
	const struct lh_invocation in = {.scenario = sc,
					 .node = o->node,
					 .all = o->all,
					 .out = o->out,
					 .time_limit_ns = o->time_limit_ns,
					 .stuck_after_ns = o->stuck_after_ns,
					 .keep_going = o->keep_going};

	return lh_invoke(&in);
}

int lh_cmd_exec(int argc, char **argv)
{
	struct exec_options o = {0};
	int status = parse(&o, argc, argv);

	if (status < 0) {
		const struct lh_scenario_source source = {
			.file = o.target,
			.catalog_dir = lh_cli_catalog_dir(),
			.overrides = o.overrides.list,
			.n_overrides = o.overrides.n,
			.command = o.command,
			.needs_command = true,
			.network_as = LH_NETWORK_AS_HOSTS,
		};

		status = lh_options_run(&options, &source, run_in, &o);
	}
	lh_overrides_done(&o.overrides);
	return status;
}
