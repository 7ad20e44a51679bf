/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a training. See rank.h. */
#include "trainer/rank.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/strategy/strategy.h"
#include "trainer/transport/tcp.h"

int lh_rank_write_span(struct lh_rank *rank, const char *event, uint32_t epoch, int64_t begin_ns,
		       int64_t end_ns, int64_t t_ns, struct lh_error *err)
{
	return lh_events_add(rank->events, event, t_ns,
			     json_pack("{s:I, s:I, s:I}", "epoch", (json_int_t)epoch, "begin_ns",
				       (json_int_t)begin_ns, "end_ns", (json_int_t)end_ns),
			     err);
}

int lh_rank_write_compute(struct lh_rank *rank, uint32_t epoch, int64_t end_ns, uint64_t samples,
			  uint64_t n_micro_batches, int64_t t_ns, struct lh_error *err)
{
	return lh_events_add(rank->events, "compute", t_ns,
			     json_pack("{s:I, s:I, s:I, s:I, s:I}", "epoch", (json_int_t)epoch,
				       "begin_ns", (json_int_t)rank->epoch_begin_ns, "end_ns",
				       (json_int_t)end_ns, "samples", (json_int_t)samples,
				       "micro_batches", (json_int_t)n_micro_batches),
			     err);
}

/* is_beside is told only where it is true. */
static int write_average(struct lh_rank *rank, uint32_t epoch, int64_t begin_ns, int64_t end_ns,
			 const struct lh_average *average, bool is_beside, struct lh_error *err)
{
	json_t *fields =
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "epoch", (json_int_t)epoch,
			  "begin_ns", (json_int_t)begin_ns, "end_ns", (json_int_t)end_ns, "host_ns",
			  (json_int_t)average->host_ns, "payload_sent_bytes",
			  (json_int_t)average->payload_sent_bytes, "payload_received_bytes",
			  (json_int_t)average->payload_received_bytes, "group_samples",
			  (json_int_t)average->group_samples, "checked_elements",
			  (json_int_t)average->checked_elements);

	if (fields && is_beside)
		json_object_set_new(fields, "beside", json_true());
	return lh_events_add(rank->events, "average", lh_clock_now_ns(), fields, err);
}

int lh_rank_write_average(struct lh_rank *rank, uint32_t epoch, int64_t begin_ns,
			  const struct lh_average *average, struct lh_error *err)
{
	return write_average(rank, epoch, begin_ns, lh_clock_now_ns(), average, false, err);
}

int lh_rank_write_average_until(struct lh_rank *rank, uint32_t epoch, int64_t begin_ns,
				int64_t end_ns, const struct lh_average *average,
				struct lh_error *err)
{
	return write_average(rank, epoch, begin_ns, end_ns, average, false, err);
}

int lh_rank_write_average_beside(struct lh_rank *rank, uint32_t epoch, int64_t begin_ns,
				 int64_t end_ns, const struct lh_average *average,
				 struct lh_error *err)
{
	return write_average(rank, epoch, begin_ns, end_ns, average, true, err);
}

int lh_rank_write_apply(struct lh_rank *rank, uint32_t epoch, int64_t begin_ns, int64_t end_ns,
			bool is_blocking, int64_t t_ns, struct lh_error *err)
{
	return lh_events_add(rank->events, "apply", t_ns,
			     json_pack("{s:I, s:I, s:I, s:b}", "epoch", (json_int_t)epoch,
				       "begin_ns", (json_int_t)begin_ns, "end_ns",
				       (json_int_t)end_ns, "blocking", is_blocking),
			     err);
}

int lh_rank_end_epoch(struct lh_rank *rank, uint32_t epoch, uint64_t samples, struct lh_error *err)
{
	int64_t end_ns = lh_clock_now_ns();
	int rc = lh_traffic_write(rank->traffic, end_ns, rank->events, err);

	if (rc == 0)
		rc = rank->compute->end_epoch(rank->computing, epoch, end_ns, rank->events, err);
	if (rc == 0)
		rc = lh_events_add(rank->events, "epoch", end_ns,
				   json_pack("{s:I, s:I, s:I, s:I}", "epoch", (json_int_t)epoch,
					     "begin_ns", (json_int_t)rank->epoch_begin_ns, "end_ns",
					     (json_int_t)end_ns, "samples", (json_int_t)samples),
				   err);
	rank->epoch_begin_ns = end_ns;
	return rc ? rc : lh_events_flush(rank->events, err);
}

