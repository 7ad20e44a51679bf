/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic per second and peer. See traffic.h. */
#include "trainer/traffic.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/clock.h"

/* Bytes by second, from traffic->first_second on. */
struct row {
	uint64_t *bytes;
	size_t n;
	size_t room;
};

struct lh_traffic {
	pthread_mutex_t mutex; /* of all below but begin_ns */
	uint32_t n_peers;
	int64_t begin_ns;
	uint64_t first_second; /* the first not yet written */
	struct row *rows;      /* n_peers x LH_TRAFFIC_N_KINDS */
};

int lh_traffic_new(uint32_t n_peers, int64_t begin_ns, struct lh_traffic **ret_traffic,
		   struct lh_error *err)
{
	struct lh_traffic *traffic = calloc(1, sizeof(*traffic));

	if (traffic)
		traffic->rows =
			calloc((size_t)n_peers * LH_TRAFFIC_N_KINDS, sizeof(*traffic->rows));
	if (!traffic || !traffic->rows) {
		free(traffic);
		return lh_fail(err, LH_ESYS, ENOMEM, "count traffic");
	}
	pthread_mutex_init(&traffic->mutex, NULL);
	traffic->n_peers = n_peers;
	traffic->begin_ns = begin_ns;
	*ret_traffic = traffic;
	return 0;
}

static struct row *row_of(struct lh_traffic *traffic, uint32_t peer, enum lh_traffic_kind kind)
{
	return &traffic->rows[(size_t)peer * LH_TRAFFIC_N_KINDS + kind];
}

static void row_add(struct row *row, uint64_t index, uint64_t bytes)
{
	if (index >= row->room) {
		size_t room = (size_t)index * 2 + 64;
		uint64_t *grown = realloc(row->bytes, room * sizeof(*grown));

		if (grown) {
			row->bytes = grown;
			row->room = room;
		} else if (row->n) {
			index = row->n - 1;
		} else {
			return;
		}
	}
	while (row->n <= index)
		row->bytes[row->n++] = 0;
	row->bytes[index] += bytes;
}

/* With the mutex held. */
static void add(struct lh_traffic *traffic, struct row *row, int64_t begin_ns, int64_t end_ns,
		uint64_t bytes)
{
	int64_t origin_ns = traffic->begin_ns + (int64_t)traffic->first_second * LH_NS_PER_S;
	uint64_t from = begin_ns > origin_ns ? (uint64_t)(begin_ns - origin_ns) : 0;
	uint64_t to = end_ns > origin_ns ? (uint64_t)(end_ns - origin_ns) : 0;
	uint64_t span = to > from ? to - from : 0, done = 0;

	for (uint64_t second = from / LH_NS_PER_S; done < bytes; second++) {
		uint64_t edge = (second + 1) * (uint64_t)LH_NS_PER_S;
		uint64_t upto = bytes;

		if (edge < to)
			upto = (uint64_t)((unsigned __int128)bytes * (edge - from) / span);
		row_add(row, second, upto - done);
		done = upto;
	}
}

void lh_traffic_add(struct lh_traffic *traffic, uint32_t peer, enum lh_traffic_kind kind,
		    int64_t begin_ns, int64_t end_ns, uint64_t bytes)
{
	pthread_mutex_lock(&traffic->mutex);
	add(traffic, row_of(traffic, peer, kind), begin_ns, end_ns, bytes);
	pthread_mutex_unlock(&traffic->mutex);
}

/* Arrays by peer of the second at index; of many peers, of those that were sent to alone, which
 * are named then. *ret_has_any tells whether any was. */
