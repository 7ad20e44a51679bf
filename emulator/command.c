/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is started with. See command.h. */
#include "emulator/command.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"

/* Any bytes as JSON text: each byte as the character of its number. */
static json_t *bytes_to_json(const char *bytes)
{
	lh_cleanup_free char *text = malloc(2 * strlen(bytes) + 1);
	char *to = text;

	if (!text)
		return NULL;
	for (const unsigned char *c = (const unsigned char *)bytes; *c; c++) {
		if (*c >= 0x80)
			*to++ = (char)(0xc0 | *c >> 6);
		*to++ = (char)(*c >= 0x80 ? 0x80 | (*c & 0x3f) : *c);
	}
	*to = '\0';
	return json_string(text);
}

/* The reverse; owned by the caller. */
static char *bytes_from_json(const json_t *value)
{
	const char *text = json_string_value(value);
	char *bytes = text ? malloc(strlen(text) + 1) : NULL;
	char *to = bytes;

	if (!bytes)
		return NULL;
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		bool wide = (*c & 0xe0) == 0xc0 && c[1];

		*to++ = (char)(wide ? (*c & 3) << 6 | (c[1] & 0x3f) : *c);
		c += wide;
	}
	*to = '\0';
	return bytes;
}

static json_t *command_to_json(const struct lh_command *c)
{
	json_t *environment = json_array(), *ranks = json_array();

	for (char **e = c->environment; *e; e++)
		json_array_append_new(environment, bytes_to_json(*e));
	for (size_t i = 0; i < c->n_ranks; i++)
		json_array_append_new(ranks, json_integer((json_int_t)c->ranks[i]));
	return json_pack("{s:o, s:o, s:o, s:I, s:b, s:i}", "environment", environment, "cwd",
			 bytes_to_json(c->cwd), "ranks", ranks, "time_limit_ns",
			 (json_int_t)c->time_limit_ns, "keep_going", c->keep_going, "terminal",
			 (int)c->terminal);
}

int lh_command_write(const char *path, const struct lh_command *command, struct lh_error *err)
{
	lh_cleanup_json json_t *doc = command_to_json(command);
	lh_cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "create %s", path);
	if (!doc || json_dumpfd(doc, fd, 0) < 0)
		return lh_fail(err, LH_ESYS, errno, "write %s", path);
	return 0;
}

int lh_command_take(const char *path, struct lh_command *ret, struct lh_error *err)
{
	lh_cleanup_json json_t *doc = NULL;
	const json_t *environment, *ranks;
	int r = lh_json_read(path, &doc, err);

	if (r < 0)
		return r;
	unlink(path);
	environment = json_object_get(doc, "environment");
	ranks = json_object_get(doc, "ranks");
	*ret = (struct lh_command){
		.environment = calloc(json_array_size(environment) + 1, sizeof(char *)),
		.cwd = bytes_from_json(json_object_get(doc, "cwd")),
		.ranks = calloc(json_array_size(ranks) + 1, sizeof(size_t)),
		.n_ranks = json_array_size(ranks),
		.time_limit_ns = json_integer_value(json_object_get(doc, "time_limit_ns")),
		.keep_going = json_is_true(json_object_get(doc, "keep_going")),
		.terminal =
			(enum lh_terminal_kind)json_integer_value(json_object_get(doc, "terminal")),
	};
	if (!ret->environment || !ret->cwd || !ret->ranks)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	for (size_t i = 0; i < json_array_size(environment); i++)
		if (!(ret->environment[i] = bytes_from_json(json_array_get(environment, i))))
			return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	for (size_t i = 0; i < ret->n_ranks; i++)
		ret->ranks[i] = (size_t)json_integer_value(json_array_get(ranks, i));
	return 0;
}

void lh_command_done(struct lh_command *c)
{
	for (char **e = c->environment; e && *e; e++)
		free(*e);
	free(c->environment);
	free(c->cwd);
	free(c->ranks);
	*c = (struct lh_command){.environment = NULL};
}

char *lh_host_name(const char *node)
{
	char *name = strdup(node);
	char *slash = name ? strrchr(name, '/') : NULL;

	if (slash)
		*slash = '-';
	return name;
}
