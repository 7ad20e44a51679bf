/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a YAML scalar. See yaml_text.h. */
#include "import/yaml_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the printable code point at p, or 0 where there is none. */
static size_t printable(const unsigned char *p)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = *p < 0x80 ? 1 : *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : *p >= 0xc0 ? 2 : 0;
	uint32_t c = n == 1 ? *p : n ? *p & (0xffu >> (n + 1)) : 0;

	if (n == 1)
		return *p >= ' ' && *p != 0x7f;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (n == 0 || c < smallest[n] || c < 0xa0 || (c >= 0xd800 && c < 0xe000) || c == 0x2028 ||
	    c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff || c > 0x10ffff)
		return 0;
	return n;
}

void lh_yaml_put_quoted(FILE *out, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	fputc('"', out);
	while (*p) {
		size_t n = printable(p);

		if (n == 0)
			fputc('?', out);
		else if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else
			fwrite(p, 1, n, out);
		p += n ? n : 1;
	}
	fputc('"', out);
}
