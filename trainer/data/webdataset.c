/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind webdataset: a tar shard, or a folder with train*.tar and test*.tar. What the first
 * sample has says what all are: image and label, recording and transcript or label, text.
 */
#include "trainer/data/webdataset.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/data/bpe.h"
#include "trainer/data/fit.h"
#include "trainer/data/map.h"
#include "trainer/data/speech_internal.h"
#include "trainer/data/tokens.h"

enum { SHARDS_MAX = 16384, NAME_MAX_BYTES = 512 };

/* What samples are made of. */
struct form {
	const char *doc;
	uint32_t needs; /* bits of parts */
	int (*open)(struct lh_dataset *ds, struct lh_error *err);
	int (*read)(struct lh_dataset *ds, uint64_t index, uint64_t epoch, void *const *ret_fields,
		    struct lh_error *err);
};

struct shard {
	char *path;
	struct lh_map map;
};

struct wds {
	struct shard *shards;
	uint32_t n_shards;
	struct lh_wds_index index;
	const struct form *form;
	int32_t *labels;
	/* images */
	struct lh_image_size *sizes;
	struct lh_image_decoder *decoder;
	uint8_t *pixels;
	struct lh_fit fit;
	/* text */
	struct lh_bpe *bpe;
	int32_t *window;
	struct lh_tokens tokens;
	struct lh_speech speech;
};

/* ImageNet's, over its training set. */
static const float mean3[3] = {0.485f, 0.456f, 0.406f};
static const float stddev3[3] = {0.229f, 0.224f, 0.225f};

/* "shard.tar: sample KEY", for messages. */
static const char *name_of(const struct wds *w, uint64_t index, char name[static NAME_MAX_BYTES])
{
	const struct lh_wds_sample *s = &w->index.samples[index];

	snprintf(name, NAME_MAX_BYTES, "%s: sample %s", w->shards[s->shard].path, s->key);
	return name;
}

/* ---- labels ------------------------------------------------------------------------------- */

static int read_labels(struct lh_dataset *ds, struct lh_error *err)
{
	struct wds *w = ds->state;
	uint32_t n_classes = ds->spec.n_classes;
	char name[NAME_MAX_BYTES];
	int32_t max = 0;

	w->labels = malloc(w->index.n * sizeof(*w->labels));
	if (!w->labels)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", ds->spec.path);
	for (size_t i = 0; i < w->index.n; i++) {
		const struct lh_wds_sample *s = &w->index.samples[i];

		if (lh_wds_label(s->parts[LH_WDS_CLS].data, s->parts[LH_WDS_CLS].size,
				 &w->labels[i]) < 0 ||
		    w->labels[i] >= (n_classes ? (int32_t)n_classes : 1 << 20))
			return lh_fail(err, LH_EINPUT, 0,
				       "%s: .cls is not a number from 0 to below %d",
				       name_of(w, i, name), n_classes ? (int)n_classes : 1 << 20);
		max = w->labels[i] > max ? w->labels[i] : max;
	}
	ds->spec.n_classes = n_classes ? n_classes : (uint32_t)max + 1;
	ds->n_labels = ds->spec.n_classes;
	return 0;
}

static int32_t label_of(const struct lh_dataset *ds, uint64_t index)
{
	const struct wds *w = ds->state;

	return w->labels[index];
}

/* ---- images ------------------------------------------------------------------------------- */

/* Reads all heads; what is not asked for must be the same for all. */
static int measure_images(struct lh_dataset *ds, struct lh_image_size *ret_max, size_t *ret_bytes,
			  struct lh_error *err)
{
	struct wds *w = ds->state;
	struct lh_data_request *spec = &ds->spec;
	char name[NAME_MAX_BYTES];

