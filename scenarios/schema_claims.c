/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables of what a suite says of a paper's claims. See claims.h. */
#include "scenarios/claims.h"
#include "scenarios/schema_internal.h"

/* clang-format off */

static const struct lh_choice statuses[] = {{"confirmed", 0}, {"unconfirmed", 0}, {NULL, 0}};

/* A test holds this list and lh_measures together. */
static const struct lh_choice measures[] = {
	{"speed-up", 0}, {"faster", 0}, {"cost-reduction", 0}, {"accuracy-gain", 0},
	{"throughput", 0}, {"accuracy", 0}, {"wall", 0}, {NULL, 0},
};

static const struct lh_field pair_fields[] = {
	{.key = "of", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_claim_pair, of),
	 .doc = "an experiment of the suite"},
	{.key = "against", .type = LH_FIELD_STRING, AT(struct lh_claim_pair, against),
	 .doc = "the experiment that it is compared with, where the measure compares"},
	END,
};

static const struct lh_section pair_section = {
	"a pair", "Experiments that speak to a claim.", sizeof(struct lh_claim_pair), LH_NO_OFFSET,
	NULL, offsetof(struct lh_claim_pair, pos), pair_fields,
};

static const struct lh_field claim_fields[] = {
	{.key = "id", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_claim, id),
	 .doc = "a short name"},
	{.key = "claim", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_claim, claim),
	 .doc = "what is claimed, in a sentence"},
	{.key = "source", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_claim, source),
	 .doc = "where that stands"},
	{.key = "status", .type = LH_FIELD_WORD, .flags = REQUIRED, AT(struct lh_claim, status),
	 .choices = statuses,
	 .doc = "confirmed: the source itself says so; unconfirmed: others say that it does"},
	{.key = "measure", .type = LH_FIELD_WORD, .flags = REQUIRED, AT(struct lh_claim, measure),
	 .choices = measures, .doc = "what is measured here"},
	{.key = "least", .type = LH_FIELD_NUMBER, AT(struct lh_claim, least),
	 .doc = "published, in the measure's unit"},
	{.key = "most", .type = LH_FIELD_NUMBER, AT(struct lh_claim, most),
	 .doc = "published, in the measure's unit"},
	{.key = "pairs", .type = LH_FIELD_LIST, .flags = REQUIRED, AT(struct lh_claim, pairs),
	 COUNT(struct lh_claim, n_pairs), .section = &pair_section,
	 .doc = "experiments that are measured: ours is from the least to the largest"},
	END,
};

const struct lh_section lh_claim_section = {
	"a claim", "What a paper claims.", sizeof(struct lh_claim), LH_NO_OFFSET, NULL,
	LH_NO_OFFSET, claim_fields,
};

static const struct lh_field unknown_fields[] = {
	{.key = "setting", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_unknown_setting, setting), .doc = "what is not known"},
	{.key = "ours", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_unknown_setting, ours), .doc = "what stands in its stead here"},
	END,
};

const struct lh_section lh_unknown_section = {
	"an unknown setting", "What a paper, or what is known of it, does not tell.",
	sizeof(struct lh_unknown_setting), LH_NO_OFFSET, NULL, LH_NO_OFFSET, unknown_fields,
};

static const struct lh_field point_fields[] = {
	{.key = "series", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_sweep_point, series), .doc = "the line that it belongs to"},
	{.key = "at", .type = LH_FIELD_NUMBER, .flags = REQUIRED, AT(struct lh_sweep_point, at),
	 .doc = "where on the axis"},
	{.key = "run", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_sweep_point, run),
	 .doc = "an experiment of the suite"},
	END,
};

static const struct lh_section point_section = {
	"a point", "An experiment of a sweep.", sizeof(struct lh_sweep_point), LH_NO_OFFSET, NULL,
	offsetof(struct lh_sweep_point, pos), point_fields,
};

static const struct lh_field sweep_fields[] = {
	{.key = "about", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_sweep, about),
	 .doc = "the line below the figure's title"},
	{.key = "label", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_sweep, label),
	 .doc = "of the axis"},
	{.key = "against", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_sweep, against), .doc = "the experiment that speed-ups are over"},
	{.key = "points", .type = LH_FIELD_LIST, .flags = REQUIRED, AT(struct lh_sweep, points),
	 COUNT(struct lh_sweep, n_points), .max = 100, .section = &point_section,
	 .doc = "experiments"},
	END,
};

const struct lh_section lh_sweep_section = {
	"a sweep", "Speed-up and accuracy over something, as a figure.", sizeof(struct lh_sweep),
	LH_NO_OFFSET, NULL, offsetof(struct lh_sweep, pos), sweep_fields,
};

/* clang-format on */
