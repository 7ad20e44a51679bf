/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datasets: samples by index, each a few arrays of fixed shape, written into the caller's
 * buffers. Knows nothing of tensors, ranks or batches; loader.h makes batches, shard.h parts.
 *
 * Fields by kind of data, shapes of one sample:
 *   images [H,W,C] f32 normalised, labels [] i32
 *   tokens [T] i32, targets [T] i32 (-1: not counted)
 *   dense [n_dense] f32 (perhaps none), sparse [n_sparse] i32, each 0 to n_buckets - 1,
 *     labels [] i32 (0 or 1)
 *   mel [n_frames,n_mels] f32, tokens [L] i32, targets [L] i32; or mel, labels
 */
#ifndef LH_TRAINER_DATA_DATASET_H
#define LH_TRAINER_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum lh_data_type { LH_DATA_F32, LH_DATA_I32 };
enum { LH_DATA_DIMS_MAX = 4, LH_DATA_FIELDS_MAX = 4, LH_DATA_CHANNELS_MAX = 3 };

/* One array of one sample. A scalar has n_dims 0. */
struct lh_data_field {
	const char *name;
	enum lh_data_type type;
	uint32_t n_dims;
	int64_t dims[LH_DATA_DIMS_MAX];
};

enum lh_data_split { LH_DATA_TRAIN, LH_DATA_TEST };

/* How an image comes to the asked height and width. */
enum lh_data_fit {
	LH_DATA_FIT_RESIZE, /* the largest centred part of the asked proportions, scaled */
	LH_DATA_FIT_PAD,    /* centred; black around, or cut off */
};

enum lh_data_objective {
	LH_DATA_CAUSAL, /* targets are the next tokens */
	LH_DATA_MASKED, /* targets are the tokens that were masked; RoBERTa's 80/10/10 */
};

/* Token numbers of transcripts: bytes, then these. */
enum { LH_SPEECH_START = 256, LH_SPEECH_END, LH_SPEECH_PAD, LH_SPEECH_VOCAB_SIZE };

/*
 * What to open, and what the model asks for. 0 means: as the data has it, or the kind's
 * default. Once open, lh_dataset_spec() has every value that applies filled in.
 */
struct lh_data_request {
	const char *kind; /* a name in lh_datasets */
	const char *path; /* file or folder; not of synthetic kinds */
	enum lh_data_split split;
	uint64_t seed;	    /* of what is drawn: masks, synthetic samples */
	uint64_t n_samples; /* no more than these; synthetic: exactly these */
	double test_ratio;  /* of one file without parts: its end that is the test split [0.1] */
	uint32_t height;    /* pixels */
	uint32_t width;	    /* pixels */
	uint32_t channels;  /* 1 (grey) or 3 (RGB) */
	uint32_t n_classes;
	enum lh_data_fit fit;
	float mean[LH_DATA_CHANNELS_MAX]; /* of pixels in [0,1]; stddev 0: the kind's own */
	float stddev[LH_DATA_CHANNELS_MAX];
	const char *vocab_path; /* of a byte-pair tokeniser (bpe.h); NULL: bytes */
	uint32_t n_tokens;	/* T, of tokens and targets [128] */
	uint32_t vocab_size;	/* of the model; must hold every token that can come */
	enum lh_data_objective objective;
	double mask_probability; /* share of tokens that are targets [0.15] */
	uint32_t n_dense;
	uint32_t n_sparse;
	uint32_t n_buckets; /* per sparse column [10000] */
	uint32_t n_mels;    /* [80] */
	uint32_t n_frames;  /* of 10 ms [the longest recording's, rounded up to even] */
	uint32_t n_decoder; /* L, of a transcript's tokens [the longest one's] */
};

struct lh_dataset;

/* A kind of dataset. */
struct lh_dataset_ops {
	const char *name;
	const char *doc;
	int (*open)(struct lh_dataset *ds, struct lh_error *err);
	void (*close)(struct lh_dataset *ds); /* also of one half open */
	int (*read)(struct lh_dataset *ds, uint64_t index, uint64_t epoch, void *const *ret_fields,
		    struct lh_error *err);
	int32_t (*label)(const struct lh_dataset *ds, uint64_t index); /* NULL: has none */
};

/* All kinds; ends with NULL. */
extern const struct lh_dataset_ops *const lh_datasets[];

/* Opens and checks a dataset: LH_EINPUT names file and record. *ret is owned by the caller. */
int lh_dataset_open(const struct lh_data_request *spec, struct lh_dataset **ret,
		    struct lh_error *err);

void lh_dataset_free(struct lh_dataset *ds);

/* The number of samples, at least 1. */
uint64_t lh_dataset_size(const struct lh_dataset *ds);

/* What was asked for, with what the data says filled in; borrowed. */
const struct lh_data_request *lh_dataset_spec(const struct lh_dataset *ds);

/* The fields of every sample; borrowed. */
const struct lh_data_field *lh_dataset_fields(const struct lh_dataset *ds, uint32_t *ret_n);

/* Elements of one sample of a field; each has 4 bytes. */
size_t lh_data_field_elements(const struct lh_data_field *field);

/*
 * Writes sample `index` of `epoch` into one buffer per field. The epoch changes what is drawn
 * anew each time (masks). Allocates nothing (libjpeg does inside). LH_EINPUT names file and
 * record. One thread at a time per dataset.
 */
int lh_dataset_read(struct lh_dataset *ds, uint64_t index, uint64_t epoch, void *const *ret_fields,
		    struct lh_error *err);

/* The number of labels that shards can be skewed by; 0: samples have none. */
uint32_t lh_dataset_n_labels(const struct lh_dataset *ds);

/* The label of a sample, 0 <= label < n_labels; only where there are labels. */
int32_t lh_dataset_label(const struct lh_dataset *ds, uint64_t index);

#endif
