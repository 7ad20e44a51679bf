/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for the main thread. See mailbox.h. */
#include "trainer/elastic/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "trainer/clock.h"
#include "trainer/elastic/door.h"

int lh_mailbox_init(struct lh_mailbox *box, struct lh_error *err)
{
	*box = (struct lh_mailbox){.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (box->wake_fd < 0)
		return lh_fail(err, LH_ESYS, errno, "eventfd");
	pthread_mutex_init(&box->mutex, NULL);
	return 0;
}

void lh_mailbox_done(struct lh_mailbox *box)
{
	if (box->wake_fd < 0)
		return;
	lh_mailbox_clear(box);
	for (size_t i = 0; i < box->n_visitors; i++)
		close(box->visitors[i].fd);
	free(box->notices);
	free(box->visitors);
	pthread_mutex_destroy(&box->mutex);
	close(box->wake_fd);
	*box = (struct lh_mailbox){.wake_fd = -1};
}

static void wake(struct lh_mailbox *box)
{
	uint64_t one = 1;

	/* A full counter is as readable as a written one. */
	if (write(box->wake_fd, &one, sizeof(one)) < 0)
		assert(errno == EAGAIN);
}

/* With the mutex held: room for one more item, or false. */
static bool make_room(void **items, size_t item_bytes, size_t n, size_t *room)
{
	void *grown;

	if (n < *room)
		return true;
	grown = reallocarray(*items, *room * 2 + 16, item_bytes);
	if (!grown)
		return false;
	*items = grown;
	*room = *room * 2 + 16;
	return true;
}

/* With the mutex held. */
static void lose(struct lh_mailbox *box, const struct lh_error *why)
{
	if (!box->lost.code)
		box->lost = *why;
}

static void leave(struct lh_mailbox *box, uint32_t serial)
{
	if (box->n_left_rounds <= serial)
		box->n_left_rounds = (uint64_t)serial + 1;
}

void lh_mailbox_put(struct lh_mailbox *box, struct lh_notice *notice)
{
	struct lh_error why = {0};

	pthread_mutex_lock(&box->mutex);
	if (make_room((void **)&box->notices, sizeof(*box->notices), box->n_notices,
		      &box->notices_room)) {
		box->notices[box->n_notices++] = *notice;
	} else {
		lh_fail(&why, LH_ESYS, ENOMEM, "keep a notice");
		lh_notice_done(notice);
		lose(box, &why);
	}
	wake(box);
	pthread_mutex_unlock(&box->mutex);
}

void lh_mailbox_put_visitor(struct lh_mailbox *box, const struct lh_visitor *visitor)
{
	pthread_mutex_lock(&box->mutex);
	if (box->n_visitors < LH_MAILBOX_VISITORS_MAX &&
	    make_room((void **)&box->visitors, sizeof(*box->visitors), box->n_visitors,
		      &box->visitors_room))
		box->visitors[box->n_visitors++] = *visitor;
	else
		close(visitor->fd);
	wake(box);
	pthread_mutex_unlock(&box->mutex);
}

void lh_mailbox_put_loss(struct lh_mailbox *box, const struct lh_error *why, uint32_t serial)
{
	pthread_mutex_lock(&box->mutex);
	lose(box, why);
	leave(box, serial);
	wake(box);
	pthread_mutex_unlock(&box->mutex);
}

void lh_mailbox_leave(struct lh_mailbox *box, uint32_t serial)
{
	pthread_mutex_lock(&box->mutex);
	leave(box, serial);
	wake(box);
	pthread_mutex_unlock(&box->mutex);
}

bool lh_mailbox_take(struct lh_mailbox *box, struct lh_notice *ret_notice)
{
	bool has_any;

	pthread_mutex_lock(&box->mutex);
	has_any = box->n_notices > 0;
	if (has_any) {
		*ret_notice = box->notices[0];
		memmove(box->notices, box->notices + 1, --box->n_notices * sizeof(*box->notices));
	}
	pthread_mutex_unlock(&box->mutex);
	return has_any;
}

bool lh_mailbox_take_visitor(struct lh_mailbox *box, uint16_t part, struct lh_visitor *ret_visitor)
{
	size_t i;
	bool has_any;

	pthread_mutex_lock(&box->mutex);
	for (i = 0; i < box->n_visitors; i++)
		if (box->visitors[i].hello.part == part ||
		    (part == LH_DOOR_DATA && box->visitors[i].hello.part > part))
			break;
	has_any = i < box->n_visitors;
	if (has_any) {
		*ret_visitor = box->visitors[i];
		memmove(box->visitors + i, box->visitors + i + 1,
			(--box->n_visitors - i) * sizeof(*box->visitors));
	}
	pthread_mutex_unlock(&box->mutex);
	return has_any;
}

bool lh_mailbox_has_left(struct lh_mailbox *box, uint32_t serial)
{
	bool has_left;

	pthread_mutex_lock(&box->mutex);
	has_left = serial < box->n_left_rounds;
	pthread_mutex_unlock(&box->mutex);
	return has_left;
}

int lh_mailbox_check(struct lh_mailbox *box, struct lh_error *err)
{
	int rc;

	pthread_mutex_lock(&box->mutex);
	rc = box->lost.code;
	if (rc && err)
		*err = box->lost;
	pthread_mutex_unlock(&box->mutex);
	return rc;
}

void lh_mailbox_clear(struct lh_mailbox *box)
{
	pthread_mutex_lock(&box->mutex);
	for (size_t i = 0; i < box->n_notices; i++)
		lh_notice_done(&box->notices[i]);
	box->n_notices = 0;
	box->lost = (struct lh_error){0};
	pthread_mutex_unlock(&box->mutex);
}

void lh_mailbox_wake(struct lh_mailbox *box)
{
	uint64_t count;

	if (read(box->wake_fd, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
}

void lh_mailbox_wait(struct lh_mailbox *box, int64_t until_ns)
{
	struct pollfd poll = {.fd = box->wake_fd, .events = POLLIN};

	if (lh_clock_poll_until(&poll, 1, until_ns) > 0)
		lh_mailbox_wake(box);
}
