/* SPDX-License-Identifier: Apache-2.0 */
/* The process that sends cross traffic. See cross.h; when it sends what is in cross_flows.c. */
#include "emulator/cross.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "emulator/cross_internal.h"
#include "emulator/network_internal.h"
#include "emulator/probe_internal.h"

enum {
	UDP_HEADERS_BYTES = 28,
	MESSAGE_MAX_BYTES = 60000,
	SEGMENTS_MAX = 40,
	SEND_BUFFER_BYTES = 64 << 20,
};

/* Where packets of one source go in, and how they are called in the results. */
struct place {
	const struct lh_cross_spec *spec;
	size_t router;
	uint32_t from; /* addresses */
	uint32_t to;
	uint32_t key; /* of the count of what has passed */
	int64_t bandwidth_bps;
	char name[256];
	const char *labels[4]; /* key, value, key, value */
};

struct lh_cross {
	struct lh_net *net;
	const struct lh_plan *plan;
	struct place *places;
	size_t n;
	uint64_t *sent_bytes; /* by place, on the wire; shared with the process */
	pid_t pid;
};

static struct place place_of_pair(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	struct place place = {
		.spec = &p->spec->cross,
		.router = LH_ROUTER_WAN,
		.from = plan->nodes[from].address,
		.to = plan->nodes[to].address,
		.key = (uint32_t)(from * plan->n_nodes + to),
		.bandwidth_bps = p->bandwidth_bps,
		.labels = {"from", plan->nodes[from].name, "to", plan->nodes[to].name},
	};

	if (plan->nodes[to].access && lh_net_is_at_port(plan, from, to))
		place.router = LH_ROUTER_ACCESS + (size_t)(plan->nodes[to].access - plan->accesses);
	snprintf(place.name, sizeof(place.name), "cross traffic %.100s %.100s",
		 plan->nodes[from].name, plan->nodes[to].name);
	return place;
}

static struct place place_of_link(const struct lh_plan *plan, size_t access, bool is_up)
{
	const struct lh_site *site = plan->accesses[access].site;
	struct place place = {
		.spec = is_up ? &site->uplink.cross : &site->downlink.cross,
		.router = is_up ? LH_ROUTER_ACCESS + access : LH_ROUTER_GATE,
		.from = lh_net_cross_address(access),
		.to = lh_net_cross_address(access),
		.key = lh_bpf_link_key(plan, access, is_up),
		.bandwidth_bps = is_up ? site->uplink.bandwidth_bps : site->downlink.bandwidth_bps,
		.labels = {"site", site->name, "direction", is_up ? "up" : "down"},
	};

	snprintf(place.name, sizeof(place.name), "cross traffic %.100s %s", site->name,
		 place.labels[3]);
	return place;
}

/* All places in a fixed order; places NULL: only how many there are. */
static size_t list_places(const struct lh_plan *plan, struct place *places)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n_nodes; i++)
		for (size_t j = 0; j < plan->n_nodes; j++)
			if (i != j && lh_plan_path_at(plan, i, j)->spec->cross.mean_bps > 0) {
				if (places)
					places[n] = place_of_pair(plan, i, j);
				n++;
			}
	for (size_t i = 0; i < 2 * plan->n_accesses; i++) {
		const struct lh_site *site = plan->accesses[i / 2].site;
		bool is_up = i % 2 == 0;

		if (!site || (is_up ? site->uplink : site->downlink).cross.mean_bps <= 0)
			continue;
		if (places)
			places[n] = place_of_link(plan, i / 2, is_up);
		n++;
	}
	return n;
}

static int open_socket(const struct lh_cross *c, size_t i, int *ret_sock, struct lh_error *err)
{
	const struct place *place = &c->places[i];
	int one = 1, size = SEND_BUFFER_BYTES;
	int segment = (int)c->plan->mtu_bytes - UDP_HEADERS_BYTES;
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_port = htons(LH_CROSS_PORT),
				   .sin_addr.s_addr = htonl(place->from)};
	struct sockaddr_in to = from;
	lh_cleanup_close int sock = -1;
	int r = lh_net_enter_router(c->net, place->router, err);

	if (r < 0)
		return r;
	to.sin_addr.s_addr = htonl(place->to);
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* the sender's address is not the router's; several places may have one */
	if (sock < 0 || setsockopt(sock, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)) < 0 ||
	    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    setsockopt(sock, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0 ||
	    setsockopt(sock, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)) < 0 ||
	    bind(sock, (struct sockaddr *)&from, sizeof(from)) < 0 ||
	    connect(sock, (struct sockaddr *)&to, sizeof(to)) < 0)
		return lh_fail(err, LH_ESYS, errno, "open a socket for %s", place->name);
	*ret_sock = sock;
	sock = -1;
	return 0;
}

