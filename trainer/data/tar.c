/* SPDX-License-Identifier: Apache-2.0 */
/* Tar archives. See tar.h. */
#include "trainer/data/tar.h"

#include <string.h>

enum { BLOCK = 512 };

/* Where a header's fields are. */
enum {
	AT_NAME = 0,
	AT_SIZE = 124,
	AT_CHECKSUM = 148,
	AT_TYPE = 156,
	AT_MAGIC = 257,
	AT_PREFIX = 345,
	NAME_BYTES = 100,
	NUMBER_BYTES = 12,
	CHECKSUM_BYTES = 8,
	PREFIX_BYTES = 155,
};

void lh_tar_init(struct lh_tar *tar, const char *path, const uint8_t *data, size_t size)
{
	memset(tar, 0, sizeof(*tar));
	tar->path = path;
	tar->data = data;
	tar->size = size;
}

static int bad(const struct lh_tar *tar, const char *what, struct lh_error *err)
{
	return lh_fail(err, LH_EINPUT, 0, "%s: member %llu (byte %zu): %s", tar->path,
		       (unsigned long long)tar->n_members, tar->at, what);
}

/* Octal digits, or with its first bit set a binary number. */
static int parse_number(const uint8_t *p, size_t n, uint64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;

	if (p[0] & 0x80) {
		for (value = p[0] & 0x7f, i = 1; i < n; i++) {
			if (value >> 55)
				return -1;
			value = value << 8 | p[i];
		}
		*ret = value;
		return 0;
	}
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(p[i] - '0');
	*ret = value;
	return i == n || p[i] == ' ' || p[i] == '\0' ? 0 : -1;
}

static bool is_checksum_right(const uint8_t *header)
{
	uint64_t wanted, sum = 0;

	if (parse_number(header + AT_CHECKSUM, CHECKSUM_BYTES, &wanted) < 0)
		return false;
	for (size_t i = 0; i < BLOCK; i++)
		sum += i - AT_CHECKSUM < CHECKSUM_BYTES ? ' ' : header[i];
	return sum == wanted;
}

static bool is_zero(const uint8_t *block)
{
	return block[0] == 0 && memcmp(block, block + 1, BLOCK - 1) == 0;
}

/* Joins a header's prefix and name. */
static void set_name(struct lh_tar *tar, const uint8_t *header)
{
	const char *name = (const char *)header + AT_NAME;
	const char *prefix = (const char *)header + AT_PREFIX;
	size_t n = 0;

	if (memcmp(header + AT_MAGIC, "ustar\0", 6) == 0 && prefix[0]) {
		n = strnlen(prefix, PREFIX_BYTES);
		memcpy(tar->name, prefix, n);
		tar->name[n++] = '/';
	}
	memcpy(tar->name + n, name, strnlen(name, NAME_BYTES));
	tar->name[n + strnlen(name, NAME_BYTES)] = '\0';
}

static int set_long_name(struct lh_tar *tar, const uint8_t *name, size_t n, struct lh_error *err)
{
	n = strnlen((const char *)name, n);
	if (n == 0 || n >= sizeof(tar->name))
		return bad(tar, "a long name of no or more than 4095 bytes", err);
	memcpy(tar->name, name, n);
	tar->name[n] = '\0';
	tar->has_long_name = true;
	return 0;
}

static int pax_record(struct lh_tar *tar, const uint8_t *key, const uint8_t *equals,
		      const uint8_t *end, struct lh_error *err)
{
	size_t n_key = (size_t)(equals - key);
	const uint8_t *value = equals + 1;

	if (n_key == 4 && memcmp(key, "path", 4) == 0)
		return set_long_name(tar, value, (size_t)(end - value), err);
	if (n_key > 10 && memcmp(key, "GNU.sparse", 10) == 0)
		return bad(tar, "is a sparse file; make the archive without --sparse", err);
	if (n_key != 4 || memcmp(key, "size", 4) != 0)
		return 0;
	tar->has_long_size = true;
	for (tar->long_size = 0; value < end; value++) {
		if (*value < '0' || *value > '9' || tar->long_size > (UINT64_MAX >> 8))
			return bad(tar, "a pax size that is no number", err);
		tar->long_size = tar->long_size * 10 + (uint64_t)(*value - '0');
	}
	return 0;
}

