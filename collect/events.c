/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of the trainers' events. See events.h; the fields are those of docs/formats.md. */
#include "collect/events.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/events_internal.h"
#include "core/cleanup.h"
#include "core/file.h"

#define EVENT_FILE_MAX_BYTES ((size_t)1 << 30)
/* A day is 8.64e13; spans are added up over epochs, so each must leave room. */
#define TIME_MAX_NS (INT64_MAX / 4)
#define COUNT_MAX (INT64_MAX / 4096)

/* One line being read. */
struct line {
	const char *path;
	size_t number;
	const json_t *object;
	struct lh_error *err;
	size_t n_ranks;
	bool is_first_epoch; /* of an incarnation after the first: none was read yet */
};

static int bad_line(const struct line *line, const char *key, const char *expected)
{
	lh_fail(line->err, LH_EINPUT, 0, "%s:%zu: '%s'; expected %s", line->path, line->number, key,
		expected);
	return LH_EINPUT;
}

static int no_memory(const struct line *line)
{
	lh_fail(line->err, LH_ESYS, ENOMEM, "read %s", line->path);
	return LH_ESYS;
}

/* The integer field key, 0 to max. */
static int get_int(const struct line *line, const char *key, int64_t max, int64_t *ret)
{
	const json_t *value = json_object_get(line->object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > max)
		return bad_line(line, key, "an integer within its bounds");
	*ret = json_integer_value(value);
	return 0;
}

static int get_span(const struct line *line, const char *from, const char *to, int64_t *ret_begin,
		    int64_t *ret_end)
{
	int r = get_int(line, from, TIME_MAX_NS, ret_begin);

	if (r == 0)
		r = get_int(line, to, TIME_MAX_NS, ret_end);
	if (r == 0 && *ret_end < *ret_begin)
		return bad_line(line, to, "a time not before the begin of the span");
	return r;
}

/* What was lost with the rank: an incarnation that begins with an epoch does all from it on anew,
 * and what the one before had not finished is finished by none. */
static void forget_epochs(struct lh_rank_events *rank, size_t from)
{
	for (size_t i = from < rank->n_settled ? from : rank->n_settled; i < rank->n_epochs; i++)
		if (i >= from || !rank->epochs[i].is_finished)
			rank->epochs[i] = (struct lh_rank_epoch){0};
	rank->n_settled = from;
}

/* The epoch that the line names, made where it is new. */
static int get_epoch(struct line *line, struct lh_rank_events *rank,
		     struct lh_rank_epoch **ret_epoch)
{
	int64_t number;
	int r = get_int(line, "epoch", LH_EVENTS_EPOCHS_MAX, &number);

	if (r)
		return r;
	if (line->is_first_epoch)
		forget_epochs(rank, (size_t)number);
	line->is_first_epoch = false;
	if ((size_t)number >= rank->n_epochs_room) {
		size_t room = (size_t)number + 1 + rank->n_epochs_room;
		struct lh_rank_epoch *grown = reallocarray(rank->epochs, room, sizeof(*grown));

		if (!grown)
			return no_memory(line);
		memset(grown + rank->n_epochs_room, 0,
		       (room - rank->n_epochs_room) * sizeof(*grown));
		rank->epochs = grown;
		rank->n_epochs_room = room;
	}
	if ((size_t)number >= rank->n_epochs)
		rank->n_epochs = (size_t)number + 1;
	*ret_epoch = &rank->epochs[number];
	rank->epochs[number].number = number;
	return 0;
}

/* The epoch and the length of a span that has nothing else. */
static int get_epoch_span(struct line *line, struct lh_rank_events *rank,
			  struct lh_rank_epoch **ret_epoch, int64_t *ret_length_ns)
{
	int64_t begin, end;
	int r = get_epoch(line, rank, ret_epoch);

	if (r == 0)
		r = get_span(line, "begin_ns", "end_ns", &begin, &end);
	if (r == 0)
		*ret_length_ns = end - begin;
	return r;
}

static int read_compute(struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int64_t length_ns, samples;
	int r = get_epoch_span(line, rank, &epoch, &length_ns);

	if (r == 0)
		r = get_int(line, "samples", COUNT_MAX, &samples);
	if (r)
		return r;
	epoch->compute_ns += length_ns;
	epoch->samples += samples;
	return 0;
}

