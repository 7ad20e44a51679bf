/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's own files say about its captures. See capture.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/capture.h"
#include "core/cleanup.h"
#include "core/file.h"

static int read_json(const char *run_dir, const char *name, json_t **ret, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, name);

	return path ? lh_json_read(path, ret, err) : lh_fail(err, LH_ESYS, ENOMEM, "read %s", name);
}

/* Adds the name and the address of a node or rank; -1 where memory is out. */
static int add_name(struct lh_node_names *names, const json_t *of)
{
	const char *address = json_string_value(json_object_get(of, "address"));
	const char *name = json_string_value(json_object_get(of, "node"));
	struct lh_node_name *grown;

	if (!address || !name)
		return 0;
	grown = reallocarray(names->items, names->n + 1, sizeof(*grown));
	if (!grown)
		return -1;
	names->items = grown;
	grown[names->n] = (struct lh_node_name){strdup(address), strdup(name)};
	names->n++;
	return grown[names->n - 1].address && grown[names->n - 1].node ? 0 : -1;
}

int lh_node_names_read(const char *run_dir, struct lh_node_names *ret, struct lh_error *err)
{
	lh_cleanup_json json_t *doc = NULL;
	const json_t *nodes, *node;
	size_t i;
	int r = read_json(run_dir, "network.json", &doc, err);

	*ret = (struct lh_node_names){.items = NULL};
	if (r < 0)
		return r;
	nodes = json_object_get(doc, "nodes");
	json_array_foreach (nodes, i, node) {
		const json_t *ranks = json_object_get(node, "ranks");
		int added = 0;

		/* before the node, which has its first rank's address, too */
		for (size_t k = 0; k < json_array_size(ranks) && added == 0; k++)
			added = add_name(ret, json_array_get(ranks, k));
		if (added < 0 || add_name(ret, node) < 0)
			return lh_fail(err, LH_ESYS, ENOMEM, "read network.json");
	}
	return 0;
}

void lh_node_names_done(struct lh_node_names *names)
{
	for (size_t i = 0; i < names->n; i++) {
		free(names->items[i].address);
		free(names->items[i].node);
	}
	free(names->items);
	*names = (struct lh_node_names){.items = NULL};
}

static long long number(const json_t *file, const char *key)
{
	return (long long)json_integer_value(json_object_get(file, key));
}

static void note_file(const json_t *file, struct lh_notes *notes)
{
	const char *name = json_string_value(json_object_get(file, "file"));
	const char *error = json_string_value(json_object_get(file, "error"));
	long long dropped = number(file, "kernel_dropped_packets") + number(file, "lost_packets");
	long long past = number(file, "past_bound_packets");

	if (!name)
		return;
	if (error)
		lh_notes_add(notes, "%s is not complete: %s", name, error);
	if (dropped)
		lh_notes_add(notes,
			     "%s lacks %lld packets: the kernel had no room for them before they "
			     "were written",
			     name, dropped);
	if (past && !error)
		lh_notes_add(notes,
			     "%s lacks %lld packets, all after it reached run.capture's "
			     "max_bytes",
			     name, past);
}

int lh_capture_notes_read(const char *run_dir, struct lh_notes *notes, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "engine.json");
	lh_cleanup_json json_t *doc = NULL;
	const json_t *files, *file;
	long long packets = 0;
	size_t i;
	int r;

	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "read engine.json");
	if (!lh_path_exists(path))
		return 0;
	r = lh_json_read(path, &doc, err);
	files = json_object_get(json_object_get(doc, "capture"), "files");
	if (r < 0 || !files)
		return r;
	json_array_foreach (files, i, file)
		packets += number(file, "packets");
	lh_notes_add(notes, "%lld packets were captured in %zu file%s of the folder capture",
		     packets, json_array_size(files), json_array_size(files) == 1 ? "" : "s");
	json_array_foreach (files, i, file)
		note_file(file, notes);
	return 0;
}
