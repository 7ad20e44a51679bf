/* SPDX-License-Identifier: Apache-2.0 */
/* The link to the coordinator. See link.h. */
#include "trainer/elastic/link.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "trainer/clock.h"
#include "trainer/elastic/coordinator.h"
#include "trainer/elastic/line.h"

enum { THREAD_STACK_BYTES = 512 << 10 };

struct lh_link {
	struct lh_link_config config;
	struct lh_line line; /* the thread's */
	int64_t heard_ns;
	int64_t told_ns;
	uint32_t serial; /* of the last round */
	bool has_thread;
	pthread_t thread;
	int wake_fd;
	pthread_mutex_t mutex; /* guards all below */
	bool is_ending;
	struct lh_notice *notices; /* to be sent */
	size_t n_notices, room;
};

static void wake(struct lh_link *link)
{
	uint64_t one = 1;

	if (write(link->wake_fd, &one, sizeof(one)) < 0)
		assert(errno == EAGAIN);
}

/* Sends all that is to be sent; *ret_ends: and nothing will be any more. */
static int send_all(struct lh_link *link, bool *ret_ends, struct lh_error *err)
{
	uint64_t count;
	int rc = 0;

	if (read(link->wake_fd, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
	pthread_mutex_lock(&link->mutex);
	for (size_t i = 0; rc == 0 && i < link->n_notices; i++) {
		rc = lh_line_send(&link->line, &link->notices[i], err);
		link->told_ns = lh_clock_now_ns();
	}
	link->n_notices = 0;
	*ret_ends = link->is_ending;
	pthread_mutex_unlock(&link->mutex);
	return rc;
}

static int read_all(struct lh_link *link, struct lh_error *err)
{
	struct lh_notice notice;
	int got;

	while ((got = lh_line_read(&link->line, &notice, err)) > 0) {
		link->heard_ns = lh_clock_now_ns();
		if (notice.kind == LH_NOTICE_HEARTBEAT)
			continue;
		if (notice.kind == LH_NOTICE_BEGIN)
			link->serial = notice.serial;
		if (notice.kind == LH_NOTICE_ABORT) {
			lh_mailbox_leave(link->config.mailbox, notice.serial);
			lh_comm_leave(link->config.comm, notice.serial);
		}
		lh_mailbox_put(link->config.mailbox, &notice);
	}
	return got;
}

static int beat(struct lh_link *link, int64_t now_ns, struct lh_error *err)
{
	const struct lh_notice heartbeat = {.kind = LH_NOTICE_HEARTBEAT, .rank = link->config.self};

	if (now_ns - link->heard_ns >= LH_COORDINATOR_MISSED * link->config.heartbeat_ns)
		return lh_fail(err, LH_ERUN, ETIMEDOUT, "the coordinator is silent");
	if (now_ns - link->told_ns < link->config.heartbeat_ns)
		return 0;
	link->told_ns = now_ns;
	return lh_line_send(&link->line, &heartbeat, err);
}

static int64_t due_ns(const struct lh_link *link)
{
	int64_t tell_ns = link->told_ns + link->config.heartbeat_ns;
	int64_t silent_ns = link->heard_ns + LH_COORDINATOR_MISSED * link->config.heartbeat_ns;

	return tell_ns < silent_ns ? tell_ns : silent_ns;
}

static int turn(struct lh_link *link, bool *ret_ends, struct lh_error *err)
{
	struct pollfd polls[2] = {{.fd = link->line.fd, .events = POLLIN},
				  {.fd = link->wake_fd, .events = POLLIN}};
	int rc = 0;

	if (lh_line_has_out(&link->line))
		polls[0].events |= POLLOUT;
	lh_clock_poll_until(polls, 2, due_ns(link));
	if (polls[0].revents & POLLOUT)
		rc = lh_line_flush(&link->line, err);
	if (rc == 0 && polls[0].revents & ~POLLOUT)
		rc = read_all(link, err);
	if (rc == 0)
		rc = send_all(link, ret_ends, err);
	return rc ? rc : beat(link, lh_clock_now_ns(), err);
}

static void *keep_link(void *arg)
{
	struct lh_link *link = arg;
	struct lh_error why = {0};
	bool ends = false;

	while (!ends) {
		if (turn(link, &ends, &why) == 0)
			continue;
		lh_error_prefix(&why, "the coordinator (rank 0)");
		lh_mailbox_put_loss(link->config.mailbox, &why, link->serial);
		lh_comm_leave(link->config.comm, link->serial);
		break;
	}
	return NULL;
}

static int start_thread(struct lh_link *link)
{
	pthread_attr_t attr;
	int sys = pthread_attr_init(&attr);

	if (sys)
		return sys;
	pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	sys = pthread_create(&link->thread, &attr, keep_link, link);
	link->has_thread = sys == 0;
	pthread_attr_destroy(&attr);
	return sys;
}

int lh_link_open(const struct lh_link_config *config, int fd, struct lh_link **ret_link,
		 struct lh_error *err)
{
	struct lh_link *link = calloc(1, sizeof(*link));
	int rc, sys;

	if (!link) {
		close(fd);
		return lh_fail(err, LH_ESYS, ENOMEM, "open a link");
	}
	link->config = *config;
	link->heard_ns = link->told_ns = lh_clock_now_ns();
	pthread_mutex_init(&link->mutex, NULL);
	link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = lh_line_open(&link->line, fd, config->traffic, 0, err);
	if (rc == 0 && link->wake_fd < 0)
		rc = lh_fail(err, LH_ESYS, errno, "eventfd");
	if (rc == 0 && (sys = start_thread(link)))
		rc = lh_fail(err, LH_ESYS, sys, "start a thread");
	if (rc) {
		lh_link_close(link);
		return rc;
	}
	*ret_link = link;
	return 0;
}

int lh_link_send(struct lh_link *link, const struct lh_notice *notice, struct lh_error *err)
{
	int rc = 0;

	assert(notice->n_members == 0);
	pthread_mutex_lock(&link->mutex);
	if (link->n_notices == link->room) {
		struct lh_notice *grown =
			reallocarray(link->notices, link->room * 2 + 16, sizeof(*link->notices));

		if (grown) {
			link->notices = grown;
			link->room = link->room * 2 + 16;
		} else {
			rc = lh_fail(err, LH_ESYS, ENOMEM, "send a notice");
		}
	}
	if (rc == 0) {
		link->notices[link->n_notices] = *notice;
		link->notices[link->n_notices++].rank = link->config.self;
		wake(link);
	}
	pthread_mutex_unlock(&link->mutex);
	return rc;
}

void lh_link_close(struct lh_link *link)
{
	if (!link)
		return;
	pthread_mutex_lock(&link->mutex);
	link->is_ending = true;
	if (link->wake_fd >= 0)
		wake(link);
	pthread_mutex_unlock(&link->mutex);
	if (link->has_thread)
		pthread_join(link->thread, NULL);
	lh_line_close(&link->line);
	if (link->wake_fd >= 0)
		close(link->wake_fd);
	pthread_mutex_destroy(&link->mutex);
	free(link->notices);
	free(link);
}