/* Sends so many bytes on the wire as full frames and a rest. */
static void send_frames(const struct lh_cross *c, int sock, size_t i, double wire_bytes)
{
	static const char filler[MESSAGE_MAX_BYTES];
	uint32_t headers = LH_ETHERNET_HEADER_BYTES + UDP_HEADERS_BYTES;
	uint32_t frame = c->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	uint32_t frames = (uint32_t)(wire_bytes / frame);
	double rest = wire_bytes - (double)frames * frame;
	size_t payload = (size_t)frames * (frame - headers);

	if (rest > headers)
		payload += (size_t)rest - headers;
	if (!payload)
		return;
	/* where there is no room, others' packets are lost: that is what they do */
	(void)!send(sock, filler, payload, 0);
	c->sent_bytes[i] += (uint64_t)wire_bytes;
}

/* What the process does; does not return. */
static void run(const struct lh_cross *c, int *socks, struct lh_cross_source *sources, pid_t parent)
{
	struct lh_cross_queue queue = {.n = 0};
	struct lh_error err;
	int64_t now_ns = lh_now_ns();
	int r = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, 1);
	for (size_t i = 0; i < c->n && r == 0; i++)
		r = lh_cross_begin(&queue, &sources[i], i, now_ns, &err);
	while (r == 0 && getppid() == parent) {
		int64_t t_ns;
		size_t i;
		double bytes;

		r = lh_cross_next(&queue, sources, &t_ns, &i, &bytes, &err);
		lh_sleep_until(t_ns);
		send_frames(c, socks[i], i, bytes);
	}
	_exit(1);
}

static int prepare(struct lh_cross *c, int *socks, struct lh_cross_source *sources,
		   struct lh_error *err)
{
	uint32_t frame = c->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	uint32_t most = MESSAGE_MAX_BYTES / c->plan->mtu_bytes;
	int r = 0;

	for (size_t i = 0; i < c->n && r == 0; i++) {
		const struct place *p = &c->places[i];
		int64_t peak_bps = p->spec->peak_bps > 0 ? p->spec->peak_bps : p->bandwidth_bps;

		lh_cross_source_init(&sources[i], p->spec, peak_bps, frame,
				     most > SEGMENTS_MAX ? SEGMENTS_MAX : most,
				     (uint64_t)c->plan->scenario->run.seed, p->name);
		r = open_socket(c, i, &socks[i], err);
	}
	return r;
}

static int start(struct lh_cross *c, struct lh_error *err)
{
	lh_cleanup_free struct lh_cross_source *sources = calloc(c->n, sizeof(*sources));
	lh_cleanup_free int *socks = calloc(c->n, sizeof(*socks));
	pid_t parent = getpid();
	struct lh_error ignored;
	int r;

	if (!sources || !socks)
		return lh_fail(err, LH_ESYS, ENOMEM, "start the cross traffic");
	for (size_t i = 0; i < c->n; i++)
		socks[i] = -1;
	r = prepare(c, socks, sources, err);
	lh_net_leave(c->net, &ignored);
	if (r == 0) {
		c->pid = fork();
		if (c->pid == 0)
			run(c, socks, sources, parent);
		if (c->pid < 0)
			r = lh_fail(err, LH_ESYS, errno, "start the cross traffic");
	}
	for (size_t i = 0; i < c->n; i++)
		if (socks[i] >= 0)
			close(socks[i]);
	return r;
}

int lh_cross_start(struct lh_net *net, const struct lh_plan *plan, struct lh_cross **ret_cross,
		   struct lh_error *err)
{
	size_t n = list_places(plan, NULL);
	struct lh_cross *c = n ? calloc(1, sizeof(*c)) : NULL;
	int r;

	*ret_cross = NULL;
	if (!n)
		return 0;
	if (!c)
		return lh_fail(err, LH_ESYS, ENOMEM, "start the cross traffic");
	*c = (struct lh_cross){.net = net, .plan = plan, .n = n, .sent_bytes = MAP_FAILED};
	c->places = calloc(n, sizeof(*c->places));
	c->sent_bytes = mmap(NULL, n * sizeof(*c->sent_bytes), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!c->places || c->sent_bytes == MAP_FAILED) {
		lh_cross_free(c);
		return lh_fail(err, LH_ESYS, ENOMEM, "start the cross traffic");
	}
	list_places(plan, c->places);
	r = start(c, err);
	if (r < 0)
		lh_cross_free(c);
	else
		*ret_cross = c;
	return r;
}

void lh_cross_stop(struct lh_cross *c)
{
	if (!c || c->pid <= 0)
		return;
	kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
}

void lh_cross_free(struct lh_cross *c)
{
	if (!c)
		return;
	lh_cross_stop(c);
	if (c->sent_bytes != MAP_FAILED)
		munmap(c->sent_bytes, c->n * sizeof(*c->sent_bytes));
	free(c->places);
	free(c);
}

json_t *lh_cross_to_json(const struct lh_cross *c)
{
	json_t *list = json_array();

	for (size_t i = 0; c && i < c->n; i++) {
		const struct place *p = &c->places[i];
		struct lh_bpf_count passed = c->net->bpf.cross[p->key];

		json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I}", p->labels[0],
						      p->labels[1], p->labels[2], p->labels[3],
						      "mean_bps", (json_int_t)p->spec->mean_bps,
						      "sent_bytes", (json_int_t)c->sent_bytes[i],
						      "passed_bytes", (json_int_t)passed.bytes));
	}
	return list;
}
