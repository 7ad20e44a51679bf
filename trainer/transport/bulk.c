/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk transfers. See bulk.h. */
#include "trainer/transport/bulk.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/rng.h"
#include "trainer/clock.h"
#include "trainer/transport/tcp.h"

enum {
	/* One sendfile call moves this much: few system calls, and the time of a block on the
	 * slowest paths is still fractions of a second. */
	FILLER_BYTES = 4 << 20,
	THREAD_STACK_BYTES = 256 << 10,
};

struct transfer {
	struct lh_frame frame;
	const void *head;
};

struct slot {
	bool is_full;
	struct lh_frame frame;
	uint8_t *head; /* head_bytes_max, in lane->heads */
};

/* One peer. */
struct lane {
	struct lh_bulk *bulk;
	uint32_t peer;
	bool has_sender;
	bool has_receiver;
	pthread_t sender;
	pthread_t receiver;
	pthread_cond_t posted;
	struct transfer queue[LH_BULK_PHASES_MAX];
	uint32_t n_posted; /* since the start; n_sent follows */
	uint32_t n_sent;
	struct slot slots[LH_BULK_PHASES_MAX];
	uint8_t *heads;
};

struct lh_bulk {
	struct lh_bulk_config config;
	int filler_fd;
	int failure_fd;
	pthread_mutex_t mutex;	/* guards all below and the lanes' queues and slots */
	pthread_cond_t changed; /* a phase is complete, all is sent, or a thread failed */
	pthread_cond_t released;
	bool is_ending;
	uint32_t n_full[LH_BULK_PHASES_MAX];
	uint32_t n_unsent;
	uint32_t n_receivers_done;
	uint64_t sent_bytes;
	uint64_t received_bytes;
	struct lh_error failure; /* the first */
	struct lane lanes[LH_JOB_RANKS_MAX];
};

static int make_filler(uint64_t seed, int *ret_fd, struct lh_error *err)
{
	lh_cleanup_close int fd = memfd_create("filler", MFD_CLOEXEC);
	lh_cleanup_free uint64_t *words = malloc(FILLER_BYTES);
	struct lh_rng rng;

	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "memfd_create");
	if (!words)
		return lh_fail(err, LH_ESYS, ENOMEM, "make filler");
	lh_rng_init(&rng, seed, "filler");
	for (size_t i = 0; i < FILLER_BYTES / sizeof(*words); i++)
		words[i] = lh_rng_next(&rng);
	if (write(fd, words, FILLER_BYTES) != FILLER_BYTES)
		return lh_fail(err, LH_ESYS, errno, "write %d bytes to memory", FILLER_BYTES);
	*ret_fd = fd;
	fd = -1;
	return 0;
}

static void lane_fail(struct lane *lane, const struct lh_error *why, const char *verb)
{
	struct lh_bulk *bulk = lane->bulk;
	uint64_t one = 1;

	pthread_mutex_lock(&bulk->mutex);
	if (!bulk->failure.code && !bulk->is_ending) {
		bulk->failure = *why;
		lh_error_prefix(&bulk->failure, "%s rank %" PRIu32 " (%s)", verb, lane->peer,
				bulk->config.mesh->job->ranks[lane->peer].node);
		/* A full counter is as readable as a written one. */
		if (write(bulk->failure_fd, &one, sizeof(one)) < 0)
			assert(errno == EAGAIN);
	}
	pthread_cond_broadcast(&bulk->changed);
	pthread_mutex_unlock(&bulk->mutex);
}

static int send_filler(struct lane *lane, int fd, uint64_t size, struct lh_error *err)
{
	const struct lh_bulk *bulk = lane->bulk;
	int64_t begin_ns = lh_clock_now_ns();

	while (size) {
		off_t at = 0;
		size_t want = size < FILLER_BYTES ? (size_t)size : FILLER_BYTES;
		ssize_t n = sendfile(fd, bulk->filler_fd, &at, want);
		int64_t end_ns;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return lh_fail(err, LH_ESYS, n ? errno : EIO, "send");
		end_ns = lh_clock_now_ns();
		lh_traffic_add(bulk->config.traffic, lane->peer, LH_TRAFFIC_PAYLOAD, begin_ns,
			       end_ns, (uint64_t)n);
		begin_ns = end_ns;
		size -= (uint64_t)n;
	}
	return 0;
}

