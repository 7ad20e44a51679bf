/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run's collectives should take: reads RESULTS/trainer.json and RESULTS/network.json, and
 * prints for every epoch when it should end and when it ended, by the events of all ranks, both in
 * seconds from the begin of the first averaging. For bench/collectives.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/collective/foresee.h"
#include "trainer/strategy/dense.h"
#include "trainer/strategy/strategy.h"

/* Every second packet is acknowledged; super-packets, which are whole, as one. */
enum { ACK_BYTES = 66, FRAME_HEAD_BYTES = 64, ETHERNET_BYTES = 14, PATH_MAX_BYTES = 4096 };

static const double NS_PER_S = 1e9;

static void fail(const char *what)
{
	fprintf(stderr, "collective-foresee: %s\n", what);
	exit(1);
}

static json_t *read_json(const char *folder, const char *name)
{
	char path[PATH_MAX_BYTES];
	json_error_t where;
	json_t *json;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	json = json_load_file(path, 0, &where);
	if (!json)
		fail(where.text);
	return json;
}

static int64_t integer(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static uint32_t rank_of(const struct lh_job *job, const json_t *path, const char *key)
{
	const char *node = json_string_value(json_object_get(path, key));

	for (uint32_t i = 0; i < job->n_ranks; i++)
		if (strcmp(job->ranks[i].node, node) == 0)
			return i;
	fail("a path to no rank");
	return 0;
}

static int64_t of_node(const json_t *network, const char *name, const char *key)
{
	const json_t *node;
	size_t i;

	json_array_foreach (json_object_get(network, "nodes"), i, node)
		if (strcmp(json_string_value(json_object_get(node, "node")), name) == 0)
			return integer(node, key);
	fail("a path to no node");
	return 0;
}

/* The links between the plans' members. */
static struct lh_collective_link *read_links(const struct lh_job *job, const json_t *network,
					     const struct lh_collective_plan *plans)
{
	uint32_t n = job->n_ranks;
	struct lh_collective_link *links = calloc((size_t)n * n, sizeof(*links));
	uint32_t *member_of = calloc(n, sizeof(*member_of));
	const json_t *path;
	size_t i;

	if (!links || !member_of)
		fail(strerror(ENOMEM));
	for (uint32_t m = 0; m < n; m++)
		member_of[plans[m].self] = m;
	json_array_foreach (json_object_get(network, "paths"), i, path) {
		uint32_t from = member_of[rank_of(job, path, "from")];
		uint32_t to = member_of[rank_of(job, path, "to")];
		int64_t window = integer(path, "clamp_segments");

		if (!window) /* half of a receive buffer is overhead */
			window = of_node(network, json_string_value(json_object_get(path, "to")),
					 "rmem_max_bytes") /
				 2 / integer(network, "segment_bytes");
		links[(size_t)from * n + to] = (struct lh_collective_link){
			.delay_ns = integer(path, "delay_ns"),
			.bandwidth_bps = (uint64_t)integer(path, "bandwidth_bps"),
			.window_segments = (uint32_t)window,
			.ack_bytes = json_is_true(json_object_get(path, "splits_segments"))
					     ? ACK_BYTES / 2
					     : 0,
		};
	}
	free(member_of);
	return links;
}

/* When each rank began its first averaging, and when the last one ended that of each epoch. */
static void read_times(const char *folder, const struct lh_job *job, int64_t *ret_begin_ns,
		       int64_t *ret_end_ns)
{
	for (uint32_t rank = 0; rank < job->n_ranks; rank++) {
		char path[PATH_MAX_BYTES], line[1 << 16];
		FILE *file;

		snprintf(path, sizeof(path), "%s/events/rank-%u.jsonl", folder, rank);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file)) {
			json_t *event = json_loads(line, 0, NULL);
			const char *name = json_string_value(json_object_get(event, "event"));
			int64_t epoch = integer(event, "epoch");

			if (name && strcmp(name, "average") == 0 && epoch < job->epochs) {
				if (integer(event, "end_ns") > ret_end_ns[epoch])
					ret_end_ns[epoch] = integer(event, "end_ns");
				if (epoch == 0)
					ret_begin_ns[rank] = integer(event, "begin_ns");
			}
			json_decref(event);
		}
		if (!file)
			fail("no events");
		fclose(file);
	}
}

/* By member, from the first on, which is returned. */
static int64_t order_begins(const struct lh_job *job, const struct lh_collective_plan *plans,
			    const int64_t *begin_ns, int64_t *ret_by_member)
{
	int64_t first_ns = INT64_MAX;

	for (uint32_t i = 0; i < job->n_ranks; i++)
		if (begin_ns[i] < first_ns)
			first_ns = begin_ns[i];
	for (uint32_t i = 0; i < job->n_ranks; i++)
		ret_by_member[i] = begin_ns[plans[i].self] - first_ns;
	return first_ns;
}

int main(int argc, char **argv)
{
	char path[PATH_MAX_BYTES];
	struct lh_error err = {0};
	struct lh_collective_network network = {0};
	struct lh_collective_plan *plans;
	struct lh_collective_link *links;
	struct lh_dense_form form;
	const struct lh_collective_ops *ops;
	int64_t *foreseen_ns, *end_ns, *begin_ns, *by_member, first_ns;
	struct lh_job job;
	json_t *json;

	if (argc != 3)
		fail("usage: collective-foresee RESULTS GAP_NS");
	snprintf(path, sizeof(path), "%s/trainer.json", argv[1]);
	if (lh_job_read(path, &job, &err))
		fail(err.message);
	ops = lh_collective_find(job.strategy->name);
	if (!ops)
		fail("the strategy is no all-reduce");
	if (lh_dense_form_init(&form, &job, ops, job.parameters, &err) ||
	    lh_collective_plans_make(ops, &form.form, &plans, &err))
		fail(err.message);
	json = read_json(argv[1], "network.json");
	links = read_links(&job, json, plans);
	network = (struct lh_collective_network){
		.links = links,
		.segment_bytes = (uint32_t)integer(json, "segment_bytes"),
		.frame_bytes = (uint32_t)integer(json, "mtu_bytes") + ETHERNET_BYTES,
		.initial_window_segments = (uint32_t)integer(json, "initial_window_segments"),
		.message_bytes = FRAME_HEAD_BYTES,
		.n_streams = job.settings.streams,
	};
	foreseen_ns = calloc(job.epochs, sizeof(*foreseen_ns));
	end_ns = calloc(job.epochs, sizeof(*end_ns));
	begin_ns = calloc(job.n_ranks, sizeof(*begin_ns));
	by_member = calloc(job.n_ranks, sizeof(*by_member));
	if (!foreseen_ns || !end_ns || !begin_ns || !by_member)
		fail(strerror(ENOMEM));
	read_times(argv[1], &job, begin_ns, end_ns);
	first_ns = order_begins(&job, plans, begin_ns, by_member);
	if (lh_collective_foresee(plans, job.n_ranks, job.compress, &network, by_member,
				  atoll(argv[2]), job.epochs, foreseen_ns, &err))
		fail(err.message);
	for (uint32_t i = 0; i < job.epochs; i++)
		printf("%u %.6f %.6f\n", i, (double)foreseen_ns[i] / NS_PER_S,
		       (double)(end_ns[i] - first_ns) / NS_PER_S);
	free(foreseen_ns);
	free(end_ns);
	free(begin_ns);
	free(by_member);
	free(links);
	json_decref(json);
	lh_collective_plans_free(plans, job.n_ranks);
	lh_dense_form_done(&form);
	lh_job_done(&job);
	return 0;
}
