/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's thread. See office.h. */
#include "trainer/elastic/office.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/elastic/line.h"

enum {
	NEWCOMERS_MAX = 64,
	/* How long those who come at the very end are told so, in heartbeats. */
	LINGER_HEARTBEATS = 2,
	THREAD_STACK_BYTES = 1 << 20,
};

static const int64_t JOIN_NS = 20 * LH_NS_PER_S;

/* Who has not joined yet. */
struct newcomer {
	struct lh_line line;
	uint32_t rank;
	int64_t until_ns;
};

struct event {
	const char *name;
	json_t *fields;
};

/* Sockets on their way to the thread. */
struct admitted {
	int fd;
	uint32_t rank;
};

struct lh_office {
	struct lh_coordinator *c; /* as the next lines, the thread's */
	struct lh_coordinator_config config;
	struct lh_traffic *traffic;
	struct lh_line *lines; /* by rank; fd -1: none */
	struct newcomer newcomers[NEWCOMERS_MAX];
	struct pollfd *polls; /* lines, newcomers, wake_fd */
	int64_t over_ns;      /* when all had left after the end; 0: not yet */
	bool has_failed;
	bool has_thread;
	pthread_t thread;
	int wake_fd;
	pthread_mutex_t mutex; /* guards all below */
	bool is_ending;	       /* as soon as all have left */
	bool is_closed;	       /* now */
	struct admitted admitted[LH_JOB_RANKS_MAX];
	size_t n_admitted;
	struct event *events;
	size_t n_events, events_room;
};

static void wake(struct lh_office *o)
{
	uint64_t one = 1;

	if (write(o->wake_fd, &one, sizeof(one)) < 0)
		assert(errno == EAGAIN);
}

void lh_office_admit(struct lh_office *o, int fd, uint32_t rank)
{
	pthread_mutex_lock(&o->mutex);
	if (o->n_admitted < LH_JOB_RANKS_MAX)
		o->admitted[o->n_admitted++] = (struct admitted){fd, rank};
	else
		close(fd);
	wake(o);
	pthread_mutex_unlock(&o->mutex);
}

/* ---- decisions as events ------------------------------------------------------------------ */

static json_t *members_to_json(const struct lh_coordinator_record *r)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < r->n_members; i++) {
		const struct lh_notice_member *m = &r->members[i];

		json_array_append_new(
			array, json_pack("{s:I, s:I, s:I, s:I}", "rank", (json_int_t)m->rank,
					 "incarnation", (json_int_t)r->incarnations[i], "from",
					 (json_int_t)m->from, "to", (json_int_t)m->to));
	}
	return array;
}

static json_t *record_to_json(const struct lh_coordinator_record *r)
{
	json_t *fields = json_pack("{s:I, s:I}", "at_ns", (json_int_t)r->at_ns, "epoch",
				   (json_int_t)r->epoch);

	if (r->kind == LH_RECORD_JOIN || r->kind == LH_RECORD_LEAVE) {
		json_object_set_new(fields, "member", json_integer(r->rank));
		json_object_set_new(fields, "incarnation", json_integer(r->incarnation));
		json_object_set_new(fields, "session", json_integer(r->session));
	} else {
		json_object_set_new(fields, "serial", json_integer(r->serial));
		json_object_set_new(fields, "attempt", json_integer(r->attempt));
		json_object_set_new(fields, "members", members_to_json(r));
	}
	if (r->reason)
		json_object_set_new(fields, "reason", json_string(r->reason));
	return fields;
}

static void add_event(struct lh_office *o, const struct lh_coordinator_record *r)
{
	static const char *const names[] = {
		[LH_RECORD_JOIN] = "join",
		[LH_RECORD_LEAVE] = "leave",
		[LH_RECORD_COMMIT] = "commit",
		[LH_RECORD_ABORT] = "abort",
	};
	struct event *grown;

	pthread_mutex_lock(&o->mutex);
	if (o->n_events == o->events_room) {
		grown = reallocarray(o->events, o->events_room * 2 + 16, sizeof(*grown));
		if (grown) {
			o->events = grown;
			o->events_room = o->events_room * 2 + 16;
		}
	}
	/* what finds no memory here is missed when the samples are added up */
	if (o->n_events < o->events_room)
		o->events[o->n_events++] = (struct event){names[r->kind], record_to_json(r)};
	pthread_mutex_unlock(&o->mutex);
}