static int read_matchmaking(struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int64_t length_ns;
	int r = get_epoch_span(line, rank, &epoch, &length_ns);

	if (r == 0)
		epoch->matchmaking_ns += length_ns;
	return r;
}

static int read_wait(struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int64_t length_ns;
	int r = get_epoch_span(line, rank, &epoch, &length_ns);

	if (r == 0)
		epoch->wait_ns += length_ns;
	return r;
}

static int read_average(struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int64_t length_ns, host, sent, received, samples;
	int r = get_epoch_span(line, rank, &epoch, &length_ns);

	if (r == 0)
		r = get_int(line, "host_ns", length_ns, &host);
	if (r == 0)
		r = get_int(line, "payload_sent_bytes", COUNT_MAX, &sent);
	if (r == 0)
		r = get_int(line, "payload_received_bytes", COUNT_MAX, &received);
	if (r == 0)
		r = get_int(line, "group_samples", COUNT_MAX, &samples);
	if (r)
		return r;
	epoch->has_average = true;
	if (!json_is_true(json_object_get(line->object, "beside"))) {
		epoch->average_ns += length_ns;
		epoch->host_ns += host;
	}
	epoch->payload_sent_bytes += sent;
	epoch->payload_received_bytes += received;
	epoch->average_samples = samples;
	return 0;
}

static int read_apply(struct line *line, struct lh_rank_events *rank)
{
	const json_t *blocking = json_object_get(line->object, "blocking");
	struct lh_rank_apply apply, *grown;
	int r = get_span(line, "begin_ns", "end_ns", &apply.begin_ns, &apply.end_ns);

	if (r)
		return r;
	if (!json_is_boolean(blocking))
		return bad_line(line, "blocking", "true or false");
	if (json_is_false(blocking))
		return 0;
	grown = reallocarray(rank->applies, rank->n_applies + 1, sizeof(*grown));
	if (!grown)
		return no_memory(line);
	rank->applies = grown;
	rank->applies[rank->n_applies++] = apply;
	return 0;
}

static int read_epoch(struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int r = get_epoch(line, rank, &epoch);

	if (r == 0 && epoch->is_finished)
		return bad_line(line, "epoch", "each epoch to end once");
	if (r == 0)
		r = get_span(line, "begin_ns", "end_ns", &epoch->begin_ns, &epoch->end_ns);
	if (r == 0)
		r = get_int(line, "samples", COUNT_MAX, &epoch->group_samples);
	if (r == 0)
		epoch->is_finished = true;
	return r;
}

/* The integer at place i of an array of n; negative, with a message, where there is none. */
static int64_t get_at(const struct line *line, const char *key, size_t i, size_t n)
{
	const json_t *array = json_object_get(line->object, key);
	const json_t *value = json_array_size(array) == n ? json_array_get(array, i) : NULL;
	int64_t number = json_integer_value(value);

	if (!json_is_integer(value) || number < 0 || number > COUNT_MAX)
		return bad_line(line, key, "an array of one integer per rank, or of `peers`");
	return number;
}

/* Fills what was sent to the peers in turn: to all, or to those that are named. */
static int read_sent(const struct line *line, size_t n, bool has_peers, struct lh_rank_traffic *ret)
{
	for (size_t i = 0; i < n; i++) {
		struct lh_rank_sent sent = {.peer = i};
		int64_t peer = has_peers ? get_at(line, "peers", i, n) : (int64_t)i;

		if (peer < 0)
			return LH_EINPUT;
		if ((size_t)peer >= line->n_ranks)
			return bad_line(line, "peers", "ranks of the run");
		sent.peer = (size_t)peer;
		sent.payload_bytes = get_at(line, "payload_bytes", i, n);
		sent.control_bytes = get_at(line, "control_bytes", i, n);
		if (sent.payload_bytes < 0 || sent.control_bytes < 0)
			return LH_EINPUT;
		if (sent.payload_bytes || sent.control_bytes)
			ret->sent[ret->n_sent++] = sent;
	}
	return 0;
}

