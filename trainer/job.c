/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the trainer's job. Every key is required, none other is allowed, every value has
 * its bounds. See job.h.
 */
#include "trainer/job.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/clock.h"
#include "trainer/strategy/compressing.h"
#include "trainer/strategy/strategy.h"

#define JOB_FORMAT "longhaul-trainer-job/1"

enum { JOB_FILE_MAX_BYTES = 16 << 20 };

static const int64_t HOUR_NS = 3600 * LH_NS_PER_S;

/* One mapping of the document while it is read. */
struct section {
	const json_t *object;
	const char *file;
	char path[64]; /* "" or "ranks[3]." */
	size_t n_read; /* keys asked for so far */
	struct lh_error *err;
};

static int bad(const struct section *s, const char *key, const char *what)
{
	return lh_fail(s->err, LH_EINPUT, 0, "%s: %s%s: %s", s->file, s->path, key, what);
}

static const json_t *get(struct section *s, const char *key)
{
	const json_t *value = json_object_get(s->object, key);

	if (value)
		s->n_read++;
	else
		bad(s, key, "missing");
	return value;
}

static int get_integer(struct section *s, const char *key, int64_t min, int64_t max, int64_t *ret)
{
	const json_t *value = get(s, key);
	int64_t number;

	if (!value)
		return LH_EINPUT;
	if (!json_is_integer(value))
		return bad(s, key, "not an integer");
	number = json_integer_value(value);
	if (number < min || number > max)
		return lh_fail(s->err, LH_EINPUT, 0,
			       "%s: %s%s: %" PRId64 "; expected %" PRId64 " to %" PRId64, s->file,
			       s->path, key, number, min, max);
	*ret = number;
	return 0;
}

static int get_number(struct section *s, const char *key, double min, double max, double *ret)
{
	const json_t *value = get(s, key);
	double number;

	if (!value)
		return LH_EINPUT;
	if (!json_is_number(value))
		return bad(s, key, "not a number");
	number = json_number_value(value);
	if (!isfinite(number) || number < min || number > max)
		return lh_fail(s->err, LH_EINPUT, 0, "%s: %s%s: %g; expected %g to %g", s->file,
			       s->path, key, number, min, max);
	*ret = number;
	return 0;
}

static int get_string(struct section *s, const char *key, const char **ret)
{
	const json_t *value = get(s, key);

	if (!value)
		return LH_EINPUT;
	if (!json_is_string(value))
		return bad(s, key, "not a string");
	*ret = json_string_value(value);
	if (!**ret || strlen(*ret) >= LH_JOB_NAME_MAX)
		return bad(s, key, "expected 1 to 127 bytes");
	return 0;
}

static int get_name(struct section *s, const char *key, char ret[static LH_JOB_NAME_MAX])
{
	const char *text;
	int rc = get_string(s, key, &text);

	if (rc == 0)
		memcpy(ret, text, strlen(text) + 1);
	return rc;
}

/* Refuses keys that nobody asked for. */
static int check_all_read(const struct section *s, const char *const known[])
{
	const char *key;
	const json_t *value;

	if (json_object_size(s->object) == s->n_read)
		return 0;
	json_object_foreach ((json_t *)(uintptr_t)s->object, key, value) {
		size_t i = 0;

		while (known[i] && strcmp(known[i], key) != 0)
			i++;
		if (!known[i])
			return bad(s, key, "unknown key");
	}
	return 0;
}

