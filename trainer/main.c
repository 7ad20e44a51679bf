/* SPDX-License-Identifier: Apache-2.0 */
/* The commands `longhaul-trainer` and `longhaul-learner`: one rank of a training. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "trainer/compress/compress.h"
#include "trainer/compress/sparse.h"
#include "trainer/compute/compute.h"
#include "trainer/job.h"
#include "trainer/program.h"
#include "trainer/rank.h"
#include "trainer/strategy/strategy.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

struct options {
	const char *job_path;
	const char *events_path;
	const char *rank;
	const char *incarnation;
	const struct lh_program_task *task; /* NULL: a rank */
};

enum {
	OPTION_JOB = 1,
	OPTION_RANK,
	OPTION_EVENTS,
	OPTION_INCARNATION,
	OPTION_HELP,
	OPTION_VERSION,
	OPTION_TASK, /* and up */
	TASKS_MAX = 8,
	N_OPTIONS = 6,
	INCARNATIONS_MAX = 1000000,
};

static void print_help(void)
{
	printf("usage: %s --job FILE --rank R --events FILE\n\n"
	       "Runs one rank of a training and writes what happens as JSON Lines.\n\n"
	       "  --job FILE      what all ranks do together, JSON\n"
	       "  --rank R        which of its ranks this is, from 0\n"
	       "  --events FILE   where to write, anew\n"
	       "  --incarnation K how often this rank has been started before, and lost\n"
	       "  --help, --version\n",
	       lh_program_name);
	for (const struct lh_program_task *task = lh_program_tasks; task->name; task++)
		printf("%s  --%-13s %s\n", task == lh_program_tasks ? "\nInstead of a rank:\n" : "",
		       task->name, task->doc);
	printf("\nmodes:\n");
	for (size_t i = 0; lh_program_modes[i]; i++)
		printf("  %-14s  %s\n", lh_program_modes[i]->name, lh_program_modes[i]->doc);
	printf("\nstrategies:\n");
	for (size_t i = 0; lh_strategies[i]; i++)
		printf("  %-17s  %s\n", lh_strategies[i]->name, lh_strategies[i]->doc);
	printf("\ncompressors:\n");
	for (size_t i = 0; lh_codecs[i]; i++)
		printf("  %-14s  %s\n", lh_codecs[i]->name, lh_codecs[i]->doc);
	for (size_t i = 0; lh_sparse_choices[i]; i++)
		printf("  %-14s  %s\n", lh_sparse_choices[i]->name, lh_sparse_choices[i]->doc);
	printf("  %-14s  products of two thin matrices (mode train)\n", "powersgd");
	printf("\nExit status: 0 done, 1 failed, 2 wrong usage, 3 wrong job.\n");
}

/* getopt's form: a rank's options, then the tasks. */
static void list_options(struct option ret_options[static N_OPTIONS + TASKS_MAX + 1])
{
	static const struct option options[N_OPTIONS] = {
		{"job", required_argument, NULL, OPTION_JOB},
		{"rank", required_argument, NULL, OPTION_RANK},
		{"events", required_argument, NULL, OPTION_EVENTS},
		{"incarnation", required_argument, NULL, OPTION_INCARNATION},
		{"help", no_argument, NULL, OPTION_HELP},
		{"version", no_argument, NULL, OPTION_VERSION},
	};

	memcpy(ret_options, options, sizeof(options));
	for (int i = 0; i < TASKS_MAX && lh_program_tasks[i].name; i++)
		ret_options[N_OPTIONS + i] = (struct option){lh_program_tasks[i].name, no_argument,
							     NULL, OPTION_TASK + i};
}

static int check_options(const struct options *options, struct lh_error *err)
{
	bool is_rank =
		options->job_path || options->rank || options->events_path || options->incarnation;

	if (options->task && is_rank)
		return lh_fail(err, LH_EUSAGE, 0, "--%s stands alone", options->task->name);
	if (!options->task && (!options->job_path || !options->rank || !options->events_path))
		return lh_fail(err, LH_EUSAGE, 0, "--job, --rank and --events are all needed");
	return 0;
}

/* 0 to go on, 1 when done with success, or an LH_E code. */
static int read_options(int argc, char **argv, struct options *ret_options, struct lh_error *err)
{
	struct option options[N_OPTIONS + TASKS_MAX + 1] = {0};
	int option;

	list_options(options);
	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case OPTION_JOB:
			ret_options->job_path = optarg;
			break;
		case OPTION_RANK:
			ret_options->rank = optarg;
			break;
		case OPTION_EVENTS:
			ret_options->events_path = optarg;
			break;
		case OPTION_INCARNATION:
			ret_options->incarnation = optarg;
			break;
		case OPTION_HELP:
			print_help();
			return 1;
		case OPTION_VERSION:
			printf("%s %s\n", lh_program_name, PACKAGE_VERSION);
			return 1;
		case '?':
			return lh_fail(err, LH_EUSAGE, 0, "%s: unknown, or its value is missing",
				       argv[optind - 1]);
		default:
			ret_options->task = &lh_program_tasks[option - OPTION_TASK];
		}
	}
	if (optind < argc)
		return lh_fail(err, LH_EUSAGE, 0, "%s: unexpected", argv[optind]);
	return check_options(ret_options, err);
}

static int parse_number(const char *option, const char *text, uint32_t max, uint32_t *ret,
			struct lh_error *err)
{
	char *end;
	unsigned long number;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || number > max)
		return lh_fail(err, LH_EUSAGE, 0, "--%s %s: expected 0 to %" PRIu32, option, text,
			       max);
	*ret = (uint32_t)number;
	return 0;
}

static int find_mode(const struct lh_job *job, const char *path,
		     const struct lh_compute_ops **ret_compute, struct lh_error *err)
{
	for (size_t i = 0; lh_program_modes[i]; i++) {
		if (strcmp(lh_program_modes[i]->name, job->mode) == 0) {
			*ret_compute = lh_program_modes[i];
			return 0;
		}
	}
	return lh_fail(err, LH_EINPUT, 0, "%s: mode \"%s\" is not one of %s (see --help)", path,
		       job->mode, lh_program_name);
}

static int run(const struct options *options, struct lh_error *err)
{
	struct lh_rank_options own = {.events_path = options->events_path};
	const struct lh_compute_ops *compute = NULL;
	struct lh_job job;
	int rc = lh_job_read(options->job_path, &job, err);

	if (rc)
		return rc;
	rc = parse_number("rank", options->rank, job.n_ranks - 1, &own.rank, err);
	if (rc == 0 && options->incarnation)
		rc = parse_number("incarnation", options->incarnation, INCARNATIONS_MAX,
				  &own.incarnation, err);
	if (rc == 0)
		rc = find_mode(&job, options->job_path, &compute, err);
	if (rc == 0)
		rc = lh_rank_run(&job, compute, &own, err);
	lh_job_done(&job);
	return rc;
}

int main(int argc, char **argv)
{
	struct options options = {0};
	struct lh_error err = {0};
	int rc = read_options(argc, argv, &options, &err);

	if (rc == 1)
		return fflush(stdout) ? 1 : 0;
	/* The default of 50 us would show in every measured time. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	if (rc == 0)
		rc = options.task ? options.task->run(stdin, stdout, &err) : run(&options, &err);
	if (rc == 0)
		return 0;
	fprintf(stderr, "%s: %s\n", lh_program_name, err.message);
	if (err.code == LH_EUSAGE)
		fprintf(stderr, "%s --help tells more\n", lh_program_name);
	return lh_error_exit_status(&err);
}