int lh_rank_write_connection(struct lh_rank *rank, uint32_t peer, const char *channel, int fd,
			     struct lh_error *err)
{
	struct lh_tcp_counters c;
	int rc = lh_tcp_read_counters(fd, &c, err);

	if (rc)
		return rc;
	return lh_events_add(
		rank->events, "connection", lh_clock_now_ns(),
		json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "peer", (json_int_t)peer,
			  "channel", channel, "segs_out", (json_int_t)c.segs_out, "data_segs_out",
			  (json_int_t)c.data_segs_out, "bytes_sent", (json_int_t)c.bytes_sent,
			  "bytes_retrans", (json_int_t)c.bytes_retrans, "retransmits",
			  (json_int_t)c.retransmits, "timeouts", (json_int_t)c.timeouts, "rtt_ns",
			  (json_int_t)c.rtt_ns),
		err);
}

static int write_connections(struct lh_rank *rank, struct lh_error *err)
{
	int rc = 0;

	for (uint32_t peer = 0; rc == 0 && peer < rank->n; peer++)
		for (uint32_t c = 0; rc == 0 && c < rank->mesh.n_channels; c++) {
			int fd = lh_mesh_fd(&rank->mesh, peer, c);

			if (fd >= 0)
				rc = lh_rank_write_connection(rank, peer, lh_channel_name(c), fd,
							      err);
		}
	return rc;
}

int lh_rank_finish(struct lh_rank *rank, struct lh_error *err)
{
	int rc = rank->compute->finish(rank->computing, lh_clock_now_ns(), rank->events, err);

	return rc ? rc : lh_rank_leave(rank, err);
}

int lh_rank_leave(struct lh_rank *rank, struct lh_error *err)
{
	int rc = lh_traffic_write_rest(rank->traffic, lh_clock_now_ns(), rank->events, err);

	if (rc == 0)
		rc = write_connections(rank, err);
	if (rc == 0)
		rc = lh_events_add(rank->events, "end", lh_clock_now_ns(),
				   json_pack("{s:I}", "epochs", (json_int_t)rank->job->epochs),
				   err);
	return rc ? rc : lh_events_flush(rank->events, err);
}

int lh_rank_connect(struct lh_rank *rank, const uint8_t *wanted, struct lh_error *err)
{
	int rc = lh_mesh_open(rank->job, rank->self, rank->job->settings.streams, wanted,
			      &rank->mesh, err);

	if (rc)
		return rc;
	rank->epoch_begin_ns = lh_clock_now_ns();
	return lh_traffic_new(rank->n, rank->epoch_begin_ns, &rank->traffic, err);
}

static int attach_all(struct lh_rank *rank, struct lh_error *err)
{
	const struct lh_mesh *mesh = &rank->mesh;
	int rc = 0;

	for (uint32_t peer = 0; rc == 0 && peer < rank->n; peer++) {
		const int *fds = mesh->fds + peer * mesh->n_channels + LH_CHANNEL_DATA;

		if (fds[0] >= 0)
			rc = lh_comm_attach(rank->comm, peer, fds, mesh->n_channels - 1, err);
	}
	return rc;
}

static int open_comm(struct lh_rank *rank, bool is_elastic, struct lh_error *err)
{
	lh_cleanup_free const char **names = calloc(rank->n, sizeof(*names));
	struct lh_comm_config config = {
		.self = rank->self,
		.n_ranks = rank->n,
		.names = names,
		.traffic = rank->traffic,
		.seed = rank->job->seed,
		.fails_together = !is_elastic,
		.drops_stale = is_elastic,
	};

	if (!names)
		return lh_fail(err, LH_ESYS, ENOMEM, "open a communicator");
	for (uint32_t i = 0; i < rank->n; i++)
		names[i] = rank->job->ranks[i].node;
	return lh_comm_open(&config, &rank->comm, err);
}

int lh_rank_open_comm(struct lh_rank *rank, struct lh_error *err)
{
	int rc = open_comm(rank, false, err);

	return rc ? rc : attach_all(rank, err);
}

int lh_rank_open_elastic_comm(struct lh_rank *rank, struct lh_error *err)
{
	return open_comm(rank, true, err);
}

int lh_rank_check(const struct lh_rank *rank, struct lh_error *err)
{
	return rank->comm ? lh_comm_check(rank->comm, err) : 0;
}