static json_t *second_fields(struct lh_traffic *traffic, uint64_t index, int64_t from_ns,
			     int64_t to_ns, bool *ret_has_any)
{
	bool names_peers = traffic->n_peers > LH_TRAFFIC_UNNAMED_PEERS_MAX;
	json_t *peers = names_peers ? json_array() : NULL;
	json_t *payload = json_array();
	json_t *control = json_array();

	for (uint32_t peer = 0; peer < traffic->n_peers; peer++) {
		uint64_t bytes[LH_TRAFFIC_N_KINDS];
		bool is_sent_to = false;

		for (enum lh_traffic_kind k = 0; k < LH_TRAFFIC_N_KINDS; k++) {
			const struct row *row = row_of(traffic, peer, k);

			bytes[k] = index < row->n ? row->bytes[index] : 0;
			is_sent_to = is_sent_to || bytes[k];
		}
		*ret_has_any = *ret_has_any || is_sent_to;
		if (names_peers && !is_sent_to)
			continue;
		if (names_peers)
			json_array_append_new(peers, json_integer((json_int_t)peer));
		json_array_append_new(payload, json_integer((json_int_t)bytes[LH_TRAFFIC_PAYLOAD]));
		json_array_append_new(control,
				      json_integer((json_int_t)(bytes[LH_TRAFFIC_HEADER] +
								bytes[LH_TRAFFIC_CONTROL])));
	}
	return json_pack("{s:I, s:I, s:o*, s:o, s:o}", "from_ns", (json_int_t)from_ns, "to_ns",
			 (json_int_t)to_ns, "peers", peers, "payload_bytes", payload,
			 "control_bytes", control);
}

/* With the mutex held: writes the first n_seconds not yet written; the last ends at last_end_ns. */
static int write_seconds(struct lh_traffic *traffic, uint64_t n_seconds, int64_t last_end_ns,
			 int64_t now_ns, struct lh_events *events, struct lh_error *err)
{
	size_t n_rows = (size_t)traffic->n_peers * LH_TRAFFIC_N_KINDS;
	uint64_t n_kept = 0;

	for (size_t i = 0; i < n_rows; i++)
		if (traffic->rows[i].n > n_kept)
			n_kept = traffic->rows[i].n;
	for (uint64_t i = 0; i < n_seconds && i < n_kept; i++) {
		int64_t from_ns =
			traffic->begin_ns + (int64_t)(traffic->first_second + i) * LH_NS_PER_S;
		int64_t to_ns = i + 1 == n_seconds ? last_end_ns : from_ns + LH_NS_PER_S;
		bool has_any = false;
		json_t *fields = second_fields(traffic, i, from_ns, to_ns, &has_any);
		int rc;

		if (!has_any) {
			json_decref(fields);
			continue;
		}
		if ((rc = lh_events_add(events, "traffic", now_ns, fields, err)))
			return rc;
	}
	for (size_t i = 0; i < n_rows; i++) {
		struct row *row = &traffic->rows[i];
		size_t gone = n_seconds < row->n ? (size_t)n_seconds : row->n;

		if (gone)
			memmove(row->bytes, row->bytes + gone,
				(row->n - gone) * sizeof(*row->bytes));
		row->n -= gone;
	}
	traffic->first_second += n_seconds;
	return 0;
}

/* With the mutex held. */
static int write_ended(struct lh_traffic *traffic, int64_t now_ns, struct lh_events *events,
		       struct lh_error *err)
{
	uint64_t n_ended =
		(uint64_t)((now_ns - traffic->begin_ns) / LH_NS_PER_S) - traffic->first_second;
	int64_t end_ns =
		traffic->begin_ns + (int64_t)(traffic->first_second + n_ended) * LH_NS_PER_S;

	return write_seconds(traffic, n_ended, end_ns, now_ns, events, err);
}

int lh_traffic_write(struct lh_traffic *traffic, int64_t now_ns, struct lh_events *events,
		     struct lh_error *err)
{
	int rc;

	pthread_mutex_lock(&traffic->mutex);
	rc = write_ended(traffic, now_ns, events, err);
	pthread_mutex_unlock(&traffic->mutex);
	return rc;
}

int lh_traffic_write_rest(struct lh_traffic *traffic, int64_t now_ns, struct lh_events *events,
			  struct lh_error *err)
{
	int rc;

	pthread_mutex_lock(&traffic->mutex);
	rc = write_ended(traffic, now_ns, events, err);
	if (rc == 0)
		rc = write_seconds(traffic, 1, now_ns, now_ns, events, err);
	pthread_mutex_unlock(&traffic->mutex);
	return rc;
}

void lh_traffic_free(struct lh_traffic *traffic)
{
	if (!traffic)
		return;
	for (size_t i = 0; i < (size_t)traffic->n_peers * LH_TRAFFIC_N_KINDS; i++)
		free(traffic->rows[i].bytes);
	pthread_mutex_destroy(&traffic->mutex);
	free(traffic->rows);
	free(traffic);
}
