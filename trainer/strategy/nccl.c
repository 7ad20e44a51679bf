/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy `ring` with the transport nccl: NCCL's all-reduce between GPUs, over TCP sockets. A
 * rank's numbers, times its share of the samples, are summed over all ranks. What NCCL sends is not
 * seen from here: traffic is told as the ring's formula has it (ring.c), spread over the time that
 * the call took. There is no compressor.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/clock.h"
#include "trainer/device/device.h"
#include "trainer/strategy/averaging.h"
#include "trainer/strategy/shard.h"
#include "trainer/transport/nccl.h"
#include "trainer/transport/tcp.h"

/* A WAN's streams are limited by their windows: several of them carry more. */
enum { SOCKET_THREADS = 2, SOCKETS_PER_THREAD = 4 };
enum { ROUND_TRIPS_PATIENCE_S = 60 };

struct nccl_ring {
	struct lh_mesh *mesh;
	struct lh_traffic *traffic;
	struct lh_averaged averaged;
	struct lh_nccl *nccl;
	float *on_device; /* averaged.n numbers */
};

/* Whether a socket address is the rank's own. */
static bool is_own(const struct sockaddr *address, const struct lh_job_rank *rank)
{
	const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)address;
	const struct sockaddr_in *b =
		(const struct sockaddr_in *)(const void *)&rank->socket_address;

	return address && address->sa_family == AF_INET && b->sin_family == AF_INET &&
	       a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* The interface that carries the rank's address. */
static int find_interface(const struct lh_job_rank *rank, char ret_name[IFNAMSIZ],
			  struct lh_error *err)
{
	struct ifaddrs *all;
	bool is_found = false;

	if (getifaddrs(&all) < 0)
		return lh_fail(err, LH_ESYS, errno, "list interfaces");
	for (const struct ifaddrs *i = all; i && !is_found; i = i->ifa_next) {
		if (!is_own(i->ifa_addr, rank))
			continue;
		is_found = true;
		strncpy(ret_name, i->ifa_name, IFNAMSIZ - 1);
	}
	freeifaddrs(all);
	return is_found
		       ? 0
		       : lh_fail(err, LH_ERUN, 0, "no interface has the address %s", rank->address);
}

/* From rank 0 to all others, over the connections that are there. */
static int share_id(void *context, void *id, uint32_t n_bytes, struct lh_error *err)
{
	const struct nccl_ring *g = context;
	int rc = 0;

	if (g->mesh->self != 0)
		return lh_tcp_receive(lh_mesh_fd(g->mesh, 0, LH_CHANNEL_DATA), id, n_bytes, err);
	for (uint32_t peer = 1; rc == 0 && peer < g->mesh->n; peer++)
		rc = lh_tcp_send(lh_mesh_fd(g->mesh, peer, LH_CHANNEL_DATA), id, n_bytes, false,
				 err);
	return rc;
}

static void nccl_close(void *state)
{
	struct nccl_ring *g = state;

	if (!g)
		return;
	lh_nccl_close(g->nccl);
	if (g->on_device)
		g->averaged.device->ops->free(g->averaged.device, g->on_device);
	free(g);
}

static int connect_ranks(struct nccl_ring *g, struct lh_error *err)
{
	const struct lh_job *job = g->mesh->job;
	char interface[IFNAMSIZ] = "";
	const struct lh_nccl_site site = {
		.rank = g->mesh->self,
		.interface = interface,
		.n_threads = SOCKET_THREADS,
		.n_sockets = SOCKETS_PER_THREAD,
	};
	const struct lh_nccl_options options = {
		.device = g->averaged.device,
		.rank = g->mesh->self,
		.n_ranks = g->mesh->n,
		.timeout_ns = job->start_timeout_ns + ROUND_TRIPS_PATIENCE_S * LH_NS_PER_S,
		.share_id = share_id,
		.context = g,
	};
	int rc = find_interface(&job->ranks[g->mesh->self], interface, err);

	if (rc || (rc = lh_nccl_pin_environment(&site, err)))
		return rc;
	return lh_nccl_open(&options, &g->nccl, err);
}

static int nccl_open(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
		     struct lh_error *err)
{
	struct lh_mesh *mesh = &rank->mesh;
	struct nccl_ring *g;
	int rc;

	if (!averaged.device || strcmp(averaged.device->ops->name, "cuda") != 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "transport nccl moves what lies on a GPU; expected device cuda");
	g = calloc(1, sizeof(*g));
	if (!g)
		return lh_fail(err, LH_ESYS, ENOMEM, "open transport nccl");
	g->mesh = mesh;
	g->traffic = rank->traffic;
	g->averaged = averaged;
	rc = connect_ranks(g, err);
	if (rc == 0)
		rc = averaged.device->ops->alloc(averaged.device, averaged.n * sizeof(float),
						 (void **)&g->on_device, err);
	if (rc) {
		nccl_close(g);
		return rc;
	}
	*ret_state = g;
	return 0;
}

/* By the ring's formula: every shard twice, but for two that this rank does not pass on. */
static uint64_t sent_bytes(const struct nccl_ring *g, uint32_t rank)
{
	uint32_t n = g->mesh->n;
	uint64_t skipped = lh_shard_elements(g->averaged.n, n, (rank + 1) % n) +
			   lh_shard_elements(g->averaged.n, n, (rank + 2) % n);

	return (2 * g->averaged.n - skipped) * sizeof(float);
}

static int reduce(struct nccl_ring *g, struct lh_error *err)
{
	const struct lh_averaged *a = &g->averaged;
	const struct lh_device_ops *ops = a->device->ops;
	int64_t n = (int64_t)a->n;
	int rc = ops->write(a->device, g->on_device, LH_F32, a->values, n, err);

	if (rc == 0)
		rc = lh_nccl_all_reduce(g->nccl, g->on_device, n, err);
	return rc ? rc : ops->read(a->device, g->on_device, LH_F32, a->values, n, err);
}

static int nccl_average(void *state, uint32_t epoch, const uint64_t *samples,
			struct lh_average *ret_average, struct lh_error *err)
{
	struct nccl_ring *g = state;
	uint32_t self = g->mesh->self, n = g->mesh->n;
	int64_t begin_ns = lh_clock_now_ns();
	uint64_t total = 0;
	float weight;
	int rc;

	(void)epoch;
	for (uint32_t rank = 0; rank < n; rank++)
		total += samples[rank];
	assert(total);
	weight = (float)((double)samples[self] / (double)total);
	for (uint64_t i = 0; i < g->averaged.n; i++)
		g->averaged.values[i] *= weight;
	rc = reduce(g, err);
	if (rc)
		return rc;
	lh_traffic_add(g->traffic, (self + 1) % n, LH_TRAFFIC_PAYLOAD, begin_ns, lh_clock_now_ns(),
		       sent_bytes(g, self));
	*ret_average = (struct lh_average){
		.payload_sent_bytes = sent_bytes(g, self),
		.payload_received_bytes = sent_bytes(g, (self + n - 1) % n),
		.group_samples = total,
	};
	return 0;
}

const struct lh_averaging_ops lh_averaging_nccl = {
	.name = "ring",
	.open = nccl_open,
	.average = nccl_average,
	.close = nccl_close,
};