static int send_transfer(struct lane *lane, const struct transfer *t, struct lh_error *err)
{
	const struct lh_bulk_config *config = &lane->bulk->config;
	int fd = config->mesh->fd[lane->peer][LH_CHANNEL_DATA];
	uint8_t bytes[LH_FRAME_BYTES];
	int64_t now_ns = lh_clock_now_ns();
	uint32_t head_bytes = t->frame.head_bytes;
	int rc;

	lh_frame_format(&t->frame, bytes);
	lh_traffic_add(config->traffic, lane->peer, LH_TRAFFIC_HEADER, now_ns, now_ns,
		       LH_FRAME_BYTES);
	lh_traffic_add(config->traffic, lane->peer, LH_TRAFFIC_PAYLOAD, now_ns, now_ns, head_bytes);
	if ((rc = lh_tcp_send(fd, bytes, sizeof(bytes), t->frame.length > 0, err)) ||
	    (rc = lh_tcp_send(fd, t->head, head_bytes, t->frame.length > head_bytes, err)))
		return rc;
	return send_filler(lane, fd, t->frame.length - head_bytes, err);
}

/* Waits for the next transfer; false when there will be none. */
static bool next_transfer(struct lane *lane, struct transfer *ret_transfer)
{
	struct lh_bulk *bulk = lane->bulk;
	bool has_any;

	pthread_mutex_lock(&bulk->mutex);
	while (lane->n_sent == lane->n_posted && !bulk->is_ending)
		pthread_cond_wait(&lane->posted, &bulk->mutex);
	has_any = lane->n_sent != lane->n_posted && !bulk->is_ending;
	if (has_any)
		*ret_transfer = lane->queue[lane->n_sent % LH_BULK_PHASES_MAX];
	pthread_mutex_unlock(&bulk->mutex);
	return has_any;
}

static void *sender_main(void *arg)
{
	struct lane *lane = arg;
	struct lh_bulk *bulk = lane->bulk;
	struct transfer transfer;

	while (next_transfer(lane, &transfer)) {
		struct lh_error why = {0};

		if (send_transfer(lane, &transfer, &why)) {
			lane_fail(lane, &why, "sending to");
			return NULL;
		}
		pthread_mutex_lock(&bulk->mutex);
		lane->n_sent++;
		bulk->sent_bytes += transfer.frame.length;
		if (--bulk->n_unsent == 0)
			pthread_cond_signal(&bulk->changed);
		pthread_mutex_unlock(&bulk->mutex);
	}
	return NULL;
}

static int check_frame(const struct lane *lane, const struct lh_frame *frame, uint32_t epoch,
		       uint32_t phase, struct lh_error *err)
{
	const struct lh_bulk_config *config = &lane->bulk->config;

	if (frame->type != LH_FRAME_DATA || frame->rank != lane->peer)
		return lh_fail(err, LH_ERUN, 0, "expected a data frame from there");
	if (frame->epoch != epoch || frame->part != phase)
		return lh_fail(err, LH_ERUN, 0,
			       "a transfer of epoch %" PRIu32 ", phase %u; expected epoch %" PRIu32
			       ", phase %" PRIu32,
			       frame->epoch, frame->part, epoch, phase);
	if (frame->length != config->length[phase][lane->peer] ||
	    frame->head_bytes != config->head_bytes[phase][lane->peer])
		return lh_fail(err, LH_ERUN, 0,
			       "a transfer of %" PRIu64 " bytes, %" PRIu32
			       " of them numbers; expected %" PRIu64 " and %" PRIu32,
			       frame->length, frame->head_bytes, config->length[phase][lane->peer],
			       config->head_bytes[phase][lane->peer]);
	return 0;
}

/* Waits until the slot is empty; false when the run ends. */
static bool wait_for_slot(struct lane *lane, const struct slot *slot)
{
	struct lh_bulk *bulk = lane->bulk;
	bool is_empty;

	pthread_mutex_lock(&bulk->mutex);
	while (slot->is_full && !bulk->is_ending)
		pthread_cond_wait(&bulk->released, &bulk->mutex);
	is_empty = !slot->is_full;
	pthread_mutex_unlock(&bulk->mutex);
	return is_empty;
}

static int receive_transfer(struct lane *lane, uint32_t epoch, uint32_t phase, struct lh_error *err)
{
	int fd = lane->bulk->config.mesh->fd[lane->peer][LH_CHANNEL_DATA];
	struct slot *slot = &lane->slots[phase];
	uint8_t bytes[LH_FRAME_BYTES];
	struct lh_frame frame;
	int rc;

	if ((rc = lh_tcp_receive(fd, bytes, sizeof(bytes), err)) ||
	    (rc = lh_frame_parse(bytes, &frame, err)) ||
	    (rc = check_frame(lane, &frame, epoch, phase, err)))
		return rc;
	if (!wait_for_slot(lane, slot))
		return lh_fail(err, LH_ERUN, 0, "ended");
	slot->frame = frame;
	if ((rc = lh_tcp_receive(fd, slot->head, frame.head_bytes, err)))
		return rc;
	return lh_tcp_discard(fd, frame.length - frame.head_bytes, err);
}

