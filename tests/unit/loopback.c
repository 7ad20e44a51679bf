/* SPDX-License-Identifier: Apache-2.0 */
/* See loopback.h. */
#include "tests/unit/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/test.h"

enum { PORTS_MAX = 64 };

static const struct sockaddr_in any_port = {.sin_family = AF_INET};

/* A socket at a free port of loopback. */
static int bind_any(struct sockaddr_in *ret_address)
{
	socklen_t size = sizeof(*ret_address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret_address = any_port;
	ret_address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)ret_address, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)ret_address, &size), 0);
	return fd;
}

void loopback_find_ports(struct lh_job_rank *ranks, uint32_t n)
{
	int fds[PORTS_MAX];

	assert_true(n <= PORTS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		struct sockaddr_in address;

		fds[i] = bind_any(&address);
		memcpy(&ranks[i].socket_address, &address, sizeof(address));
		ranks[i].socket_address_size = sizeof(address);
		ranks[i].port = ntohs(address.sin_port);
	}
	for (uint32_t i = 0; i < n; i++)
		close(fds[i]);
}

void loopback_connect(int ret_fds[2])
{
	struct sockaddr_in address;
	int listener = bind_any(&address);

	assert_int_equal(listen(listener, 1), 0);
	ret_fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(ret_fds[0], (struct sockaddr *)&address, sizeof(address)), 0);
	ret_fds[1] = accept(listener, NULL, NULL);
	assert_true(ret_fds[1] >= 0);
	close(listener);
}

json_t *loopback_events(const char *path)
{
	lh_cleanup_fclose FILE *file = fopen(path, "re");
	json_t *events;
	char line[65536];

	if (!file)
		return NULL;
	events = json_array();
	while (fgets(line, sizeof(line), file)) {
		json_t *event = json_loads(line, 0, NULL);

		assert_non_null(event);
		json_array_append_new(events, event);
	}
	return events;
}

bool loopback_is_event(const json_t *event, const char *name)
{
	return strcmp(json_string_value(json_object_get(event, "event")), name) == 0;
}

int64_t loopback_integer(const json_t *event, const char *key)
{
	const json_t *value = json_object_get(event, key);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

int64_t loopback_sum(const json_t *events, const char *name, const char *key, size_t *ret_n)
{
	int64_t sum = 0;
	size_t i, n = 0;
	const json_t *event;

	json_array_foreach ((json_t *)(uintptr_t)events, i, event) {
		if (!loopback_is_event(event, name))
			continue;
		sum += loopback_integer(event, key);
		n++;
	}
	if (ret_n)
		*ret_n = n;
	return sum;
}

size_t loopback_count(const json_t *events, const char *name)
{
	size_t i, n = 0;
	const json_t *event;

	json_array_foreach ((json_t *)(uintptr_t)events, i, event)
		n += loopback_is_event(event, name);
	return n;
}
