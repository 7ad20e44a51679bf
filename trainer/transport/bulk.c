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
	uint8_t *head; /* in lane->heads */
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
	struct transfer *queue; /* n_phases long */
	uint32_t n_posted;	/* since the start; n_sent follows */
	uint32_t n_sent;
	uint64_t n_to_come; /* transfers, until the end of all epochs */
	struct slot *slots; /* one a phase */
	uint8_t *heads;	    /* of all phases, one after another */
};

struct lh_bulk {
	struct lh_bulk_config config;
	struct lh_bulk_expected *expected;
	uint32_t *n_expected; /* by phase: transfers from all peers */
	int filler_fd;
	int failure_fd;
	pthread_mutex_t mutex;	/* guards all below and the lanes' queues and slots */
	pthread_cond_t changed; /* a phase is complete, all is sent, or a thread failed */
	pthread_cond_t released;
	bool is_ending;
	uint32_t *n_full; /* by phase */
	uint32_t n_unsent;
	uint32_t n_lanes_done; /* from which nothing more is to come */
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
	int fd = lh_mesh_fd(config->mesh, lane->peer, LH_CHANNEL_DATA);
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
		*ret_transfer = lane->queue[lane->n_sent % bulk->config.n_phases];
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

static const struct lh_bulk_expected *expected_of(const struct lane *lane, uint32_t phase)
{
	const struct lh_bulk *bulk = lane->bulk;

	return &bulk->expected[phase * bulk->config.mesh->n + lane->peer];
}

static int check_frame(const struct lane *lane, const struct lh_frame *frame, uint32_t epoch,
		       uint32_t phase, struct lh_error *err)
{
	const struct lh_bulk_expected *expected = expected_of(lane, phase);

	if (frame->type != LH_FRAME_DATA || frame->rank != lane->peer)
		return lh_fail(err, LH_ERUN, 0, "expected a data frame from there");
	if (frame->epoch != epoch || frame->part != phase)
		return lh_fail(err, LH_ERUN, 0,
			       "a transfer of epoch %" PRIu32 ", phase %u; expected epoch %" PRIu32
			       ", phase %" PRIu32,
			       frame->epoch, frame->part, epoch, phase);
	if (frame->length != expected->length || frame->head_bytes != expected->head_bytes)
		return lh_fail(err, LH_ERUN, 0,
			       "a transfer of %" PRIu64 " bytes, %" PRIu32
			       " of them numbers; expected %" PRIu64 " and %" PRIu32,
			       frame->length, frame->head_bytes, expected->length,
			       expected->head_bytes);
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
	int fd = lh_mesh_fd(lane->bulk->config.mesh, lane->peer, LH_CHANNEL_DATA);
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

static bool receive_phase(struct lane *lane, uint32_t epoch, uint32_t phase)
{
	struct lh_bulk *bulk = lane->bulk;
	struct lh_error why = {0};

	if (expected_of(lane, phase)->length == 0)
		return true;
	if (receive_transfer(lane, epoch, phase, &why)) {
		lane_fail(lane, &why, "receiving from");
		return false;
	}
	pthread_mutex_lock(&bulk->mutex);
	lane->slots[phase].is_full = true;
	bulk->received_bytes += lane->slots[phase].frame.length;
	if (++bulk->n_full[phase] == bulk->n_expected[phase])
		pthread_cond_signal(&bulk->changed);
	if (--lane->n_to_come == 0)
		bulk->n_lanes_done++;
	pthread_mutex_unlock(&bulk->mutex);
	return true;
}

static void *receiver_main(void *arg)
{
	struct lane *lane = arg;
	struct lh_bulk *bulk = lane->bulk;
	uint32_t n_phases = bulk->config.n_phases;
	uint64_t n_transfers = (uint64_t)n_phases * bulk->config.n_epochs;

	for (uint64_t i = 0; i < n_transfers; i++)
		if (!receive_phase(lane, (uint32_t)(i / n_phases), (uint32_t)(i % n_phases)))
			break;
	return NULL;
}

/* Room for everything that may wait in a lane. */
static int lane_alloc(struct lane *lane, struct lh_error *err)
{
	uint32_t n_phases = lane->bulk->config.n_phases;
	size_t bytes = 1;

	for (uint32_t phase = 0; phase < n_phases; phase++)
		bytes += expected_of(lane, phase)->head_bytes;
	lane->heads = malloc(bytes);
	lane->queue = calloc(n_phases, sizeof(*lane->queue));
	lane->slots = calloc(n_phases, sizeof(*lane->slots));
	if (!lane->heads || !lane->queue || !lane->slots)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a lane");
	bytes = 0;
	for (uint32_t phase = 0; phase < n_phases; phase++) {
		lane->slots[phase].head = lane->heads + bytes;
		bytes += expected_of(lane, phase)->head_bytes;
	}
	return 0;
}

static int lane_start(struct lh_bulk *bulk, uint32_t peer, const pthread_attr_t *attr,
		      struct lh_error *err)
{
	struct lane *lane = &bulk->lanes[peer];
	int rc = lane_alloc(lane, err);
	int sys;

	if (rc)
		return rc;
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

/* Copies what is expected, and counts it. */
static int expect(struct lh_bulk *bulk, struct lh_error *err)
{
	uint32_t n = bulk->config.mesh->n, n_phases = bulk->config.n_phases;
	size_t bytes = (size_t)n * n_phases * sizeof(*bulk->expected);

	bulk->expected = malloc(bytes);
	bulk->n_expected = calloc(n_phases, sizeof(*bulk->n_expected));
	bulk->n_full = calloc(n_phases, sizeof(*bulk->n_full));
	if (!bulk->expected || !bulk->n_expected || !bulk->n_full)
		return lh_fail(err, LH_ESYS, ENOMEM, "open bulk transfers");
	memcpy(bulk->expected, bulk->config.expected, bytes);
	bulk->config.expected = NULL;
	for (uint32_t i = 0; i < n * n_phases; i++) {
		if (i % n == bulk->config.mesh->self)
			bulk->expected[i] = (struct lh_bulk_expected){0};
		if (bulk->expected[i].length) {
			bulk->n_expected[i / n]++;
			bulk->lanes[i % n].n_to_come += bulk->config.n_epochs;
		}
	}
	for (uint32_t peer = 0; peer < n; peer++)
		if (peer != bulk->config.mesh->self && bulk->lanes[peer].n_to_come == 0)
			bulk->n_lanes_done++;
	return 0;
}

int lh_bulk_open(const struct lh_bulk_config *config, struct lh_bulk **ret_bulk,
		 struct lh_error *err)
{
	struct lh_bulk *bulk = calloc(1, sizeof(*bulk));
	int rc;

	assert(config->n_phases >= 1);
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
		rc = expect(bulk, err);
	if (rc == 0)
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
	assert(lane->n_posted - lane->n_sent < bulk->config.n_phases);
	lane->queue[lane->n_posted % bulk->config.n_phases] =
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
	return wait_until(bulk, &bulk->n_full[phase], bulk->n_expected[phase], err);
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
		if (peer != bulk->config.mesh->self)
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
	has_live_ones = bulk->n_lanes_done < bulk->config.mesh->n - 1 || bulk->n_unsent;
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
		free(bulk->lanes[peer].queue);
		free(bulk->lanes[peer].slots);
	}
	pthread_cond_destroy(&bulk->changed);
	pthread_cond_destroy(&bulk->released);
	pthread_mutex_destroy(&bulk->mutex);
	if (bulk->filler_fd >= 0)
		close(bulk->filler_fd);
	if (bulk->failure_fd >= 0)
		close(bulk->failure_fd);
	free(bulk->expected);
	free(bulk->n_expected);
	free(bulk->n_full);
	free(bulk);
}
