/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies with steps of their own, whole ranks over loopback, against the same training worked
 * out in double precision in one place.
 */
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "tests/unit/loopback.h"
#include "tests/unit/test.h"
#include "tests/unit/toy_ranks.h"
#include "trainer/strategy/fragments.h"
#include "trainer/strategy/strategy.h"

enum { PARAMETERS = 1003 };

/* The same training of one element in double precision. */
struct alone {
	double own[TOY_RANKS_MAX];
	double start;
	double velocity;
	double under_way; /* the mean way of a fragment that was sent */
	uint32_t sent_epoch;
	bool is_under_way;
};

struct rule {
	uint32_t n;
	uint32_t epochs;
	uint32_t period;
	uint32_t n_fragments;
	uint32_t delay;
	double mix;
	double lr;
	double momentum;
};

static double mean_way(const struct rule *rule, const struct alone *a)
{
	double way = 0;

	for (uint32_t r = 0; r < rule->n; r++)
		way += (a->start - a->own[r]) / rule->n;
	return way;
}

static void outer_step(const struct rule *rule, struct alone *a, double way, double mix)
{
	a->velocity = rule->momentum * a->velocity + way;
	a->start -= rule->lr * (way + rule->momentum * a->velocity);
	for (uint32_t r = 0; r < rule->n; r++)
		a->own[r] = mix * a->own[r] + (1 - mix) * a->start;
}

/* Element i, which lies in that fragment, after all. */
static double train_alone(const struct rule *rule, uint64_t i, uint32_t fragment)
{
	struct alone a = {.start = toy_first(i)};

	for (uint32_t r = 0; r < rule->n; r++)
		a.own[r] = a.start;
	for (uint32_t epoch = 0; epoch < rule->epochs; epoch++) {
		bool is_last = epoch + 1 == rule->epochs;
		bool is_due = lh_fragment_is_due(fragment, rule->n_fragments, rule->period, epoch);

		for (uint32_t r = 0; r < rule->n; r++)
			a.own[r] -= TOY_LR * (a.own[r] - toy_goal(r, i));
		if (a.is_under_way && (is_last || epoch - a.sent_epoch == rule->delay)) {
			outer_step(rule, &a, a.under_way, rule->mix);
			a.is_under_way = false;
		}
		if (is_due && rule->delay && !is_last) {
			a.under_way = mean_way(rule, &a);
			a.sent_epoch = epoch;
			a.is_under_way = true;
		} else if (is_due) {
			outer_step(rule, &a, mean_way(rule, &a), is_last ? 0 : rule->mix);
		} else if (is_last) {
			a.start -= mean_way(rule, &a);
		}
	}
	return a.start;
}

static void set_up(struct toy_world *w, const char *kind, const struct rule *rule)
{
	toy_world_init(w, rule->n, PARAMETERS, rule->epochs);
	w->job.strategy = lh_strategy_find(kind);
	w->job.settings.period = rule->period;
	w->job.settings.fragments = rule->n_fragments;
	w->job.settings.fragment_delay = rule->delay;
	w->job.settings.fragment_mix = rule->mix;
	w->job.settings.outer_lr = rule->lr;
	w->job.settings.outer_momentum = rule->momentum;
}

/* All ranks end with the same bits, as near to what was worked out as tolerance. */
static void check_weights(const struct toy_world *w, const struct rule *rule, double tolerance)
{
	struct lh_fragments fragments;
	struct lh_error err = {0};

	assert_int_equal(lh_fragments_cut(PARAMETERS, rule->n_fragments, NULL, 0, &fragments, &err),
			 0);
	for (uint32_t r = 0; r < rule->n; r++) {
		assert_non_null(w->toys[r].weights);
		assert_int_equal(w->toys[r].n_steps, rule->epochs);
		assert_memory_equal(w->toys[r].weights, w->toys[0].weights,
				    PARAMETERS * sizeof(float));
	}
	for (uint32_t f = 0; f < rule->n_fragments; f++) {
		const struct lh_run *run = &fragments.fragments[f].runs[0];

		for (uint64_t i = run->at; i < run->at + run->n; i++)
			assert_near(w->toys[0].weights[i], train_alone(rule, i, f), tolerance);
	}
	lh_fragments_done(&fragments);
}

/* Fragments that are averaged in an epoch, by the rule. */
static uint32_t n_averaged(const struct rule *rule, uint32_t epoch)
{
	uint32_t n = 0;

	for (uint32_t f = 0; rule->n > 1 && f < rule->n_fragments; f++) {
		bool is_last = epoch + 1 == rule->epochs, comes = false;

		if (is_last)
			for (uint32_t age = 1; age <= rule->delay && age <= epoch; age++)
				comes |= lh_fragment_is_due(f, rule->n_fragments, rule->period,
							    epoch - age);
		else if (epoch >= rule->delay)
			comes = lh_fragment_is_due(f, rule->n_fragments, rule->period,
						   epoch - rule->delay);
		n += comes;
		n += is_last;
	}
	return n;
}

