/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ended. See ending.h. */
#include "cli/ending.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/command.h"

enum { LAST_LINE_MAX = 300 };

/* "the program in gc-us/0 ended with status 3"; owned by the caller. */
static char *describe(const json_t *node)
{
	const char *name = json_string_value(json_object_get(node, "node"));
	const char *ending = json_string_value(json_object_get(node, "ending"));
	json_int_t status = json_integer_value(json_object_get(node, "status"));
	json_int_t sig = json_integer_value(json_object_get(node, "signal"));

	if (ending && strcmp(ending, "time limit") == 0)
		return lh_strf("the program in %s ran into the time limit", name);
	if (sig)
		return lh_strf("the program in %s was killed by signal %lld", name, (long long)sig);
	return lh_strf("the program in %s ended with status %lld", name, (long long)status);
}

/* The last line with anything on it of what the host said on standard error; owned by the caller,
 * or NULL. */
static char *read_last_line(const char *run_dir, const char *host)
{
	lh_cleanup_free char *path = lh_strf("%s/nodes/%s.stderr", run_dir, host);
	lh_cleanup_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char text[LAST_LINE_MAX + 1];
	struct stat st;
	ssize_t n = -1;
	char *line;

	if (fd >= 0 && fstat(fd, &st) == 0)
		n = pread(fd, text, LAST_LINE_MAX,
			  st.st_size > LAST_LINE_MAX ? st.st_size - LAST_LINE_MAX : 0);
	while (n > 0 && (unsigned char)text[n - 1] <= ' ')
		n--;
	if (n <= 0)
		return NULL;
	text[n] = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	for (char *c = line; *c; c++)
		*c = (unsigned char)*c < ' ' ? ' ' : *c;
	return strdup(line);
}

void lh_ending_read(const char *run_dir, struct lh_ending *ret)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "exec.json");
	lh_cleanup_json json_t *doc = NULL;
	struct lh_error ignored;
	const char *first;
	size_t i;
	json_t *node;

	if (!path || lh_json_read(path, &doc, &ignored) < 0)
		return;
	ret->status = (int)json_integer_value(json_object_get(doc, "status"));
	ret->n_nodes = json_array_size(json_object_get(doc, "nodes"));
	first = json_string_value(json_object_get(doc, "first_failed"));
	json_array_foreach (json_object_get(doc, "nodes"), i, node) {
		const char *name = json_string_value(json_object_get(node, "node"));

		if (!first || !name || strcmp(first, name) != 0 || ret->what)
			continue;
		ret->what = describe(node);
		ret->host = lh_host_name(name);
		if (ret->host)
			ret->last_line = read_last_line(run_dir, ret->host);
	}
}

void lh_ending_done(struct lh_ending *ending)
{
	free(ending->what);
	free(ending->host);
	free(ending->last_line);
	*ending = (struct lh_ending){.status = 0};
}