static int parse_address(struct section *s, struct lh_job_rank *rank)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&rank->socket_address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&rank->socket_address;
	int64_t port;
	int rc;

	if ((rc = get_name(s, "address", rank->address)) ||
	    (rc = get_integer(s, "port", 1, UINT16_MAX, &port)))
		return rc;
	rank->port = (uint16_t)port;
	if (inet_pton(AF_INET, rank->address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(rank->port);
		rank->socket_address_size = sizeof(*v4);
		return 0;
	}
	if (inet_pton(AF_INET6, rank->address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(rank->port);
		rank->socket_address_size = sizeof(*v6);
		return 0;
	}
	return bad(s, "address", "expected an IPv4 or IPv6 address in numbers");
}

/* Which machine a rank shares with others: without both keys it has one of its own. */
static int parse_place(struct section *s, struct lh_job_rank *rank)
{
	int64_t local_rank = 0;
	int rc;

	memcpy(rank->vm, rank->node, sizeof(rank->vm));
	rank->local_rank = 0;
	if (!json_object_get(s->object, "vm") && !json_object_get(s->object, "local_rank"))
		return 0;
	if ((rc = get_name(s, "vm", rank->vm)) ||
	    (rc = get_integer(s, "local_rank", 0, LH_JOB_RANKS_MAX - 1, &local_rank)))
		return rc;
	rank->local_rank = (uint32_t)local_rank;
	return 0;
}

static int parse_slow(struct section *s, int64_t after_ns, struct lh_job_slow *ret)
{
	static const char *const known[] = {"from_ns", "to_ns", "factor", NULL};
	int rc;

	if ((rc = get_integer(s, "from_ns", after_ns, INT64_MAX, &ret->from_ns)) ||
	    (rc = get_integer(s, "to_ns", ret->from_ns, INT64_MAX, &ret->to_ns)) ||
	    (rc = get_number(s, "factor", 1, 1000, &ret->factor)))
		return rc;
	return check_all_read(s, known);
}

/* The spans in which a rank is slow; most have none, and then no key. */
static int parse_slows(struct section *s, struct lh_job_rank *rank)
{
	const json_t *array = json_object_get(s->object, "slow");
	size_t n = json_array_size(array);
	int64_t after_ns = 0;
	int rc = 0;

	if (!array)
		return 0;
	s->n_read++;
	if (!json_is_array(array) || n > LH_JOB_SLOW_MAX)
		return bad(s, "slow", "expected an array of at most 1000 spans");
	rank->slow = calloc(n + 1, sizeof(*rank->slow));
	if (!rank->slow)
		return lh_fail(s->err, LH_ESYS, 0, "%s: out of memory", s->file);
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct section span = {
			.object = json_array_get(array, i), .file = s->file, .err = s->err};

		snprintf(span.path, sizeof(span.path), "%.40sslow[%zu].", s->path, i);
		if (!json_is_object(span.object))
			return bad(&span, "", "expected a mapping");
		rc = parse_slow(&span, after_ns, &rank->slow[i]);
		after_ns = rank->slow[i].to_ns;
		rank->n_slow++;
	}
	return rc;
}

static int parse_rank(struct section *s, struct lh_job_rank *rank)
{
	static const char *const known[] = {"node",
					    "site",
					    "vm",
					    "local_rank",
					    "address",
					    "port",
					    "micro_batch",
					    "samples_per_s",
					    "variation_ratio",
					    "accumulate_ns",
					    "averaging_bps",
					    "apply_ns",
					    "slow",
					    "target_ratio",
					    "bandwidth_bps",
					    NULL};
	int64_t micro_batch, averaging_bps, bandwidth_bps = 0;
	int rc;

	/* Three sigma below the mean a micro-batch must still take some time. */
	if ((rc = get_name(s, "node", rank->node)) || (rc = get_name(s, "site", rank->site)) ||
	    (rc = parse_place(s, rank)) || (rc = parse_address(s, rank)) ||
	    (rc = get_integer(s, "micro_batch", 1, 1000000, &micro_batch)) ||
	    (rc = get_number(s, "samples_per_s", 1e-3, 1e8, &rank->samples_per_s)) ||
	    (rc = get_number(s, "variation_ratio", 0, 0.33, &rank->variation_ratio)) ||
	    (rc = get_integer(s, "accumulate_ns", 0, HOUR_NS, &rank->accumulate_ns)) ||
	    (rc = get_integer(s, "averaging_bps", 0, INT64_C(100000000000000), &averaging_bps)) ||
	    (rc = get_integer(s, "apply_ns", 0, HOUR_NS, &rank->apply_ns)) ||
	    (rc = parse_slows(s, rank)) ||
	    (json_object_get(s->object, "target_ratio") &&
	     (rc = get_number(s, "target_ratio", 0, 1, &rank->target_ratio))))
		return rc;
	if (json_object_get(s->object, "bandwidth_bps") &&
	    (rc = get_integer(s, "bandwidth_bps", 1, INT64_C(100000000000000), &bandwidth_bps)))
		return rc;
	rank->bandwidth_bps = (uint64_t)bandwidth_bps;
	rank->micro_batch = (uint32_t)micro_batch;
	rank->averaging_bps = (uint64_t)averaging_bps;
	return check_all_read(s, known);
}

static int check_places_differ(struct section *s, const struct lh_job *job)
{
	for (uint32_t i = 0; i < job->n_ranks; i++)
		for (uint32_t j = 0; j < i; j++) {
			const struct lh_job_rank *a = &job->ranks[j], *b = &job->ranks[i];

			if (a->local_rank == b->local_rank && strcmp(a->vm, b->vm) == 0 &&
			    (strcmp(a->node, a->vm) != 0 || strcmp(b->node, b->vm) != 0))
				return lh_fail(s->err, LH_EINPUT, 0,
					       "%s: ranks[%u] and ranks[%u]: both local_rank %u "
					       "of %s",
					       s->file, j, i, b->local_rank, b->vm);
		}
	return 0;
}