static int read_traffic(struct line *line, struct lh_rank_events *rank)
{
	const json_t *peers = json_object_get(line->object, "peers");
	size_t n = peers ? json_array_size(peers) : line->n_ranks;
	lh_cleanup_free struct lh_rank_sent *room = NULL;
	struct lh_rank_traffic traffic = {.n_sent = 0}, *grown;
	struct lh_rank_sent *fitting;
	int r = get_span(line, "from_ns", "to_ns", &traffic.from_ns, &traffic.to_ns);

	if (r)
		return r;
	if (n > line->n_ranks)
		return bad_line(line, "peers", "each rank once at most");
	traffic.sent = room = calloc(n + 1, sizeof(*room));
	grown = reallocarray(rank->traffic, rank->n_traffic + 1, sizeof(*grown));
	if (grown)
		rank->traffic = grown;
	if (!room || !grown)
		return no_memory(line);
	r = read_sent(line, n, peers != NULL, &traffic);
	if (r)
		return r;
	fitting = reallocarray(room, traffic.n_sent + 1, sizeof(*room));
	traffic.sent = fitting ? fitting : room;
	room = NULL;
	rank->traffic[rank->n_traffic++] = traffic;
	return 0;
}

static int read_connection(struct line *line, struct lh_rank_events *rank)
{
	int64_t retransmits, timeouts;
	int r = get_int(line, "retransmits", COUNT_MAX, &retransmits);

	if (r == 0)
		r = get_int(line, "timeouts", COUNT_MAX, &timeouts);
	if (r)
		return r;
	rank->retransmits += retransmits;
	rank->timeouts += timeouts;
	return 0;
}

static int read_error(struct line *line, struct lh_rank_events *rank)
{
	const char *message = json_string_value(json_object_get(line->object, "message"));

	if (!message)
		return bad_line(line, "message", "text");
	free(rank->error);
	rank->error = strdup(message);
	return rank->error ? 0 : no_memory(line);
}

static int read_start(struct line *line, struct lh_rank_events *rank)
{
	int r = get_int(line, "t_ns", TIME_MAX_NS, &rank->restart_ns);

	if (r == 0 && !rank->start_ns)
		rank->start_ns = rank->restart_ns;
	rank->reported_ns = 0;
	return r;
}

static int read_end(struct line *line, struct lh_rank_events *rank)
{
	rank->has_ended = true;
	return get_int(line, "t_ns", TIME_MAX_NS, &rank->end_ns);
}

/* The number key, NaN where there is none. */
static int get_real(const struct line *line, const char *key, double *ret_value)
{
	const json_t *value = json_object_get(line->object, key);

	*ret_value = value ? json_number_value(value) : NAN;
	return value && !json_is_number(value) ? bad_line(line, key, "a number") : 0;
}

/* What a program reported. An epoch ends with its last report and begins with the last one of the
 * epoch before. */
static int read_progress(struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	double calc_s, comm_s, loss;
	int64_t t_ns, samples = 0;
	bool tells = json_object_get(line->object, "samples") != NULL;
	int r = get_epoch(line, rank, &epoch);

	if (r == 0)
		r = get_int(line, "t_ns", TIME_MAX_NS, &t_ns);
	if (r == 0 && tells)
		r = get_int(line, "samples", COUNT_MAX, &samples);
	if (r == 0)
		r = get_real(line, "calc_s", &calc_s);
	if (r == 0)
		r = get_real(line, "comm_s", &comm_s);
	if (r == 0)
		r = get_real(line, "loss", &loss);
	if (r)
		return r;
	if (!epoch->n_reports++) {
		epoch->begin_ns = rank->reported_ns ? rank->reported_ns : rank->restart_ns;
		epoch->loss = NAN;
	}
	epoch->is_finished = true;
	epoch->end_ns = rank->reported_ns = t_ns;
	epoch->samples += samples;
	epoch->n_samples += tells ? 1 : 0;
	epoch->n_calc += isnan(calc_s) ? 0 : 1;
	epoch->n_comm += isnan(comm_s) ? 0 : 1;
	epoch->calc_s += isnan(calc_s) ? 0 : calc_s;
	epoch->comm_s += isnan(comm_s) ? 0 : comm_s;
	epoch->loss = isnan(loss) ? epoch->loss : loss;
	return 0;
}

static int read_score(const struct line *line, struct lh_rank_score *ret_score)
{
	int r = get_int(line, "counted", COUNT_MAX, &ret_score->counted);

	if (r == 0)
		r = get_real(line, "loss", &ret_score->loss);
	return r ? r : get_real(line, "accuracy", &ret_score->accuracy);
}

static int read_learn(struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int r = get_epoch(line, rank, &epoch);

	return r ? r : read_score(line, &epoch->learnt);
}

static int read_evaluate(struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int r = get_epoch(line, rank, &epoch);

	return r ? r : read_score(line, &epoch->tested);
}

