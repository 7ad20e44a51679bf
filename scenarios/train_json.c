/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a training for the engine. See train_json.h. */
#include "scenarios/train_json.h"

#include "core/yaml.h"

static void put_text(json_t *object, const char *key, const char *text)
{
	if (text)
		json_object_set_new(object, key, json_string(text));
}

/* -1 stands for the engine's default. */
static void put_number(json_t *object, const char *key, double value)
{
	if (value != -1)
		json_object_set_new(object, key, json_real(value));
}

static json_t *settings_to_json(const struct lh_yaml *settings)
{
	json_t *object = json_object();

	for (size_t i = 0; settings && i < settings->n_entries; i++) {
		const struct lh_yaml *value = settings->entries[i].value;

		json_object_set_new(object, settings->entries[i].key,
				    value->kind == LH_YAML_SCALAR ? json_string(value->text)
								  : json_null());
	}
	return object;
}

static json_t *data_to_json(const struct lh_train_data *data)
{
	json_t *object = json_object();

	put_text(object, "kind", data->kind);
	put_text(object, "path", data->path);
	put_text(object, "vocabulary", data->vocabulary);
	if (data->samples > 0)
		json_object_set_new(object, "samples", json_integer((json_int_t)data->samples));
	if (data->test_samples > 0)
		json_object_set_new(object, "test_samples",
				    json_integer((json_int_t)data->test_samples));
	put_number(object, "skew", data->skew);
	json_object_set_new(object, "augment", json_boolean(data->augment));
	return object;
}

static json_t *optimizer_to_json(const struct lh_train_optimizer *o)
{
	json_t *object = json_object();

	put_text(object, "kind", o->kind);
	put_number(object, "lr", o->lr);
	put_number(object, "momentum", o->momentum);
	json_object_set_new(object, "nesterov", json_boolean(o->nesterov));
	put_number(object, "beta1", o->beta1);
	put_number(object, "beta2", o->beta2);
	put_number(object, "eps", o->eps);
	put_number(object, "weight_decay", o->weight_decay);
	put_number(object, "trust", o->trust);
	put_number(object, "clip_norm", o->clip_norm);
	return object;
}

static json_t *schedule_to_json(const struct lh_train_schedule *s)
{
	json_t *object = json_object();

	put_text(object, "kind", s->kind);
	json_object_set_new(object, "warm_up", json_integer((json_int_t)s->warm_up));
	json_object_set_new(object, "final", json_real(s->final_ratio));
	json_object_set_new(object, "power", json_real(s->power));
	return object;
}

json_t *lh_train_to_json(const struct lh_train_spec *train)
{
	json_t *object = json_object();

	json_object_set_new(object, "settings", settings_to_json(train->settings));
	json_object_set_new(object, "data", data_to_json(&train->data));
	json_object_set_new(object, "optimizer", optimizer_to_json(&train->optimizer));
	if (train->schedule.kind)
		json_object_set_new(object, "schedule", schedule_to_json(&train->schedule));
	json_object_set_new(object, "evaluate", json_integer((json_int_t)train->evaluate));
	put_text(object, "device", train->device);
	put_text(object, "precision", train->precision);
	json_object_set_new(object, "portable", json_boolean(train->is_portable));
	/* ranks share the machine, and a guest has one processor */
	json_object_set_new(object, "threads", json_integer(1));
	return object;
}
