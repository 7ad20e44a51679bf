/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a YAML scalar. */
#ifndef LH_IMPORT_YAML_TEXT_H
#define LH_IMPORT_YAML_TEXT_H

#include <stdio.h>

/* Writes text in double quotes; what is not printable UTF-8 becomes '?'. */
void lh_yaml_put_quoted(FILE *out, const char *text);

#endif
