/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets: the table of kinds, the bounds of what is asked for. See dataset.h. */
#include "trainer/data/dataset.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "trainer/data/dataset_internal.h"

const struct lh_dataset_ops *const lh_datasets[] = {
	&lh_dataset_mnist,
	&lh_dataset_cifar10,
	&lh_dataset_webdataset,
	&lh_dataset_text,
	&lh_dataset_ctr,
	&lh_dataset_speech,
	&lh_dataset_synthetic_images,
	&lh_dataset_synthetic_text,
	&lh_dataset_synthetic_ctr,
	&lh_dataset_synthetic_speech,
	NULL,
};

static const double default_test_ratio = 0.1;

/* ---- what is asked for -------------------------------------------------------------------- */

static int check_counts(const struct lh_data_request *spec, struct lh_error *err)
{
	const struct {
		const char *name;
		uint64_t value, max;
	} counts[] = {
		{"n_samples", spec->n_samples, UINT32_MAX},
		{"height", spec->height, 4096},
		{"width", spec->width, 4096},
		{"channels", spec->channels, LH_DATA_CHANNELS_MAX},
		{"n_classes", spec->n_classes, 1 << 20},
		{"n_tokens", spec->n_tokens, 1 << 20},
		{"vocab_size", spec->vocab_size, 1 << 20},
		{"n_dense", spec->n_dense, 4096},
		{"n_sparse", spec->n_sparse, 4096},
		{"n_buckets", spec->n_buckets, 1 << 26},
		{"n_mels", spec->n_mels, 128},
		{"n_frames", spec->n_frames, 1 << 16},
		{"n_decoder", spec->n_decoder, 1 << 16},
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (counts[i].value > counts[i].max)
			return lh_fail(err, LH_EINPUT, 0, "data: %s is %llu; at most %llu",
				       counts[i].name, (unsigned long long)counts[i].value,
				       (unsigned long long)counts[i].max);
	if (spec->channels == 2)
		return lh_fail(err, LH_EINPUT, 0, "data: channels is 2; 1 is grey, 3 is RGB");
	if ((uint64_t)spec->n_sparse * spec->n_buckets > INT32_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "data: n_sparse x n_buckets is %u x %u; at most %d together",
			       spec->n_sparse, spec->n_buckets, INT32_MAX);
	return 0;
}

static int check_ratios(const struct lh_data_request *spec, struct lh_error *err)
{
	if (!(spec->test_ratio >= 0 && spec->test_ratio < 1))
		return lh_fail(err, LH_EINPUT, 0, "data: test_ratio is %g; from 0 to below 1",
			       spec->test_ratio);
	if (!(spec->mask_probability >= 0 && spec->mask_probability <= 1))
		return lh_fail(err, LH_EINPUT, 0, "data: mask_probability is %g; from 0 to 1",
			       spec->mask_probability);
	for (int c = 0; c < LH_DATA_CHANNELS_MAX; c++)
		if (!(spec->mean[c] >= -1e6f && spec->mean[c] <= 1e6f) ||
		    !(spec->stddev[c] == 0 ||
		      (spec->stddev[c] >= 1e-6f && spec->stddev[c] <= 1e6f)))
			return lh_fail(err, LH_EINPUT, 0,
				       "data: mean %g, stddev %g of channel %d; a stddev above 0",
				       (double)spec->mean[c], (double)spec->stddev[c], c);
	return 0;
}

static const struct lh_dataset_ops *find(const char *kind, struct lh_error *err)
{
	char known[512] = "";

	for (size_t i = 0; lh_datasets[i]; i++) {
		size_t n = strlen(known);

		if (kind && strcmp(lh_datasets[i]->name, kind) == 0)
			return lh_datasets[i];
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", lh_datasets[i]->name);
	}
	lh_fail(err, LH_EINPUT, 0, "data: kind %s is not known; one of %s", kind ? kind : "(none)",
		known);
	return NULL;
}

int lh_data_agree(uint32_t *value, uint32_t data, const char *what,
		  const struct lh_data_request *spec, struct lh_error *err)
{
	if (*value && *value != data)
		return lh_fail(err, LH_EINPUT, 0, "%s: its %s is %u, but %u is asked for",
			       spec->path ? spec->path : spec->kind, what, data, *value);
	*value = data;
	return 0;
}

/* ---- for the kinds ------------------------------------------------------------------------ */

void lh_dataset_add_field(struct lh_dataset *ds, const char *name, enum lh_data_type type,
			  uint32_t n_dims, uint32_t dim0, uint32_t dim1, uint32_t dim2)
{
	assert(ds->n_fields < LH_DATA_FIELDS_MAX);
	ds->fields[ds->n_fields++] = (struct lh_data_field){
		.name = name, .type = type, .n_dims = n_dims, .dims = {dim0, dim1, dim2}};
}

const char *lh_data_split_name(enum lh_data_split split)
{
	return split == LH_DATA_TEST ? "test" : "train";
}

void lh_data_rng(struct lh_rng *rng, const struct lh_data_request *spec, const char *purpose,
		 uint64_t epoch, uint64_t index)
{
	char name[128];

	snprintf(name, sizeof(name), "data/%s/%s/%llu/%llu", purpose,
		 lh_data_split_name(spec->split), (unsigned long long)epoch,
		 (unsigned long long)index);
	lh_rng_init(rng, spec->seed, name);
}

int lh_data_split_path(const struct lh_data_request *spec, const char *suffix, char **ret_path,
		       bool *ret_is_whole, struct lh_error *err)
{
	struct stat st;

	if (!spec->path)
		return lh_fail(err, LH_EINPUT, 0, "data: %s needs a path", spec->kind);
	if (stat(spec->path, &st) < 0)
		return lh_fail(err, LH_ESYS, errno, "open %s", spec->path);
	*ret_is_whole = !S_ISDIR(st.st_mode);
	*ret_path = *ret_is_whole ? strdup(spec->path)
				  : lh_strf("%s/%s%s", spec->path, lh_data_split_name(spec->split),
					    suffix);
	return *ret_path ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "open %s", spec->path);
}

