/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul shell: a person's shell in a node of a network. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/invoke.h"
#include "cli/options.h"
#include "cli/terminal.h"

struct shell_options {
	const char *target;
	const char *node; /* NULL: the first */
	struct lh_overrides overrides;
};

static const struct lh_option option_rows[] = {
	{.name = "clock",
	 .arg = "C",
	 .doc = "real (without), or virtual: waiting takes no time",
	 .key = "run.clock"},
	LH_OPTION_BACKEND,
	LH_OPTION_NODES,
	LH_OPTION_SET,
	LH_OPTION_SEED,
	LH_OPTION_HELP,
	{.name = NULL},
};

static void print_help(void)
{
	printf("Usage: longhaul shell [OPTION...] NETWORK|SCENARIO [NODE]\n\n"
	       "Builds a network and opens a shell in one of its nodes, in the first or in NODE\n"
	       "(SITE/N). NETWORK is a network file or the name of one in the catalog, and gets a\n"
	       "node at each site. The other nodes are there under their host names, SITE-N;\n"
	       "`longhaul-node SITE-N COMMAND` in the shell runs a command in one of them. The\n"
	       "shell is $SHELL, else /bin/sh. Where standard input is no terminal, commands are\n"
	       "read from it. The status is the shell's.\n\n");
	lh_options_print(option_rows);
}

static const struct lh_options options = {"shell", option_rows, print_help, NULL};

static int parse(struct shell_options *o, int argc, char **argv)
{
	int index, end, status;

	status = lh_options_parse(&options, argc, argv, o, &o->overrides, &index, &end);
	if (status >= 0)
		return status;
	if (index == argc || argc - index > 2)
		return lh_cli_usage("shell", index == argc ? "no network was named"
							   : "one network and one node at a time");
	o->target = argv[index];
	o->node = argc - index == 2 ? argv[index + 1] : NULL;
	return -1;
}

/* The user's shell. */
static char *choose_shell(void)
{
	static char fallback[] = "/bin/sh";
	char *shell = getenv("SHELL");

	return shell && *shell == '/' && access(shell, X_OK) == 0 ? shell : fallback;
}

static int open_shell(const void *context, const struct lh_scenario *sc)
{
	const struct shell_options *o = context;
	const struct lh_invocation in = {
		.scenario = sc, .node = o->node, .terminal = lh_relay_kind()};

	return lh_invoke(&in);
}

int lh_cmd_shell(int argc, char **argv)
{
	struct shell_options o = {
		/* a person lives in real time, and does not wait for the network to be measured */
		.overrides = {.list = {{"run.clock", "real"},
				       {"run.probe", "none"},
				       {"run.fitness.timer_lateness", "0 s"},
				       {"run.fitness.rate_headroom", "0"}},
			      .n = 4}};
	int status = parse(&o, argc, argv);

	if (status < 0) {
		char *const command[] = {choose_shell(), NULL};
		const struct lh_scenario_source source = {
			.file = o.target,
			.catalog_dir = lh_cli_catalog_dir(),
			.overrides = o.overrides.list,
			.n_overrides = o.overrides.n,
			.command = command,
			.network_as = LH_NETWORK_AS_HOSTS,
		};

		status = lh_options_run(&options, &source, open_shell, &o);
	}
	lh_overrides_done(&o.overrides);
	return status;
}
