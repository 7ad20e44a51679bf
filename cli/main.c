/* SPDX-License-Identifier: Apache-2.0 */
/* The command `longhaul`: finds the verb and gives it the rest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/log.h"
#include "emulator/guest/guest.h"

#include "config.h"

const struct lh_verb lh_verbs[] = {
	{"run", "SCENARIO", "run a scenario file or an experiment of a suite", lh_cmd_run},
	{"exec", "NETWORK -- CMD...", "run any program in nodes of a network or scenario",
	 lh_cmd_exec},
	{"shell", "NETWORK [NODE]", "open a shell in a node of a network or scenario",
	 lh_cmd_shell},
	{"rerun", "RUN", "repeat a run from its results folder", lh_cmd_rerun},
	{"verify", "NETWORK|SCENARIO", "build a network and measure that it is what was asked for",
	 lh_cmd_verify},
	{"train", "MODEL", "train a model on this machine alone", lh_cmd_train},
	{"profile", "MODEL", "measure how fast a model learns here, for scenarios to replay",
	 lh_cmd_profile},
	{"list", "[WORD]", "list scenarios and experiments", lh_cmd_list},
	{"plot", "RUN", "make the figures and the report of a run anew", lh_cmd_plot},
	{"capture", "FILE|RUN", "make tables and a figure of the TCP flows in captured packets",
	 lh_cmd_capture},
	{"reproduce", "SUITE [ID...]", "run a suite and compare with what was published",
	 lh_cmd_reproduce},
	{"import", "FILE...", "make a network file out of measurements", lh_cmd_import},
	{"doctor", "", "say what this machine can do, and what mends what it cannot",
	 lh_cmd_doctor},
	{"schema", "", "print the JSON Schema of scenario files", lh_cmd_schema},
	{NULL, NULL, NULL, NULL},
};

static void print_help(void)
{
	printf("Usage: longhaul VERB [OPTION...] [ARGUMENT...]\n\n"
	       "longhaul recreates wide-area networks, runs geo-distributed training through them\n"
	       "from one YAML scenario, and writes throughput and cost tables.\n\n");
	for (const struct lh_verb *v = lh_verbs; v->name; v++)
		printf("  %-10s %-17s %s\n", v->name, v->args, v->doc);
	printf("\n`longhaul VERB --help` explains a verb; man longhaul has it all.\n\n"
	       "Exit status: 0 done, 1 the run failed, 2 wrong usage, 3 the scenario is invalid,\n"
	       "4 this machine lacks something, 6 a measurement is invalid, 130 or 143 ended by a\n"
	       "signal.\n");
}

/* Runs what the command line asks for; the exit status. */
static int dispatch(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "--help";

	if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0) {
		print_help();
		return argc > 1 ? 0 : 2;
	}
	if (strcmp(verb, "--version") == 0) {
		printf("longhaul %s\n", PACKAGE_VERSION);
		return 0;
	}
	for (const struct lh_verb *v = lh_verbs; v->name; v++)
		if (strcmp(v->name, verb) == 0)
			return v->run(argc - 1, argv + 1);
	return lh_cli_usage(NULL, "there is no verb '%s'", verb);
}

int main(int argc, char **argv)
{
	int status;

	if (argc > 1 && strcmp(argv[1], LH_GUEST_INIT_VERB) == 0 && getpid() == 1)
		lh_guest_init(argc, argv);
	lh_log_open(stderr, LH_LOG_INFO, "longhaul");
	status = dispatch(argc, argv);
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		if (errno)
			perror("longhaul: standard output");
		else
			fputs("longhaul: standard output: not all could be written\n", stderr);
		return status ? status : 1;
	}
	return status;
}