	w->sizes = calloc(w->index.n, sizeof(*w->sizes));
	if (!w->sizes)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", spec->path);
	for (size_t i = 0; i < w->index.n; i++) {
		const struct lh_wds_sample *s = &w->index.samples[i];
		struct lh_image_size *size = &w->sizes[i], *first = &w->sizes[0];
		int r = lh_image_probe(name_of(w, i, name), s->parts[LH_WDS_IMAGE].data,
				       s->parts[LH_WDS_IMAGE].size, size, err);

		if (r < 0)
			return r;
		if ((!spec->height && size->height != first->height) ||
		    (!spec->width && size->width != first->width) ||
		    (!spec->channels && size->channels != first->channels))
			return lh_fail(err, LH_EINPUT, 0,
				       "%s: is %u x %u x %u, the first one %u x %u x %u; ask for "
				       "one height, width and channels",
				       name, size->height, size->width, size->channels,
				       first->height, first->width, first->channels);
		if (size->height > ret_max->height)
			ret_max->height = size->height;
		if (size->width > ret_max->width)
			ret_max->width = size->width;
		if (lh_image_bytes(size) > *ret_bytes)
			*ret_bytes = lh_image_bytes(size);
	}
	return 0;
}

static int open_images(struct lh_dataset *ds, struct lh_error *err)
{
	struct wds *w = ds->state;
	struct lh_data_request *spec = &ds->spec;
	struct lh_image_size max = {0};
	size_t n_bytes = 0;
	int r;

	if ((r = read_labels(ds, err)) < 0 || (r = measure_images(ds, &max, &n_bytes, err)) < 0)
		return r;
	spec->height = spec->height ? spec->height : w->sizes[0].height;
	spec->width = spec->width ? spec->width : w->sizes[0].width;
	spec->channels = spec->channels ? spec->channels : w->sizes[0].channels;
	lh_dataset_add_field(ds, "images", LH_DATA_F32, 3, spec->height, spec->width,
			     spec->channels);
	lh_dataset_add_field(ds, "labels", LH_DATA_I32, 0, 0, 0, 0);
	w->decoder = lh_image_decoder_new();
	w->pixels = malloc(n_bytes);
	if (!w->decoder || !w->pixels)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", spec->path);
	return lh_fit_init(&w->fit, spec, mean3, stddev3,
			   max.height > max.width ? max.height : max.width, err);
}

static int read_image(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
		      void *const *ret_fields, struct lh_error *err)
{
	struct wds *w = ds->state;
	const struct lh_wds_sample *s = &w->index.samples[index];
	char name[NAME_MAX_BYTES];
	int r = lh_image_decode(w->decoder, name_of(w, index, name), s->parts[LH_WDS_IMAGE].data,
				s->parts[LH_WDS_IMAGE].size, &w->sizes[index], w->pixels, err);

	(void)epoch;
	if (r < 0)
		return r;
	lh_fit_apply(&w->fit, w->pixels, &w->sizes[index], ret_fields[0]);
	*(int32_t *)ret_fields[1] = w->labels[index];
	return 0;
}

/* ---- recordings --------------------------------------------------------------------------- */

static bool has_text(const struct wds *w)
{
	return w->form->needs & 1u << LH_WDS_TXT;
}

static int parse_wav(const struct wds *w, uint64_t index, const char *name, struct lh_wav *ret,
		     struct lh_error *err)
{
	const struct lh_wds_sample *s = &w->index.samples[index];

	return lh_wav_parse(name, s->parts[LH_WDS_WAV].data, s->parts[LH_WDS_WAV].size,
			    LH_MEL_RATE_HZ, ret, err);
}

/* A transcript without the line's end. */
static size_t text_length(const struct lh_wds_sample *s)
{
	const uint8_t *text = s->parts[LH_WDS_TXT].data;
	size_t n = s->parts[LH_WDS_TXT].size;

	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	return n;
}

static int open_speech(struct lh_dataset *ds, struct lh_error *err)
{
	struct wds *w = ds->state;
	struct lh_speech_lengths lengths = {0};
	char name[NAME_MAX_BYTES];
	struct lh_wav wav;
	int r;

	if (!has_text(w) && (r = read_labels(ds, err)) < 0)
		return r;
	for (size_t i = 0; i < w->index.n; i++) {
		r = parse_wav(w, i, name_of(w, i, name), &wav, err);
		if (r < 0)
			return r;
		lh_speech_lengths_add(&lengths, name, wav.n_samples,
				      has_text(w) ? text_length(&w->index.samples[i]) : 0);
	}
	return lh_speech_init(&w->speech, ds, &lengths, has_text(w), err);
}

