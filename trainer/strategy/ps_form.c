/* SPDX-License-Identifier: Apache-2.0 */
/* The form of gradients between servers of strategy parameter-server. See ps_internal.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/strategy/ps_internal.h"
#include "trainer/strategy/sparse_form.h"

static int open_sparse(struct lh_ps_form *form, const struct lh_job *job, uint32_t rank,
		       struct lh_error *err)
{
	struct lh_sparsifier_settings real = lh_sparse_form_of(job, rank, form->n_real);

	form->whole = lh_sparse_form_of(job, rank, (uint32_t)form->n);
	form->room = lh_sparsifier_count_by(&real, 0);
	form->parsed.indices = calloc(form->room, sizeof(*form->parsed.indices));
	form->parsed.values = calloc(form->room, sizeof(*form->parsed.values));
	if (!form->parsed.indices || !form->parsed.values)
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy parameter-server");
	return lh_sparsifier_new(&real, &form->sparsifier, err);
}

int lh_ps_form_open(struct lh_ps_form *form, const struct lh_job *job, uint32_t rank,
		    const struct lh_ps_numbers *numbers, struct lh_error *err)
{
	*form = (struct lh_ps_form){
		.codec = job->compress, .n = numbers->n, .n_real = numbers->n_real};
	form->scratch = calloc(form->n_real, sizeof(*form->scratch));
	if (!form->scratch)
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy parameter-server");
	return lh_sparse_form_is(&job->compressing) ? open_sparse(form, job, rank, err) : 0;
}

void lh_ps_form_close(struct lh_ps_form *form)
{
	lh_sparsifier_free(form->sparsifier);
	free(form->parsed.indices);
	free(form->parsed.values);
	free(form->scratch);
}

bool lh_ps_form_is_variable(const struct lh_ps_form *form)
{
	return form->sparsifier && form->whole.warm_up_steps > 0;
}

struct lh_ps_size lh_ps_form_size(const struct lh_ps_form *form, uint32_t update)
{
	if (!form->sparsifier)
		return (struct lh_ps_size){form->codec->wire_bytes(form->n),
					   (uint32_t)form->codec->wire_bytes(form->n_real)};
	return (struct lh_ps_size){
		lh_sparse_wire_bytes(lh_sparsifier_count_by(&form->whole, update)),
		(uint32_t)lh_sparse_wire_bytes(lh_sparsifier_count(form->sparsifier, update))};
}

void lh_ps_form_write(struct lh_ps_form *form, float *lacks, uint32_t update, uint8_t *ret_bytes)
{
	if (form->sparsifier) {
		lh_sparse_write(lh_sparsifier_take(form->sparsifier, lacks, update), ret_bytes);
		memset(lacks, 0, form->n_real * sizeof(*lacks));
		return;
	}
	form->codec->encode(lacks, form->n_real, ret_bytes);
	form->codec->decode(ret_bytes, form->n_real, form->scratch);
	for (uint32_t i = 0; i < form->n_real; i++)
		lacks[i] -= form->scratch[i];
}

int lh_ps_form_read(struct lh_ps_form *form, const uint8_t *bytes, uint32_t n_bytes,
		    float *ret_values, struct lh_error *err)
{
	int rc;

	if (!form->sparsifier) {
		form->codec->decode(bytes, form->n_real, ret_values);
		return 0;
	}
	rc = lh_sparse_parse(bytes, n_bytes, form->n_real, form->room, &form->parsed, err);
	memset(ret_values, 0, form->n_real * sizeof(*ret_values));
	if (rc == 0)
		lh_sparse_add(&form->parsed, 1, ret_values);
	return rc;
}
