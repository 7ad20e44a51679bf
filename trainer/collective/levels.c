/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchies of groups. See levels.h.
 *
 * Going up, every level makes of the groups of the level below (at first: each member by itself,
 * owning all) its own groups, with the parts that they cut and who owns them; the cells in which
 * self takes part are kept. The parts at the top are the chunks.
 */
#include "trainer/collective/levels.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/collective/build.h"
#include "trainer/strategy/shard.h"

enum { NONE = UINT32_MAX };

/* Elements up to `end` belong to a member. Parts have elements. */
struct part {
	uint64_t end;
	uint32_t owner;
};

struct group {
	uint32_t n_parts;
	struct part *parts;
};

struct groups {
	uint32_t n;
	struct group *items;
	uint32_t *of; /* by member: its group */
};

/* Elements that the groups of a level share through one owner each, self among them. */
struct cell {
	uint64_t begin;
	uint64_t end;
	uint32_t n;
	uint32_t position; /* self's among the owners */
	uint32_t *owners;
};

struct cells {
	uint32_t n;
	struct cell *items;
};

struct hierarchy {
	const struct lh_collective_form *form;
	uint32_t self; /* a member */
	struct groups groups;
	struct cells cells[LH_COLLECTIVE_LEVELS_MAX];
};

static void groups_done(struct groups *groups)
{
	for (uint32_t i = 0; groups->items && i < groups->n; i++)
		free(groups->items[i].parts);
	free(groups->items);
	free(groups->of);
}

static void hierarchy_done(struct hierarchy *h)
{
	groups_done(&h->groups);
	for (uint32_t level = 0; level < LH_COLLECTIVE_LEVELS_MAX; level++) {
		for (uint32_t i = 0; i < h->cells[level].n; i++)
			free(h->cells[level].items[i].owners);
		free(h->cells[level].items);
	}
}

static bool groups_alloc(struct groups *groups, uint32_t n_groups, uint32_t n_members)
{
	groups->n = n_groups;
	groups->items = calloc(n_groups, sizeof(*groups->items));
	groups->of = calloc(n_members, sizeof(*groups->of));
	return groups->items && groups->of;
}

/* Every member by itself. */
static bool begin_alone(struct hierarchy *h)
{
	uint32_t n = h->form->n;

	if (!groups_alloc(&h->groups, n, n))
		return false;
	for (uint32_t m = 0; m < n; m++) {
		struct group *group = &h->groups.items[m];

		h->groups.of[m] = m;
		if (h->form->elements == 0)
			continue;
		group->parts = calloc(1, sizeof(*group->parts));
		if (!group->parts)
			return false;
		group->parts[group->n_parts++] = (struct part){h->form->elements, m};
	}
	return true;
}

static bool add_part(struct group *group, uint64_t end, uint32_t owner)
{
	if ((group->n_parts & (group->n_parts - 1)) == 0) {
		size_t room = group->n_parts ? 2 * (size_t)group->n_parts : 1;
		struct part *grown = reallocarray(group->parts, room, sizeof(*grown));

		if (!grown)
			return false;
		group->parts = grown;
	}
	group->parts[group->n_parts++] = (struct part){end, owner};
	return true;
}

/* Keeps the cell where self is an owner. */
static bool keep_cell(struct hierarchy *h, struct cells *cells, struct cell cell)
{
	struct cell *grown;
	size_t bytes = cell.n * sizeof(*cell.owners);

	cell.position = NONE;
	for (uint32_t i = 0; i < cell.n; i++)
		if (cell.owners[i] == h->self)
			cell.position = i;
	if (cell.position == NONE)
		return true;
	grown = reallocarray(cells->items, (size_t)cells->n + 1, sizeof(*grown));
	if (!grown)
		return false;
	cells->items = grown;
	grown = &cells->items[cells->n];
	*grown = cell;
	grown->owners = malloc(bytes);
	if (!grown->owners)
		return false;
	cells->n++;
	memcpy(grown->owners, cell.owners, bytes);
	return true;
}

/* Where the i-th part of a cell begins. */
static uint64_t part_begin(const struct cell *cell, uint32_t i)
{
	uint64_t n = cell->end - cell->begin, longer = n % cell->n;

	return cell->begin + n / cell->n * i + (i < longer ? i : longer);
}

/* Shares the cell among its owners. */
static bool cut_cell(struct hierarchy *h, struct cells *cells, const struct cell *cell,
		     struct group *joined)
{
	for (uint32_t i = 0; i < cell->n; i++) {
		uint64_t end = part_begin(cell, i + 1);

		if (end > part_begin(cell, i) && !add_part(joined, end, cell->owners[i]))
			return false;
	}
	return keep_cell(h, cells, *cell);
}

