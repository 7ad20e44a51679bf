/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind speech: a folder with train.tsv and test.tsv, or one such list. A line is the WAV file,
 * from the list's folder, a tab, and what is said in it.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/data/map.h"
#include "trainer/data/speech_internal.h"

struct recording {
	const char *file; /* within the list, not terminated */
	const char *text;
	uint32_t n_file;
	uint32_t n_text;
	int32_t label; /* equal for equal texts */
};

struct speech {
	char *list_path;
	char *folder;
	struct lh_map list;
	struct recording *recordings;
	uint64_t n_recordings;
	uint64_t first; /* of the split */
	struct lh_speech sample;
	char path[PATH_MAX]; /* of the recording at hand */
};

/* ---- the list ----------------------------------------------------------------------------- */

static int parse_line(struct speech *s, const char *line, size_t n, uint64_t number,
		      struct lh_error *err)
{
	const char *tab = memchr(line, '\t', n);
	size_t n_file = tab ? (size_t)(tab - line) : 0;
	size_t n_text = tab ? n - n_file - 1 : 0;

	if (n_text && line[n - 1] == '\r')
		n_text--;
	if (n_file == 0 || n_text == 0 || n_text > UINT16_MAX ||
	    n_file + strlen(s->folder) + 2 > sizeof(s->path) || memchr(line, '\0', n))
		return lh_fail(err, LH_EINPUT, 0,
			       "%s:%llu: is not: a WAV file's name, a tab, what is said",
			       s->list_path, (unsigned long long)number);
	s->recordings[s->n_recordings++] =
		(struct recording){line, tab + 1, (uint32_t)n_file, (uint32_t)n_text, 0};
	return 0;
}

static int parse_list(struct speech *s, struct lh_error *err)
{
	const char *p = (const char *)s->list.data, *end = p + s->list.size;
	uint64_t n_lines = 1, number = 0;

	for (const char *q = p; (q = memchr(q, '\n', (size_t)(end - q))); q++)
		n_lines++;
	s->recordings = calloc(n_lines, sizeof(*s->recordings));
	if (!s->recordings)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", s->list_path);
	while (p < end) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((stop ? stop : end) - p);
		int r = n ? parse_line(s, p, n, ++number, err) : (number++, 0);

		if (r < 0)
			return r;
		p += n + 1;
	}
	if (s->n_recordings == 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: lists no recordings", s->list_path);
	return 0;
}

static int compare_texts(const void *a, const void *b)
{
	const struct recording *x = *(struct recording *const *)a;
	const struct recording *y = *(struct recording *const *)b;
	size_t n = x->n_text < y->n_text ? x->n_text : y->n_text;
	int c = memcmp(x->text, y->text, n);

	return c ? c : (x->n_text > y->n_text) - (x->n_text < y->n_text);
}

/* Numbers the different texts, so that shards can be skewed by them. */
static int number_texts(struct speech *s, uint32_t *ret_n, struct lh_error *err)
{
	lh_cleanup_free struct recording **sorted =
		malloc(s->n_recordings * sizeof(struct recording *));
	int32_t label = 0;

	if (!sorted)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", s->list_path);
	for (uint64_t i = 0; i < s->n_recordings; i++)
		sorted[i] = &s->recordings[i];
	qsort(sorted, s->n_recordings, sizeof(*sorted), compare_texts);
	for (uint64_t i = 0; i < s->n_recordings; i++) {
		label += i && compare_texts(&sorted[i - 1], &sorted[i]) != 0;
		sorted[i]->label = label;
	}
	*ret_n = (uint32_t)label + 1;
	return 0;
}

/* ---- the recordings ----------------------------------------------------------------------- */

/* Maps a recording's file; s->path is its name until the next one. */
static int open_wav(struct speech *s, const struct recording *rec, struct lh_map *ret_map,
		    struct lh_wav *ret, struct lh_error *err)
{
	int r;

	snprintf(s->path, sizeof(s->path), "%s/%.*s", s->folder, (int)rec->n_file, rec->file);
	r = lh_map_open(s->path, ret_map, err);
	if (r < 0)
		return r;
	r = lh_wav_parse(s->path, ret_map->data, ret_map->size, LH_MEL_RATE_HZ, ret, err);
	if (r < 0)
		lh_map_close(ret_map);
	return r;
}

static int measure(struct speech *s, struct lh_speech_lengths *ret, struct lh_error *err)
{
	for (uint64_t i = 0; i < s->n_recordings; i++) {
		struct lh_map map = {0};
		struct lh_wav wav;
		int r = open_wav(s, &s->recordings[i], &map, &wav, err);

		if (r < 0)
			return lh_error_prefix(err, "%s, recording %llu", s->list_path,
					       (unsigned long long)i + 1);
		lh_speech_lengths_add(ret, s->path, wav.n_samples, s->recordings[i].n_text);
		lh_map_close(&map);
	}
	return 0;
}

/* ---- the dataset -------------------------------------------------------------------------- */

static int open_speech(struct lh_dataset *ds, struct lh_error *err)
{
	struct speech *s = ds->state = calloc(1, sizeof(*s));
	struct lh_speech_lengths lengths = {0};
	bool is_whole;
	int r;

	if (!s)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	if ((r = lh_data_split_path(&ds->spec, ".tsv", &s->list_path, &is_whole, err)) < 0 ||
	    (r = lh_map_open(s->list_path, &s->list, err)) < 0)
		return r;
	s->folder = lh_path_dirname(s->list_path);
	if (!s->folder)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", s->list_path);
	if ((r = parse_list(s, err)) < 0)
		return r;
	ds->size = s->n_recordings;
	if (is_whole &&
	    (r = lh_data_split_range(&ds->spec, s->n_recordings, &s->first, &ds->size, err)) < 0)
		return r;
	if ((r = number_texts(s, &ds->n_labels, err)) < 0 || (r = measure(s, &lengths, err)) < 0)
		return r;
	return lh_speech_init(&s->sample, ds, &lengths, true, err);
}

static void close_speech(struct lh_dataset *ds)
{
	struct speech *s = ds->state;

	lh_speech_done(&s->sample);
	lh_map_close(&s->list);
	free(s->recordings);
	free(s->list_path);
	free(s->folder);
	free(s);
}

static int read_speech(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
		       void *const *ret_fields, struct lh_error *err)
{
	struct speech *s = ds->state;
	const struct recording *rec = &s->recordings[s->first + index];
	struct lh_map map = {0};
	struct lh_wav wav;
	int r = open_wav(s, rec, &map, &wav, err);

	(void)epoch;
	if (r < 0)
		return r;
	lh_wav_decode(&wav, s->sample.signal, (size_t)s->sample.n_frames * LH_MEL_HOP);
	lh_map_close(&map);
	lh_speech_write_mel(&s->sample, ret_fields[0]);
	lh_speech_write_text(&s->sample, rec->text, rec->n_text, ret_fields[1], ret_fields[2]);
	return 0;
}

static int32_t label_of(const struct lh_dataset *ds, uint64_t index)
{
	const struct speech *s = ds->state;

	return s->recordings[s->first + index].label;
}

const struct lh_dataset_ops lh_dataset_speech = {
	.name = "speech",
	.doc = "16 kHz WAV files and lists train.tsv, test.tsv: file, tab, what is said",
	.open = open_speech,
	.close = close_speech,
	.read = read_speech,
	.label = label_of,
};
