/* SPDX-License-Identifier: Apache-2.0 */
/* What a misspelt word was probably meant to be. */
#ifndef LH_CORE_NEAREST_H
#define LH_CORE_NEAREST_H

#include <stddef.h>

/* The candidate nearest to word by edit distance, or NULL when none is near. next(context, i)
 * yields candidate i or NULL at the end. */
const char *lh_nearest(const char *word, const char *(*next)(const void *context, size_t i),
		       const void *context);

#endif
