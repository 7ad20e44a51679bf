/* SPDX-License-Identifier: Apache-2.0 */
/* Kind mnist: images and labels in IDX files with the names that MNIST's have. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/data/dataset_internal.h"
#include "trainer/data/fit.h"
#include "trainer/data/idx.h"
#include "trainer/data/map.h"

struct mnist {
	struct lh_map images_map;
	struct lh_map labels_map;
	struct lh_idx images;
	struct lh_idx labels;
	struct lh_fit fit;
};

/* Over MNIST's 60,000 images for training. */
static const float mean3[3] = {0.1307f, 0.1307f, 0.1307f};
static const float stddev3[3] = {0.3081f, 0.3081f, 0.3081f};

/* spec.path is a folder or what stands before the usual names. */
static int open_idx(const struct lh_data_request *spec, const char *what, uint32_t n_dims,
		    struct lh_map *ret_map, struct lh_idx *ret, struct lh_error *err)
{
	const char *part = spec->split == LH_DATA_TEST ? "t10k" : "train";
	lh_cleanup_free char *path = NULL;
	struct stat st;
	int r;

	if (!spec->path)
		return lh_fail(err, LH_EINPUT, 0, "data: mnist needs a path");
	path = lh_strf("%s%s%s-%s-idx%u-ubyte", spec->path,
		       stat(spec->path, &st) == 0 && S_ISDIR(st.st_mode) ? "/" : "", part, what,
		       n_dims);
	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", spec->path);
	r = lh_map_open(path, ret_map, err);
	return r < 0 ? r : lh_idx_parse(path, ret_map->data, ret_map->size, n_dims, ret, err);
}

static int check_labels(struct lh_dataset *ds, const struct mnist *m, struct lh_error *err)
{
	uint32_t n_classes = ds->spec.n_classes, max = 0;

	if (m->labels.dims[0] != m->images.dims[0])
		return lh_fail(err, LH_EINPUT, 0, "%s: %u %s images, but %u labels", ds->spec.path,
			       m->images.dims[0], lh_data_split_name(ds->spec.split),
			       m->labels.dims[0]);
	for (uint32_t i = 0; i < m->labels.dims[0]; i++) {
		if (n_classes && m->labels.values[i] >= n_classes)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s: %s label %u is %u; below %u (n_classes) was expected",
				       ds->spec.path, lh_data_split_name(ds->spec.split), i,
				       m->labels.values[i], n_classes);
		if (m->labels.values[i] > max)
			max = m->labels.values[i];
	}
	ds->spec.n_classes = n_classes ? n_classes : max + 1;
	return 0;
}

static int open_mnist(struct lh_dataset *ds, struct lh_error *err)
{
	struct mnist *m = ds->state = calloc(1, sizeof(*m));
	struct lh_data_request *spec = &ds->spec;
	uint32_t height, width;
	int r;

	if (!m)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	if ((r = open_idx(spec, "images", 3, &m->images_map, &m->images, err)) < 0 ||
	    (r = open_idx(spec, "labels", 1, &m->labels_map, &m->labels, err)) < 0 ||
	    (r = check_labels(ds, m, err)) < 0)
		return r;
	height = m->images.dims[1];
	width = m->images.dims[2];
	if (height > LH_IMAGE_SIDE_MAX || width > LH_IMAGE_SIDE_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: images of %u x %u pixels; at most %d a side are read",
			       spec->path, width, height, LH_IMAGE_SIDE_MAX);
	spec->height = spec->height ? spec->height : height;
	spec->width = spec->width ? spec->width : width;
	spec->channels = spec->channels ? spec->channels : 1;
	ds->size = m->images.dims[0];
	ds->n_labels = spec->n_classes;
	lh_dataset_add_field(ds, "images", LH_DATA_F32, 3, spec->height, spec->width,
			     spec->channels);
	lh_dataset_add_field(ds, "labels", LH_DATA_I32, 0, 0, 0, 0);
	return lh_fit_init(&m->fit, spec, mean3, stddev3, height > width ? height : width, err);
}

static void close_mnist(struct lh_dataset *ds)
{
	struct mnist *m = ds->state;

	lh_map_close(&m->images_map);
	lh_map_close(&m->labels_map);
	lh_fit_done(&m->fit);
	free(m);
}

static int32_t label_of(const struct lh_dataset *ds, uint64_t index)
{
	const struct mnist *m = ds->state;

	return m->labels.values[index];
}

static int read_mnist(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
		      void *const *ret_fields, struct lh_error *err)
{
	const struct mnist *m = ds->state;
	struct lh_image_size size = {m->images.dims[1], m->images.dims[2], 1};

	(void)epoch;
	(void)err;
	lh_fit_apply(&m->fit, m->images.values + index * lh_image_bytes(&size), &size,
		     ret_fields[0]);
	*(int32_t *)ret_fields[1] = label_of(ds, index);
	return 0;
}

const struct lh_dataset_ops lh_dataset_mnist = {
	.name = "mnist",
	.doc = "IDX files in a folder: train-images-idx3-ubyte and the other three, or a prefix",
	.open = open_mnist,
	.close = close_mnist,
	.read = read_mnist,
	.label = label_of,
};