static int read_speech(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
		       void *const *ret_fields, struct lh_error *err)
{
	struct wds *w = ds->state;
	const struct lh_wds_sample *s = &w->index.samples[index];
	char name[NAME_MAX_BYTES];
	struct lh_wav wav;
	int r = parse_wav(w, index, name_of(w, index, name), &wav, err);

	(void)epoch;
	if (r < 0)
		return r;
	lh_wav_decode(&wav, w->speech.signal, (size_t)w->speech.n_frames * LH_MEL_HOP);
	lh_speech_write_mel(&w->speech, ret_fields[0]);
	if (has_text(w))
		lh_speech_write_text(&w->speech, (const char *)s->parts[LH_WDS_TXT].data,
				     text_length(s), ret_fields[1], ret_fields[2]);
	else
		*(int32_t *)ret_fields[1] = w->labels[index];
	return 0;
}

/* ---- text --------------------------------------------------------------------------------- */

static int open_text(struct lh_dataset *ds, struct lh_error *err)
{
	struct wds *w = ds->state;
	char name[NAME_MAX_BYTES];
	int r = 0;

	for (size_t i = 0; i < w->index.n; i++)
		if (w->index.samples[i].parts[LH_WDS_TXT].size == 0)
			return lh_fail(err, LH_EINPUT, 0, "%s: its text is empty",
				       name_of(w, i, name));
	if (ds->spec.vocab_path)
		r = lh_bpe_load(ds->spec.vocab_path, &w->bpe, err);
	if (r == 0)
		r = lh_tokens_init(&w->tokens, ds, w->bpe, err);
	if (r < 0)
		return r;
	w->window = malloc(lh_tokens_window(&w->tokens) * sizeof(*w->window));
	return w->window ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "open %s", ds->spec.path);
}

/* The beginning of the text, as long as it fits. */
static int read_text(struct lh_dataset *ds, uint64_t index, uint64_t epoch, void *const *ret_fields,
		     struct lh_error *err)
{
	struct wds *w = ds->state;
	const uint8_t *text = w->index.samples[index].parts[LH_WDS_TXT].data;
	size_t size = w->index.samples[index].parts[LH_WDS_TXT].size;
	size_t n = lh_tokens_window(&w->tokens);
	struct lh_rng rng;

	(void)err;
	lh_data_rng(&rng, &ds->spec, "mask", epoch, index);
	if (w->bpe) {
		n = lh_bpe_encode(w->bpe, (const char *)text, size, w->window, n);
	} else {
		n = size < n ? size : n;
		for (size_t i = 0; i < n; i++)
			w->window[i] = text[i];
	}
	lh_tokens_sample(&w->tokens, w->window, n, &rng, ret_fields[0], ret_fields[1]);
	return 0;
}

/* ---- shards ------------------------------------------------------------------------------- */

static const struct form forms[] = {
	{"image and label (.ppm .pgm .png .jpg .jpeg, .cls)", 1u << LH_WDS_IMAGE | 1u << LH_WDS_CLS,
	 open_images, read_image},
	{"recording and transcript (.wav, .txt)", 1u << LH_WDS_WAV | 1u << LH_WDS_TXT, open_speech,
	 read_speech},
	{"recording and label (.wav, .cls)", 1u << LH_WDS_WAV | 1u << LH_WDS_CLS, open_speech,
	 read_speech},
	{"text (.txt)", 1u << LH_WDS_TXT, open_text, read_text},
};

