/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a training: what every strategy's loop has in its hands, and the events that all of
 * them write alike. One thread; see trainer/transport/comm.h for those that it starts.
 */
#ifndef LH_TRAINER_RANK_H
#define LH_TRAINER_RANK_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/events.h"
#include "trainer/job.h"
#include "trainer/traffic.h"
#include "trainer/transport/comm.h"
#include "trainer/transport/mesh.h"

struct lh_compute_ops;

struct lh_rank {
	const struct lh_job *job;
	const struct lh_job_rank *me;
	uint32_t self;
	uint32_t n;	      /* ranks */
	uint32_t incarnation; /* as in struct lh_rank_options */
	struct lh_events *events;
	struct lh_mesh mesh; /* after lh_rank_connect, as the next two */
	struct lh_traffic *traffic;
	struct lh_comm *comm; /* NULL where lh_rank_open_comm was not called */
	const struct lh_compute_ops *compute;
	void *computing;   /* state of compute */
	const char *doing; /* for messages */
	int64_t begin_ns;  /* of the process */
	int64_t epoch_begin_ns;
};

/* Which of the job's ranks this is, and what else is its own. */
struct lh_rank_options {
	uint32_t rank;
	uint32_t incarnation; /* how often the rank has been started before, and lost */
	const char *events_path;
};

/*
 * Runs a rank of the job to its end by its strategy, computing by compute, and writes its events;
 * returns when all is done or failed. A failure is also the file's last event. Ignores SIGPIPE from
 * then on. LH_EINPUT where the strategy takes no rank back that was lost; LH_ESYS, LH_ERUN.
 */
int lh_rank_run(const struct lh_job *job, const struct lh_compute_ops *compute,
		const struct lh_rank_options *options, struct lh_error *err);

/* Opens connections as wanted (lh_mesh_open) with the job's streams, and the count of traffic; the
 * first epoch begins then. Errors as lh_mesh_open. */
int lh_rank_connect(struct lh_rank *rank, const uint8_t *wanted, struct lh_error *err);

/* After lh_rank_connect: a communicator over all data connections, which fails together. LH_ESYS.
 */
int lh_rank_open_comm(struct lh_rank *rank, struct lh_error *err);

/* A communicator without lanes, for ranks that come and go: it drops what is stale. LH_ESYS. */
int lh_rank_open_elastic_comm(struct lh_rank *rank, struct lh_error *err);

/* A failure that the communicator, where there is one, has met with; never blocks. */
int lh_rank_check(const struct lh_rank *rank, struct lh_error *err);

/* After what the strategy opens: writes `connected`. */
int lh_rank_write_connected(struct lh_rank *rank, struct lh_error *err);

/* Writes an event with an epoch and a span of time, at t_ns. */
int lh_rank_write_span(struct lh_rank *rank, const char *event, uint32_t epoch, int64_t begin_ns,
		       int64_t end_ns, int64_t t_ns, struct lh_error *err);

/* Writes `compute`: own samples of an epoch, until end_ns, at t_ns. */
int lh_rank_write_compute(struct lh_rank *rank, uint32_t epoch, int64_t end_ns, uint64_t samples,
			  uint64_t n_micro_batches, int64_t t_ns, struct lh_error *err);

/* What one averaging did at this rank. */
struct lh_average {
	int64_t host_ns; /* of serialising and reducing */
	uint64_t payload_sent_bytes;
	uint64_t payload_received_bytes;
	uint64_t group_samples;
	uint64_t checked_elements; /* averaged numbers compared with what they must be */
};

/* Writes `average`, from begin_ns to end_ns. */
int lh_rank_write_average_until(struct lh_rank *rank, uint32_t epoch, int64_t begin_ns,
				int64_t end_ns, const struct lh_average *average,
				struct lh_error *err);

/* The same to now. */
int lh_rank_write_average(struct lh_rank *rank, uint32_t epoch, int64_t begin_ns,
			  const struct lh_average *average, struct lh_error *err);

/* The same of one that ran beside computing, until end_ns. */
int lh_rank_write_average_beside(struct lh_rank *rank, uint32_t epoch, int64_t begin_ns,
				 int64_t end_ns, const struct lh_average *average,
				 struct lh_error *err);

/* Writes `apply`: the optimizer's step, at t_ns; is_blocking: nothing was computed beside it. */
int lh_rank_write_apply(struct lh_rank *rank, uint32_t epoch, int64_t begin_ns, int64_t end_ns,
			bool is_blocking, int64_t t_ns, struct lh_error *err);

/* An optimizer's step that runs beside computing. */
struct lh_late_update {
	bool is_pending;
	uint32_t epoch;
	int64_t begin_ns;
	int64_t end_ns;
};

/* The optimizer's step with what was averaged in an epoch: begins it, to end with late->end_ns;
 * waits for the end of one that is pending, and takes it. */
void lh_rank_begin_late_update(const struct lh_rank *rank, uint32_t epoch,
			       struct lh_late_update *ret_late);
int lh_rank_finish_late_update(struct lh_rank *rank, struct lh_late_update *late,
			       struct lh_error *err);

/* The same step, taken now, with the time that it takes. */
int lh_rank_apply(struct lh_rank *rank, uint32_t epoch, struct lh_error *err);

/* The end of an epoch, in which all ranks together computed samples: writes traffic, what was
 * learnt, `epoch`, and flushes. The next begins. */
int lh_rank_end_epoch(struct lh_rank *rank, uint32_t epoch, uint64_t samples, struct lh_error *err);

/* Writes `connection`: the counters of a connection with peer that is about to be closed. */
int lh_rank_write_connection(struct lh_rank *rank, uint32_t peer, const char *channel, int fd,
			     struct lh_error *err);

/* The end of all: what was learnt, the rest of the traffic, the connections' counters, `end`. */
int lh_rank_finish(struct lh_rank *rank, struct lh_error *err);

/* The same for a rank that does not have what has been learnt. */
int lh_rank_leave(struct lh_rank *rank, struct lh_error *err);

/* The host's time for bytes that this rank sends, by its averaging_bps; 0 where it is not charged.
 */
int64_t lh_rank_host_ns(const struct lh_rank *rank, uint64_t bytes);

#endif