static int check_addresses_differ(struct section *s, const struct lh_job *job)
{
	for (uint32_t i = 0; i < job->n_ranks; i++)
		for (uint32_t j = 0; j < i; j++)
			if (job->ranks[i].port == job->ranks[j].port &&
			    strcmp(job->ranks[i].address, job->ranks[j].address) == 0)
				return lh_fail(s->err, LH_EINPUT, 0,
					       "%s: ranks[%u] and ranks[%u]: both at %s port %u",
					       s->file, j, i, job->ranks[i].address,
					       job->ranks[i].port);
	return 0;
}

static int parse_ranks(struct section *s, struct lh_job *job)
{
	const json_t *array = get(s, "ranks");
	size_t n;
	int rc;

	if (!array)
		return LH_EINPUT;
	n = json_array_size(array);
	if (!json_is_array(array) || n < 1 || n > LH_JOB_RANKS_MAX)
		return bad(s, "ranks", "expected an array of 1 to 512 ranks");
	job->ranks = calloc(n, sizeof(*job->ranks));
	if (!job->ranks)
		return lh_fail(s->err, LH_ESYS, 0, "%s: out of memory", s->file);
	job->n_ranks = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		struct section rank = {
			.object = json_array_get(array, i), .file = s->file, .err = s->err};

		snprintf(rank.path, sizeof(rank.path), "ranks[%zu].", i);
		if (!json_is_object(rank.object))
			return bad(&rank, "", "expected a mapping");
		if ((rc = parse_rank(&rank, &job->ranks[i])))
			return rc;
	}
	rc = check_places_differ(s, job);
	return rc ? rc : check_addresses_differ(s, job);
}

static int parse_strategy(struct section *s, struct lh_job *job)
{
	struct section inner = {
		.object = get(s, "strategy"), .file = s->file, .path = "strategy.", .err = s->err};
	const char *kind;
	int rc;

	if (!inner.object)
		return LH_EINPUT;
	if (!json_is_object(inner.object))
		return bad(s, "strategy", "expected a mapping");
	if ((rc = get_string(&inner, "kind", &kind)))
		return rc;
	job->strategy = lh_strategy_find(kind);
	if (!job->strategy)
		return lh_fail(s->err, LH_EINPUT, 0, "%s: strategy.kind: no strategy \"%s\"",
			       s->file, kind);
	if (job->uses_nccl && strcmp(job->strategy->name, "ring") != 0)
		return bad(s, "transport", "nccl goes with strategy ring alone");
	if (job->uses_nccl)
		job->strategy = &lh_strategy_nccl;
	rc = lh_strategy_settings_read(inner.object, "strategy", &job->settings, s->err);
	return rc ? lh_error_prefix(s->err, "%s", s->file) : 0;
}

static int parse_compress(struct section *s, struct lh_job *job)
{
	const json_t *object = get(s, "compress");

	if (!object)
		return LH_EINPUT;
	if (lh_compress_settings_read(object, "compress", &job->compressing, s->err))
		return lh_error_prefix(s->err, "%s", s->file);
	job->compress = lh_compressing_codec(job->compressing.kind);
	if (!job->compress)
		return lh_fail(s->err, LH_EINPUT, 0, "%s: compress.kind: no compressor \"%s\"",
			       s->file, job->compressing.kind);
	return 0;
}

/* The format, the mode and the transport: keys with a fixed set of words. */
static int parse_words(struct section *s, struct lh_job *job)
{
	const char *text;
	int rc;

	if ((rc = get_string(s, "format", &text)))
		return rc;
	if (strcmp(text, JOB_FORMAT) != 0)
		return bad(s, "format", "expected \"" JOB_FORMAT "\"");
	if ((rc = get_string(s, "mode", &text)))
		return rc;
	if (strcmp(text, "replay") != 0 && strcmp(text, "train") != 0)
		return bad(s, "mode", "expected \"replay\" or \"train\"");
	snprintf(job->mode, sizeof(job->mode), "%s", text);
	if ((rc = get_string(s, "transport", &text)))
		return rc;
	job->uses_nccl = strcmp(text, "nccl") == 0;
	if (!job->uses_nccl && strcmp(text, "tcp") != 0)
		return bad(s, "transport", "expected \"tcp\" or \"nccl\"");
	return 0;
}

/* What mode train needs, and mode replay must not have. */
static int parse_train(struct section *s, struct lh_job *job)
{
	json_t *train;

	if (strcmp(job->mode, "train") != 0)
		return 0;
	train = (json_t *)(uintptr_t)get(s, "train");
	if (!train)
		return LH_EINPUT;
	if (!json_is_object(train))
		return bad(s, "train", "expected a mapping");
	job->train = json_incref(train);
	return 0;
}

