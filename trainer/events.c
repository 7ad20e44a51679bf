/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of events. See events.h. */
#include "trainer/events.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"

struct lh_events {
	int fd;
	uint32_t rank;
	int64_t last_ns;
	char *path;
	char *lines; /* not yet written */
	size_t used;
	size_t room;
};

int lh_events_open(const char *path, uint32_t rank, struct lh_events **ret_events,
		   struct lh_error *err)
{
	struct lh_events *events = calloc(1, sizeof(*events));

	if (!events)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", path);
	events->rank = rank;
	events->path = strdup(path);
	events->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (events->fd < 0 || !events->path) {
		int saved = errno;

		lh_events_close(events);
		return lh_fail(err, LH_ESYS, saved, "open %s", path);
	}
	*ret_events = events;
	return 0;
}

static int append(struct lh_events *events, const char *line, size_t size)
{
	if (events->room - events->used < size + 1) {
		size_t room = (events->used + size + 1) * 2;
		char *grown = realloc(events->lines, room);

		if (!grown)
			return -1;
		events->lines = grown;
		events->room = room;
	}
	memcpy(events->lines + events->used, line, size);
	events->used += size;
	events->lines[events->used++] = '\n';
	return 0;
}

int lh_events_add(struct lh_events *events, const char *event, int64_t t_ns, json_t *fields,
		  struct lh_error *err)
{
	lh_cleanup_json json_t *mine = fields;
	lh_cleanup_json json_t *object =
		json_pack("{s:s, s:I, s:I}", "event", event, "t_ns", (json_int_t)t_ns, "rank",
			  (json_int_t)events->rank);
	lh_cleanup_free char *line = NULL;

	assert(t_ns >= events->last_ns);
	events->last_ns = t_ns;
	if (mine && object && json_object_update(object, mine) == 0)
		line = json_dumps(object, JSON_COMPACT);
	if (!line || append(events, line, strlen(line)))
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", events->path);
	return 0;
}

int lh_events_write(struct lh_events *events, struct lh_error *err)
{
	size_t done = 0;

	while (done < events->used) {
		ssize_t n = write(events->fd, events->lines + done, events->used - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return lh_fail(err, LH_ESYS, errno, "write %s", events->path);
		done += (size_t)n;
	}
	events->used = 0;
	return 0;
}

int lh_events_flush(struct lh_events *events, struct lh_error *err)
{
	int rc = lh_events_write(events, err);

	if (rc)
		return rc;
	/* Pipes and devices have nothing to wait for. */
	if (sync_file_range(events->fd, 0, 0,
			    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
				    SYNC_FILE_RANGE_WAIT_AFTER) &&
	    (errno == EIO || errno == ENOSPC))
		return lh_fail(err, LH_ESYS, errno, "write %s", events->path);
	return 0;
}

void lh_events_close(struct lh_events *events)
{
	if (!events)
		return;
	if (events->fd >= 0)
		close(events->fd);
	free(events->path);
	free(events->lines);
	free(events);
}
