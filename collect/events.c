/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of the trainers' events. See events.h; the fields are those of docs/formats.md. */
#include "collect/events.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* The epoch that the line names, made where it is new. */
static int get_epoch(const struct line *line, struct lh_rank_events *rank,
		     struct lh_rank_epoch **ret_epoch)
{
	int64_t number;
	int r = get_int(line, "epoch", LH_EVENTS_EPOCHS_MAX, &number);

	if (r)
		return r;
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
static int get_epoch_span(const struct line *line, struct lh_rank_events *rank,
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

static int read_compute(const struct line *line, struct lh_rank_events *rank)
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

static int read_matchmaking(const struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int64_t length_ns;
	int r = get_epoch_span(line, rank, &epoch, &length_ns);

	if (r == 0)
		epoch->matchmaking_ns += length_ns;
	return r;
}

static int read_wait(const struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int64_t length_ns;
	int r = get_epoch_span(line, rank, &epoch, &length_ns);

	if (r == 0)
		epoch->wait_ns += length_ns;
	return r;
}

static int read_average(const struct line *line, struct lh_rank_events *rank)
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

static int read_apply(const struct line *line, struct lh_rank_events *rank)
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

static int read_epoch(const struct line *line, struct lh_rank_events *rank)
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

/* The array key of one integer per rank. */
static int get_by_peer(const struct line *line, const char *key, int64_t *ret_values)
{
	const json_t *array = json_object_get(line->object, key);

	if (!json_is_array(array) || json_array_size(array) != line->n_ranks)
		return bad_line(line, key, "an array of one integer per rank");
	for (size_t i = 0; i < line->n_ranks; i++) {
		const json_t *value = json_array_get(array, i);

		if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		    json_integer_value(value) > COUNT_MAX)
			return bad_line(line, key, "an array of one integer per rank");
		ret_values[i] = json_integer_value(value);
	}
	return 0;
}

static int read_traffic(const struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_traffic traffic, *grown;
	lh_cleanup_free int64_t *bytes = calloc(line->n_ranks * 2, sizeof(*bytes));
	int r = get_span(line, "from_ns", "to_ns", &traffic.from_ns, &traffic.to_ns);

	if (r)
		return r;
	grown = bytes ? reallocarray(rank->traffic, rank->n_traffic + 1, sizeof(*grown)) : NULL;
	if (!grown)
		return no_memory(line);
	rank->traffic = grown;
	r = get_by_peer(line, "payload_bytes", bytes);
	if (r == 0)
		r = get_by_peer(line, "control_bytes", bytes + line->n_ranks);
	if (r)
		return r;
	traffic.payload_bytes = lh_steal(&bytes);
	traffic.control_bytes = traffic.payload_bytes + line->n_ranks;
	rank->traffic[rank->n_traffic++] = traffic;
	return 0;
}

static int read_connection(const struct line *line, struct lh_rank_events *rank)
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

static int read_error(const struct line *line, struct lh_rank_events *rank)
{
	const char *message = json_string_value(json_object_get(line->object, "message"));

	if (!message)
		return bad_line(line, "message", "text");
	free(rank->error);
	rank->error = strdup(message);
	return rank->error ? 0 : no_memory(line);
}

static int read_start(const struct line *line, struct lh_rank_events *rank)
{
	return get_int(line, "t_ns", TIME_MAX_NS, &rank->start_ns);
}

static int read_end(const struct line *line, struct lh_rank_events *rank)
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
static int read_progress(const struct line *line, struct lh_rank_events *rank)
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
		epoch->begin_ns = rank->reported_ns ? rank->reported_ns : rank->start_ns;
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

static int read_learn(const struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int r = get_epoch(line, rank, &epoch);

	return r ? r : read_score(line, &epoch->learnt);
}

static int read_evaluate(const struct line *line, struct lh_rank_events *rank)
{
	struct lh_rank_epoch *epoch;
	int r = get_epoch(line, rank, &epoch);

	return r ? r : read_score(line, &epoch->tested);
}

static int read_weights(const struct line *line, struct lh_rank_events *rank)
{
	const char *hash = json_string_value(json_object_get(line->object, "hash"));

	if (!hash || strlen(hash) >= sizeof(rank->weights))
		return bad_line(line, "hash", "16 hexadecimal digits");
	strcpy(rank->weights, hash);
	return 0;
}

static const struct {
	const char *name;
	int (*read)(const struct line *line, struct lh_rank_events *rank);
} kinds[] = {
	{"compute", read_compute}, {"matchmaking", read_matchmaking},
	{"wait", read_wait},	   {"average", read_average},
	{"apply", read_apply},	   {"epoch", read_epoch},
	{"traffic", read_traffic}, {"connection", read_connection},
	{"error", read_error},	   {"start", read_start},
	{"end", read_end},	   {"progress", read_progress},
	{"learn", read_learn},	   {"evaluate", read_evaluate},
	{"weights", read_weights},
};

/* Reads one line that parsed; events that are not known are left alone. */
static int read_line(const struct line *line, size_t rank_number, struct lh_rank_events *rank)
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
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].read(line, rank);
	return 0;
}