/* Every rank once, where the key is there. */
static int parse_ring_order(struct section *s, struct lh_job *job)
{
	lh_cleanup_free bool *is_there = calloc(job->n_ranks, sizeof(*is_there));
	const json_t *array;

	if (!json_object_get(s->object, "ring_order"))
		return 0;
	array = get(s, "ring_order");
	job->ring_order = calloc(job->n_ranks, sizeof(*job->ring_order));
	if (!is_there || !job->ring_order)
		return lh_fail(s->err, LH_ESYS, ENOMEM, "read a job");
	if (json_array_size(array) != job->n_ranks)
		return bad(s, "ring_order", "expected an array of all ranks");
	for (uint32_t i = 0; i < job->n_ranks; i++) {
		const json_t *item = json_array_get(array, i);
		json_int_t rank = json_integer_value(item);

		if (!json_is_integer(item) || rank < 0 || rank >= job->n_ranks || is_there[rank])
			return bad(s, "ring_order", "expected every rank once");
		is_there[rank] = true;
		job->ring_order[i] = (uint32_t)rank;
	}
	return 0;
}

static int parse_document(struct section *s, struct lh_job *job)
{
	bool is_training = strcmp(job->mode, "train") == 0;
	const char *const known[] = {"format",	   "seed",
				     "mode",	   "model",
				     "parameters", "target_batch",
				     "epochs",	   "compress",
				     "strategy",   "start_timeout_ns",
				     "ranks",	   "transport",
				     "ring_order", is_training ? "train" : NULL,
				     NULL};
	int64_t seed, parameters, target_batch, epochs;
	int rc;

	if ((rc = get_integer(s, "seed", 0, INT64_MAX, &seed)) ||
	    (rc = get_name(s, "model", job->model)) ||
	    (rc = get_integer(s, "parameters", 1, INT64_C(1000000000000), &parameters)) ||
	    (rc = get_integer(s, "target_batch", 1, INT64_C(1000000000), &target_batch)) ||
	    (rc = get_integer(s, "epochs", 1, 1000000, &epochs)) || (rc = parse_compress(s, job)) ||
	    (rc = parse_strategy(s, job)) ||
	    (rc = get_integer(s, "start_timeout_ns", LH_NS_PER_MS, HOUR_NS,
			      &job->start_timeout_ns)) ||
	    (rc = parse_ranks(s, job)) || (rc = parse_ring_order(s, job)) ||
	    (rc = parse_train(s, job)))
		return rc;
	job->seed = (uint64_t)seed;
	job->parameters = (uint64_t)parameters;
	job->target_batch = (uint64_t)target_batch;
	job->epochs = (uint32_t)epochs;
	return check_all_read(s, known);
}

/* FNV-1a of the document with sorted keys and no white space. */
static int hash_document(const json_t *document, uint64_t *ret_hash)
{
	lh_cleanup_free char *text = json_dumps(document, JSON_COMPACT | JSON_SORT_KEYS);
	uint64_t hash = 0xcbf29ce484222325u;

	if (!text)
		return -1;
	for (const char *c = text; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	*ret_hash = hash;
	return 0;
}

int lh_job_parse(const char *text, size_t size, const char *name, struct lh_job *ret_job,
		 struct lh_error *err)
{
	json_error_t where;
	lh_cleanup_json json_t *document = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
	struct section top = {.object = document, .file = name, .err = err};
	struct lh_job job = {0};
	int rc;

	if (!document)
		return lh_fail(err, LH_EINPUT, 0, "%s:%d:%d: %s", name, where.line, where.column,
			       where.text);
	if (!json_is_object(document))
		return lh_fail(err, LH_EINPUT, 0, "%s: expected a mapping", name);
	rc = parse_words(&top, &job);
	if (rc == 0)
		rc = parse_document(&top, &job);
	if (rc == 0 && (rc = lh_compressing_check(&job, err)))
		lh_error_prefix(err, "%s", name);
	if (rc == 0 && job.strategy->check && (rc = job.strategy->check(&job, err)))
		lh_error_prefix(err, "%s", name);
	if (rc == 0 && hash_document(document, &job.hash))
		rc = lh_fail(err, LH_ESYS, 0, "%s: out of memory", name);
	if (rc) {
		lh_job_done(&job);
		return rc;
	}
	*ret_job = job;
	return 0;
}

int lh_job_read(const char *path, struct lh_job *ret_job, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	size_t size;
	int rc = lh_file_read(path, JOB_FILE_MAX_BYTES, &text, &size, err);

	return rc ? rc : lh_job_parse(text, size, path, ret_job, err);
}

void lh_job_done(struct lh_job *job)
{
	for (uint32_t i = 0; job->ranks && i < job->n_ranks; i++)
		free(job->ranks[i].slow);
	free(job->ranks);
	free(job->ring_order);
	json_decref(job->train);
	memset(job, 0, sizeof(*job));
}
