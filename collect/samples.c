/* SPDX-License-Identifier: Apache-2.0 */
/* Events about samples. See samples.h; they are checked in samples_table.c. */
#include "collect/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX (INT64_C(1) << 40)
#define EPOCHS_MAX INT64_C(1000000)
#define INCARNATIONS_MAX INT64_C(1000000)

/* An event being read. */
struct place {
	const char *path;
	size_t line;
	struct lh_error *err;
};

static int get(const struct place *p, const json_t *object, const char *key, int64_t max,
	       int64_t *ret)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > max)
		return lh_fail(p->err, LH_EINPUT, 0,
			       "%s:%zu: '%s'; expected an integer within its bounds", p->path,
			       p->line, key);
	*ret = json_integer_value(value);
	return 0;
}

static int no_memory(const struct place *p)
{
	return lh_fail(p->err, LH_ESYS, ENOMEM, "read %s", p->path);
}

int lh_rank_samples_begin(struct lh_rank_samples *s, struct lh_error *err)
{
	if (s->n_incarnations == s->n_incarnations_room) {
		size_t room = 2 * s->n_incarnations_room + 1;
		struct lh_incarnation *grown = reallocarray(s->incarnations, room, sizeof(*grown));

		if (!grown)
			return lh_fail(err, LH_ESYS, ENOMEM, "count samples");
		s->incarnations = grown;
		s->n_incarnations_room = room;
	}
	s->incarnations[s->n_incarnations++] = (struct lh_incarnation){0};
	return 0;
}

static int add_taken(struct lh_rank_samples *s, const struct lh_taken *taken, const struct place *p)
{
	if (taken->to < taken->from)
		return lh_fail(p->err, LH_EINPUT, 0, "%s:%zu: 'to'; expected not less than 'from'",
			       p->path, p->line);
	if (s->n_taken == s->n_taken_room) {
		size_t room = 2 * s->n_taken_room + 16;
		struct lh_taken *grown = reallocarray(s->taken, room, sizeof(*grown));

		if (!grown)
			return no_memory(p);
		s->taken = grown;
		s->n_taken_room = room;
	}
	s->taken[s->n_taken++] = *taken;
	return 0;
}

static int take_computed(struct lh_rank_samples *s, const json_t *event, const struct place *p)
{
	struct lh_incarnation *own = &s->incarnations[s->n_incarnations - 1];
	int64_t n;
	int r = get(p, event, "micro_batches", COUNT_MAX, &n);

	if (r == 0 && n != own->computed + 1)
		return lh_fail(p->err, LH_EINPUT, 0,
			       "%s:%zu: 'micro_batches'; expected one more than before", p->path,
			       p->line);
	own->computed += r == 0;
	return r;
}

static int take_lost(struct lh_rank_samples *s, size_t rank, const json_t *event,
		     const struct place *p)
{
	struct lh_taken taken = {.rank = rank, .incarnation = s->n_incarnations - 1};
	int r = get(p, event, "epoch", EPOCHS_MAX, &taken.epoch);

	if (r == 0)
		r = get(p, event, "from", COUNT_MAX, &taken.from);
	if (r == 0)
		r = get(p, event, "to", COUNT_MAX, &taken.to);
	return r ? r : add_taken(s, &taken, p);
}

static int take_commit(struct lh_rank_samples *s, size_t n_ranks, const json_t *event,
		       const struct place *p)
{
	const json_t *member, *members = json_object_get(event, "members");
	struct lh_taken taken = {.is_committed = true};
	size_t i;
	int r = get(p, event, "epoch", EPOCHS_MAX, &taken.epoch);

	if (r == 0 && !json_is_array(members))
		return lh_fail(p->err, LH_EINPUT, 0, "%s:%zu: 'members'; expected an array",
			       p->path, p->line);
	for (i = 0; r == 0 && (member = json_array_get(members, i)); i++) {
		int64_t rank = 0, incarnation = 0;

		r = get(p, member, "rank", (int64_t)n_ranks - 1, &rank);
		if (r == 0)
			r = get(p, member, "incarnation", INCARNATIONS_MAX, &incarnation);
		if (r == 0)
			r = get(p, member, "from", COUNT_MAX, &taken.from);
		if (r == 0)
			r = get(p, member, "to", COUNT_MAX, &taken.to);
		taken.rank = (size_t)rank;
		taken.incarnation = (size_t)incarnation;
		if (r == 0)
			r = add_taken(s, &taken, p);
	}
	return r;
}

int lh_rank_samples_take(struct lh_rank_samples *s, size_t rank, size_t n_ranks, const char *name,
			 const json_t *event, const char *path, size_t line, struct lh_error *err)
{
	const struct place p = {path, line, err};

	if (strcmp(name, "computed") == 0)
		return take_computed(s, event, &p);
	if (strcmp(name, "lost") == 0)
		return take_lost(s, rank, event, &p);
	if (strcmp(name, "commit") == 0 && rank == 0)
		return take_commit(s, n_ranks, event, &p);
	if (strcmp(name, "end") == 0)
		s->incarnations[s->n_incarnations - 1].has_ended = true;
	return 0;
}

void lh_rank_samples_done(struct lh_rank_samples *s)
{
	free(s->incarnations);
	free(s->taken);
	*s = (struct lh_rank_samples){0};
}
