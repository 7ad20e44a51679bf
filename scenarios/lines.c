/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text, line by line. See lines.h. */
#include "scenarios/lines.h"

#include <string.h>

enum { SHOWN_BYTES = 40 };

void lh_lines_say(struct lh_lines *l, const char *what, const char *text, size_t n_text)
{
	int shown = (int)(n_text > SHOWN_BYTES ? SHOWN_BYTES : n_text);
	struct lh_pos pos = l->pos;

	if (l->is_file) {
		pos.line = l->n_line;
		pos.col = 1;
		lh_diag_add(l->diag, pos, l->key_path, "'%.*s' %s", shown, text, what);
	} else {
		lh_diag_add(l->diag, pos, l->key_path, "line %d: '%.*s' %s", l->n_line, shown, text,
			    what);
	}
}

const char *lh_lines_next(struct lh_lines *l, size_t *ret_length)
{
	while (*l->at) {
		const char *line = l->at;
		size_t n = strcspn(line, "\n");

		l->at += n + (line[n] == '\n');
		l->n_line++;
		while (n > 0 && strchr(" \t\r", line[n - 1]))
			n--;
		if (n > 0) {
			*ret_length = n;
			return line;
		}
	}
	return NULL;
}