void lh_rank_begin_late_update(const struct lh_rank *rank, uint32_t epoch,
			       struct lh_late_update *ret_late)
{
	int64_t begin_ns = lh_clock_now_ns();

	*ret_late = (struct lh_late_update){true, epoch, begin_ns, begin_ns + rank->me->apply_ns};
}

int lh_rank_finish_late_update(struct lh_rank *rank, struct lh_late_update *late,
			       struct lh_error *err)
{
	int rc;

	if (!late->is_pending)
		return 0;
	lh_clock_sleep_until(late->end_ns);
	late->is_pending = false;
	if ((rc = rank->compute->apply(rank->computing, err)))
		return rc;
	return lh_rank_write_apply(rank, late->epoch, late->begin_ns, late->end_ns, false,
				   lh_clock_now_ns(), err);
}

int lh_rank_apply(struct lh_rank *rank, uint32_t epoch, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns(), end_ns;
	int rc = rank->compute->apply(rank->computing, err);

	if (rc)
		return rc;
	lh_clock_sleep_until(begin_ns + rank->me->apply_ns);
	end_ns = lh_clock_now_ns();
	return lh_rank_write_apply(rank, epoch, begin_ns, end_ns, true, end_ns, err);
}

int lh_rank_write_connected(struct lh_rank *rank, struct lh_error *err)
{
	int rc = lh_events_add(rank->events, "connected", rank->epoch_begin_ns,
			       json_pack("{s:I, s:I}", "begin_ns", (json_int_t)rank->begin_ns,
					 "end_ns", (json_int_t)rank->epoch_begin_ns),
			       err);

	return rc ? rc : lh_events_flush(rank->events, err);
}

int64_t lh_rank_host_ns(const struct lh_rank *rank, uint64_t bytes)
{
	__extension__ typedef unsigned __int128 wide;
	uint64_t bps = rank->me->averaging_bps;

	return bps ? (int64_t)((wide)bytes * 8 * (uint64_t)LH_NS_PER_S / bps) : 0;
}

static int run(struct lh_rank *rank, struct lh_error *err)
{
	int rc;

	rank->begin_ns = lh_clock_now_ns();
	rc = lh_events_add(
		rank->events, "start", rank->begin_ns,
		json_pack("{s:s, s:I}", "node", rank->me->node, "world", (json_int_t)rank->n), err);
	if (rc || (rc = rank->compute->open(rank->job, rank->self, &rank->computing, err)))
		return lh_error_prefix(err, "starting");
	return rank->job->strategy->run(rank, err);
}

/* The failure as last event; the threads have ended. What fails here cannot be told. */
static void write_failure(struct lh_rank *rank, const struct lh_error *why)
{
	int64_t now_ns = lh_clock_now_ns();

	if (rank->traffic)
		lh_traffic_write_rest(rank->traffic, now_ns, rank->events, NULL);
	lh_events_add(rank->events, "error", now_ns, json_pack("{s:s}", "message", why->message),
		      NULL);
	lh_events_flush(rank->events, NULL);
}

/* A group of fixed members has averaged without the rank, or waits for what only it had. */
static int refuse_to_rejoin(const struct lh_rank *rank, struct lh_error *err)
{
	return lh_fail(err, LH_EINPUT, 0,
		       "strategy %s takes no rank back that was lost: rank %" PRIu32
		       " was started %" PRIu32 " times before",
		       rank->job->strategy->name, rank->self, rank->incarnation);
}

int lh_rank_run(const struct lh_job *job, const struct lh_compute_ops *compute,
		const struct lh_rank_options *options, struct lh_error *err)
{
	struct lh_rank r = {.job = job,
			    .compute = compute,
			    .self = options->rank,
			    .n = job->n_ranks,
			    .incarnation = options->incarnation,
			    .me = &job->ranks[options->rank]};
	struct lh_error why = {0};
	int rc;

	/* sendfile has no flag against it. */
	signal(SIGPIPE, SIG_IGN);
	if ((rc = lh_events_open(options->events_path, options->rank, &r.events, err)))
		return rc;
	rc = r.incarnation && !job->strategy->is_elastic ? refuse_to_rejoin(&r, &why)
							 : run(&r, &why);
	lh_comm_close(r.comm);
	compute->close(r.computing);
	if (rc)
		write_failure(&r, &why);
	if (rc && err)
		*err = why;
	lh_mesh_close(&r.mesh);
	lh_traffic_free(r.traffic);
	lh_events_close(r.events);
	return rc;
}
