/* SPDX-License-Identifier: Apache-2.0 */
/* See nearest.h. */
#include "core/nearest.h"

#include <string.h>

enum { NEAREST_WORD_MAX = 64 };

static size_t edit_distance(const char *a, const char *b)
{
	size_t n = strlen(b);
	size_t row[NEAREST_WORD_MAX + 1];

	if (strlen(a) > NEAREST_WORD_MAX || n > NEAREST_WORD_MAX)
		return NEAREST_WORD_MAX;
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

const char *lh_nearest(const char *word, const char *(*next)(const void *context, size_t i),
		       const void *context)
{
	const char *best = NULL;
	size_t best_distance = strlen(word) / 2 + 1;

	for (size_t i = 0;; i++) {
		const char *candidate = next(context, i);
		size_t d;

		if (!candidate)
			return best;
		d = edit_distance(word, candidate);
		if (d < best_distance) {
			best_distance = d;
			best = candidate;
		}
	}
}