/* Books each blocking apply to the epoch within which it began. */
static void book_applies(struct lh_rank_events *rank)
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

static int read_rank(const char *events_dir, size_t rank_number, size_t n_ranks,
		     struct lh_rank_events *rank, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_strf("%s/rank-%zu.jsonl", events_dir, rank_number);
	lh_cleanup_free char *text = NULL;
	struct line line = {.path = path, .err = err, .n_ranks = n_ranks};
	size_t size;
	int r;

	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", events_dir);
	r = lh_file_read(path, EVENT_FILE_MAX_BYTES, &text, &size, err);
	if (r == 0)
		r = read_lines(&line, text, size, rank_number, rank);
	if (r == 0)
		book_applies(rank);
	return r;
}

static bool is_finished_by_all(const struct lh_run_events *events, size_t epoch)
{
	for (size_t r = 0; r < events->n_ranks; r++)
		if (epoch >= events->ranks[r].n_epochs ||
		    !events->ranks[r].epochs[epoch].is_finished)
			return false;
	return true;
}

static void count_finished(struct lh_run_events *events)
{
	size_t first = 0;

	while (first < events->ranks[0].n_epochs && !events->ranks[0].epochs[first].is_finished)
		first++;
	events->first_epoch = first;
	while (is_finished_by_all(events, first + events->n_finished))
		events->n_finished++;
}

int lh_run_events_read(const char *events_dir, size_t n_ranks, struct lh_run_events *ret_events,
		       struct lh_error *err)
{
	struct lh_run_events events = {0};

	if (n_ranks < 1 || n_ranks > LH_EVENTS_RANKS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%zu ranks; expected 1 to %d", n_ranks,
			       LH_EVENTS_RANKS_MAX);
	events.ranks = calloc(n_ranks, sizeof(*events.ranks));
	if (!events.ranks)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", events_dir);
	events.n_ranks = n_ranks;
	for (size_t i = 0; i < n_ranks; i++) {
		int r = read_rank(events_dir, i, n_ranks, &events.ranks[i], err);

		if (r < 0) {
			lh_run_events_done(&events);
			return r;
		}
	}
	count_finished(&events);
	*ret_events = events;
	return 0;
}

void lh_run_events_done(struct lh_run_events *events)
{
	for (size_t i = 0; events->ranks && i < events->n_ranks; i++) {
		struct lh_rank_events *rank = &events->ranks[i];

		for (size_t t = 0; t < rank->n_traffic; t++)
			free(rank->traffic[t].payload_bytes);
		free(rank->traffic);
		free(rank->epochs);
		free(rank->applies);
		free(rank->error);
	}
	free(events->ranks);
	memset(events, 0, sizeof(*events));
}

const struct lh_rank_epoch *lh_run_events_epoch(const struct lh_run_events *events, size_t rank,
						size_t index)
{
	return &events->ranks[rank].epochs[events->first_epoch + index];
}

int64_t lh_run_events_epoch_begin_ns(const struct lh_run_events *events, size_t index)
{
	int64_t begin = INT64_MAX;

	if (index > 0)
		return lh_run_events_epoch_end_ns(events, index - 1);
	for (size_t r = 0; r < events->n_ranks; r++) {
		int64_t b = lh_run_events_epoch(events, r, 0)->begin_ns;

		begin = b < begin ? b : begin;
	}
	return begin;
}

int64_t lh_run_events_epoch_end_ns(const struct lh_run_events *events, size_t index)
{
	int64_t end = 0;

	for (size_t r = 0; r < events->n_ranks; r++) {
		int64_t e = lh_run_events_epoch(events, r, index)->end_ns;

		end = e > end ? e : end;
	}
	return end;
}
