/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a strategy's parameters go together, with the compressor and with the ranks. What each is
 * by itself is in the field tables of schema_strategy.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/yaml.h"
#include "scenarios/check_internal.h"
#include "scenarios/strategy_kinds.h"

enum { TEXT_MAX_BYTES = 256 };

/* A workload's strategy while it is checked. */
struct subject {
	const struct lh_section *compressors;
	struct lh_strategy_spec *strategy;
	const struct lh_compress_spec *compress;
	unsigned kind;		  /* enum lh_strategy_kinds; 0: unknown, as the next */
	unsigned compressor;	  /* enum lh_compressor_kinds */
	struct lh_yaml *workload; /* as written, like the next two */
	struct lh_yaml *written;
	struct lh_yaml *compress_written;
	int64_t n_ranks;
	int64_t n_inside; /* ranks of a node, where all have as many and more than one; else 0 */
	struct lh_diag *diag;
};

static bool is_word(const char *word, const char *expected)
{
	return word && strcmp(word, expected) == 0;
}

/* Complains about a parameter where it stands, or about the strategy where it is absent. */
static void say(const struct subject *s, const char *key, const char *what)
{
	const struct lh_yaml *there = lh_yaml_get(s->written, key);
	char path[TEXT_MAX_BYTES];

	snprintf(path, sizeof(path), "workload.strategy.%s", key);
	lh_diag_add(s->diag, there ? there->pos : s->written->pos, path, "%s", what);
}

static void say_of_compress(const struct subject *s, const char *key, const char *what)
{
	const struct lh_yaml *there = lh_yaml_get(s->compress_written, key);
	char path[TEXT_MAX_BYTES];

	snprintf(path, sizeof(path), "workload.compress.%s", key);
	lh_diag_add(s->diag, there ? there->pos : s->compress_written->pos, path, "%s", what);
}

static void check_averaging(const struct subject *s)
{
	const struct lh_strategy_spec *spec = s->strategy;
	bool is_fixed = is_word(spec->balance, "fixed");

	if (is_fixed && spec->matchmaking_ns > 0)
		say(s, "matchmaking",
		    "with balance fixed no group is formed; expected it absent, or balance: "
		    "dynamic");
	if (spec->overlap && !is_fixed)
		say(s, "overlap",
		    "whoever does not know which pass is the last sends nothing beside it; "
		    "expected balance: fixed");
	if (spec->overlap && spec->bucket_bytes < 0)
		say(s, "overlap", "needs bucket, such as bucket: 25 MB");
}

/* Whether the sides are as they must be; what is wrong with one has been said. */
static bool has_sides(const struct lh_strategy_spec *spec)
{
	for (size_t i = 0; i < spec->n_dimensions; i++)
		if (spec->dimensions[i] < 2)
			return false;
	return spec->n_dimensions > 0;
}

/* Ranks that the grid has room for, at most INT32_MAX. */
static int64_t grid_size(const struct lh_strategy_spec *spec)
{
	int64_t size = 1;

	for (size_t i = 0; i < spec->n_dimensions && size < INT32_MAX; i++)
		size *= spec->dimensions[i];
	return size < INT32_MAX ? size : INT32_MAX;
}

/* The two sides, the smaller first, of the most square grid: full, or with as few free places as
 * that side leaves. False where there is none. */
static bool square_grid(int64_t n_ranks, bool is_full, int64_t ret_sides[2])
{
	int64_t small = 1;

	if (n_ranks < 4 && is_full)
		return false;
	while ((small + 1) * (small + 1) <= n_ranks)
		small++;
	while (is_full && n_ranks % small)
		small--;
	if (is_full && small < 2)
		return false;
	ret_sides[0] = small < 2 ? 2 : small;
	ret_sides[1] = (n_ranks + ret_sides[0] - 1) / ret_sides[0];
	if (ret_sides[1] < 2)
		ret_sides[1] = 2;
	return true;
}

static void set_text(struct lh_yaml *map, const char *key, const char *text, struct lh_diag *diag)
{
	struct lh_error err = {0};
	struct lh_yaml *value = NULL;

	lh_yaml_parse(key, text, strlen(text), &value, diag, &err);
	lh_yaml_set(map, key, value);
}

/* Sets a default into the struct and, for the resolved scenario, into the tree. */
static void set_grid(const struct subject *s, const int64_t sides[2])
{
	struct lh_strategy_spec *spec = s->strategy;
	int64_t *dimensions = calloc(2, sizeof(*dimensions));
	char text[TEXT_MAX_BYTES];

	if (!dimensions)
		return;
	memcpy(dimensions, sides, 2 * sizeof(*dimensions));
	spec->dimensions = dimensions;
	spec->n_dimensions = 2;
	snprintf(text, sizeof(text), "[%lld, %lld]", (long long)sides[0], (long long)sides[1]);
	set_text(s->written, "dimensions", text, s->diag);
}

