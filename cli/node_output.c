/* SPDX-License-Identifier: Apache-2.0 */
/* What programs in nodes say. See node_output.h. */
#include "cli/node_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/command.h"

enum { READ_BYTES = 65536, STREAMS = 2 };

static const char *const stream_names[STREAMS] = {"stdout", "stderr"};

/* One stream of one node. */
struct source {
	const char *node;
	char *path;
	FILE *to;
	int fd;	    /* -1: not there yet */
	char *line; /* begun, not ended */
	size_t n_line;
};

struct lh_node_output {
	struct source *sources;
	size_t n_sources;
	bool named;
};

static void output_free(struct lh_node_output *o)
{
	for (size_t i = 0; o->sources && i < o->n_sources; i++) {
		if (o->sources[i].fd >= 0)
			close(o->sources[i].fd);
		free(o->sources[i].path);
		free(o->sources[i].line);
	}
	free(o->sources);
	free(o);
}

int lh_node_output_new(const char *run_dir, const char *const *nodes, size_t n,
		       struct lh_node_output **ret_output, struct lh_error *err)
{
	struct lh_node_output *o = calloc(1, sizeof(*o));

	if (!o || !(o->sources = calloc(STREAMS * n, sizeof(*o->sources)))) {
		free(o);
		return lh_fail(err, LH_ESYS, ENOMEM, "follow the nodes' output");
	}
	o->n_sources = STREAMS * n;
	o->named = n > 1;
	for (size_t i = 0; i < o->n_sources; i++) {
		lh_cleanup_free char *host = lh_host_name(nodes[i / STREAMS]);

		o->sources[i] =
			(struct source){.node = nodes[i / STREAMS],
					.path = lh_strf("%s/nodes/%s.%s", run_dir, host ? host : "",
							stream_names[i % STREAMS]),
					.to = i % STREAMS ? stderr : stdout,
					.fd = -1};
		if (!o->sources[i].path) {
			output_free(o);
			return lh_fail(err, LH_ESYS, ENOMEM, "follow the nodes' output");
		}
	}
	*ret_output = o;
	return 0;
}

/* Keeps the beginning of a line until its end comes. */
static void keep(struct source *s, const char *text, size_t n)
{
	char *grown = realloc(s->line, s->n_line + n);

	if (!grown)
		return;
	s->line = grown;
	memcpy(s->line + s->n_line, text, n);
	s->n_line += n;
}

static void put_line(struct source *s, const char *text, size_t n)
{
	fprintf(s->to, "%s: ", s->node);
	fwrite(s->line, 1, s->n_line, s->to);
	fwrite(text, 1, n, s->to);
	s->n_line = 0;
}

static void put_lines(struct source *s, const char *text, size_t n)
{
	const char *end;

	while (n && (end = memchr(text, '\n', n))) {
		size_t n_line = (size_t)(end - text) + 1;

		put_line(s, text, n_line);
		text += n_line;
		n -= n_line;
	}
	if (n)
		keep(s, text, n);
}

static void follow(struct lh_node_output *o, struct source *s)
{
	char buf[READ_BYTES];
	ssize_t n;

	if (s->fd < 0)
		s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
	while (s->fd >= 0 && (n = read(s->fd, buf, sizeof(buf))) > 0) {
		if (o->named)
			put_lines(s, buf, (size_t)n);
		else
			fwrite(buf, 1, (size_t)n, s->to);
	}
}

void lh_node_output_tick(void *context)
{
	struct lh_node_output *o = context;

	for (size_t i = 0; i < o->n_sources; i++)
		follow(o, &o->sources[i]);
	fflush(stdout);
}

void lh_node_output_finish(struct lh_node_output *o)
{
	if (!o)
		return;
	lh_node_output_tick(o);
	for (size_t i = 0; i < o->n_sources; i++)
		if (o->sources[i].n_line)
			put_line(&o->sources[i], "\n", 1);
	fflush(stdout);
	output_free(o);
}
