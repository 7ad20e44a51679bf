/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of strategy parameter-server share. See parameter_server.c. */
#ifndef LH_TRAINER_PS_INTERNAL_H
#define LH_TRAINER_PS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/compress/sparsifier.h"
#include "trainer/rank.h"
#include "trainer/strategy/sample.h"

/* Of messages. */
enum lh_ps_phase {
	LH_PS_PUSH,	  /* a worker's gradient, of the update that is the message's epoch */
	LH_PS_PULL,	  /* the weights after it */
	LH_PS_EXCHANGE,	  /* between servers; the message's epoch counts those of the pair */
	LH_PS_FINAL,	  /* between servers: the weights after all */
	LH_PS_FINAL_PULL, /* the weights on which all servers have agreed */
};

/* The numbers of a rank. Where they are replayed, a slice at their begin is real (sample.h: each
 * rank's gradients are those of a chunk of its number), and the optimizer is plain: weights -=
 * gradient. */
struct lh_ps_numbers {
	struct lh_rank *rank;
	bool is_replayed;
	uint64_t n;	 /* parameters */
	uint32_t n_real; /* of them */
	float *gradient; /* n_real; of this rank where it is not a server's update */
	float *weights;	 /* n_real; learnt ones: as last read */
};

int lh_ps_numbers_open(struct lh_ps_numbers *numbers, struct lh_rank *rank, struct lh_error *err);
void lh_ps_numbers_close(struct lh_ps_numbers *numbers);

/* gradient becomes the mean over this rank's samples of an update, which it has computed. */
int lh_ps_numbers_take(struct lh_ps_numbers *numbers, uint32_t update, uint64_t samples,
		       struct lh_error *err);

/* The optimizer's step; gradient may be numbers->gradient. */
int lh_ps_numbers_apply(struct lh_ps_numbers *numbers, const float *gradient, struct lh_error *err);

/* weights becomes what the model has, and the other way round. */
int lh_ps_numbers_read(struct lh_ps_numbers *numbers, struct lh_error *err);
int lh_ps_numbers_write(struct lh_ps_numbers *numbers, struct lh_error *err);

/* Bytes of dense weights or gradients in single precision, in all and the real ones. */
uint64_t lh_ps_numbers_bytes(const struct lh_ps_numbers *numbers);
uint32_t lh_ps_numbers_head_bytes(const struct lh_ps_numbers *numbers);

/* The form of messages between servers: a codec, of gradients also a sparsifier. One for each way
 * of each pair, as it remembers what was left out. */
struct lh_ps_form {
	const struct lh_codec_ops *codec;
	uint64_t n;
	uint32_t n_real;
	struct lh_sparsifier *sparsifier;    /* NULL: a codec's */
	struct lh_sparsifier_settings whole; /* of all n */
	struct lh_sparse parsed;	     /* room elements */
	uint32_t room;
	float *scratch; /* n_real */
};

/* rank: of the sender. LH_EINPUT, LH_ESYS; close in any case. */
int lh_ps_form_open(struct lh_ps_form *form, const struct lh_job *job, uint32_t rank,
		    const struct lh_ps_numbers *numbers, struct lh_error *err);
void lh_ps_form_close(struct lh_ps_form *form);

/* Whether messages differ in length. */
bool lh_ps_form_is_variable(const struct lh_ps_form *form);

struct lh_ps_size {
	uint64_t bytes;
	uint32_t head_bytes; /* of the real numbers */
};

/* Of the message that ends with an update, from 0; none is longer than the first. */
struct lh_ps_size lh_ps_form_size(const struct lh_ps_form *form, uint32_t update);

/* Writes the message, head_bytes of it. What it leaves out stays in lacks, or with the form. */
void lh_ps_form_write(struct lh_ps_form *form, float *lacks, uint32_t update, uint8_t *ret_bytes);

/* The gradient that a message says; LH_EINPUT where it is none. */
int lh_ps_form_read(struct lh_ps_form *form, const uint8_t *bytes, uint32_t n_bytes,
		    float *ret_values, struct lh_error *err);

/* Who does what, as all ranks see it alike. */
struct lh_ps_plan {
	uint32_t n_sites;
	uint32_t site;		 /* of this rank */
	uint32_t *first;	 /* by site, n_sites + 1: its first rank, the server */
	uint64_t *micro_batches; /* by rank, of one update */
	uint64_t round_samples;	 /* of all sites */
};

/* LH_EINPUT: a site's ranks do not follow one another, or a rank would compute nothing. */
int lh_ps_plan_make(const struct lh_job *job, uint32_t self, struct lh_ps_plan *ret_plan,
		    struct lh_error *err);
void lh_ps_plan_done(struct lh_ps_plan *plan);

/* Samples of a rank, and of all of a site, in one update. */
uint64_t lh_ps_plan_samples(const struct lh_ps_plan *plan, const struct lh_job *job, uint32_t rank);
uint64_t lh_ps_plan_site_samples(const struct lh_ps_plan *plan, const struct lh_job *job,
				 uint32_t site);

/* Whether servers end with different weights, which are averaged then. */
bool lh_ps_has_final(const struct lh_job *job, const struct lh_ps_plan *plan);

/* Writes `agree`: the weights of all ranks are the same since begin_ns; distance: how far the
 * servers' were apart, taken over. */
int lh_ps_write_agreement(struct lh_rank *rank, int64_t begin_ns, json_t *distance,
			  struct lh_error *err);

/* The loops of a connected rank, from its first epoch to its last event. */
int lh_ps_server_run(struct lh_rank *rank, const struct lh_ps_plan *plan, struct lh_error *err);
int lh_ps_worker_run(struct lh_rank *rank, const struct lh_ps_plan *plan, struct lh_error *err);

#endif