static void check_grid(const struct subject *s)
{
	struct lh_strategy_spec *spec = s->strategy;
	const struct lh_yaml *there = lh_yaml_get(s->written, "dimensions");
	bool is_full = s->kind != LH_KIND_MOSHPIT;
	char what[TEXT_MAX_BYTES];
	int64_t sides[2];

	if (there) {
		if (there->kind == LH_YAML_SEQUENCE && !there->n_entries)
			say(s, "dimensions", "is empty; expected sides such as [4, 4]");
		else if (!has_sides(spec))
			return;
		else if ((is_full && grid_size(spec) != s->n_ranks) ||
			 grid_size(spec) < s->n_ranks) {
			snprintf(what, sizeof(what), "room for %lld ranks; expected %s%lld",
				 (long long)grid_size(spec), is_full ? "exactly " : "at least ",
				 (long long)s->n_ranks);
			say(s, "dimensions", what);
		}
		return;
	}
	/* a grid's near side keeps to a node */
	if (is_full && s->n_inside && s->n_ranks > s->n_inside) {
		set_grid(s, (int64_t[]){s->n_ranks / s->n_inside, s->n_inside});
		return;
	}
	if (square_grid(s->n_ranks, is_full, sides)) {
		set_grid(s, sides);
		return;
	}
	snprintf(what, sizeof(what),
		 "%lld ranks are no grid of two sides; expected another number of nodes, or a "
		 "strategy such as ring",
		 (long long)s->n_ranks);
	say(s, "dimensions", what);
}

static void check_rounds(const struct subject *s)
{
	struct lh_strategy_spec *spec = s->strategy;
	char text[TEXT_MAX_BYTES];

	if (lh_yaml_get(s->written, "rounds") || !spec->n_dimensions)
		return;
	spec->rounds = (int64_t)spec->n_dimensions;
	snprintf(text, sizeof(text), "%zu", spec->n_dimensions);
	set_text(s->written, "rounds", text, s->diag);
}

static void check_levels(const struct subject *s)
{
	const struct lh_yaml *there = lh_yaml_get(s->written, "levels");
	const struct lh_strategy_spec *spec = s->strategy;

	if (there && there->kind == LH_YAML_SEQUENCE && !there->n_entries)
		say(s, "levels", "is empty; expected node, site or both");
	for (size_t i = 1; i < spec->n_levels; i++)
		for (size_t j = 0; j < i; j++)
			if (is_word(spec->levels[i], spec->levels[j])) {
				say(s, "levels", "a level stands there twice");
				return;
			}
}

/* Ranks of the nodes of a spec, or of one of them. */
static int64_t ranks_of_spec(const struct lh_scenario *sc, const struct lh_node_spec *spec,
			     bool of_one)
{
	const struct lh_machine *m = spec->machine ? lh_machine_find(sc, spec->machine) : NULL;

	return (of_one ? 1 : spec->count) * (m ? lh_ranks_of(sc, m) : 1);
}

/* Ranks of the group that a spec's first node is in: that node's, or its site's. */
static int64_t ranks_of_group(const struct lh_scenario *sc, const struct lh_node_spec *of,
			      bool is_by_site)
{
	int64_t n = 0;

	if (!is_by_site)
		return ranks_of_spec(sc, of, true);
	for (size_t i = 0; i < sc->n_node_specs; i++)
		if (is_word(sc->node_specs[i].site, of->site))
			n += ranks_of_spec(sc, &sc->node_specs[i], false);
	return n;
}

/* Groups of hierarchical top-k share their shares, so each must have as many ranks. */
static void check_topk_groups(const struct subject *s, const struct lh_scenario *sc)
{
	const struct lh_node_spec *first = sc->node_specs;
	bool is_by_site;
	char what[TEXT_MAX_BYTES];

	if (s->strategy->n_levels > 1)
		say(s, "levels", "expected one of node and site");
	if (s->compress->clip_norm > 0)
		say_of_compress(s, "clip_norm",
				"no rank's own gradient is sparsified; expected it absent");
	if (s->strategy->n_levels != 1)
		return;
	is_by_site = is_word(s->strategy->levels[0], "site");
	for (size_t i = 1; i < sc->n_node_specs; i++) {
		const struct lh_node_spec *spec = &sc->node_specs[i];
		int64_t n = spec->site && first->site ? ranks_of_group(sc, spec, is_by_site) : 0;

		if (n && n != ranks_of_group(sc, first, is_by_site)) {
			snprintf(what, sizeof(what),
				 "%s%.60s has %lld ranks, %s%.60s %lld; expected as many in every "
				 "%s",
				 is_by_site ? "" : "a node of ", first->site,
				 (long long)ranks_of_group(sc, first, is_by_site),
				 is_by_site ? "" : "one of ", spec->site, (long long)n,
				 is_by_site ? "site" : "node");
			say(s, "levels", what);
			return;
		}
	}
}

