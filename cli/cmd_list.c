/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul list: what can be run. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "core/yaml.h"

static int is_yaml(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 5 && strcmp(e->d_name + n - 5, ".yaml") == 0;
}

/* What is listed: names that contain the pattern, without regard to case. */
static const char *pattern = "";

static void print_line(const char *name, const char *about, const char *published)
{
	if (!strcasestr(name, pattern))
		return;
	printf("  %-28s", name);
	if (about || *published)
		printf(" %s%s%s", about ? about : "", about && *published ? "; " : "", published);
	putchar('\n');
}

static void list_scenario(const char *folder, const char *file)
{
	lh_cleanup_free char *path = lh_path_join(folder, file);
	lh_cleanup_free char *name = strndup(file, strlen(file) - strlen(".yaml"));
	struct lh_yaml *tree = NULL, *about;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	lh_yaml_read(path, &tree, &diag, &err);
	about = lh_yaml_get(tree, "about");
	print_line(name, about ? about->text : NULL, "");
	lh_yaml_free(tree);
	lh_diag_done(&diag);
}

static void list_experiments(const struct lh_suite *suite)
{
	printf("\nSuite %s: %s\n", suite->name, suite->about ? suite->about : "");
	for (size_t i = 0; i < suite->n_experiments; i++) {
		const struct lh_experiment *e = &suite->experiments[i];
		char published[64] = "";

		if (e->published.throughput_sps >= 0)
			snprintf(published, sizeof(published), "published: %.1f samples/s",
				 e->published.throughput_sps);
		print_line(e->id, e->about, published);
	}
}

static int list_suite(const char *name)
{
	struct lh_suite *suite = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int status = 0;

	if (lh_suite_read(name, lh_cli_catalog_dir(), &suite, &diag, &err) < 0)
		status = lh_cli_fail(&diag, &err);
	else
		list_experiments(suite);
	lh_suite_free(suite);
	lh_diag_done(&diag);
	return status;
}

/* Calls each for every YAML file of a folder, by name. */
static int for_each(const char *folder, int (*each)(const char *folder, char *file))
{
	struct dirent **entries;
	int n = scandir(folder, &entries, is_yaml, alphasort);
	int status = 0;

	for (int i = 0; i < n; i++) {
		int s = each(folder, entries[i]->d_name);

		status = status ? status : s;
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return status;
}

static int each_scenario(const char *folder, char *file)
{
	list_scenario(folder, file);
	return 0;
}

static int each_suite(const char *folder, char *file)
{
	(void)folder;
	file[strlen(file) - strlen(".yaml")] = '\0';
	return list_suite(file);
}

int lh_cmd_list(int argc, char **argv)
{
	lh_cleanup_free char *suites = lh_path_join(lh_cli_catalog_dir(), "experiments");

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		printf("Usage: longhaul list [WORD]\n\n"
		       "Lists the scenarios of the catalog and the experiments of its suites; "
		       "longhaul\n"
		       "run takes their names. With WORD, those whose name contains it.\n");
		return 0;
	}
	if (argc > 2 || (argc == 2 && argv[1][0] == '-'))
		return lh_cli_usage("list", "takes one word at most");
	if (argc == 2)
		pattern = argv[1];
	printf("Scenarios\n");
	for_each(lh_cli_catalog_dir(), each_scenario);
	return suites ? for_each(suites, each_suite) : 1;
}