/* Records "LENGTH KEY=VALUE\n"; the length is that of the whole record. */
static int pax_header(struct lh_tar *tar, const uint8_t *p, size_t n, struct lh_error *err)
{
	while (n) {
		size_t length = 0, i = 0;
		const uint8_t *equals;
		int r;

		for (; i < n && i < 9 && p[i] >= '0' && p[i] <= '9'; i++)
			length = length * 10 + (size_t)(p[i] - '0');
		if (i == 0 || i >= n || p[i] != ' ' || length > n || length < i + 4 ||
		    p[length - 1] != '\n')
			return bad(tar, "a pax header that is not LENGTH KEY=VALUE", err);
		equals = memchr(p + i, '=', length - i);
		if (!equals)
			return bad(tar, "a pax header without '='", err);
		r = pax_record(tar, p + i + 1, equals, p + length - 1, err);
		if (r < 0)
			return r;
		p += length;
		n -= length;
	}
	return 0;
}

/* Takes in a header that says something about the next: 1 if it was one, 0 if not. */
static int take_extension(struct lh_tar *tar, char type, struct lh_error *err)
{
	int r;

	switch (type) {
	case 'L':
		r = set_long_name(tar, tar->content, tar->content_size, err);
		break;
	case 'x':
		r = pax_header(tar, tar->content, tar->content_size, err);
		break;
	case 'g': /* of the whole archive: no path, no size */
	case 'K': /* a link's target */
		r = 0;
		break;
	case 'S':
	case 'M':
		r = bad(tar, "is sparse or goes on from another archive; neither is read", err);
		break;
	default:
		return 0;
	}
	return r < 0 ? r : 1;
}

/* Whether the archive's end is here: 1 yes, 0 no, or LH_EINPUT. */
static int is_at_end(const struct lh_tar *tar, struct lh_error *err)
{
	const uint8_t *header = tar->data + tar->at;

	if (tar->size - tar->at < BLOCK)
		return bad(tar, "cut off: the archive ends without its two blocks of zeros", err);
	if (!is_zero(header))
		return 0;
	if (tar->size - tar->at < 2 * BLOCK || !is_zero(header + BLOCK))
		return bad(tar, "one block of zeros, but not two: cut off or corrupt", err);
	return 1;
}

/* Sets content to what follows the header at `at`, and goes beyond it. */
static int take_content(struct lh_tar *tar, const uint8_t *header, struct lh_error *err)
{
	bool is_extension = strchr("LKxg", header[AT_TYPE]) && header[AT_TYPE];
	size_t left = tar->size - tar->at - BLOCK;
	uint64_t size;

	if (parse_number(header + AT_SIZE, NUMBER_BYTES, &size) < 0)
		return bad(tar, "its size is no number", err);
	if (tar->has_long_size && !is_extension)
		size = tar->long_size;
	if (size > left)
		return bad(tar, "cut off: its content is longer than what is left", err);
	tar->content = header + BLOCK;
	tar->content_size = (size_t)size;
	size = (size + BLOCK - 1) / BLOCK * BLOCK;
	tar->at += BLOCK + (size > left ? left : (size_t)size);
	return 0;
}

int lh_tar_next(struct lh_tar *tar, struct lh_error *err)
{
	for (;;) {
		const uint8_t *header = tar->data + tar->at;
		bool is_file;
		int r = is_at_end(tar, err);

		if (r)
			return r < 0 ? r : 0;
		if (!is_checksum_right(header))
			return bad(tar, "is no tar header, or a corrupt one (wrong checksum)", err);
		r = take_content(tar, header, err);
		if (r < 0)
			return r;
		r = take_extension(tar, (char)header[AT_TYPE], err);
		if (r < 0)
			return r;
		if (r == 1)
			continue;
		if (!tar->has_long_name)
			set_name(tar, header);
		is_file =
			header[AT_TYPE] == '0' || header[AT_TYPE] == '\0' || header[AT_TYPE] == '7';
		tar->has_long_name = tar->has_long_size = false;
		tar->n_members++;
		if (is_file)
			return 1;
	}
}
