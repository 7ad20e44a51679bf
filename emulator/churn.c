/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of nodes that go and come. See churn.h. */
#include "emulator/churn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/alarm.h"
#include "emulator/probe_internal.h"

/* In the order in which they happen at one time. */
enum what { PREEMPT, START, NOTIFY };

struct action {
	int64_t at_ns;
	enum what what;
	const struct lh_absence *absence;
};

struct node {
	bool is_away;
	unsigned n_starts;
	size_t n_to_come; /* starts that are still planned */
};

struct lh_churn {
	const struct lh_plan *plan;
	struct node *nodes;
	struct action *actions;
	size_t n_actions;
	size_t next;
	const struct action *last; /* that took a node away, or told it so; NULL: none */

	/* while something runs */
	struct lh_net *net;
	int64_t begin_ns;
	const struct lh_churn_ops *ops;
	void *context;
	FILE *csv;
	struct lh_alarm alarm;
};

static int compare_actions(const void *a, const void *b)
{
	const struct action *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	if (x->what != y->what)
		return x->what < y->what ? -1 : 1;
	return x->absence->node < y->absence->node ? -1 : x->absence->node > y->absence->node;
}

static void add(struct lh_churn *c, int64_t at_ns, enum what what, const struct lh_absence *a)
{
	c->actions[c->n_actions++] = (struct action){at_ns, what, a};
}

/* What an absence makes happen; back_ns: when its node was back from the one before. */
static void add_absence(struct lh_churn *c, const struct lh_absence *a, int64_t back_ns)
{
	struct node *node = &c->nodes[a->node];
	int64_t told_ns = a->from_ns - a->notice_ns;

	if (a->from_ns >= 0)
		add(c, a->from_ns, PREEMPT, a);
	else
		node->is_away = true;
	if (a->notice_ns)
		add(c, told_ns > back_ns ? told_ns : back_ns, NOTIFY, a);
	if (a->to_ns != INT64_MAX) {
		add(c, a->to_ns, START, a);
		node->n_to_come++;
	}
}

static int fill(struct lh_churn *c, struct lh_error *err)
{
	const struct lh_scenario *sc = c->plan->scenario;
	lh_cleanup_free int64_t *back_ns = calloc(c->plan->n_nodes, sizeof(*back_ns));

	c->nodes = calloc(c->plan->n_nodes, sizeof(*c->nodes));
	c->actions = calloc(sc->n_absences, 3 * sizeof(*c->actions));
	if (!back_ns || !c->nodes || !c->actions)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan which nodes go and come");
	for (size_t i = 0; i < sc->n_absences; i++) {
		const struct lh_absence *a = &sc->absences[i];

		add_absence(c, a, back_ns[a->node]);
		back_ns[a->node] = a->to_ns;
	}
	for (size_t i = 0; i < c->plan->n_nodes; i++)
		c->nodes[i].n_starts = c->nodes[i].is_away ? 0 : 1;
	qsort(c->actions, c->n_actions, sizeof(*c->actions), compare_actions);
	return 0;
}

int lh_churn_new(const struct lh_plan *plan, struct lh_churn **ret, struct lh_error *err)
{
	struct lh_churn *c;
	int r;

	*ret = NULL;
	if (!plan->scenario->n_absences)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan which nodes go and come");
	c->plan = plan;
	r = fill(c, err);
	if (r < 0)
		lh_churn_free(c);
	else
		*ret = c;
	return r;
}

void lh_churn_free(struct lh_churn *c)
{
	if (!c)
		return;
	lh_alarm_close(&c->alarm);
	if (c->csv)
		fclose(c->csv);
	free(c->nodes);
	free(c->actions);
	free(c);
}

int64_t lh_churn_due_ns(const struct lh_churn *c)
{
	return !c || c->next == c->n_actions ? INT64_MAX : c->begin_ns + c->actions[c->next].at_ns;
}

bool lh_churn_is_away(const struct lh_churn *c, size_t node)
{
	return c && c->nodes[node].is_away;
}

bool lh_churn_will_start(const struct lh_churn *c, size_t node)
{
	return c && c->nodes[node].n_to_come > 0;
}

char *lh_churn_describe_last(const struct lh_churn *c)
{
	size_t node;

	if (!c || !c->last)
		return NULL;
	node = c->last->absence->node;
	return lh_strf("%s (rank %zu) was %s at %.9g s", c->plan->nodes[node].name, node,
		       c->last->what == PREEMPT ? "preempted" : "told to end",
		       (double)c->last->at_ns / LH_NS_PER_S);
}

/* ---- while something runs ---------------------------------------------------------------- */

