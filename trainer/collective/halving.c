/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective `halving-doubling`: recursive halving of the vector for the reduce-scatter, recursive
 * doubling for the all-gather, with 2 log2 p delays. The largest exchange is with the nearest
 * member (distance doubling), as neighbours are wont to share a site.
 *
 * p is the largest power of two up to n. Each of the n - p surplus members gives its vector to the
 * next member first, and gets the finished one back last: of the first 2 (n - p) members, the even
 * ones. A member that stays sends 2 (p - 1)/p of the vector, and one vector more where it stands in
 * for another; a surplus member sends one.
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
 * MPICH", 2005.
 */
#include "trainer/collective/build.h"

/* Members that stay are numbered 0 to p - 1. */
struct halving {
	struct lh_collective_builder b;
	uint32_t p;
	uint32_t n_surplus;
};

static uint32_t member_of(const struct halving *h, uint32_t number)
{
	return number < h->n_surplus ? 2 * number + 1 : number + h->n_surplus;
}

static uint32_t number_of(const struct halving *h, uint32_t member)
{
	return member < 2 * h->n_surplus ? member / 2 : member - h->n_surplus;
}

static void make_surplus(struct halving *h)
{
	uint32_t other = h->b.member + 1;

	lh_collective_phase(&h->b);
	lh_collective_send(&h->b, other, 0, h->p);
	lh_collective_copy(&h->b, other, 0, h->p);
}

/* Exchanges halves of what is left with members at growing distances; own ends as what is left. */
static void halve(struct halving *h, uint32_t number, uint32_t *ret_first)
{
	uint32_t first = 0;

	for (uint32_t distance = 1, half = h->p / 2; distance < h->p; distance *= 2, half /= 2) {
		bool keeps_upper = number & distance;
		uint32_t other = member_of(h, number ^ distance);

		lh_collective_phase(&h->b);
		lh_collective_send(&h->b, other, keeps_upper ? first : first + half, half);
		first += keeps_upper ? half : 0;
		lh_collective_reduce(&h->b, other, first, half);
	}
	*ret_first = first;
}

static void redouble(struct halving *h, uint32_t number, uint32_t first)
{
	for (uint32_t distance = h->p / 2, n = 1; distance > 0; distance /= 2, n *= 2) {
		bool has_upper = number & distance;
		uint32_t other = member_of(h, number ^ distance);

		lh_collective_phase(&h->b);
		lh_collective_send(&h->b, other, first, n);
		lh_collective_copy(&h->b, other, has_upper ? first - n : first + n, n);
		first -= has_upper ? n : 0;
	}
}

static void make_staying(struct halving *h)
{
	uint32_t number = number_of(h, h->b.member), first;
	bool stands_in = number < h->n_surplus;

	lh_collective_phase(&h->b);
	if (stands_in)
		lh_collective_reduce(&h->b, h->b.member - 1, 0, h->p);
	halve(h, number, &first);
	lh_collective_finish(&h->b, first, 1);
	redouble(h, number, first);
	if (stands_in) {
		lh_collective_phase(&h->b);
		lh_collective_send(&h->b, h->b.member - 1, 0, h->p);
	}
}

static int halving_make(const struct lh_collective_form *form, uint32_t self,
			struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	struct halving h = {.p = 1};
	int rc;

	while (h.p <= form->n / 2)
		h.p *= 2;
	h.n_surplus = form->n - h.p;
	rc = lh_collective_begin(&h.b, form, self, LH_COLLECTIVE_ALL_REDUCE, h.p, err);
	if (rc)
		return rc;
	lh_collective_cut(&h.b, 0, h.p, 0, form->elements);
	if (h.b.member < 2 * h.n_surplus && h.b.member % 2 == 0)
		make_surplus(&h);
	else
		make_staying(&h);
	return lh_collective_end(&h.b, ret_plan, err);
}

const struct lh_collective_ops lh_collective_halving_doubling = {
	.name = "halving-doubling",
	.doc = "recursive halving and doubling: a logarithm of delays",
	.make = halving_make,
};
