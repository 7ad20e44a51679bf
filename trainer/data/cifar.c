/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind cifar10: the binary version's files. A record is a label and three planes of 32 x 32
 * bytes. Source: A. Krizhevsky's page on CIFAR-10.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/data/dataset_internal.h"
#include "trainer/data/fit.h"
#include "trainer/data/map.h"

enum {
	SIDE = 32,
	PLANE = SIDE * SIDE,
	CLASSES = 10,
	RECORD_BYTES = 1 + 3 * PLANE,
	FILES_MAX = 5,
};

struct cifar {
	uint32_t n_files;
	struct lh_map files[FILES_MAX];
	uint64_t ends[FILES_MAX]; /* records up to and with this file */
	struct lh_fit fit;
};

/* Over the 50,000 images for training. */
static const float mean3[3] = {0.4914f, 0.4822f, 0.4465f};
static const float stddev3[3] = {0.2470f, 0.2435f, 0.2616f};

static int open_file(struct lh_dataset *ds, const char *name, struct lh_error *err)
{
	struct cifar *c = ds->state;
	struct lh_map *map = &c->files[c->n_files];
	lh_cleanup_free char *path = lh_path_join(ds->spec.path, name);
	int r;

	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", ds->spec.path);
	r = lh_map_open(path, map, err);
	if (r < 0)
		return r;
	c->n_files++;
	if (map->size % RECORD_BYTES)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: cut off in record %zu: %zu bytes are not whole records of %d",
			       path, map->size / RECORD_BYTES, map->size, RECORD_BYTES);
	for (size_t i = 0; i < map->size / RECORD_BYTES; i++)
		if (map->data[i * RECORD_BYTES] >= CLASSES)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s: the label of record %zu is %u; 0 to 9 were expected",
				       path, i, map->data[i * RECORD_BYTES]);
	ds->size += map->size / RECORD_BYTES;
	c->ends[c->n_files - 1] = ds->size;
	return 0;
}

static int open_files(struct lh_dataset *ds, struct lh_error *err)
{
	static const char *const names[] = {"data_batch_1.bin", "data_batch_2.bin",
					    "data_batch_3.bin", "data_batch_4.bin",
					    "data_batch_5.bin"};
	int r = 0;

	if (!ds->spec.path)
		return lh_fail(err, LH_EINPUT, 0, "data: cifar10 needs a path");
	if (ds->spec.split == LH_DATA_TEST)
		return open_file(ds, "test_batch.bin", err);
	for (int i = 0; i < FILES_MAX && r == 0; i++)
		r = open_file(ds, names[i], err);
	return r;
}

static int open_cifar(struct lh_dataset *ds, struct lh_error *err)
{
	struct cifar *c = ds->state = calloc(1, sizeof(*c));
	struct lh_data_request *spec = &ds->spec;
	int r;

	if (!c)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	if ((r = open_files(ds, err)) < 0)
		return r;
	if (spec->n_classes && spec->n_classes < CLASSES)
		return lh_fail(err, LH_EINPUT, 0, "%s: has 10 classes; n_classes is %u", spec->path,
			       spec->n_classes);
	spec->n_classes = spec->n_classes ? spec->n_classes : CLASSES;
	spec->height = spec->height ? spec->height : SIDE;
	spec->width = spec->width ? spec->width : SIDE;
	spec->channels = spec->channels ? spec->channels : 3;
	ds->n_labels = CLASSES;
	lh_dataset_add_field(ds, "images", LH_DATA_F32, 3, spec->height, spec->width,
			     spec->channels);
	lh_dataset_add_field(ds, "labels", LH_DATA_I32, 0, 0, 0, 0);
	return lh_fit_init(&c->fit, spec, mean3, stddev3, SIDE, err);
}

static void close_cifar(struct lh_dataset *ds)
{
	struct cifar *c = ds->state;

	for (uint32_t i = 0; i < c->n_files; i++)
		lh_map_close(&c->files[i]);
	lh_fit_done(&c->fit);
	free(c);
}

static const uint8_t *record(const struct cifar *c, uint64_t index)
{
	uint32_t file = 0;

	while (index >= c->ends[file])
		file++;
	return c->files[file].data + (index - (file ? c->ends[file - 1] : 0)) * RECORD_BYTES;
}

static int32_t label_of(const struct lh_dataset *ds, uint64_t index)
{
	return *record(ds->state, index);
}

static int read_cifar(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
		      void *const *ret_fields, struct lh_error *err)
{
	static const struct lh_image_size size = {SIDE, SIDE, 3};
	const struct cifar *c = ds->state;
	const uint8_t *planes = record(c, index) + 1;
	uint8_t pixels[3 * PLANE];

	(void)epoch;
	(void)err;
	for (int i = 0; i < PLANE; i++)
		for (int channel = 0; channel < 3; channel++)
			pixels[3 * i + channel] = planes[channel * PLANE + i];
	lh_fit_apply(&c->fit, pixels, &size, ret_fields[0]);
	*(int32_t *)ret_fields[1] = planes[-1];
	return 0;
}

const struct lh_dataset_ops lh_dataset_cifar10 = {
	.name = "cifar10",
	.doc = "the folder of CIFAR-10's binary version: data_batch_1.bin ... test_batch.bin",
	.open = open_cifar,
	.close = close_cifar,
	.read = read_cifar,
	.label = label_of,
};