int lh_data_split_range(const struct lh_data_request *spec, uint64_t n, uint64_t *ret_first,
			uint64_t *ret_n, struct lh_error *err)
{
	uint64_t n_test = (uint64_t)((double)n * spec->test_ratio + 0.5);

	*ret_first = spec->split == LH_DATA_TEST ? n - n_test : 0;
	*ret_n = spec->split == LH_DATA_TEST ? n_test : n - n_test;
	if (*ret_n == 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: none of its %llu records is in the %s split (test_ratio %g)",
			       spec->path, (unsigned long long)n, lh_data_split_name(spec->split),
			       spec->test_ratio);
	return 0;
}

/* ---- for all ------------------------------------------------------------------------------ */

static int copy_spec(struct lh_dataset *ds, const struct lh_data_request *spec,
		     struct lh_error *err)
{
	ds->spec = *spec;
	ds->spec.kind = ds->ops->name;
	ds->spec.path = spec->path ? strdup(spec->path) : NULL;
	ds->spec.vocab_path = spec->vocab_path ? strdup(spec->vocab_path) : NULL;
	if (ds->spec.test_ratio == 0)
		ds->spec.test_ratio = default_test_ratio;
	if ((spec->path && !ds->spec.path) || (spec->vocab_path && !ds->spec.vocab_path))
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	return 0;
}

int lh_dataset_open(const struct lh_data_request *spec, struct lh_dataset **ret,
		    struct lh_error *err)
{
	const struct lh_dataset_ops *ops = find(spec->kind, err);
	struct lh_dataset *ds;
	int r;

	if (!ops)
		return LH_EINPUT;
	if ((r = check_counts(spec, err)) < 0 || (r = check_ratios(spec, err)) < 0)
		return r;
	ds = calloc(1, sizeof(*ds));
	if (!ds)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	ds->ops = ops;
	r = copy_spec(ds, spec, err);
	if (r == 0)
		r = ops->open(ds, err);
	if (r < 0) {
		lh_dataset_free(ds);
		return r;
	}
	if (spec->n_samples && spec->n_samples < ds->size)
		ds->size = spec->n_samples;
	ds->spec.n_samples = ds->size;
	*ret = ds;
	return 0;
}

void lh_dataset_free(struct lh_dataset *ds)
{
	if (!ds)
		return;
	if (ds->state)
		ds->ops->close(ds);
	free((char *)ds->spec.path);
	free((char *)ds->spec.vocab_path);
	free(ds);
}

uint64_t lh_dataset_size(const struct lh_dataset *ds)
{
	return ds->size;
}

const struct lh_data_request *lh_dataset_spec(const struct lh_dataset *ds)
{
	return &ds->spec;
}

const struct lh_data_field *lh_dataset_fields(const struct lh_dataset *ds, uint32_t *ret_n)
{
	*ret_n = ds->n_fields;
	return ds->fields;
}

size_t lh_data_field_elements(const struct lh_data_field *field)
{
	size_t n = 1;

	for (uint32_t i = 0; i < field->n_dims; i++)
		n *= (size_t)field->dims[i];
	return n;
}

int lh_dataset_read(struct lh_dataset *ds, uint64_t index, uint64_t epoch, void *const *ret_fields,
		    struct lh_error *err)
{
	assert(index < ds->size);
	return ds->ops->read(ds, index, epoch, ret_fields, err);
}

uint32_t lh_dataset_n_labels(const struct lh_dataset *ds)
{
	return ds->n_labels;
}

int32_t lh_dataset_label(const struct lh_dataset *ds, uint64_t index)
{
	assert(ds->n_labels && index < ds->size);
	return ds->ops->label(ds, index);
}
