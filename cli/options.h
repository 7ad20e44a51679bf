/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of the verbs that take a scenario: one table per verb gives getopt's form, the help,
 * and the scenario key that an option stands for.
 */
#ifndef LH_CLI_OPTIONS_H
#define LH_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scenarios/scenario.h"

enum { LH_OVERRIDES_MAX = 64 };

/* Changes to a scenario in the order in which they were given. All zero is none. */
struct lh_overrides {
	struct lh_override list[LH_OVERRIDES_MAX];
	size_t n;
	char *owned[LH_OVERRIDES_MAX]; /* copies that the list points into */
	size_t n_owned;
	char *capture; /* words of --capture as a JSON array; NULL: none */
};

void lh_overrides_done(struct lh_overrides *overrides);

/* Adds one; path and value are borrowed, or the path is taken over. -1, or the exit status where
 * there are too many. */
int lh_overrides_add(const char *verb, struct lh_overrides *overrides, const char *path,
		     const char *value);
int lh_overrides_add_owned(const char *verb, struct lh_overrides *overrides, char *path,
			   const char *value);

/* One option; a table of them ends with name NULL. */
struct lh_option {
	const char *name;
	char letter;	 /* its short form; 0: none */
	const char *arg; /* NULL: none */
	const char *doc;
	const char *key;   /* of the scenario; NULL: none */
	const char *value; /* of the key, where the option has no argument */
	/* in their stead: what the option does; -1 to go on, else the exit status */
	int (*take)(void *context, const char *value);
	int (*change)(const char *verb, struct lh_overrides *overrides, const char *value);
};

/* Changes that are more than one key's: --set PATH=VALUE, --nodes W, --capture WHERE. */
int lh_option_set(const char *verb, struct lh_overrides *overrides, const char *value);
int lh_option_nodes(const char *verb, struct lh_overrides *overrides, const char *value);
int lh_option_capture(const char *verb, struct lh_overrides *overrides, const char *value);

/* Rows that mean the same everywhere. */
/* clang-format off */
#define LH_OPTION_SET                                                                     \
	{.name = "set", .arg = "PATH=VALUE",                                              \
	 .doc = "change a key: --set 'network.paths.0.rtt=20 ms'", .change = lh_option_set}
#define LH_OPTION_SEED                                                                    \
	{.name = "seed", .arg = "N", .doc = "seed of everything random", .key = "run.seed"}
#define LH_OPTION_BACKEND                                                                 \
	{.name = "backend", .arg = "B", .doc = "auto, host or guest", .key = "run.backend"}
#define LH_OPTION_CLOCK                                                                   \
	{.name = "clock", .arg = "C", .doc = "virtual or real", .key = "run.clock"}
#define LH_OPTION_NODES                                                                   \
	{.name = "nodes", .arg = "W",                                                     \
	 .doc = "where nodes are: guest, or host (a GPU), by the real clock",             \
	 .change = lh_option_nodes}
#define LH_OPTION_CHARGE_CPU                                                              \
	{.name = "charge-cpu", .doc = "CPU time passes in virtual time; not repeatable",  \
	 .key = "run.charge_cpu", .value = "true"}
#define LH_OPTION_CAPTURE                                                                 \
	{.name = "capture", .arg = "WHERE",                                               \
	 .doc = "keep the packets of a node (SITE/N), of a path (A,B: sites or nodes), "  \
		"or of all; repeat it",                                                   \
	 .change = lh_option_capture}
#define LH_OPTION_HELP {.name = "help", .doc = "this text"}
/* clang-format on */

/* What a verb takes. */
struct lh_options {
	const char *verb;
	const struct lh_option *rows;
	void (*print_help)(void);
	const char *hint; /* said beside an option that there is not; NULL: nothing */
};

/* Prints the lines of the help that explain the options. */
void lh_options_print(const struct lh_option *rows);

/*
 * Takes the options of argv, which end at its end or at the word `--`; what changes the
 * scenario goes to overrides, NULL where the verb has no such options. Returns -1 to go on, with
 * the index of the first word that is none in *ret_index and that of `--` (or argc) in *ret_end;
 * else the exit status (help, wrong usage).
 */
int lh_options_parse(const struct lh_options *options, int argc, char **argv, void *context,
		     struct lh_overrides *overrides, int *ret_index, int *ret_end);

/*
 * Reads the scenario and runs it; the exit status. What is wrong with it, or with how the verb was
 * used, is said.
 */
int lh_options_run(const struct lh_options *options, const struct lh_scenario_source *source,
		   int (*run)(const void *context, const struct lh_scenario *scenario),
		   const void *context);

/* For take: a duration such as '10 min'. -1, or the exit status. */
int lh_option_duration(const char *verb, const char *name, const char *value, int64_t *ret_ns);

#endif
