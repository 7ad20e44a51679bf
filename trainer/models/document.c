/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of models for people. See model.h. */
#include <errno.h>
#include <inttypes.h>

#include "trainer/models/model.h"

static const char head[] =
	"# Models\n"
	"\n"
	"What the engine trains, by name. A preset is a family with values for some of its "
	"settings; every "
	"setting can be\n"
	"changed on top, as `classes=10`. Choices are 0 (no) or 1 (yes). The tables are the "
	"program's own; a "
	"test compares them.\n"
	"\n"
	"## Presets\n"
	"\n"
	"| model | parameters | what it is | family | settings other than the family's | source |\n"
	"|---|---:|---|---|---|---|\n";

/* 11689512 as 11,689,512. */
static void write_count(FILE *out, int64_t n)
{
	int64_t power = 1;

	while (n / power >= 1000)
		power *= 1000;
	fprintf(out, "%" PRId64, n / power);
	for (; power > 1; power /= 1000)
		fprintf(out, ",%03" PRId64, n % power / (power / 1000));
}

static int write_preset(struct lh_device *device, FILE *out, const struct lh_model_preset *preset,
			struct lh_error *err)
{
	struct lh_model_config config;
	int64_t n;
	int rc = lh_model_config_init(preset->name, &config, err);

	rc = rc ? rc : lh_model_count_parameters(device, &config, &n, err);
	if (rc)
		return rc;
	fprintf(out, "| %s | ", preset->name);
	write_count(out, n);
	fprintf(out, " | %s | %s |", preset->doc, preset->family->name);
	for (const struct lh_model_value *value = preset->values; value->name; value++)
		fprintf(out, " %s=%.10g", value->name, value->value);
	fprintf(out, " |%s%s |\n", preset->source ? " " : "", preset->source ? preset->source : "");
	return 0;
}

static void write_family(FILE *out, const struct lh_model_family *family)
{
	fprintf(out,
		"\n## %s (%s)\n\n| setting | default | from | to | |\n|---|---:|---:|---:|---|\n",
		family->name, lh_task_name(family->task));
	for (const struct lh_model_setting *s = family->settings; s->name; s++)
		fprintf(out, "| %s | %.10g | %.10g | %.10g | %s |\n", s->name, s->value, s->min,
			s->max, s->doc);
}

int lh_models_document(struct lh_device *device, FILE *out, struct lh_error *err)
{
	const struct lh_model_family *family = NULL;
	int rc = 0;

	fputs(head, out);
	for (const struct lh_model_preset *p = lh_model_presets; rc == 0 && p->name; p++)
		rc = write_preset(device, out, p, err);
	/* presets of a family stand beside each other */
	for (const struct lh_model_preset *p = lh_model_presets; rc == 0 && p->name; p++) {
		if (p->family != family)
			write_family(out, p->family);
		family = p->family;
	}
	if (rc == 0 && ferror(out))
		rc = lh_fail(err, LH_ESYS, errno, "write the models");
	return rc;
}