/* Joins groups, each `children[i]` of the level below, into one. at and owners: n_children each. */
static bool join(struct hierarchy *h, struct cells *cells, const uint32_t *children,
		 uint32_t n_children, uint32_t *at, uint32_t *owners, struct group *joined)
{
	struct cell cell = {.n = n_children, .owners = owners};

	memset(at, 0, n_children * sizeof(*at));
	while (cell.end < h->form->elements) {
		cell.begin = cell.end;
		cell.end = UINT64_MAX;
		for (uint32_t i = 0; i < n_children; i++) {
			const struct part *part = &h->groups.items[children[i]].parts[at[i]];

			owners[i] = part->owner;
			if (part->end < cell.end)
				cell.end = part->end;
		}
		for (uint32_t i = 0; i < n_children; i++)
			at[i] += h->groups.items[children[i]].parts[at[i]].end == cell.end;
		if (!cut_cell(h, cells, &cell, joined))
			return false;
	}
	return true;
}

/* Numbers the level's groups in the order of their first members; LH_EINPUT where the level is not
 * made of whole groups of the one below. */
static int number_groups(const struct hierarchy *h, const struct lh_collective_level *level,
			 uint32_t *number_of, uint32_t *ret_n, uint32_t *above,
			 struct lh_error *err)
{
	uint32_t n = h->form->n;

	*ret_n = 0;
	memset(number_of, 0xff, n * sizeof(*number_of));
	memset(above, 0xff, n * sizeof(*above));
	for (uint32_t m = 0; m < n; m++) {
		uint32_t named = level->group_of ? level->group_of[m] : 0;
		uint32_t below = h->groups.of[m];

		if (named >= n)
			return lh_fail(err, LH_EINPUT, 0,
				       "member %" PRIu32 " is in group %" PRIu32
				       "; expected below %" PRIu32,
				       m, named, n);
		if (number_of[named] == NONE)
			number_of[named] = (*ret_n)++;
		if (above[below] != NONE && above[below] != number_of[named])
			return lh_fail(err, LH_EINPUT, 0,
				       "member %" PRIu32
				       " is not in the same group as others of its smaller group",
				       m);
		above[below] = number_of[named];
	}
	return 0;
}

/* Room of one level. */
struct scratch {
	uint32_t *number_of; /* by a group's name */
	uint32_t *above;     /* by group below */
	uint32_t *children;
	uint32_t *at;
	uint32_t *owners;
};

static int join_all(struct hierarchy *h, struct cells *cells, const struct scratch *scratch,
		    struct groups *joined, struct lh_error *err)
{
	for (uint32_t g = 0; g < joined->n; g++) {
		uint32_t n_children = 0;

		for (uint32_t below = 0; below < h->groups.n; below++)
			if (scratch->above[below] == g)
				scratch->children[n_children++] = below;
		if (!join(h, cells, scratch->children, n_children, scratch->at, scratch->owners,
			  &joined->items[g]))
			return lh_fail(err, LH_ESYS, ENOMEM, "join groups");
		if (joined->items[g].n_parts > LH_COLLECTIVE_CHUNKS_MAX)
			return lh_fail(err, LH_EINPUT, 0,
				       "groups of such different sizes cut the vector into more "
				       "than %d parts",
				       LH_COLLECTIVE_CHUNKS_MAX);
	}
	for (uint32_t m = 0; m < h->form->n; m++)
		joined->of[m] = scratch->above[h->groups.of[m]];
	return 0;
}

static int climb(struct hierarchy *h, const struct lh_collective_level *level, struct cells *cells,
		 struct lh_error *err)
{
	uint32_t n = h->form->n, n_groups;
	lh_cleanup_free uint32_t *room = calloc((size_t)n * 5, sizeof(*room));
	struct scratch scratch = {room, room + n, room + 2 * (size_t)n, room + 3 * (size_t)n,
				  room + 4 * (size_t)n};
	struct groups joined = {0};
	int rc;

	if (!room)
		return lh_fail(err, LH_ESYS, ENOMEM, "join groups");
	rc = number_groups(h, level, scratch.number_of, &n_groups, scratch.above, err);
	if (rc)
		return rc;
	rc = groups_alloc(&joined, n_groups, n) ? join_all(h, cells, &scratch, &joined, err)
						: lh_fail(err, LH_ESYS, ENOMEM, "join groups");
	if (rc) {
		groups_done(&joined);
		return rc;
	}
	groups_done(&h->groups);
	h->groups = joined;
	return 0;
}

/* The chunk that begins at an element, which some chunk does; or their number at the end. */
static uint32_t chunk_at(const struct lh_collective_plan *plan, uint64_t element)
{
	uint32_t low = 0, high = plan->n_chunks;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (plan->at[middle] < element)
			low = middle + 1;
		else
			high = middle;
	}
	assert(plan->at[low] == element);
	return low;
}

/* A run of chunks: the i-th part of a cell. */
static uint32_t part_chunks(const struct lh_collective_plan *plan, const struct cell *cell,
			    uint32_t i, uint32_t *ret_n)
{
	uint32_t first = chunk_at(plan, part_begin(cell, i));

	*ret_n = chunk_at(plan, part_begin(cell, i + 1)) - first;
	return first;
}

typedef void move_fn(struct lh_collective_builder *, uint32_t, uint32_t, uint32_t);

