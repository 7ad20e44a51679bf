/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text, line by line, and complaints about them. Private to the scenario room. */
#ifndef LH_SCENARIOS_LINES_H
#define LH_SCENARIOS_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* A text being read. */
struct lh_lines {
	const char *at; /* what is left */
	struct lh_pos pos;
	bool is_file; /* lines are the file's own; otherwise all stand at one place */
	int n_line;
	const char *key_path;
	struct lh_diag *diag;
};

/* The next line that is not empty, without its end; NULL at the end. */
const char *lh_lines_next(struct lh_lines *lines, size_t *ret_length);

/* Complains of the present line: the text in it (n_text bytes, shown in part), and what it is. */
void lh_lines_say(struct lh_lines *lines, const char *what, const char *text, size_t n_text);

#endif
