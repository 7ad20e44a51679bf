/* SPDX-License-Identifier: Apache-2.0 */
/* HTML text: escaping, and tables from struct lh_table. */
#ifndef LH_PLOTS_HTML_H
#define LH_PLOTS_HTML_H

#include <stdio.h>

#include "collect/table.h"

/* Writes text with & < > " ' escaped; NULL writes nothing. */
void lh_html_put(FILE *f, const char *text);

/* Writes printf's result, escaped. */
void lh_html_putf(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Writes the table with the columns of its text form, numbers to the right. */
void lh_html_put_table(FILE *f, const struct lh_table *table);

#endif
