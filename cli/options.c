/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the verbs that take a scenario. See options.h. */
#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/capture_option.h"
#include "cli/cli.h"
#include "core/cleanup.h"
#include "core/units.h"

enum { FIRST_ID = 256, DOC_COLUMN = 20, LETTERS_MAX = 32 };

void lh_overrides_done(struct lh_overrides *overrides)
{
	for (size_t i = 0; i < overrides->n_owned; i++)
		free(overrides->owned[i]);
	free(overrides->capture);
	*overrides = (struct lh_overrides){.n = 0};
}

void lh_options_print(const struct lh_option *rows)
{
	for (const struct lh_option *row = rows; row->name; row++)
		printf("  --%s%s%-*s %s\n", row->name, row->arg ? " " : "",
		       (int)(DOC_COLUMN - strlen(row->name) - (row->arg != NULL)),
		       row->arg ? row->arg : "", row->doc);
}

int lh_overrides_add(const char *verb, struct lh_overrides *o, const char *path, const char *value)
{
	if (o->n == LH_OVERRIDES_MAX)
		return lh_cli_usage(verb, "more than %d changes", LH_OVERRIDES_MAX);
	o->list[o->n++] = (struct lh_override){path, value};
	return -1;
}

int lh_overrides_add_owned(const char *verb, struct lh_overrides *o, char *path, const char *value)
{
	if (o->n_owned == LH_OVERRIDES_MAX || !path) {
		free(path);
		return lh_cli_usage(verb, "more than %d changes", LH_OVERRIDES_MAX);
	}
	o->owned[o->n_owned++] = path;
	return lh_overrides_add(verb, o, path, value);
}

int lh_option_set(const char *verb, struct lh_overrides *o, const char *value)
{
	const char *equals = strchr(value, '=');

	if (!equals || equals == value)
		return lh_cli_usage(verb, "--set takes PATH=VALUE, not '%s'", value);
	return lh_overrides_add_owned(verb, o, strndup(value, (size_t)(equals - value)),
				      equals + 1);
}

/* Nodes on the host have no other clock than the real one. */
int lh_option_nodes(const char *verb, struct lh_overrides *o, const char *value)
{
	int status =
		strcmp(value, "host") == 0 ? lh_overrides_add(verb, o, "run.clock", "real") : -1;

	return status >= 0 ? status : lh_overrides_add(verb, o, "run.nodes", value);
}

int lh_option_capture(const char *verb, struct lh_overrides *o, const char *value)
{
	static const char key[] = "run.capture.where";
	bool is_first = !o->capture;

	if (lh_capture_option_add(&o->capture, value) < 0)
		return 1;
	if (is_first)
		return lh_overrides_add(verb, o, key, o->capture);
	for (size_t i = 0; i < o->n; i++)
		if (o->list[i].path == key)
			o->list[i].value = o->capture;
	return -1;
}

static int take(const struct lh_options *options, const struct lh_option *row, void *context,
		struct lh_overrides *overrides)
{
	if (row->key)
		return lh_overrides_add(options->verb, overrides, row->key,
					row->value ? row->value : optarg);
	if (row->change)
		return row->change(options->verb, overrides, optarg);
	if (row->take)
		return row->take(context, optarg);
	options->print_help();
	return 0;
}

/* The rows in getopt's form; owned by the caller. */
static struct option *to_getopt(const struct lh_option *rows, int *ret_n)
{
	struct option *table;
	int n = 0;

	while (rows[n].name)
		n++;
	table = calloc((size_t)n + 1, sizeof(*table));
	for (int i = 0; table && i < n; i++)
		table[i] =
			(struct option){rows[i].name, rows[i].arg ? required_argument : no_argument,
					NULL, FIRST_ID + i};
	*ret_n = n;
	return table;
}

/* The options of one letter in getopt's form; a missing value is told apart. */
static void list_letters(const struct lh_option *rows, char ret_letters[static LETTERS_MAX])
{
	size_t at = 0;

	ret_letters[at++] = ':';
	for (int i = 0; rows[i].name && at + 3 < LETTERS_MAX; i++) {
		if (!rows[i].letter)
			continue;
		ret_letters[at++] = rows[i].letter;
		if (rows[i].arg)
			ret_letters[at++] = ':';
	}
	ret_letters[at] = '\0';
}

/* The row that getopt's answer stands for; NULL: none. */
static const struct lh_option *find_row(const struct lh_option *rows, int n, int id)
{
	if (id >= FIRST_ID && id < FIRST_ID + n)
		return &rows[id - FIRST_ID];
	for (int i = 0; i < n; i++)
		if (rows[i].letter && rows[i].letter == id)
			return &rows[i];
	return NULL;
}

/* Whether the word is the row's option in full: --node is not short for --nodes. */
static bool is_in_full(const struct lh_option *row, const char *word)
{
	size_t n = strlen(row->name);

	return strncmp(word, "--", 2) == 0 && strncmp(word + 2, row->name, n) == 0 &&
	       (word[2 + n] == '\0' || word[2 + n] == '=');
}

int lh_options_parse(const struct lh_options *options, int argc, char **argv, void *context,
		     struct lh_overrides *overrides, int *ret_index, int *ret_end)
{
	lh_cleanup_free struct option *table = NULL;
	char letters[LETTERS_MAX];
	int n, id, end = 1;

	list_letters(options->rows, letters);
	table = to_getopt(options->rows, &n);
	if (!table)
		return 1;
	while (end < argc && strcmp(argv[end], "--") != 0)
		end++;
	optind = 1;
	opterr = 0;
	while ((id = getopt_long(end, argv, letters, table, NULL)) != -1) {
		const struct lh_option *row = find_row(options->rows, n, id);
		const char *shown = argv[optind - 1];
		int status;

		if (id == ':')
			return lh_cli_usage(options->verb, "'%s' needs a value", shown);
		if (optarg == shown && id >= FIRST_ID)
			shown = argv[optind - 2];
		if (!row || (id >= FIRST_ID && !is_in_full(row, shown)))
			return lh_cli_usage(options->verb, "there is no option '%s'%s%s%s", shown,
					    strchr(shown, '=') ? ", or it takes no value" : "",
					    options->hint ? "; " : "",
					    options->hint ? options->hint : "");
		status = take(options, row, context, overrides);
		if (status >= 0)
			return status;
	}
	*ret_index = optind;
	*ret_end = end;
	return -1;
}

int lh_options_run(const struct lh_options *options, const struct lh_scenario_source *source,
		   int (*run)(const void *context, const struct lh_scenario *scenario),
		   const void *context)
{
	struct lh_scenario *scenario = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int r = lh_scenario_read_from(source, &scenario, &diag, &err);
	int status;

	if (r == LH_EUSAGE)
		status = lh_cli_usage(options->verb, "%s", err.message);
	else
		status = r < 0 ? lh_cli_fail(&diag, &err) : run(context, scenario);
	lh_scenario_free(scenario);
	lh_diag_done(&diag);
	return status;
}

int lh_option_duration(const char *verb, const char *name, const char *value, int64_t *ret_ns)
{
	char why[256];

	if (lh_unit_parse(LH_UNIT_DURATION, value, ret_ns, why, sizeof(why)) < 0)
		return lh_cli_usage(verb, "--%s: '%s' %s; expected such as '10 min'", name, value,
				    why);
	return -1;
}