static int read_weights(struct line *line, struct lh_rank_events *rank)
{
	const char *hash = json_string_value(json_object_get(line->object, "hash"));

	if (!hash || strlen(hash) >= sizeof(rank->weights))
		return bad_line(line, "hash", "16 hexadecimal digits");
	strcpy(rank->weights, hash);
	return 0;
}

static int read_consensus(struct line *line, struct lh_rank_events *rank)
{
	return get_real(line, "distance_ratio", &rank->consensus_ratio);
}

static const struct {
	const char *name;
	int (*read)(struct line *line, struct lh_rank_events *rank);
} kinds[] = {
	{"compute", read_compute}, {"matchmaking", read_matchmaking},
	{"wait", read_wait},	   {"average", read_average},
	{"apply", read_apply},	   {"epoch", read_epoch},
	{"traffic", read_traffic}, {"connection", read_connection},
	{"error", read_error},	   {"start", read_start},
	{"end", read_end},	   {"progress", read_progress},
	{"learn", read_learn},	   {"evaluate", read_evaluate},
	{"weights", read_weights}, {"consensus", read_consensus},
};

/* Reads one line that parsed; events that are not known are left alone. */
static int read_line(struct line *line, size_t rank_number, struct lh_rank_events *rank)
{
	const char *name = json_string_value(json_object_get(line->object, "event"));
	int64_t rank_read;
	int r;

	if (!name)
		return bad_line(line, "event", "the name of an event");
	r = get_int(line, "rank", LH_EVENTS_RANKS_MAX, &rank_read);
	if (r)
		return r;
	if ((size_t)rank_read != rank_number)
		return bad_line(line, "rank", "the rank that the file is named after");
	r = lh_rank_samples_take(&rank->samples, rank_number, line->n_ranks, name, line->object,
				 line->path, line->number, line->err);
	for (size_t i = 0; r == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].read(line, rank);
	return r;
}

static int read_lines(struct line *line, char *text, size_t size, size_t rank_number,
		      struct lh_rank_events *rank)
{
	char *end = text + size;

	for (char *p = text; p < end;) {
		char *newline = memchr(p, '\n', (size_t)(end - p));
		size_t length = (size_t)((newline ? newline : end) - p);
		json_error_t je;
		lh_cleanup_json json_t *object = NULL;
		int r;

		line->number++;
		if (length > LH_EVENTS_LINE_MAX_BYTES)
			return lh_fail(line->err, LH_EINPUT, 0, "%s:%zu: longer than %d bytes",
				       line->path, line->number, LH_EVENTS_LINE_MAX_BYTES);
		object = json_loadb(p, length, JSON_REJECT_DUPLICATES, &je);
		if (!newline && !json_is_object(object)) {
			rank->is_cut = true;
			return 0;
		}
		if (!json_is_object(object))
			return lh_fail(line->err, LH_EINPUT, 0, "%s:%zu:%d: %s", line->path,
				       line->number, object ? 1 : je.column,
				       object ? "not an object" : je.text);
		line->object = object;
		r = read_line(line, rank_number, rank);
		if (r)
			return r;
		p += length + 1;
	}
	return 0;
}

int lh_rank_events_read(const char *path, size_t rank_number, size_t n_ranks, bool is_later,
			struct lh_rank_events *rank, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	struct line line = {
		.path = path, .err = err, .n_ranks = n_ranks, .is_first_epoch = is_later};
	size_t size;
	int r = lh_file_read(path, EVENT_FILE_MAX_BYTES, &text, &size, err);

	rank->is_cut = false;
	if (r == 0)
		r = lh_rank_samples_begin(&rank->samples, err);
	return r < 0 ? r : read_lines(&line, text, size, rank_number, rank);
}

void lh_rank_events_book(struct lh_rank_events *rank)
{
	size_t e = 0;

	for (size_t i = 0; i < rank->n_applies; i++) {
		const struct lh_rank_apply *apply = &rank->applies[i];

		if (e == rank->n_epochs || rank->epochs[e].begin_ns > apply->begin_ns)
			e = 0;
		while (e < rank->n_epochs &&
		       (!rank->epochs[e].is_finished || rank->epochs[e].end_ns <= apply->begin_ns))
			e++;
		if (e < rank->n_epochs && rank->epochs[e].begin_ns <= apply->begin_ns)
			rank->epochs[e].apply_ns += apply->end_ns - apply->begin_ns;
	}
}
