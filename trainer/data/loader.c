/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of samples. See loader.h. */
#include "trainer/data/loader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "trainer/data/order.h"

enum { PADDING_MAX = 4096, VOICE_SHIFT_DENOMINATOR = 16, VOICE_MASK_DENOMINATOR = 8 };

struct lh_loader {
	struct lh_dataset *ds;
	struct lh_loader_spec spec;
	uint64_t n; /* samples of an epoch */
	uint32_t n_fields;
	size_t sample_bytes[LH_DATA_FIELDS_MAX];
	uint64_t position;
	uint64_t order_epoch; /* which `order` is of */
	struct lh_order order;
	/* of images or spectrograms to be moved; scratch is NULL where none are */
	uint32_t height, width, channels;
	float *scratch;
};

static int prepare_voices(struct lh_loader *l, struct lh_error *err)
{
	uint32_t n;
	const struct lh_data_field *mel = lh_dataset_fields(l->ds, &n);

	if (strcmp(mel->name, "mel") != 0)
		return lh_fail(err, LH_EINPUT, 0, "load data: %s has no voices to disguise",
			       lh_dataset_spec(l->ds)->kind);
	l->height = (uint32_t)mel->dims[0];
	l->width = (uint32_t)mel->dims[1];
	l->scratch = malloc(l->sample_bytes[0]);
	return l->scratch ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "load data");
}

static int prepare_images(struct lh_loader *l, struct lh_error *err)
{
	uint32_t n;
	const struct lh_data_field *image = lh_dataset_fields(l->ds, &n);

	if (!l->spec.crop_padding && !l->spec.flip)
		return 0;
	if (strcmp(image->name, "images") != 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "load data: %s has no images to move or to mirror",
			       lh_dataset_spec(l->ds)->kind);
	if (l->spec.crop_padding > PADDING_MAX)
		return lh_fail(err, LH_EINPUT, 0, "load data: crop_padding is %u; at most %d",
			       l->spec.crop_padding, PADDING_MAX);
	l->height = (uint32_t)image->dims[0];
	l->width = (uint32_t)image->dims[1];
	l->channels = (uint32_t)image->dims[2];
	l->scratch = malloc(l->sample_bytes[0]);
	return l->scratch ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "load data");
}

int lh_loader_new(struct lh_dataset *ds, const struct lh_loader_spec *spec, struct lh_loader **ret,
		  struct lh_error *err)
{
	struct lh_loader *l = calloc(1, sizeof(*l));
	const struct lh_data_field *fields;
	int r;

	if (!l)
		return lh_fail(err, LH_ESYS, ENOMEM, "load data");
	l->ds = ds;
	l->spec = *spec;
	l->spec.n_ranks = spec->n_ranks ? spec->n_ranks : 1;
	l->n = spec->indices ? spec->n_indices : lh_dataset_size(ds);
	fields = lh_dataset_fields(ds, &l->n_fields);
	for (uint32_t i = 0; i < l->n_fields; i++)
		l->sample_bytes[i] = 4 * lh_data_field_elements(&fields[i]);
	if (l->n == 0 || spec->rank >= l->spec.n_ranks)
		r = lh_fail(err, LH_EINPUT, 0, "load data: rank %u of %u, of %llu samples",
			    spec->rank, l->spec.n_ranks, (unsigned long long)l->n);
	else
		r = spec->disguises_voices ? prepare_voices(l, err) : prepare_images(l, err);
	if (r < 0) {
		lh_loader_free(l);
		return r;
	}
	lh_order_init(&l->order, l->n, l->spec.seed, 0);
	*ret = l;
	return 0;
}

void lh_loader_free(struct lh_loader *loader)
{
	if (!loader)
		return;
	free(loader->scratch);
	free(loader);
}

static void init_rng(const struct lh_loader *l, uint64_t epoch, uint64_t sample, struct lh_rng *rng)
{
	char name[96];

	snprintf(name, sizeof(name), "data/augment/%llu/%llu", (unsigned long long)epoch,
		 (unsigned long long)sample);
	lh_rng_init(rng, l->spec.seed, name);
}

/* How one axis of a spectrogram is disguised. */
struct disguise {
	int64_t n, shift;
	int64_t mask_from, mask_to;
};

static struct disguise draw_disguise(uint32_t n, struct lh_rng *rng)
{
	uint64_t shift_max = n / VOICE_SHIFT_DENOMINATOR;
	uint64_t masked = lh_rng_below(rng, n / VOICE_MASK_DENOMINATOR + 1);
	struct disguise d = {.n = n};