/* Parameters of the collective by which weights are averaged. */
static void check_collective(const struct subject *s)
{
	static const char *const of[][2] = {
		{"dimensions", "torus"}, {"levels", "hierarchical"}, {"segment", "tree"}};
	const char *collective = s->strategy->collective;
	char what[TEXT_MAX_BYTES];

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		if (!lh_yaml_get(s->written, of[i][0]) || is_word(collective, of[i][1]))
			continue;
		snprintf(what, sizeof(what), "is of collective %s alone", of[i][1]);
		say(s, of[i][0], what);
	}
	if (is_word(collective, "torus"))
		check_grid(s);
	if (is_word(collective, "hierarchical"))
		check_levels(s);
}

static void check_streaming(const struct subject *s)
{
	struct lh_strategy_spec *spec = s->strategy;
	bool is_streaming = spec->fragments > 1 || spec->fragment_delay > 0;

	if (lh_yaml_get(s->written, "fragment_mix")) {
		if (!is_streaming)
			say(s, "fragment_mix",
			    "nothing is merged late; expected it absent, or fragments above 1 or "
			    "fragment_delay above 0");
	} else if (is_streaming) {
		spec->fragment_mix = 0.5;
		set_text(s->written, "fragment_mix", "0.5", s->diag);
	}
	if (spec->period < 1)
		return;
	if (spec->fragments > spec->period)
		say(s, "fragments", "more than the epochs of a period; expected at most `period`");
	if (spec->fragment_delay >= spec->period)
		say(s, "fragment_delay",
		    "as long as the period, in which the next one leaves; expected less than "
		    "`period`");
}

static void check_servers(const struct subject *s)
{
	const struct lh_strategy_spec *spec = s->strategy;
	bool is_averaging = is_word(spec->exchange, "averaging");

	if (is_word(spec->exchange, "asgd") && spec->period > 1)
		say(s, "period",
		    "asgd sends every gradient; expected 1, or exchange: asgd-ga or averaging");
	if (spec->exchange && !is_averaging && !spec->asynchronous)
		say(s, "asynchronous",
		    "servers that exchange gradients wait for none; expected true, or exchange: "
		    "averaging");
}

static void check_elastic(const struct subject *s)
{
	const struct lh_strategy_spec *spec = s->strategy;

	if (s->n_ranks > 1 && spec->min_group > s->n_ranks)
		say(s, "min_group", "more than there are ranks");
	if (spec->heartbeat_ns >= spec->timeout_ns)
		say(s, "heartbeat", "not less than timeout");
}

/* Strategies, and what more they need, that some compressors go with. */
struct companions {
	unsigned compressors;
	unsigned strategies;
	bool needs_fixed;
};

static const struct companions companions[] = {
	{LH_KINDS_CODECS,
	 LH_KINDS_DENSE | LH_KINDS_LOCAL | LH_KINDS_GOSSIP | LH_KINDS_ELASTIC |
		 LH_KIND_PARAMETER_SERVER,
	 false},
	{LH_KIND_ONEBIT, LH_KIND_BUTTERFLY, false},
	{LH_KINDS_SPARSIFIERS, LH_KINDS_SPARSE | LH_KIND_PARAMETER_SERVER, false},
	{LH_KIND_POWERSGD, LH_KINDS_DENSE, true},
};

/* The compressors that go with the strategy, for a message. */
static void list_compressors(const struct subject *s, char *text, size_t n_text)
{
	unsigned all = 0;

	for (size_t i = 0; i < sizeof(companions) / sizeof(companions[0]); i++)
		if (companions[i].strategies & s->kind)
			all |= companions[i].compressors;
	lh_kinds_format(s->compressors, all, text, n_text);
}

static void check_companions(const struct subject *s)
{
	const struct companions *c = companions;
	char names[TEXT_MAX_BYTES], what[2 * TEXT_MAX_BYTES];

	while (!(c->compressors & s->compressor))
		c++;
	if (!(c->strategies & s->kind)) {
		list_compressors(s, names, sizeof(names));
		snprintf(what, sizeof(what), "%s does not go with strategy %s%s%s",
			 s->compress->kind, s->strategy->kind, *names ? "; expected one of " : "",
			 names);
		say_of_compress(s, "kind", what);
	}
	if ((c->compressors & LH_KINDS_SPARSIFIERS) && is_word(s->strategy->exchange, "averaging"))
		say_of_compress(s, "kind",
				"weights that are averaged are sent whole; expected such as fp16, "
				"or exchange: asgd or asgd-ga");
	if (c->needs_fixed && (s->kind & LH_KINDS_DENSE) && !is_word(s->strategy->balance, "fixed"))
		say_of_compress(s, "kind",
				"its factors are averaged by themselves, which needs balance: "
				"fixed in the strategy");
}

