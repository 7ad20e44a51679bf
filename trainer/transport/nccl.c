/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL transport: collectives in the compute stream of the CUDA device. See nccl.h. */
#include "trainer/transport/nccl.h"

#include <inttypes.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/device/cuda/cuda.h"

struct lh_nccl {
	ncclComm_t comm; /* NULL after an abort */
	struct lh_cuda *cuda;
	cudaEvent_t is_done;
	uint32_t rank, n_ranks;
	int64_t timeout_ns;
};

/* ncclInProgress is no error: the state tells more later. */
static int check(const struct lh_nccl *nccl, ncclResult_t result, const char *what,
		 struct lh_error *err)
{
	const char *last = nccl->comm ? ncclGetLastError(nccl->comm) : NULL;

	if (result == ncclSuccess || result == ncclInProgress)
		return 0;
	return lh_fail(err, LH_ERUN, 0, "%s: %s%s%s", what, ncclGetErrorString(result),
		       last && *last ? ": " : "", last ? last : "");
}

/* Gives the communicator up; all ranks must, and do, as their calls time out. */
static void abort_comm(struct lh_nccl *nccl)
{
	if (nccl->comm)
		ncclCommAbort(nccl->comm);
	nccl->comm = NULL;
}

/* Whether the communicator has taken in what it was told. */
static int ask_comm(void *context, bool *ret_done, struct lh_error *err)
{
	struct lh_nccl *nccl = context;
	ncclResult_t state = ncclSuccess;
	int rc = check(nccl, ncclCommGetAsyncError(nccl->comm, &state), "ncclCommGetAsyncError",
		       err);

	*ret_done = state == ncclSuccess;
	return rc ? rc : check(nccl, state, "NCCL", err);
}

/* Whether the GPU has come to the event; errors of the network are the communicator's. */
static int ask_gpu(void *context, bool *ret_done, struct lh_error *err)
{
	struct lh_nccl *nccl = context;
	cudaError_t code = cudaEventQuery(nccl->is_done);
	bool is_quiet;
	int rc;

	*ret_done = code == cudaSuccess;
	if (code != cudaSuccess && code != cudaErrorNotReady)
		return lh_cuda_check(code, "a kernel", err);
	rc = ask_comm(context, &is_quiet, err);
	return rc;
}

static int wait_for(struct lh_nccl *nccl, int (*ask)(void *, bool *, struct lh_error *),
		    const char *what, struct lh_error *err)
{
	const struct lh_nccl_wait wait = {
		.ask = ask, .context = nccl, .timeout_ns = nccl->timeout_ns};

	return lh_nccl_wait(&wait, what, err);
}

static int check_options(const struct lh_nccl_options *options, struct lh_error *err)
{
	if (strcmp(options->device->ops->name, "cuda") != 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "transport nccl needs device cuda; this one is %s",
			       options->device->ops->name);
	if (options->n_ranks < 1 || options->rank >= options->n_ranks || options->timeout_ns <= 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "nccl: rank %" PRIu32 " of %" PRIu32 ", a time-out of %" PRId64
			       " ns",
			       options->rank, options->n_ranks, options->timeout_ns);
	return 0;
}

static int connect_ranks(struct lh_nccl *nccl, const struct lh_nccl_options *options,
			 struct lh_error *err)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id = {0};
	int rc = options->rank == 0 ? check(nccl, ncclGetUniqueId(&id), "ncclGetUniqueId", err) : 0;

	if (rc == 0)
		rc = options->share_id(options->context, &id, sizeof(id), err);
	if (rc)
		return rc;
	config.blocking = 0;
	rc = check(nccl,
		   ncclCommInitRankConfig(&nccl->comm, (int)nccl->n_ranks, id, (int)nccl->rank,
					  &config),
		   "ncclCommInitRankConfig", err);
	return rc ? rc : wait_for(nccl, ask_comm, "nccl: connecting all ranks", err);
}

int lh_nccl_open(const struct lh_nccl_options *options, struct lh_nccl **ret_nccl,
		 struct lh_error *err)
{
	struct lh_nccl *nccl;
	int rc = check_options(options, err);

	if (rc)
		return rc;
	nccl = calloc(1, sizeof(*nccl));
	if (!nccl)
		return lh_fail(err, LH_ESYS, 0, "no memory for NCCL");
	nccl->cuda = lh_cuda_of(options->device);
	nccl->rank = options->rank;
	nccl->n_ranks = options->n_ranks;
	nccl->timeout_ns = options->timeout_ns;
	rc = lh_cuda_check(cudaEventCreateWithFlags(&nccl->is_done, cudaEventDisableTiming),
			   "cudaEventCreate", err);
	if (rc == 0)
		rc = connect_ranks(nccl, options, err);
	if (rc) {
		abort_comm(nccl);
		lh_nccl_close(nccl);
		return rc;
	}
	*ret_nccl = nccl;
	return 0;
}

void lh_nccl_close(struct lh_nccl *nccl)
{
	struct lh_error err = {0};

	if (!nccl)
		return;
	if (nccl->comm &&
	    check(nccl, ncclCommFinalize(nccl->comm), "ncclCommFinalize", &err) == 0 &&
	    wait_for(nccl, ask_comm, "nccl: leaving", &err) == 0) {
		ncclCommDestroy(nccl->comm);
		nccl->comm = NULL;
	}
	abort_comm(nccl);
	if (nccl->is_done)
		cudaEventDestroy(nccl->is_done);
	free(nccl);
}

/* ---- collectives ---------------------------------------------------------------------------- */

static int fail_aborted(const char *what, struct lh_error *err)
{
	return lh_fail(err, LH_ERUN, 0, "%s: the communicator was given up after an error", what);
}

/* Waits for what has just been asked for; after an error the communicator is gone. */
static int finish(struct lh_nccl *nccl, ncclResult_t result, const char *what, struct lh_error *err)
{
	int rc = check(nccl, result, what, err);

	if (rc == 0)
		rc = wait_for(nccl, ask_comm, what, err);
	if (rc == 0)
		rc = lh_cuda_check(cudaEventRecord(nccl->is_done, nccl->cuda->stream),
				   "cudaEventRecord", err);
	if (rc == 0)
		rc = wait_for(nccl, ask_gpu, what, err);
	if (rc)
		abort_comm(nccl);
	return rc;
}

int lh_nccl_all_reduce(struct lh_nccl *nccl, float *x, int64_t n, struct lh_error *err)
{
	if (!nccl->comm)
		return fail_aborted("all-reduce", err);
	return finish(nccl,
		      ncclAllReduce(x, x, (size_t)n, ncclFloat32, ncclSum, nccl->comm,
				    nccl->cuda->stream),
		      "all-reduce", err);
}

int lh_nccl_reduce_scatter(struct lh_nccl *nccl, const float *x, float *ret_part, int64_t n,
			   struct lh_error *err)
{
	if (!nccl->comm)
		return fail_aborted("reduce-scatter", err);
	return finish(nccl,
		      ncclReduceScatter(x, ret_part, (size_t)n, ncclFloat32, ncclSum, nccl->comm,
					nccl->cuda->stream),
		      "reduce-scatter", err);
}

int lh_nccl_all_gather(struct lh_nccl *nccl, const float *part, float *ret_x, int64_t n,
		       struct lh_error *err)
{
	if (!nccl->comm)
		return fail_aborted("all-gather", err);
	return finish(nccl,
		      ncclAllGather(part, ret_x, (size_t)n, ncclFloat32, nccl->comm,
				    nccl->cuda->stream),
		      "all-gather", err);
}
