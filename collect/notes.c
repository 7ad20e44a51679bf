/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of sentences. See notes.h. */
#include "collect/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lh_notes_add(struct lh_notes *notes, const char *fmt, ...)
{
	char *text = NULL;
	char **grown;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	for (size_t i = 0; text && i < notes->n_items; i++)
		if (strcmp(notes->items[i], text) == 0) {
			free(text);
			return;
		}
	grown = text ? realloc(notes->items, (notes->n_items + 1) * sizeof(*grown)) : NULL;
	if (!grown) {
		notes->is_short = true;
		free(text);
		return;
	}
	notes->items = grown;
	notes->items[notes->n_items++] = text;
}

void lh_notes_done(struct lh_notes *notes)
{
	for (size_t i = 0; i < notes->n_items; i++)
		free(notes->items[i]);
	free(notes->items);
	memset(notes, 0, sizeof(*notes));
}