	d.shift = (int64_t)lh_rng_below(rng, 2 * shift_max + 1) - (int64_t)shift_max;
	d.mask_from = (int64_t)lh_rng_below(rng, n - masked + 1);
	d.mask_to = d.mask_from + (int64_t)masked;
	return d;
}

/* Where a row or column comes from, or -1: it is silent. */
static int64_t source_of(const struct disguise *d, int64_t i)
{
	int64_t from = i - d->shift;

	return from < 0 || from >= d->n || (i >= d->mask_from && i < d->mask_to) ? -1 : from;
}

/* Writes the spectrogram in scratch, moved, with silence where nothing is left of it. */
static void disguise_voice(const struct lh_loader *l, uint64_t epoch, uint64_t sample, float *ret)
{
	struct disguise time, pitch;
	float silence = l->scratch[0];
	struct lh_rng rng;

	init_rng(l, epoch, sample, &rng);
	time = draw_disguise(l->height, &rng);
	pitch = draw_disguise(l->width, &rng);
	for (int64_t i = 1; i < time.n * pitch.n; i++)
		silence = l->scratch[i] < silence ? l->scratch[i] : silence;
	for (int64_t t = 0; t < time.n; t++)
		for (int64_t p = 0; p < pitch.n; p++) {
			int64_t from_t = source_of(&time, t), from_p = source_of(&pitch, p);

			*ret++ = from_t < 0 || from_p < 0 ? silence
							  : l->scratch[from_t * pitch.n + from_p];
		}
}

/* Writes the image in scratch, moved and mirrored. */
static void move_image(const struct lh_loader *l, uint64_t epoch, uint64_t sample, float *ret)
{
	int64_t height = l->height, width = l->width, padding = l->spec.crop_padding;
	size_t pixel = l->channels * sizeof(float);
	int64_t down, right;
	bool is_mirrored;
	struct lh_rng rng;

	init_rng(l, epoch, sample, &rng);
	down = (int64_t)lh_rng_below(&rng, 2 * (uint64_t)padding + 1) - padding;
	right = (int64_t)lh_rng_below(&rng, 2 * (uint64_t)padding + 1) - padding;
	is_mirrored = l->spec.flip && lh_rng_below(&rng, 2);
	for (int64_t y = 0; y < height; y++)
		for (int64_t x = 0; x < width; x++, ret += l->channels) {
			int64_t from_y = y - down;
			int64_t from_x = (is_mirrored ? width - 1 - x : x) - right;

			if (from_y < 0 || from_y >= height || from_x < 0 || from_x >= width)
				memset(ret, 0, pixel);
			else
				memcpy(ret, l->scratch + (from_y * width + from_x) * l->channels,
				       pixel);
		}
}

/* Reads what stands at a position of the order of all ranks. */
static int read_at(struct lh_loader *l, uint64_t position, void **fields, struct lh_error *err)
{
	uint64_t epoch = position / l->n, slot = position % l->n, index;
	void *image = fields[0];
	int r;

	if (epoch != l->order_epoch) {
		lh_order_init(&l->order, l->n, l->spec.seed, epoch);
		l->order_epoch = epoch;
	}
	index = l->spec.in_order ? slot : lh_order_at(&l->order, slot);
	if (l->spec.indices)
		index = l->spec.indices[index];
	if (l->scratch)
		fields[0] = l->scratch;
	r = lh_dataset_read(l->ds, index, epoch, fields, err);
	fields[0] = image;
	if (r == 0 && l->spec.disguises_voices)
		disguise_voice(l, epoch, index, image);
	else if (r == 0 && l->scratch)
		move_image(l, epoch, index, image);
	return r;
}

int lh_loader_next(struct lh_loader *loader, uint32_t n_samples, void *const *ret_fields,
		   struct lh_error *err)
{
	void *fields[LH_DATA_FIELDS_MAX];

	for (uint32_t i = 0; i < n_samples; i++) {
		uint64_t position =
			loader->spec.rank + loader->spec.n_ranks * (loader->position + i);
		int r;

		for (uint32_t f = 0; f < loader->n_fields; f++)
			fields[f] = (char *)ret_fields[f] + i * loader->sample_bytes[f];
		r = read_at(loader, position, fields, err);
		if (r < 0)
			return r;
	}
	loader->position += n_samples;
	return 0;
}

uint64_t lh_loader_position(const struct lh_loader *loader)
{
	return loader->position;
}

void lh_loader_seek(struct lh_loader *loader, uint64_t position)
{
	loader->position = position;
}

uint64_t lh_loader_epoch(const struct lh_loader *loader)
{
	return (loader->spec.rank + loader->spec.n_ranks * loader->position) / loader->n;
}

uint64_t lh_loader_epoch_size(const struct lh_loader *loader)
{
	return loader->n;
}