static void check_events(const struct toy_world *w, const struct rule *rule)
{
	uint32_t seen[64] = {0};
	size_t i;
	const json_t *event;
	int64_t sent = 0, last_ns = 0;

	for (uint32_t r = 0; r < rule->n; r++) {
		lh_cleanup_json json_t *events = toy_events(w, r);

		sent += loopback_sum(events, "average", "payload_sent_bytes", NULL);
		last_ns = 0;
		json_array_foreach (events, i, event) {
			assert_true(loopback_integer(event, "t_ns") >= last_ns);
			last_ns = loopback_integer(event, "t_ns");
			if (r == 0 && loopback_is_event(event, "average"))
				seen[loopback_integer(event, "epoch")]++;
		}
		assert_true(loopback_is_event(json_array_get(events, json_array_size(events) - 1),
					      "end"));
	}
	for (uint32_t epoch = 0; epoch < rule->epochs; epoch++)
		assert_int_equal(seen[epoch], n_averaged(rule, epoch));
	if (rule->n_fragments == 1 && rule->delay == 0)
		assert_true(sent == (int64_t)(rule->epochs + rule->period - 1) / rule->period * 2 *
					    (rule->n - 1) * PARAMETERS *
					    w->job.compress->bytes_per_element);
}

static void run_rule(const char *kind, const struct rule *rule, const struct lh_codec_ops *codec,
		     double tolerance)
{
	struct toy_world w;

	set_up(&w, kind, rule);
	w.job.compress = codec;
	toy_run(&w);
	check_weights(&w, rule, tolerance);
	check_events(&w, rule);
	toy_world_done(&w);
}

static void test_local_steps_end_at_the_exact_mean(void **state)
{
	static const struct rule rules[] = {
		{.n = 4, .epochs = 8, .period = 4, .n_fragments = 1, .lr = 1},
		{.n = 3, .epochs = 7, .period = 3, .n_fragments = 1, .lr = 1},
		{.n = 2, .epochs = 3, .period = 1, .n_fragments = 1, .lr = 1},
		{.n = 2, .epochs = 2, .period = 50, .n_fragments = 1, .lr = 1},
		{.n = 1, .epochs = 4, .period = 2, .n_fragments = 1, .lr = 1},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(rules); i++)
		run_rule("local-sgd", &rules[i], &lh_codec_none, 4e-7);
}

static void test_diloco_follows_its_outer_optimizer(void **state)
{
	static const struct rule rules[] = {
		{.n = 4, .epochs = 9, .period = 3, .n_fragments = 1, .lr = 0.7, .momentum = 0.9},
		{.n = 3, .epochs = 8, .period = 3, .n_fragments = 1, .lr = 0.4, .momentum = 0.5},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(rules); i++)
		run_rule("diloco", &rules[i], &lh_codec_none, 2e-6);
}

static void test_fragments_stream_beside_computing_and_are_mixed_late(void **state)
{
	static const struct rule rules[] = {
		{3, 13, 6, 3, 0, 0.5, 0.7, 0.9},  {3, 13, 6, 3, 2, 0.5, 0.7, 0.9},
		{2, 12, 4, 1, 3, 0.25, 0.4, 0.9}, {4, 11, 4, 4, 3, 0.5, 0.7, 0.9},
		{1, 6, 3, 2, 1, 0.5, 0.7, 0.9},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(rules); i++)
		run_rule("diloco", &rules[i], &lh_codec_none, 4e-6);
}

/* Each way between synchronisations is below 1, and so is rounded by as much as the codec says. */
static void test_every_codec_carries_the_ways(void **state)
{
	static const struct rule rule = {3, 6, 3, 1, 0, 0, 0.7, 0.9};

	(void)state;
	for (size_t i = 0; lh_codecs[i]; i++)
		if (!lh_codecs[i]->needs_feedback && lh_codecs[i]->bytes_per_element)
			run_rule("diloco", &rule, lh_codecs[i],
				 8 * lh_codecs[i]->error_ratio + 2e-6);
}

static void test_replayed_weights_are_as_many_bytes(void **state)
{
	static const struct rule rule = {3, 9, 4, 2, 2, 0.5, 0.7, 0.9};
	struct toy_world w;
	int64_t checked = 0;

	(void)state;
	set_up(&w, "diloco", &rule);
	w.is_replayed = true;
	toy_run(&w);
	check_events(&w, &rule);
	for (uint32_t r = 0; r < rule.n; r++) {
		lh_cleanup_json json_t *events = toy_events(&w, r);

		checked += loopback_sum(events, "average", "checked_elements", NULL);
	}
	assert_true(checked > 0);
	toy_world_done(&w);
}

static void test_what_does_not_fit_is_refused(void **state)
{
	struct toy_world w;
	struct lh_error err = {0};
	static const struct rule rule = {2, 2, 4, 1, 0, 0.5, 0.7, 0.9};

	(void)state;
	set_up(&w, "diloco", &rule);
	assert_int_equal(w.job.strategy->check(&w.job, &err), 0);
	w.job.settings.fragments = 5;
	assert_int_equal(w.job.strategy->check(&w.job, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "strategy.fragments: 5 in a period of 4"));
	w.job.settings.fragments = 1;
	w.job.settings.fragment_delay = 4;
	assert_int_equal(w.job.strategy->check(&w.job, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "strategy.fragment_delay: 4 epochs"));
	w.job.settings.fragment_delay = 0;
	strcpy(w.job.settings.collective, "d-psgd");
	assert_int_equal(w.job.strategy->check(&w.job, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "\"d-psgd\" is no all-reduce"));
	toy_world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_local_steps_end_at_the_exact_mean),
		cmocka_unit_test(test_diloco_follows_its_outer_optimizer),
		cmocka_unit_test(test_fragments_stream_beside_computing_and_are_mixed_late),
		cmocka_unit_test(test_every_codec_carries_the_ways),
		cmocka_unit_test(test_replayed_weights_are_as_many_bytes),
		cmocka_unit_test(test_what_does_not_fit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
