/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a ring. See order.h. */
#include "trainer/collective/order.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/rng.h"
#include "trainer/collective/plan.h"

enum {
	SEGMENT_MAX = 8, /* members that are moved together */
	KICKS_MAX = 1000,
	KICKS_MIN = 10,
	KICKS_WORK = 1 << 22, /* kicks x n^2 */
};

/* What counts as shorter, so that rounding does not loop. */
static const double GAIN_MIN_RATIO = 1e-12;

struct search {
	const double *costs;
	uint32_t n;
	uint32_t *tour;
	uint32_t *other; /* as long */
	uint32_t *best;
	double *forward;  /* cost of the first k links, k up to n - 1 */
	double *backward; /* likewise, links reversed */
	double gain_min;
	struct lh_rng rng;
};

static double cost(const struct search *s, uint32_t from, uint32_t to)
{
	return s->costs[(size_t)from * s->n + to];
}

static double round_trip(const struct search *s, const uint32_t *tour)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->n; i++)
		sum += cost(s, tour[i], tour[(i + 1) % s->n]);
	return sum;
}

/* Adds up links, after any change of the tour. */
static void add_up(struct search *s)
{
	s->forward[0] = 0;
	s->backward[0] = 0;
	for (uint32_t k = 1; k < s->n; k++) {
		s->forward[k] = s->forward[k - 1] + cost(s, s->tour[k - 1], s->tour[k]);
		s->backward[k] = s->backward[k - 1] + cost(s, s->tour[k], s->tour[k - 1]);
	}
}

/* Turns the tour so that place i comes first. */
static void turn(struct search *s, uint32_t i)
{
	memcpy(s->other, s->tour + i, (s->n - i) * sizeof(*s->tour));
	memcpy(s->other + (s->n - i), s->tour, i * sizeof(*s->tour));
	memcpy(s->tour, s->other, s->n * sizeof(*s->tour));
}

/* Moves the first `length` members to behind place `after`. */
static void move_first(struct search *s, uint32_t length, uint32_t after)
{
	uint32_t n_between = after + 1 - length;

	memcpy(s->other, s->tour, length * sizeof(*s->tour));
	memmove(s->tour, s->tour + length, n_between * sizeof(*s->tour));
	memcpy(s->tour + n_between, s->other, length * sizeof(*s->tour));
}

/* Moves the first members of the tour to where that gains most; whether it gains. */
static bool improve_by_moving(struct search *s, uint32_t length)
{
	const uint32_t *t = s->tour;
	uint32_t last = t[length - 1], before = t[s->n - 1], behind = t[length], best = 0;
	double cut = cost(s, before, t[0]) + cost(s, last, behind) - cost(s, before, behind);
	double best_gain = s->gain_min;

	for (uint32_t i = length; i + 1 < s->n; i++) {
		double gain = cut + cost(s, t[i], t[i + 1]) - cost(s, t[i], t[0]) -
			      cost(s, last, t[i + 1]);

		if (gain > best_gain) {
			best_gain = gain;
			best = i;
		}
	}
	if (best)
		move_first(s, length, best);
	return best;
}

static bool improve_by_reversing(struct search *s)
{
	const uint32_t *t = s->tour;
	uint32_t n = s->n;

	add_up(s);
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t j = i + 1; j < n; j++) {
			uint32_t next = t[(j + 1) % n];
			double was = cost(s, t[i - 1], t[i]) + s->forward[j] - s->forward[i] +
				     cost(s, t[j], next);
			double is = cost(s, t[i - 1], t[j]) + s->backward[j] - s->backward[i] +
				    cost(s, t[i], next);

			if (was - is <= s->gain_min)
				continue;
			for (uint32_t low = i, high = j; low < high; low++, high--) {
				uint32_t kept = s->tour[low];

				s->tour[low] = s->tour[high];
				s->tour[high] = kept;
			}
			return true;
		}
	return false;
}

/* Until neither a moved nor a reversed segment gains. */
static void descend(struct search *s)
{
	bool is_better = true;

	while (is_better) {
		is_better = false;
		for (uint32_t i = 0; i < s->n; i++) {
			turn(s, 1);
			for (uint32_t length = 1; length <= SEGMENT_MAX && length + 2 <= s->n;
			     length++)
				is_better |= improve_by_moving(s, length);
		}
		while (improve_by_reversing(s))
			is_better = true;
	}
}

