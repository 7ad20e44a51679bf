/* SPDX-License-Identifier: Apache-2.0 */
/* Folders with several checkpoints. See checkpoint.h. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/optim/checkpoint.h"

static const char PREFIX[] = "checkpoint-";
static const char SUFFIX[] = ".safetensors";
static const char PART_SUFFIX[] = ".safetensors.part";

char *lh_checkpoint_path(const char *folder, uint64_t step)
{
	return lh_strf("%s/%s%012" PRIu64 "%s", folder, PREFIX, step, SUFFIX);
}

/* Whether name is PREFIX, digits, suffix; *ret_step: the number. */
static bool has_form(const char *name, const char *suffix, uint64_t *ret_step)
{
	const char *digits = name + strlen(PREFIX);
	char *end;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || *digits < '0' || *digits > '9')
		return false;
	errno = 0;
	*ret_step = strtoull(digits, &end, 10);
	return errno == 0 && strcmp(end, suffix) == 0;
}

static int is_checkpoint(const struct dirent *e)
{
	uint64_t step;

	return has_form(e->d_name, SUFFIX, &step);
}

static int is_part(const struct dirent *e)
{
	uint64_t step;

	return has_form(e->d_name, PART_SUFFIX, &step);
}

/* The highest step first. */
static int compare_steps(const struct dirent **a, const struct dirent **b)
{
	uint64_t x = 0, y = 0;

	has_form((*a)->d_name, SUFFIX, &x);
	has_form((*b)->d_name, SUFFIX, &y);
	return x > y ? -1 : x < y;
}

/* Names in folder; a folder that is missing is empty. */
static int list(const char *folder, int (*filter)(const struct dirent *), struct dirent ***ret_list,
		int *ret_n, struct lh_error *err)
{
	*ret_n = scandir(folder, ret_list, filter, compare_steps);
	if (*ret_n >= 0)
		return 0;
	*ret_n = 0;
	*ret_list = NULL;
	return errno == ENOENT ? 0 : lh_fail(err, LH_ESYS, errno, "list %s", folder);
}

static void free_list(struct dirent **names, int n)
{
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

int lh_checkpoint_find_latest(const char *folder, char **ret_path, struct lh_diag *skipped,
			      struct lh_error *err)
{
	lh_cleanup_free char *found = NULL;
	struct dirent **names;
	int n, rc = list(folder, is_checkpoint, &names, &n, err);

	for (int i = 0; rc == 0 && !found && i < n; i++) {
		lh_cleanup_free char *path = lh_path_join(folder, names[i]->d_name);
		struct lh_error reason = {0};

		if (!path)
			rc = lh_fail(err, LH_ESYS, ENOMEM, "list %s", folder);
		else if (lh_checkpoint_check(path, NULL, NULL, &reason) == 0)
			found = lh_steal(&path);
		else
			lh_diag_add(skipped, (struct lh_pos){0}, NULL, "%s", reason.message);
	}
	free_list(names, n);
	if (rc == 0)
		*ret_path = lh_steal(&found);
	return rc;
}

static int remove_from(const char *folder, struct dirent **names, int first, int n,
		       struct lh_error *err)
{
	for (int i = first; i < n; i++) {
		lh_cleanup_free char *path = lh_path_join(folder, names[i]->d_name);

		if (!path || (unlink(path) < 0 && errno != ENOENT))
			return lh_fail(err, LH_ESYS, errno, "remove %s/%s", folder,
				       names[i]->d_name);
	}
	return 0;
}

int lh_checkpoint_prune(const char *folder, uint32_t n_kept, struct lh_error *err)
{
	struct dirent **names;
	int n, rc = list(folder, is_checkpoint, &names, &n, err);

	if (rc)
		return rc;
	if (n_kept < (uint32_t)n)
		rc = remove_from(folder, names, (int)n_kept, n, err);
	free_list(names, n);
	if (rc)
		return rc;
	rc = list(folder, is_part, &names, &n, err);
	if (rc == 0)
		rc = remove_from(folder, names, 0, n, err);
	free_list(names, n);
	return rc;
}