static void *receiver_main(void *arg)
{
	struct lane *lane = arg;
	struct lh_bulk *bulk = lane->bulk;
	uint32_t n_phases = bulk->config.n_phases;
	uint64_t n_transfers = (uint64_t)n_phases * bulk->config.n_epochs;

	for (uint64_t i = 0; i < n_transfers; i++) {
		uint32_t phase = (uint32_t)(i % n_phases);
		struct lh_error why = {0};

		if (receive_transfer(lane, (uint32_t)(i / n_phases), phase, &why)) {
			lane_fail(lane, &why, "receiving from");
			return NULL;
		}
		pthread_mutex_lock(&bulk->mutex);
		lane->slots[phase].is_full = true;
		bulk->received_bytes += lane->slots[phase].frame.length;
		if (++bulk->n_full[phase] == bulk->config.mesh->n - 1)
			pthread_cond_signal(&bulk->changed);
		if (i + 1 == n_transfers)
			bulk->n_receivers_done++;
		pthread_mutex_unlock(&bulk->mutex);
	}
	return NULL;
}

static int lane_start(struct lh_bulk *bulk, uint32_t peer, const pthread_attr_t *attr,
		      struct lh_error *err)
{
	struct lane *lane = &bulk->lanes[peer];
	int sys;

	lane->heads = calloc(LH_BULK_PHASES_MAX, bulk->config.head_bytes_max + 1u);
	if (!lane->heads)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a lane");
	for (uint32_t phase = 0; phase < LH_BULK_PHASES_MAX; phase++)
		lane->slots[phase].head = lane->heads + (size_t)phase * bulk->config.head_bytes_max;
	sys = pthread_create(&lane->receiver, attr, receiver_main, lane);
	lane->has_receiver = sys == 0;
	if (sys == 0) {
		sys = pthread_create(&lane->sender, attr, sender_main, lane);
		lane->has_sender = sys == 0;
	}
	return sys ? lh_fail(err, LH_ESYS, sys, "start a thread") : 0;
}

static int lanes_start(struct lh_bulk *bulk, struct lh_error *err)
{
	pthread_attr_t attr;
	int sys = pthread_attr_init(&attr);
	int rc = 0;

	if (sys)
		return lh_fail(err, LH_ESYS, sys, "start threads");
	pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	for (uint32_t peer = 0; rc == 0 && peer < bulk->config.mesh->n; peer++)
		if (peer != bulk->config.mesh->self)
			rc = lane_start(bulk, peer, &attr, err);
	pthread_attr_destroy(&attr);
	return rc;
}

int lh_bulk_open(const struct lh_bulk_config *config, struct lh_bulk **ret_bulk,
		 struct lh_error *err)
{
	struct lh_bulk *bulk = calloc(1, sizeof(*bulk));
	int rc;

	assert(config->n_phases >= 1 && config->n_phases <= LH_BULK_PHASES_MAX);
	if (!bulk)
		return lh_fail(err, LH_ESYS, ENOMEM, "open bulk transfers");
	bulk->config = *config;
	pthread_mutex_init(&bulk->mutex, NULL);
	pthread_cond_init(&bulk->changed, NULL);
	pthread_cond_init(&bulk->released, NULL);
	for (uint32_t peer = 0; peer < config->mesh->n; peer++) {
		bulk->lanes[peer].bulk = bulk;
		bulk->lanes[peer].peer = peer;
		pthread_cond_init(&bulk->lanes[peer].posted, NULL);
	}
	bulk->filler_fd = -1;
	bulk->failure_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (bulk->failure_fd < 0)
		rc = lh_fail(err, LH_ESYS, errno, "eventfd");
	else
		rc = make_filler(config->mesh->job->seed, &bulk->filler_fd, err);
	if (rc == 0)
		rc = lanes_start(bulk, err);
	if (rc) {
		lh_bulk_close(bulk);
		return rc;
	}
	*ret_bulk = bulk;
	return 0;
}

void lh_bulk_post(struct lh_bulk *bulk, uint32_t peer, const struct lh_frame *frame,
		  const void *head)
{
	struct lane *lane = &bulk->lanes[peer];

	assert(frame->head_bytes <= frame->length);
	pthread_mutex_lock(&bulk->mutex);
	assert(lane->n_posted - lane->n_sent < LH_BULK_PHASES_MAX);
	lane->queue[lane->n_posted % LH_BULK_PHASES_MAX] =
		(struct transfer){.frame = *frame, .head = head};
	lane->n_posted++;
	bulk->n_unsent++;
	pthread_cond_signal(&lane->posted);
	pthread_mutex_unlock(&bulk->mutex);
}