const char *lh_office_take_event(struct lh_office *o, json_t **ret_fields)
{
	struct event first = {0};

	pthread_mutex_lock(&o->mutex);
	if (o->n_events) {
		first = o->events[0];
		memmove(o->events, o->events + 1, --o->n_events * sizeof(*o->events));
	}
	pthread_mutex_unlock(&o->mutex);
	*ret_fields = first.fields;
	return first.name;
}

/* ---- the coordinator's orders ------------------------------------------------------------- */

static void lose(struct lh_office *o, uint32_t rank)
{
	lh_line_close(&o->lines[rank]);
	lh_coordinator_lose(o->c, rank, lh_clock_now_ns());
}

/* Writes what has been decided, and tells it; who cannot be told is lost, but only when all others
 * know: *ret_lost, or n_ranks. */
static void follow_once(struct lh_office *o, uint32_t *ret_lost)
{
	struct lh_coordinator_order order;
	struct lh_coordinator_record record;

	*ret_lost = o->config.n_ranks;
	while (lh_coordinator_next_record(o->c, &record))
		add_event(o, &record);
	while (lh_coordinator_next_order(o->c, &order)) {
		struct lh_line *line = &o->lines[order.rank];

		if (line->fd < 0)
			continue;
		if (order.notice.kind && lh_line_send(line, &order.notice, NULL)) {
			lh_line_close(line);
			*ret_lost = order.rank;
		} else if (order.closes) {
			lh_line_close(line);
		}
	}
}

/* Does what has been decided, and what follows from that. */
static void follow(struct lh_office *o)
{
	uint32_t lost;

	for (follow_once(o, &lost); lost < o->config.n_ranks; follow_once(o, &lost))
		for (uint32_t rank = 0; rank < o->config.n_ranks; rank++)
			if (o->lines[rank].fd < 0)
				lh_coordinator_lose(o->c, rank, lh_clock_now_ns());
}

/* Tells all why the training cannot go on. */
static void fail_all(struct lh_office *o, const struct lh_error *why)
{
	struct lh_notice refusal = {.kind = LH_NOTICE_REFUSE};

	o->has_failed = true;
	snprintf(refusal.text, sizeof(refusal.text), "%.*s", (int)sizeof(refusal.text) - 1,
		 why->message);
	for (uint32_t rank = 0; rank < o->config.n_ranks; rank++)
		if (o->lines[rank].fd >= 0)
			lh_line_send(&o->lines[rank], &refusal, NULL);
}

/* ---- connections -------------------------------------------------------------------------- */

static void read_line(struct lh_office *o, uint32_t rank)
{
	struct lh_notice notice;
	int got = 0;

	while (o->lines[rank].fd >= 0 && (got = lh_line_read(&o->lines[rank], &notice, NULL)) > 0) {
		if (notice.rank != rank ||
		    lh_coordinator_take(o->c, &notice, lh_clock_now_ns(), NULL))
			lose(o, rank);
		lh_notice_done(&notice);
		follow(o);
	}
	if (got < 0) {
		lose(o, rank);
		follow(o);
	}
}

/* The rank's older connection ends: it knows itself that it is gone. */
static void seat(struct lh_office *o, struct newcomer *newcomer, const struct lh_notice *join)
{
	uint32_t rank = newcomer->rank;

	if (o->lines[rank].fd >= 0)
		lose(o, rank);
	o->lines[rank] = newcomer->line;
	newcomer->line = (struct lh_line){.fd = -1};
	if (lh_coordinator_take(o->c, join, lh_clock_now_ns(), NULL))
		lose(o, rank);
	follow(o);
	read_line(o, rank);
}

static void read_newcomer(struct lh_office *o, struct newcomer *newcomer)
{
	struct lh_notice notice;
	int got = lh_line_read(&newcomer->line, &notice, NULL);

	if (got == 0)
		return;
	if (got > 0 && notice.kind == LH_NOTICE_JOIN && notice.rank == newcomer->rank)
		seat(o, newcomer, &notice);
	else
		lh_line_close(&newcomer->line);
	if (got > 0)
		lh_notice_done(&notice);
}