/* Swaps two neighbouring runs of the tour, which no single move undoes. */
static void kick(struct search *s)
{
	uint32_t length = 1 + (uint32_t)lh_rng_below(&s->rng, s->n - 2);
	uint32_t after = length + (uint32_t)lh_rng_below(&s->rng, s->n - 1 - length);

	turn(s, (uint32_t)lh_rng_below(&s->rng, s->n));
	move_first(s, length, after);
}

/* Each time to the nearest member that is left. */
static void begin_greedily(struct search *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		s->tour[i] = i;
	for (uint32_t i = 1; i < s->n; i++) {
		uint32_t nearest = i, kept;

		for (uint32_t j = i + 1; j < s->n; j++)
			if (cost(s, s->tour[i - 1], s->tour[j]) <
			    cost(s, s->tour[i - 1], s->tour[nearest]))
				nearest = j;
		kept = s->tour[i];
		s->tour[i] = s->tour[nearest];
		s->tour[nearest] = kept;
	}
}

static void search_locally(struct search *s)
{
	size_t bytes = s->n * sizeof(*s->tour);
	uint64_t n_kicks = KICKS_WORK / ((uint64_t)s->n * s->n);
	double best;

	n_kicks = n_kicks > KICKS_MAX ? KICKS_MAX : n_kicks < KICKS_MIN ? KICKS_MIN : n_kicks;
	begin_greedily(s);
	s->gain_min = GAIN_MIN_RATIO * round_trip(s, s->tour);
	descend(s);
	best = round_trip(s, s->tour);
	memcpy(s->best, s->tour, bytes);
	for (uint64_t i = 0; i < n_kicks; i++) {
		double found;

		kick(s);
		descend(s);
		found = round_trip(s, s->tour);
		if (found < best - s->gain_min) {
			best = found;
			memcpy(s->best, s->tour, bytes);
		} else {
			memcpy(s->tour, s->best, bytes);
		}
	}
}

static int order_by_search(const double *costs, uint32_t n, uint64_t seed, uint32_t *ret_order,
			   struct lh_error *err)
{
	lh_cleanup_free uint32_t *places = calloc((size_t)n * 3, sizeof(*places));
	lh_cleanup_free double *sums = calloc((size_t)n * 2, sizeof(*sums));
	struct search s = {.costs = costs, .n = n};
	uint32_t first = 0;

	if (!places || !sums)
		return lh_fail(err, LH_ESYS, ENOMEM, "order a ring");
	s.tour = places;
	s.other = places + n;
	s.best = places + 2 * (size_t)n;
	s.forward = sums;
	s.backward = sums + n;
	lh_rng_init(&s.rng, seed, "ring-order");
	search_locally(&s);
	while (s.best[first] != 0)
		first++;
	for (uint32_t i = 0; i < n; i++)
		ret_order[i] = s.best[(first + i) % n];
	return 0;
}

/* The cheapest ways from member 0 through sets of the others (bit i: member i + 1), by the set and
 * the member at their end. */
static void find_ways(const double *costs, uint32_t n, double *ways)
{
	uint32_t m = n - 1;

	for (uint32_t set = 1; set < UINT32_C(1) << m; set++)
		for (uint32_t end = 0; end < m; end++) {
			uint32_t rest = set & ~(UINT32_C(1) << end);
			double best = rest ? INFINITY : costs[end + 1];

			if (!(set >> end & 1))
				continue;
			for (uint32_t k = 0; k < m; k++)
				if (rest >> k & 1)
					best = fmin(best,
						    ways[(size_t)rest * m + k] +
							    costs[(size_t)(k + 1) * n + end + 1]);
			ways[(size_t)set * m + end] = best;
		}
}

static int order_exactly(const double *costs, uint32_t n, uint32_t *ret_order, struct lh_error *err)
{
	uint32_t m = n - 1, set = (UINT32_C(1) << m) - 1, next = 0;
	lh_cleanup_free double *ways = calloc((size_t)m << m, sizeof(*ways));

	if (!ways)
		return lh_fail(err, LH_ESYS, ENOMEM, "order a ring");
	find_ways(costs, n, ways);
	ret_order[0] = 0;
	/* from the end back, each time the member that the cheapest way ends with */
	for (uint32_t place = m; place > 0; place--) {
		uint32_t best = m;
		double best_cost = INFINITY;

		for (uint32_t end = 0; end < m; end++) {
			double way =
				ways[(size_t)set * m + end] + costs[(size_t)(end + 1) * n + next];

			if ((set >> end & 1) && (best == m || way < best_cost)) {
				best = end;
				best_cost = way;
			}
		}
		next = best + 1;
		ret_order[place] = next;
		set &= ~(UINT32_C(1) << best);
	}
	return 0;
}