/* Waits until *n is goal; call with the mutex held, which it releases. */
static int wait_until(struct lh_bulk *bulk, const uint32_t *n, uint32_t goal, struct lh_error *err)
{
	int rc;

	while (*n != goal && !bulk->failure.code)
		pthread_cond_wait(&bulk->changed, &bulk->mutex);
	rc = bulk->failure.code;
	if (rc && err)
		*err = bulk->failure;
	pthread_mutex_unlock(&bulk->mutex);
	return rc;
}

int lh_bulk_wait_received(struct lh_bulk *bulk, uint32_t phase, struct lh_error *err)
{
	pthread_mutex_lock(&bulk->mutex);
	return wait_until(bulk, &bulk->n_full[phase], bulk->config.mesh->n - 1, err);
}

int lh_bulk_wait_sent(struct lh_bulk *bulk, struct lh_error *err)
{
	pthread_mutex_lock(&bulk->mutex);
	return wait_until(bulk, &bulk->n_unsent, 0, err);
}

struct lh_bulk_received lh_bulk_received(const struct lh_bulk *bulk, uint32_t phase, uint32_t peer)
{
	const struct slot *slot = &bulk->lanes[peer].slots[phase];

	return (struct lh_bulk_received){.frame = slot->frame, .head = slot->head};
}

void lh_bulk_release(struct lh_bulk *bulk, uint32_t phase)
{
	pthread_mutex_lock(&bulk->mutex);
	for (uint32_t peer = 0; peer < bulk->config.mesh->n; peer++)
		bulk->lanes[peer].slots[phase].is_full = false;
	bulk->n_full[phase] = 0;
	pthread_cond_broadcast(&bulk->released);
	pthread_mutex_unlock(&bulk->mutex);
}

void lh_bulk_take_bytes(struct lh_bulk *bulk, uint64_t *ret_sent, uint64_t *ret_received)
{
	pthread_mutex_lock(&bulk->mutex);
	*ret_sent = bulk->sent_bytes;
	*ret_received = bulk->received_bytes;
	bulk->sent_bytes = 0;
	bulk->received_bytes = 0;
	pthread_mutex_unlock(&bulk->mutex);
}

int lh_bulk_check(struct lh_bulk *bulk, struct lh_error *err)
{
	int rc;

	pthread_mutex_lock(&bulk->mutex);
	rc = bulk->failure.code;
	if (rc && err)
		*err = bulk->failure;
	pthread_mutex_unlock(&bulk->mutex);
	return rc;
}

int lh_bulk_failure_fd(const struct lh_bulk *bulk)
{
	return bulk->failure_fd;
}

static void end_threads(struct lh_bulk *bulk)
{
	bool has_live_ones;

	pthread_mutex_lock(&bulk->mutex);
	bulk->is_ending = true;
	has_live_ones = bulk->n_receivers_done < bulk->config.mesh->n - 1 || bulk->n_unsent;
	for (uint32_t peer = 0; peer < bulk->config.mesh->n; peer++)
		pthread_cond_signal(&bulk->lanes[peer].posted);
	pthread_cond_broadcast(&bulk->released);
	pthread_mutex_unlock(&bulk->mutex);
	if (has_live_ones)
		lh_mesh_shutdown(bulk->config.mesh);
	for (uint32_t peer = 0; peer < bulk->config.mesh->n; peer++) {
		if (bulk->lanes[peer].has_sender)
			pthread_join(bulk->lanes[peer].sender, NULL);
		if (bulk->lanes[peer].has_receiver)
			pthread_join(bulk->lanes[peer].receiver, NULL);
	}
}

void lh_bulk_close(struct lh_bulk *bulk)
{
	if (!bulk)
		return;
	end_threads(bulk);
	for (uint32_t peer = 0; peer < bulk->config.mesh->n; peer++) {
		pthread_cond_destroy(&bulk->lanes[peer].posted);
		free(bulk->lanes[peer].heads);
	}
	pthread_cond_destroy(&bulk->changed);
	pthread_cond_destroy(&bulk->released);
	pthread_mutex_destroy(&bulk->mutex);
	if (bulk->filler_fd >= 0)
		close(bulk->filler_fd);
	if (bulk->failure_fd >= 0)
		close(bulk->failure_fd);
	free(bulk);
}
