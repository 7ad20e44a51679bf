/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as words of a kernel command line. See guest_internal.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/guest/guest_internal.h"

char *lh_guest_encode(const char *path)
{
	char *word = malloc(3 * strlen(path) + 1);
	char *to = word;

	if (!word)
		return NULL;
	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;

		if (isalnum(c) || strchr("/._-", c))
			*to++ = (char)c;
		else
			to += sprintf(to, "%%%02X", c);
	}
	*to = '\0';
	return word;
}

void lh_guest_decode(char *word)
{
	char *to = word;

	for (char *from = word; *from; from++) {
		unsigned c;

		if (*from == '%' && isxdigit((unsigned char)from[1]) &&
		    isxdigit((unsigned char)from[2]) && sscanf(from + 1, "%2x", &c) == 1) {
			*to++ = (char)c;
			from += 2;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}
