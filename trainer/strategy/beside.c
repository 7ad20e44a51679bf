/* SPDX-License-Identifier: Apache-2.0 */
/* A helper thread. See beside.h. */
#include "trainer/strategy/beside.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "trainer/clock.h"

enum { STACK_BYTES = 256 << 10 };

struct lh_beside {
	pthread_mutex_t mutex;
	pthread_cond_t posted;
	pthread_cond_t ended;
	pthread_t thread;
	bool is_ending;
	struct lh_error failure; /* of the first task that failed */
	struct lh_beside_task *first;
	struct lh_beside_task **last; /* where the next is hung in */
};

/* With the mutex held, which is let go while the task runs. */
static void do_first(struct lh_beside *b)
{
	struct lh_beside_task *task = b->first;
	struct lh_error why = {0};
	int rc = b->failure.code;

	b->first = task->next;
	if (!b->first)
		b->last = &b->first;
	if (rc == 0) {
		pthread_mutex_unlock(&b->mutex);
		rc = task->run(task->arg, &why);
		pthread_mutex_lock(&b->mutex);
		if (rc)
			b->failure = why;
	}
	task->end_ns = lh_clock_now_ns();
	task->has_ended = true;
	pthread_cond_broadcast(&b->ended);
}

static void *run(void *arg)
{
	struct lh_beside *b = arg;

	pthread_mutex_lock(&b->mutex);
	while (!b->is_ending) {
		if (b->first)
			do_first(b);
		else
			pthread_cond_wait(&b->posted, &b->mutex);
	}
	pthread_mutex_unlock(&b->mutex);
	return NULL;
}

static int start_thread(struct lh_beside *b)
{
	pthread_attr_t attr;
	int sys = pthread_attr_init(&attr);

	if (sys)
		return sys;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sys = pthread_create(&b->thread, &attr, run, b);
	pthread_attr_destroy(&attr);
	return sys;
}

static void destroy(struct lh_beside *b)
{
	pthread_cond_destroy(&b->posted);
	pthread_cond_destroy(&b->ended);
	pthread_mutex_destroy(&b->mutex);
	free(b);
}

int lh_beside_open(struct lh_beside **ret_beside, struct lh_error *err)
{
	struct lh_beside *b = calloc(1, sizeof(*b));
	pthread_condattr_t clock;
	int sys;

	if (!b)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a helper");
	pthread_mutex_init(&b->mutex, NULL);
	pthread_cond_init(&b->posted, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&b->ended, &clock);
	pthread_condattr_destroy(&clock);
	b->last = &b->first;
	sys = start_thread(b);
	if (sys) {
		destroy(b);
		return lh_fail(err, LH_ESYS, sys, "start a thread");
	}
	*ret_beside = b;
	return 0;
}

void lh_beside_post(struct lh_beside *beside, struct lh_beside_task *task)
{
	pthread_mutex_lock(&beside->mutex);
	task->has_ended = false;
	task->next = NULL;
	*beside->last = task;
	beside->last = &task->next;
	pthread_cond_signal(&beside->posted);
	pthread_mutex_unlock(&beside->mutex);
}

/* With the mutex held. */
static int failure(const struct lh_beside *b, struct lh_error *err)
{
	if (b->failure.code && err)
		*err = b->failure;
	return b->failure.code;
}

/* With the mutex held: waits for the end of any task; false past the deadline. */
static bool wait_for_end(struct lh_beside *b, int64_t deadline_ns)
{
	struct timespec until = {.tv_sec = deadline_ns / LH_NS_PER_S,
				 .tv_nsec = deadline_ns % LH_NS_PER_S};

	if (deadline_ns == INT64_MAX)
		return pthread_cond_wait(&b->ended, &b->mutex) == 0;
	return pthread_cond_timedwait(&b->ended, &b->mutex, &until) != ETIMEDOUT;
}

int lh_beside_wait(struct lh_beside *beside, const struct lh_beside_task *task, int64_t deadline_ns,
		   struct lh_error *err)
{
	bool is_late = false;
	int rc;

	pthread_mutex_lock(&beside->mutex);
	while (!task->has_ended && !is_late)
		is_late = !wait_for_end(beside, deadline_ns);
	rc = failure(beside, err);
	if (rc == 0 && !task->has_ended)
		rc = lh_fail(err, LH_ERUN, ETIMEDOUT, "waiting for what runs beside computing");
	pthread_mutex_unlock(&beside->mutex);
	return rc;
}

bool lh_beside_has_ended(struct lh_beside *beside, const struct lh_beside_task *task)
{
	bool has_ended;

	pthread_mutex_lock(&beside->mutex);
	has_ended = task->has_ended;
	pthread_mutex_unlock(&beside->mutex);
	return has_ended;
}

int lh_beside_check(struct lh_beside *beside, struct lh_error *err)
{
	int rc;

	pthread_mutex_lock(&beside->mutex);
	rc = failure(beside, err);
	pthread_mutex_unlock(&beside->mutex);
	return rc;
}

void lh_beside_close(struct lh_beside *beside)
{
	if (!beside)
		return;
	pthread_mutex_lock(&beside->mutex);
	beside->is_ending = true;
	pthread_cond_signal(&beside->posted);
	pthread_mutex_unlock(&beside->mutex);
	pthread_join(beside->thread, NULL);
	destroy(beside);
}
