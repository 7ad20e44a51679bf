/* SPDX-License-Identifier: Apache-2.0 */
/* --capture WHERE. See capture_option.h. */
#include "cli/capture_option.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "collect/capture.h"
#include "core/cleanup.h"

int lh_capture_option_add(char **list, const char *where)
{
	lh_cleanup_json json_t *all = *list ? json_loads(*list, 0, NULL) : json_array();
	char *text;

	if (!all || json_array_append_new(all, json_string(where)) < 0 ||
	    !(text = json_dumps(all, 0)))
		return -1;
	free(*list);
	*list = text;
	return 0;
}

void lh_capture_option_tell(const char *run_dir)
{
	struct lh_notes notes = {0};
	struct lh_error err = {0};

	if (lh_capture_notes_read(run_dir, &notes, &err) < 0)
		fprintf(stderr, "longhaul: %s\n", err.message);
	for (size_t i = 0; i < notes.n_items; i++)
		fprintf(stderr, "longhaul: %s\n", notes.items[i]);
	lh_notes_done(&notes);
}
