/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective `tree`: sums flow up a binary tree to its root, averages down again, in segments that
 * follow each other. Delays grow with the logarithm of n, and the vector passes each link but once:
 * for short vectors on long links.
 *
 * Two trees, each for half of the segments: in one tree half of all members are leaves, which would
 * send once while the others send three times. In the second tree (the first one mirrored, or
 * shifted by one where n is odd) almost all of those are inner nodes. So a member sends at most
 * about two vectors, as in a ring. One segment has one tree.
 *
 * A tree is in-order: members with an odd number are leaves, a multiple of 2^h that is no multiple
 * of 2^(h+1) has height h, and 0 is the root.
 *
 * Source: Sanders, Speck, Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and
 * scan", 2009; the numbering is that of Fenwick's trees.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "trainer/collective/build.h"

enum {
	N_TREES = 2,
	CHILDREN_MAX = 2,
	/* How many segments sums may run ahead of averages where both go to the same peer, each in
	 * its tree. Messages to a peer keep their order, so without it sums would wait for the
	 * averages' way through the other tree, segment by segment. */
	LAG = 48,
};

/* A member's place in a tree. */
struct place {
	uint32_t depth;	 /* 0: the root */
	uint32_t height; /* of the tree: the greatest depth */
	uint32_t parent; /* a member; not of the root */
	uint32_t n_children;
	uint32_t children[CHILDREN_MAX];
};

enum part { RAISE_CHILDREN, RAISE, LOWER, LOWER_CHILDREN };

/* One phase, and when it would be if every step took the same time. */
struct event {
	uint32_t time;
	uint32_t segment;
	enum part part;
};

static uint32_t parent_of(uint32_t number, uint32_t n)
{
	uint32_t bit = number & -number;
	uint32_t below = number & ~bit, parent = below | bit << 1;

	return parent < n ? parent : below;
}

static uint32_t depth_of(uint32_t number, uint32_t n)
{
	uint32_t depth = 0;

	for (; number; number = parent_of(number, n))
		depth++;
	return depth;
}

/* A member's number in a tree, and back. */
static uint32_t number_of(uint32_t member, uint32_t n, uint32_t tree)
{
	if (tree == 0)
		return member;
	return n % 2 ? (member + n - 1) % n : n - 1 - member;
}

static uint32_t member_of(uint32_t number, uint32_t n, uint32_t tree)
{
	if (tree == 0)
		return number;
	return n % 2 ? (number + 1) % n : n - 1 - number;
}

static struct place find_place(uint32_t member, uint32_t n, uint32_t tree)
{
	uint32_t self = number_of(member, n, tree);
	struct place place = {.depth = depth_of(self, n)};

	if (self)
		place.parent = member_of(parent_of(self, n), n, tree);
	for (uint32_t number = 1; number < n; number++) {
		uint32_t depth = depth_of(number, n);

		if (depth > place.height)
			place.height = depth;
		if (parent_of(number, n) == self && place.n_children < CHILDREN_MAX)
			place.children[place.n_children++] = member_of(number, n, tree);
	}
	return place;
}

static int compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->segment != y->segment)
		return x->segment < y->segment ? -1 : 1;
	return (int)x->part - (int)y->part;
}

/* All that a member does for a segment. Both ends of a message give it the same time, so that their
 * orders agree. */
static uint32_t list_events(const struct place *place, uint32_t segment, uint32_t place_in_tree,
			    struct event *ret_events)
{
	uint32_t up = place_in_tree + place->height - place->depth;
	uint32_t down = place_in_tree + place->height + place->depth + LAG;
	uint32_t n = 0;

	if (place->n_children) {
		ret_events[n++] = (struct event){up - 1, segment, RAISE_CHILDREN};
		ret_events[n++] = (struct event){down, segment, LOWER_CHILDREN};
	}
	if (place->depth) {
		ret_events[n++] = (struct event){up, segment, RAISE};
		ret_events[n++] = (struct event){down - 1, segment, LOWER};
	}
	return n;
}

static void make_phase(struct lh_collective_builder *b, const struct place *place,
		       const struct event *event)
{
	uint32_t segment = event->segment;

	lh_collective_phase(b);
	if (event->part == RAISE)
		lh_collective_send(b, place->parent, segment, 1);
	if (event->part == LOWER)
		lh_collective_copy(b, place->parent, segment, 1);
	for (uint32_t i = 0; event->part == RAISE_CHILDREN && i < place->n_children; i++)
		lh_collective_reduce(b, place->children[i], segment, 1);
	for (uint32_t i = 0; event->part == LOWER_CHILDREN && i < place->n_children; i++)
		lh_collective_send(b, place->children[i], segment, 1);
	if (event->part == RAISE_CHILDREN && place->depth == 0)
		lh_collective_finish(b, segment, 1);
}

static int make_phases(struct lh_collective_builder *b, uint32_t n_segments, struct lh_error *err)
{
	uint32_t n_first = (n_segments + 1) / 2; /* of the first tree */
	lh_cleanup_free struct event *events = calloc((size_t)n_segments * 4, sizeof(*events));
	struct place places[N_TREES];
	uint32_t n_events = 0;

	if (!events)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan a tree");
	for (uint32_t tree = 0; tree < N_TREES; tree++)
		places[tree] = find_place(b->member, b->plan.n_members, tree);
	for (uint32_t s = 0; s < n_segments; s++) {
		uint32_t tree = s >= n_first;

		n_events +=
			list_events(&places[tree], s, tree ? s - n_first : s, events + n_events);
	}
	qsort(events, n_events, sizeof(*events), compare_events);
	for (uint32_t i = 0; i < n_events; i++)
		make_phase(b, &places[events[i].segment >= n_first], &events[i]);
	return 0;
}

static int tree_make(const struct lh_collective_form *form, uint32_t self,
		     struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	uint32_t n_segments = form->n_segments ? form->n_segments : 1;
	struct lh_collective_builder b;
	int rc;

	if (n_segments > LH_COLLECTIVE_SEGMENTS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%" PRIu32 " segments; expected 1 to %d",
			       n_segments, LH_COLLECTIVE_SEGMENTS_MAX);
	rc = lh_collective_begin(&b, form, self, LH_COLLECTIVE_ALL_REDUCE, n_segments, err);
	if (rc)
		return rc;
	lh_collective_cut(&b, 0, n_segments, 0, form->elements);
	if (form->n == 1) {
		lh_collective_phase(&b);
		lh_collective_finish(&b, 0, n_segments);
	} else {
		rc = make_phases(&b, n_segments, err);
	}
	if (rc) {
		lh_collective_plan_done(&b.plan);
		return rc;
	}
	return lh_collective_end(&b, ret_plan, err);
}

const struct lh_collective_ops lh_collective_tree = {
	.name = "tree",
	.doc = "up and down two binary trees, in segments",
	.make = tree_make,
};