static void record(struct lh_churn *c, const char *event, const struct lh_absence *a,
		   int64_t planned_ns)
{
	fprintf(c->csv, "%.9f,%s,%s,%.9f,%s\n", (double)(lh_now_ns() - c->begin_ns) / LH_NS_PER_S,
		c->plan->nodes[a->node].name, event, (double)planned_ns / LH_NS_PER_S,
		lh_absence_cause_name(a->cause));
}

int lh_churn_begin(struct lh_churn *c, struct lh_net *net, int64_t begin_ns, const char *csv_path,
		   const struct lh_churn_ops *ops, void *context, struct lh_error *err)
{
	int r;

	if (!c)
		return 0;
	c->net = net;
	c->begin_ns = begin_ns;
	c->ops = ops;
	c->context = context;
	c->csv = csv_path ? fopen(csv_path, "we") : NULL;
	if (!c->csv)
		return lh_fail(err, LH_ESYS, errno, "create faults.csv");
	setvbuf(c->csv, NULL, _IOLBF, 0);
	fputs("t_s,node,event,planned_s,cause\n", c->csv);
	for (size_t i = 0; i < c->plan->scenario->n_absences; i++) {
		const struct lh_absence *a = &c->plan->scenario->absences[i];

		if (a->from_ns >= 0)
			continue;
		lh_net_cut(net, a->node);
		record(c, "absent", a, 0);
	}
	r = lh_alarm_open(&c->alarm, err);
	return r < 0 ? r : lh_alarm_set(&c->alarm, lh_churn_due_ns(c), err);
}

/* Whether an action is to be done at all. Its node may have ended before its time: then it is
 * neither taken away nor brought back. */
static bool is_wanted(const struct lh_churn *c, const struct action *action)
{
	size_t node = action->absence->node;

	if (action->what == START)
		return c->nodes[node].is_away;
	return !c->nodes[node].is_away && !c->ops->is_done(c->context, node);
}

static int kill_node(struct lh_churn *c, const struct action *action, struct lh_error *err)
{
	size_t node = action->absence->node;
	int r;

	if (!c->nodes[node].is_away)
		return 0;
	record(c, "preempt", action->absence, action->at_ns);
	c->last = action;
	r = c->ops->kill(c->context, node, err);
	return r < 0 ? r : lh_net_clear(c->net, node, err);
}

static int start_node(struct lh_churn *c, const struct action *action, struct lh_error *err)
{
	const struct lh_absence *a = action->absence;
	struct node *node = &c->nodes[a->node];
	int r = lh_net_restore(c->net, a->node, err);

	if (r < 0)
		return r;
	node->is_away = false;
	record(c, a->from_ns < 0 ? "join" : "return", a, action->at_ns);
	return c->ops->start(c->context, a->node, node->n_starts++, err);
}

static int do_action(struct lh_churn *c, const struct action *action, struct lh_error *err)
{
	size_t node = action->absence->node;

	if (action->what == PREEMPT)
		return kill_node(c, action, err);
	if (action->what == START)
		c->nodes[node].n_to_come--;
	if (!is_wanted(c, action))
		return 0;
	if (action->what == START)
		return start_node(c, action, err);
	record(c, "notice", action->absence, action->at_ns);
	c->last = action;
	return c->ops->notify(c->context, node, err);
}

/* All that happens at the time of the next action. Those that are taken away together are all cut
 * off before the first of them is killed: none hears of another's end. */
static int run_next(struct lh_churn *c, struct lh_error *err)
{
	size_t begin = c->next, end = begin;
	int r = 0;

	while (end < c->n_actions && c->actions[end].at_ns == c->actions[begin].at_ns)
		end++;
	c->next = end;
	for (size_t i = begin; i < end && c->actions[i].what == PREEMPT; i++) {
		size_t node = c->actions[i].absence->node;

		if (!is_wanted(c, &c->actions[i]))
			continue;
		lh_net_cut(c->net, node);
		c->nodes[node].is_away = true;
	}
	for (size_t i = begin; i < end && r == 0; i++)
		r = do_action(c, &c->actions[i], err);
	return r;
}

int lh_churn_run(struct lh_churn *c, struct lh_error *err)
{
	int r = 0;

	if (lh_now_ns() < lh_churn_due_ns(c))
		return 0;
	while (r == 0 && lh_now_ns() >= lh_churn_due_ns(c))
		r = run_next(c, err);
	if (r == 0 && ferror(c->csv))
		r = lh_fail(err, LH_ESYS, errno, "write faults.csv");
	return r < 0 ? r : lh_alarm_set(&c->alarm, lh_churn_due_ns(c), err);
}