static int choose_form(struct lh_dataset *ds, struct lh_error *err)
{
	struct wds *w = ds->state;
	char name[NAME_MAX_BYTES];

	if (w->index.n == 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: its shards hold no samples", ds->spec.path);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]) && !w->form; i++)
		if ((w->index.samples[0].has & forms[i].needs) == forms[i].needs)
			w->form = &forms[i];
	if (!w->form)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: is neither image and label, recording and transcript or "
			       "label, nor text",
			       name_of(w, 0, name));
	for (size_t i = 0; i < w->index.n; i++)
		if ((w->index.samples[i].has & w->form->needs) != w->form->needs)
			return lh_fail(err, LH_EINPUT, 0, "%s: is not what the first sample is: %s",
				       name_of(w, i, name), w->form->doc);
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct shard *)a)->path, ((const struct shard *)b)->path);
}

/* Sets the shards' paths, in their order. */
static int list_shards(struct lh_dataset *ds, struct lh_error *err)
{
	struct wds *w = ds->state;
	const char *path = ds->spec.path;
	lh_cleanup_closedir DIR *dir = opendir(path);
	lh_cleanup_free char *pattern = lh_strf("%s*.tar", lh_data_split_name(ds->spec.split));
	struct dirent *e;

	w->shards = calloc(SHARDS_MAX, sizeof(*w->shards));
	if (!pattern || !w->shards)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", path);
	if (!dir && errno != ENOTDIR)
		return lh_fail(err, LH_ESYS, errno, "open %s", path);
	if (!dir) {
		w->shards[w->n_shards++].path = strdup(path);
		return w->shards[0].path ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "open %s", path);
	}
	while ((e = readdir(dir))) {
		if (fnmatch(pattern, e->d_name, 0) != 0)
			continue;
		if (w->n_shards == SHARDS_MAX)
			return lh_fail(err, LH_EINPUT, 0, "%s: more than %d shards", path,
				       SHARDS_MAX);
		w->shards[w->n_shards].path = lh_strf("%s/%s", path, e->d_name);
		if (!w->shards[w->n_shards++].path)
			return lh_fail(err, LH_ESYS, ENOMEM, "open %s", path);
	}
	qsort(w->shards, w->n_shards, sizeof(*w->shards), compare_paths);
	return w->n_shards
		       ? 0
		       : lh_fail(err, LH_EINPUT, 0, "%s: has no shards called %s", path, pattern);
}

static int open_wds(struct lh_dataset *ds, struct lh_error *err)
{
	struct wds *w = ds->state = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	if (!ds->spec.path)
		return lh_fail(err, LH_EINPUT, 0, "data: webdataset needs a path");
	r = list_shards(ds, err);
	for (uint32_t i = 0; i < w->n_shards && r == 0; i++) {
		struct shard *s = &w->shards[i];

		r = lh_map_open(s->path, &s->map, err);
		if (r == 0)
			r = lh_wds_index_add(&w->index, i, s->path, s->map.data, s->map.size, err);
	}
	if (r < 0 || (r = choose_form(ds, err)) < 0)
		return r;
	ds->size = w->index.n;
	return w->form->open(ds, err);
}

static void close_wds(struct lh_dataset *ds)
{
	struct wds *w = ds->state;

	lh_fit_done(&w->fit);
	lh_image_decoder_free(w->decoder);
	lh_speech_done(&w->speech);
	lh_bpe_free(w->bpe);
	lh_wds_index_done(&w->index);
	for (uint32_t i = 0; i < w->n_shards; i++) {
		lh_map_close(&w->shards[i].map);
		free(w->shards[i].path);
	}
	free(w->shards);
	free(w->labels);
	free(w->sizes);
	free(w->pixels);
	free(w->window);
	free(w);
}

static int read_wds(struct lh_dataset *ds, uint64_t index, uint64_t epoch, void *const *ret_fields,
		    struct lh_error *err)
{
	const struct wds *w = ds->state;

	return w->form->read(ds, index, epoch, ret_fields, err);
}

const struct lh_dataset_ops lh_dataset_webdataset = {
	.name = "webdataset",
	.doc = "tar shards: images with .cls, 16 kHz .wav with .txt or .cls, or .txt",
	.open = open_wds,
	.close = close_wds,
	.read = read_wds,
	.label = label_of,
};