/* Moves part i of the cell to or from owner j. */
static void move_part(struct lh_collective_builder *b, const struct cell *cell, move_fn *move,
		      uint32_t j, uint32_t i)
{
	uint32_t n_chunks, first = part_chunks(&b->plan, cell, i, &n_chunks);

	move(b, cell->owners[j], first, n_chunks);
}

static void finish_part(struct lh_collective_builder *b, const struct cell *cell)
{
	uint32_t n_chunks, first = part_chunks(&b->plan, cell, cell->position, &n_chunks);

	lh_collective_finish(b, first, n_chunks);
}

/* A step around the ring of a cell's owners, which ends with each having its own part (scattering),
 * or begins with it. */
static void step_around(struct lh_collective_builder *b, const struct cell *cell, uint32_t step,
			bool is_scattering)
{
	uint32_t n = cell->n, i = cell->position, late = step + (is_scattering ? 1 : 0);

	lh_collective_phase(b);
	move_part(b, cell, lh_collective_send, (i + 1) % n, (i + n - late % n) % n);
	move_part(b, cell, is_scattering ? lh_collective_reduce : lh_collective_copy,
		  (i + n - 1) % n, (i + n - (late + 1) % n) % n);
}

static void step_to_all(struct lh_collective_builder *b, const struct cell *cell,
			bool is_scattering)
{
	uint32_t n = cell->n, self = cell->position;

	lh_collective_phase(b);
	for (uint32_t i = 1; i < n; i++) {
		uint32_t other = (self + i) % n;

		move_part(b, cell, lh_collective_send, other, is_scattering ? other : self);
	}
	for (uint32_t i = 0; i < n; i++)
		if (i != self)
			move_part(b, cell,
				  is_scattering ? lh_collective_reduce : lh_collective_copy, i,
				  is_scattering ? self : i);
}

static void exchange(struct lh_collective_builder *b, const struct cells *cells,
		     enum lh_collective_exchange exchange, bool is_scattering)
{
	uint32_t n_steps = 0;

	for (uint32_t c = 0; c < cells->n; c++) {
		uint32_t n = cells->items[c].n;
		uint32_t steps = exchange == LH_COLLECTIVE_ALL_TO_ALL && n > 1 ? 1 : n - 1;

		n_steps = steps > n_steps ? steps : n_steps;
	}
	for (uint32_t step = 0; step < n_steps; step++)
		for (uint32_t c = 0; c < cells->n; c++) {
			if (exchange == LH_COLLECTIVE_ALL_TO_ALL)
				step_to_all(b, &cells->items[c], is_scattering);
			else
				step_around(b, &cells->items[c], step, is_scattering);
		}
}

static void make_phases(struct lh_collective_builder *b, const struct hierarchy *h,
			const struct lh_collective_level *levels, uint32_t n_levels)
{
	const struct cells *top = &h->cells[n_levels - 1];

	for (uint32_t level = 0; level < n_levels; level++)
		exchange(b, &h->cells[level], levels[level].exchange, true);
	for (uint32_t c = 0; c < top->n; c++) {
		lh_collective_phase(b);
		finish_part(b, &top->items[c]);
	}
	for (uint32_t level = n_levels; level-- > 0;)
		exchange(b, &h->cells[level], levels[level].exchange, false);
}

/* The parts at the top are the chunks; a vector without elements is one chunk. */
static int begin(struct lh_collective_builder *b, const struct hierarchy *h, uint32_t self,
		 struct lh_error *err)
{
	const struct group *top = &h->groups.items[0];
	int rc;

	if (h->groups.n != 1)
		return lh_fail(err, LH_EINPUT, 0,
			       "the last level has %" PRIu32 " groups; expected all in one",
			       h->groups.n);
	rc = lh_collective_begin(b, h->form, self, LH_COLLECTIVE_ALL_REDUCE,
				 top->n_parts ? top->n_parts : 1, err);
	for (uint32_t i = 0; rc == 0 && i < top->n_parts; i++)
		b->plan.at[i + 1] = top->parts[i].end;
	return rc;
}

int lh_collective_make_levels(const struct lh_collective_form *form,
			      const struct lh_collective_level *levels, uint32_t n_levels,
			      uint32_t self, struct lh_collective_plan *ret_plan,
			      struct lh_error *err)
{
	struct hierarchy h = {.form = form};
	struct lh_collective_builder b;
	int rc;

	if (n_levels < 1 || n_levels > LH_COLLECTIVE_LEVELS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%" PRIu32 " levels; expected 1 to %d", n_levels,
			       LH_COLLECTIVE_LEVELS_MAX);
	rc = lh_collective_find_member(form, self, &h.self, err);
	if (rc)
		return rc;
	if (!begin_alone(&h))
		rc = lh_fail(err, LH_ESYS, ENOMEM, "join groups");
	for (uint32_t level = 0; rc == 0 && level < n_levels; level++)
		rc = climb(&h, &levels[level], &h.cells[level], err);
	if (rc == 0)
		rc = begin(&b, &h, self, err);
	if (rc == 0) {
		make_phases(&b, &h, levels, n_levels);
		rc = lh_collective_end(&b, ret_plan, err);
	}
	hierarchy_done(&h);
	return rc;
}
