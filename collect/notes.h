/* SPDX-License-Identifier: Apache-2.0 */
/* A list of sentences for the reader of a result: what is missing, what makes a run invalid. */
#ifndef LH_COLLECT_NOTES_H
#define LH_COLLECT_NOTES_H

#include <stdbool.h>
#include <stddef.h>

/* All zero is an empty list. */
struct lh_notes {
	char **items; /* owned */
	size_t n_items;
	bool is_short; /* memory ran out: at least one sentence is missing */
};

/* Appends one formatted sentence; one that is in the list already is not repeated. */
void lh_notes_add(struct lh_notes *notes, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Frees what the list holds and empties it. */
void lh_notes_done(struct lh_notes *notes);

#endif