static void welcome(struct lh_office *o, const struct admitted *a)
{
	struct lh_traffic *traffic = a->rank ? o->traffic : NULL;

	for (size_t i = 0; i < NEWCOMERS_MAX; i++) {
		struct newcomer *newcomer = &o->newcomers[i];

		if (newcomer->line.fd >= 0)
			continue;
		newcomer->rank = a->rank;
		newcomer->until_ns = lh_clock_now_ns() + JOIN_NS;
		if (lh_line_open(&newcomer->line, a->fd, traffic, a->rank, NULL) == 0)
			read_newcomer(o, newcomer);
		return;
	}
	close(a->fd);
}

static void take_admitted(struct lh_office *o)
{
	struct admitted admitted[LH_JOB_RANKS_MAX];
	size_t n;
	uint64_t count;

	if (read(o->wake_fd, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
	pthread_mutex_lock(&o->mutex);
	n = o->n_admitted;
	memcpy(admitted, o->admitted, n * sizeof(*admitted));
	o->n_admitted = 0;
	pthread_mutex_unlock(&o->mutex);
	for (size_t i = 0; i < n; i++)
		welcome(o, &admitted[i]);
}

/* ---- the thread --------------------------------------------------------------------------- */

static void prepare_polls(struct lh_office *o, int64_t *due_ns)
{
	uint32_t n = o->config.n_ranks;

	for (uint32_t rank = 0; rank < n; rank++) {
		short events = lh_line_has_out(&o->lines[rank]) ? POLLIN | POLLOUT : POLLIN;

		o->polls[rank] = (struct pollfd){.fd = o->lines[rank].fd, .events = events};
	}
	for (uint32_t i = 0; i < NEWCOMERS_MAX; i++) {
		const struct newcomer *newcomer = &o->newcomers[i];

		o->polls[n + i] = (struct pollfd){.fd = newcomer->line.fd, .events = POLLIN};
		if (newcomer->line.fd >= 0 && newcomer->until_ns < *due_ns)
			*due_ns = newcomer->until_ns;
	}
	o->polls[n + NEWCOMERS_MAX] = (struct pollfd){.fd = o->wake_fd, .events = POLLIN};
}

static void serve(struct lh_office *o)
{
	uint32_t n = o->config.n_ranks;
	int64_t now_ns = lh_clock_now_ns();

	for (uint32_t rank = 0; rank < n; rank++) {
		if (o->polls[rank].revents & POLLOUT && o->lines[rank].fd >= 0 &&
		    lh_line_flush(&o->lines[rank], NULL)) {
			lose(o, rank);
			follow(o);
		}
		if (o->polls[rank].revents & ~POLLOUT)
			read_line(o, rank);
	}
	for (uint32_t i = 0; i < NEWCOMERS_MAX; i++) {
		struct newcomer *newcomer = &o->newcomers[i];

		if (newcomer->line.fd < 0)
			continue;
		if (o->polls[n + i].revents)
			read_newcomer(o, newcomer);
		else if (newcomer->until_ns <= now_ns)
			lh_line_close(&newcomer->line);
	}
	if (o->polls[n + NEWCOMERS_MAX].revents)
		take_admitted(o);
}

/* Whether there is nothing more to do; else *ret_due_ns: until when to wait at most. */
static bool is_done(struct lh_office *o, int64_t *ret_due_ns)
{
	int64_t now_ns = lh_clock_now_ns();
	bool is_ending, is_closed;

	pthread_mutex_lock(&o->mutex);
	is_ending = o->is_ending;
	is_closed = o->is_closed;
	pthread_mutex_unlock(&o->mutex);
	*ret_due_ns = lh_coordinator_due_ns(o->c);
	if (is_closed)
		return true;
	if (!is_ending || lh_coordinator_n_connected(o->c))
		return false;
	if (!o->over_ns)
		o->over_ns = now_ns;
	if (o->over_ns + LINGER_HEARTBEATS * o->config.heartbeat_ns < *ret_due_ns)
		*ret_due_ns = o->over_ns + LINGER_HEARTBEATS * o->config.heartbeat_ns;
	return now_ns >= o->over_ns + LINGER_HEARTBEATS * o->config.heartbeat_ns;
}

static void *keep_office(void *arg)
{
	struct lh_office *o = arg;
	int64_t due_ns;

	while (!is_done(o, &due_ns)) {
		struct lh_error why = {0};

		prepare_polls(o, &due_ns);
		lh_clock_poll_until(o->polls, o->config.n_ranks + NEWCOMERS_MAX + 1, due_ns);
		serve(o);
		if (lh_clock_now_ns() >= lh_coordinator_due_ns(o->c))
			lh_coordinator_tick(o->c, lh_clock_now_ns());
		follow(o);
		if (!o->has_failed && lh_coordinator_check(o->c, &why))
			fail_all(o, &why);
	}
	return NULL;
}

static int start_thread(struct lh_office *o)
{
	pthread_attr_t attr;
	int sys = pthread_attr_init(&attr);

	if (sys)
		return sys;
	pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	sys = pthread_create(&o->thread, &attr, keep_office, o);
	o->has_thread = sys == 0;
	pthread_attr_destroy(&attr);
	return sys;
}

int lh_office_open(const struct lh_coordinator_config *config, struct lh_traffic *traffic,
		   struct lh_office **ret_office, struct lh_error *err)
{
	struct lh_office *o = calloc(1, sizeof(*o));
	int rc, sys;

	if (!o)
		return lh_fail(err, LH_ESYS, ENOMEM, "coordinate");
	o->config = *config;
	o->traffic = traffic;
	pthread_mutex_init(&o->mutex, NULL);
	for (size_t i = 0; i < NEWCOMERS_MAX; i++)
		o->newcomers[i].line.fd = -1;
	o->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	o->lines = calloc(config->n_ranks, sizeof(*o->lines));
	o->polls = calloc(config->n_ranks + NEWCOMERS_MAX + 1, sizeof(*o->polls));
	for (uint32_t rank = 0; o->lines && rank < config->n_ranks; rank++)
		o->lines[rank].fd = -1;
	rc = lh_coordinator_new(config, lh_clock_now_ns(), &o->c, err);
	if (rc == 0 && o->wake_fd < 0)
		rc = lh_fail(err, LH_ESYS, errno, "eventfd");
	if (rc == 0 && (!o->lines || !o->polls))
		rc = lh_fail(err, LH_ESYS, ENOMEM, "coordinate");
	if (rc == 0 && (sys = start_thread(o)))
		rc = lh_fail(err, LH_ESYS, sys, "start a thread");
	if (rc) {
		lh_office_close(o);
		return rc;
	}
	*ret_office = o;
	return 0;
}

void lh_office_finish(struct lh_office *o)
{
	pthread_mutex_lock(&o->mutex);
	o->is_ending = true;
	wake(o);
	pthread_mutex_unlock(&o->mutex);
	if (o->has_thread)
		pthread_join(o->thread, NULL);
	o->has_thread = false;
}

void lh_office_close(struct lh_office *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->mutex);
	o->is_closed = true;
	if (o->wake_fd >= 0)
		wake(o);
	pthread_mutex_unlock(&o->mutex);
	if (o->has_thread)
		pthread_join(o->thread, NULL);
	for (size_t i = 0; i < o->n_admitted; i++)
		close(o->admitted[i].fd);
	for (size_t i = 0; i < NEWCOMERS_MAX; i++)
		lh_line_close(&o->newcomers[i].line);
	for (uint32_t rank = 0; o->lines && rank < o->config.n_ranks; rank++)
		lh_line_close(&o->lines[rank]);
	for (size_t i = 0; i < o->n_events; i++)
		json_decref(o->events[i].fields);
	lh_coordinator_free(o->c);
	if (o->wake_fd >= 0)
		close(o->wake_fd);
	pthread_mutex_destroy(&o->mutex);
	free(o->lines);
	free(o->polls);
	free(o->events);
	free(o);
}