/* Compressors with an averaging of their own. */
static void check_own_averaging(const struct subject *s)
{
	if (s->strategy->bucket_bytes > 0)
		say(s, "bucket",
		    "onebit and powersgd average all gradients at once; expected it absent");
	if (s->compressor == LH_KIND_ONEBIT && is_word(s->strategy->shards, "bandwidth"))
		say(s, "shards", "onebit cuts equal shares; expected equal");
}

/* dgc remembers a momentum of its own, and masks it where it was sent. */
static void check_dgc(const struct subject *s, const struct lh_workload *w)
{
	const struct lh_train_optimizer *o = &w->train.optimizer;
	const struct lh_yaml *written = lh_yaml_get(lh_yaml_get(s->workload, "train"), "optimizer");
	const struct lh_yaml *momentum = lh_yaml_get(written, "momentum");
	const struct lh_yaml *kind = lh_yaml_get(written, "kind");
	bool is_lars = is_word(o->kind, "lars");

	if (!s->compress->feedback)
		say_of_compress(s, "feedback",
				"dgc is what it remembers; expected true, or kind: topk");
	if (w->mode != LH_MODE_TRAIN || !o->kind)
		return;
	if (!is_word(o->kind, "sgd") && !is_lars)
		lh_diag_add(s->diag, kind->pos, "workload.train.optimizer.kind",
			    "%s has a momentum beside that of compress dgc; expected sgd, or lars "
			    "with momentum: 0",
			    o->kind);
	else if (o->momentum > 0 || (is_lars && !momentum))
		lh_diag_add(s->diag, momentum ? momentum->pos : written->pos,
			    "workload.train.optimizer.momentum",
			    "momentum is that of compress dgc; expected 0 here");
}

/* Sparse messages tell places in 31 bits. */
static void check_places(const struct subject *s, const struct lh_scenario *sc)
{
	const struct lh_model *model = NULL;

	for (size_t i = 0; i < sc->n_models; i++)
		if (is_word(sc->workload.model, sc->models[i].name))
			model = &sc->models[i];
	if (model && model->parameters > INT32_MAX)
		say_of_compress(s, "kind",
				"sparse messages tell places below 2,147,483,647, and the model "
				"has more parameters; expected such as fp16");
}

void lh_strategy_check_among(struct lh_scenario *sc, const struct lh_section *strategies,
			     const struct lh_section *compressors, struct lh_diag *diag)
{
	struct lh_yaml *workload = lh_yaml_get(sc->tree, "workload");
	struct subject s = {
		.compressors = compressors,
		.strategy = &sc->workload.strategy,
		.compress = &sc->workload.compress,
		.kind = lh_section_kind_named(strategies, sc->workload.strategy.kind),
		.compressor = lh_section_kind_named(compressors, sc->workload.compress.kind),
		.workload = workload,
		.written = lh_yaml_get(workload, "strategy"),
		.compress_written = lh_yaml_get(workload, "compress"),
		.diag = diag,
	};

	s.n_ranks = lh_count_ranks(sc, &s.n_inside);
	if (s.kind & LH_KINDS_AVERAGING)
		check_averaging(&s);
	if (s.kind & (LH_KIND_TORUS | LH_KIND_MOSHPIT))
		check_grid(&s);
	if (s.kind & LH_KIND_MOSHPIT)
		check_rounds(&s);
	if (s.kind & (LH_KIND_HIERARCHICAL | LH_KIND_HIERARCHICAL_TOPK))
		check_levels(&s);
	if (s.kind & LH_KIND_HIERARCHICAL_TOPK)
		check_topk_groups(&s, sc);
	if (s.kind & LH_KINDS_LOCAL)
		check_collective(&s);
	if (s.kind & LH_KIND_DILOCO)
		check_streaming(&s);
	if (s.kind & LH_KIND_PARAMETER_SERVER)
		check_servers(&s);
	if (s.kind & LH_KINDS_ELASTIC)
		check_elastic(&s);
	if (s.kind && s.compressor)
		check_companions(&s);
	if (s.compressor & (LH_KIND_ONEBIT | LH_KIND_POWERSGD))
		check_own_averaging(&s);
	if (s.compressor == LH_KIND_DGC)
		check_dgc(&s, &sc->workload);
	if (s.compressor & LH_KINDS_SPARSIFIERS)
		check_places(&s, sc);
}

void lh_strategy_check(struct lh_scenario *sc, struct lh_diag *diag)
{
	lh_strategy_check_among(sc, &lh_strategy_section, &lh_compress_section, diag);
}