int lh_collective_order(const double *costs, uint32_t n, uint64_t seed, uint32_t *ret_order,
			double *ret_cost, struct lh_error *err)
{
	struct search whole = {.costs = costs, .n = n};
	int rc;

	if (n < 1 || n > LH_COLLECTIVE_MEMBERS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%" PRIu32 " members; expected 1 to %d", n,
			       LH_COLLECTIVE_MEMBERS_MAX);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < n; j++)
			if (i != j && !(cost(&whole, i, j) >= 0 && isfinite(cost(&whole, i, j))))
				return lh_fail(err, LH_EINPUT, 0,
					       "the cost from member %" PRIu32 " to %" PRIu32
					       " is %g; expected 0 or more",
					       i, j, cost(&whole, i, j));
	if (n == 1)
		ret_order[0] = 0;
	rc = n == 1			    ? 0
	     : n <= LH_COLLECTIVE_EXACT_MAX ? order_exactly(costs, n, ret_order, err)
					    : order_by_search(costs, n, seed, ret_order, err);
	if (rc == 0)
		*ret_cost = n == 1 ? 0 : round_trip(&whole, ret_order);
	return rc;
}

static int compare_ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Everything that a search over bounds works with. */
struct bounded {
	const double *step_costs;
	const double *busy_costs;
	uint32_t n;
	uint64_t seed;
	double forbidden; /* more than any round trip */
	double *costs;	  /* n x n: step costs, of links that are not too busy */
	double *bounds;	  /* n x n: all busy costs, ascending */
	uint32_t *order;
};

/* The mean step of the best ring of links that are busy for at most a bound; infinite: none is. */
static int order_within(struct bounded *b, double bound, double *ret_mean, struct lh_error *err)
{
	size_t n_links = (size_t)b->n * b->n;
	double round_trip_cost = 0;
	int rc;

	for (size_t i = 0; i < n_links; i++)
		b->costs[i] = b->step_costs[i] + (b->busy_costs[i] > bound ? b->forbidden : 0);
	rc = lh_collective_order(b->costs, b->n, b->seed, b->order, &round_trip_cost, err);
	*ret_mean = round_trip_cost < b->forbidden ? round_trip_cost / b->n : INFINITY;
	return rc;
}

static int search_bounds(struct bounded *b, uint32_t *ret_order, double *ret_cost,
			 struct lh_error *err)
{
	size_t low = 0, high = (size_t)b->n * b->n;
	int rc = 0;

	*ret_cost = INFINITY;
	/* the mean falls with the bound, so the best is where they meet, on either side */
	while (rc == 0 && low < high) {
		size_t middle = low + (high - low) / 2;
		double mean, step;

		rc = order_within(b, b->bounds[middle], &mean, err);
		step = fmax(mean, b->bounds[middle]);
		if (rc == 0 && step < *ret_cost) {
			*ret_cost = step;
			memcpy(ret_order, b->order, b->n * sizeof(*ret_order));
		}
		if (mean > b->bounds[middle])
			low = middle + 1;
		else
			high = middle;
	}
	return rc;
}

int lh_collective_ring_order(const double *step_costs, const double *busy_costs, uint32_t n,
			     uint64_t seed, uint32_t *ret_order, double *ret_cost,
			     struct lh_error *err)
{
	size_t n_links = (size_t)n * n;
	lh_cleanup_free double *room = calloc(2 * n_links + 1, sizeof(*room));
	lh_cleanup_free uint32_t *order = calloc((size_t)n + 1, sizeof(*order));
	struct bounded b = {
		.step_costs = step_costs,
		.busy_costs = busy_costs,
		.n = n,
		.seed = seed,
		.costs = room,
		.bounds = room + n_links,
		.order = order,
		.forbidden = 1,
	};

	if (!room || !order)
		return lh_fail(err, LH_ESYS, ENOMEM, "order a ring");
	if (n < 3)
		return lh_collective_order(step_costs, n, seed, ret_order, ret_cost, err);
	for (size_t i = 0; i < n_links; i++) {
		bool is_link = i / n != i % n;

		b.forbidden += is_link ? step_costs[i] : 0;
		b.bounds[i] = is_link ? busy_costs[i] : 0;
	}
	qsort(b.bounds, n_links, sizeof(*b.bounds), compare_ascending);
	return search_bounds(&b, ret_order, ret_cost, err);
}
