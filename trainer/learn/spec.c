/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what is learnt. See spec.h. */
#include "trainer/learn/spec.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/nearest.h"

static const double SKEW_MIN = 0.001, SKEW_MAX = 1e6;

/* One mapping of the document while it is read. */
struct section {
	const json_t *object; /* NULL: absent */
	const char *path;     /* "" or "optimizer." */
	const struct lh_learn_reading *reading;
	struct lh_diag *diag;
};

static void complain(const struct section *s, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void complain(const struct section *s, const char *key, const char *fmt, ...)
{
	const struct lh_learn_reading *reading = s->reading;
	char path[192], whole[256], what[LH_ERROR_MESSAGE_MAX];
	struct lh_pos pos = {0};
	va_list args;

	snprintf(path, sizeof(path), "%.60s%.100s", s->path, key);
	snprintf(whole, sizeof(whole), "%s%s%s", reading->prefix, *reading->prefix ? "." : "",
		 path);
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	if (reading->pos_of)
		pos = reading->pos_of(reading->context, path);
	lh_diag_add(s->diag, pos, whole, "%s", what);
}

static const json_t *get(const struct section *s, const char *key)
{
	return s->object ? json_object_get(s->object, key) : NULL;
}

static struct section enter(const struct section *top, const char *key, const char *path)
{
	struct section s = {get(top, key), path, top->reading, top->diag};

	if (s.object && !json_is_object(s.object)) {
		complain(top, key, "expected a mapping");
		s.object = NULL;
	}
	return s;
}

/* Sets *value where key is there. */
static void take_number(const struct section *s, const char *key, double *value)
{
	const json_t *number = get(s, key);

	if (!number)
		return;
	if (json_is_number(number) && isfinite(json_number_value(number)))
		*value = json_number_value(number);
	else
		complain(s, key, "expected a number");
}

static void take_count(const struct section *s, const char *key, uint64_t max, uint64_t *value)
{
	const json_t *number = get(s, key);

	if (!number)
		return;
	if (json_is_integer(number) && json_integer_value(number) >= 0 &&
	    (uint64_t)json_integer_value(number) <= max)
		*value = (uint64_t)json_integer_value(number);
	else
		complain(s, key, "expected an integer, 0 to %llu", (unsigned long long)max);
}

static void take_boolean(const struct section *s, const char *key, bool *value)
{
	const json_t *boolean = get(s, key);

	if (!boolean)
		return;
	if (json_is_boolean(boolean))
		*value = json_is_true(boolean);
	else
		complain(s, key, "expected true or false");
}

/* A text, or NULL where there is none. */
static const char *take_text(const struct section *s, const char *key)
{
	const json_t *text = get(s, key);

	if (text && !json_is_string(text)) {
		complain(s, key, "expected a text");
		return NULL;
	}
	return text ? json_string_value(text) : NULL;
}

static void take_path(const struct section *s, const char *key, char ret_path[LH_LEARN_PATH_MAX])
{
	const char *text = take_text(s, key);

	if (text && snprintf(ret_path, LH_LEARN_PATH_MAX, "%s", text) >= LH_LEARN_PATH_MAX)
		complain(s, key, "longer than %d bytes", LH_LEARN_PATH_MAX - 1);
}

/* Refuses keys that stand in none of the lists. */
static void check_keys(const struct section *s, const char *const known[])
{
	const char *key;
	const json_t *value;

	if (!s->object)
		return;
	json_object_foreach ((json_t *)(uintptr_t)s->object, key, value) {
		size_t i = 0;

		while (known[i] && strcmp(known[i], key) != 0)
			i++;
		if (!known[i])
			complain(s, key, "unknown key");
	}
}

/* ---- misspelt names ------------------------------------------------------------------------- */

static const char *data_at(const void *context, size_t i)
{
	(void)context;
	return lh_datasets[i] ? lh_datasets[i]->name : NULL;
}

static const char *schedule_at(const void *context, size_t i)
{
	(void)context;
	return lh_schedules[i].name;
}

static const char *device_at(const void *context, size_t i)
{
	const struct lh_device_ops *const *devices = context;

	return devices[i] ? devices[i]->name : NULL;
}

/* Complains about a name that is none of a list, with the nearest one. */
static void complain_name(const struct section *s, const char *key, const char *what,
			  const char *name, const char *(*next)(const void *context, size_t i),
			  const void *context)
{
	const char *near = lh_nearest(name, next, context);

	complain(s, key, "no %s '%.60s'%s%s%s", what, name, near ? "; did you mean '" : "",
		 near ? near : "", near ? "'?" : "");
}

/* ---- the parts ------------------------------------------------------------------------------ */

static void read_settings(const struct section *top, struct lh_model_config *model)
{
	struct section s = enter(top, "settings", "settings.");
	const char *key;
	const json_t *value;

	if (!s.object)
		return;
	json_object_foreach ((json_t *)(uintptr_t)s.object, key, value) {
		struct lh_error err = {0};
		char text[128];

		if (json_is_string(value))
			snprintf(text, sizeof(text), "%.60s=%.60s", key, json_string_value(value));
		else
			snprintf(text, sizeof(text), "%.60s=%.17g", key, json_number_value(value));
		if (!json_is_string(value) && !json_is_number(value))
			complain(&s, key, "expected a number");
		else if (lh_model_config_set(model, text, &err))
			complain(&s, key, "%s", err.message);
	}
}

static const struct lh_dataset_ops *find_dataset(const char *kind)
{
	for (size_t i = 0; kind && lh_datasets[i]; i++)
		if (strcmp(lh_datasets[i]->name, kind) == 0)
			return lh_datasets[i];
	return NULL;
}

/* What a kind of data can be learnt by; a webdataset's are what its members are. */
static const struct data_use {
	const char *kind;
	unsigned tasks; /* bits by enum lh_task */
} data_uses[] = {
	{"mnist", 1u << LH_TASK_IMAGES},
	{"cifar10", 1u << LH_TASK_IMAGES},
	{"synthetic-images", 1u << LH_TASK_IMAGES},
	{"text", 1u << LH_TASK_TEXT | 1u << LH_TASK_MASKED_TEXT},
	{"synthetic-text", 1u << LH_TASK_TEXT | 1u << LH_TASK_MASKED_TEXT},
	{"ctr", 1u << LH_TASK_CTR},
	{"synthetic-ctr", 1u << LH_TASK_CTR},
	{"speech", 1u << LH_TASK_SPEECH},
	{"synthetic-speech", 1u << LH_TASK_SPEECH},
	{"webdataset", 1u << LH_TASK_IMAGES | 1u << LH_TASK_TEXT | 1u << LH_TASK_MASKED_TEXT |
			       1u << LH_TASK_SPEECH},
};

bool lh_learn_takes(enum lh_task task, const char *kind)
{
	for (size_t i = 0; i < sizeof(data_uses) / sizeof(data_uses[0]); i++)
		if (strcmp(data_uses[i].kind, kind) == 0)
			return data_uses[i].tasks >> task & 1;
	return false;
}

/* The kinds that a task can be learnt from, with commas. */
static void list_kinds(enum lh_task task, char *ret_text, size_t size)
{
	size_t n = 0;

	*ret_text = '\0';
	for (size_t i = 0; i < sizeof(data_uses) / sizeof(data_uses[0]) && n < size; i++)
		if (data_uses[i].tasks >> task & 1)
			n += (size_t)snprintf(ret_text + n, size - n, "%s%s", n ? ", " : "",
					      data_uses[i].kind);
}

static void check_use(const struct section *s, const struct lh_learn_spec *spec)
{
	const struct lh_model_preset *preset = spec->model.preset;
	char kinds[160];

	if (!preset || !spec->data.kind || lh_learn_takes(preset->family->task, spec->data.kind))
		return;
	list_kinds(preset->family->task, kinds, sizeof(kinds));
	complain(s, "kind", "model %s does not learn from %s data; expected one of %s",
		 preset->name, spec->data.kind, kinds);
}

static void read_data(const struct section *top, struct lh_learn_spec *spec)
{
	static const char *const known[] = {"kind",	    "path", "vocabulary", "samples",
					    "test_samples", "skew", "augment",	  NULL};
	struct section s = enter(top, "data", "data.");
	const char *kind = take_text(&s, "kind");
	const struct lh_dataset_ops *ops = find_dataset(kind);

	if (!kind)
		complain(top, "data", "missing, or without a kind");
	else if (!ops)
		complain_name(&s, "kind", "kind of data", kind, data_at, NULL);
	spec->data.kind = ops ? ops->name : NULL;
	check_use(&s, spec);
	take_path(&s, "path", spec->data_path);
	take_path(&s, "vocabulary", spec->vocabulary_path);
	spec->data.path = *spec->data_path ? spec->data_path : NULL;
	spec->data.vocab_path = *spec->vocabulary_path ? spec->vocabulary_path : NULL;
	take_count(&s, "samples", 1000000000, &spec->data.n_samples);
	take_count(&s, "test_samples", 1000000000, &spec->n_test_samples);
	take_number(&s, "skew", &spec->skew);
	take_boolean(&s, "augment", &spec->augment);
	if (spec->skew != 0 && !(spec->skew >= SKEW_MIN && spec->skew <= SKEW_MAX))
		complain(&s, "skew", "%g; expected %g to %g", spec->skew, SKEW_MIN, SKEW_MAX);
	if (spec->augment && spec->model.preset &&
	    spec->model.preset->family->task != LH_TASK_IMAGES &&
	    spec->model.preset->family->task != LH_TASK_SPEECH)
		complain(&s, "augment", "only images and speech are varied");
	check_keys(&s, known);
	if (spec->model.preset)
		lh_learn_request(&spec->model, &spec->data);
}

static void read_optimizer(const struct section *top, struct lh_optimizer_options *ret)
{
	static const char *const known[] = {"kind",  "lr",	  "momentum", "nesterov",
					    "beta1", "beta2",	  "eps",      "weight_decay",
					    "trust", "clip_norm", NULL};
	struct section s = enter(top, "optimizer", "optimizer.");
	const char *kind = take_text(&s, "kind");
	size_t n_before = s.diag->n_messages;
	struct lh_error err = {0};

	if (!kind) {
		complain(top, "optimizer", "missing, or without a kind");
		return;
	}
	if (lh_optimizer_options_init(kind, ret, &err)) {
		complain(&s, "kind", "%s", err.message);
		return;
	}
	take_number(&s, "lr", &ret->lr);
	take_number(&s, "momentum", &ret->momentum);
	take_boolean(&s, "nesterov", &ret->nesterov);
	take_number(&s, "beta1", &ret->beta1);
	take_number(&s, "beta2", &ret->beta2);
	take_number(&s, "eps", &ret->eps);
	take_number(&s, "weight_decay", &ret->weight_decay);
	take_number(&s, "trust", &ret->trust);
	take_number(&s, "clip_norm", &ret->clip_norm);
	check_keys(&s, known);
	if (s.diag->n_messages == n_before && lh_optimizer_options_check(ret, &err))
		complain(top, "optimizer", "%s", err.message);
}

static void read_schedule(const struct section *top, double lr, struct lh_schedule *ret)
{
	static const char *const known[] = {"kind", "warm_up", "final", "power", NULL};
	struct section s = enter(top, "schedule", "schedule.");
	const char *kind = s.object ? take_text(&s, "kind") : "constant";
	const struct lh_schedule_kind *found = kind ? lh_schedule_find(kind) : NULL;

	lh_schedule_init(lr, ret);
	if (!kind)
		complain(top, "schedule", "without a kind");
	else if (!found)
		complain_name(&s, "kind", "schedule", kind, schedule_at, NULL);
	else
		ret->kind = found->name;
	take_count(&s, "warm_up", 1000000000, &ret->warmup_steps);
	take_number(&s, "final", &ret->final_ratio);
	take_number(&s, "power", &ret->power);
	if (!(ret->final_ratio >= 0 && ret->final_ratio <= 1))
		complain(&s, "final", "%g; expected 0 to 1", ret->final_ratio);
	if (!(ret->power > 0))
		complain(&s, "power", "%g; expected more than 0", ret->power);
	check_keys(&s, known);
}

static const struct lh_device_ops *find_device(const struct section *top, const char *name)
{
	const struct lh_device_ops *const *devices = top->reading->devices;

	if (!devices)
		return NULL;
	for (size_t i = 0; devices[i]; i++)
		if (!name || strcmp(devices[i]->name, name) == 0)
			return devices[i];
	complain_name(top, "device", "device in this build", name, device_at, devices);
	return NULL;
}

static enum lh_dtype find_precision(const struct section *top, const char *name)
{
	static const enum lh_dtype offered[] = {LH_F32, LH_F16, LH_BF16};

	if (!name)
		return LH_F32;
	for (size_t i = 0; i < sizeof(offered) / sizeof(offered[0]); i++)
		if (strcmp(lh_dtype_name(offered[i]), name) == 0)
			return offered[i];
	complain(top, "precision", "'%.60s'; expected fp32, fp16 or bf16", name);
	return LH_F32;
}

void lh_learn_spec_read(const char *model, const json_t *json,
			const struct lh_learn_reading *reading, struct lh_learn_spec *ret_spec,
			struct lh_diag *diag)
{
	static const char *const known[] = {"settings",	 "data",     "optimizer", "schedule",
					    "evaluate",	 "portable", "device",	  "threads",
					    "precision", NULL};
	struct section top = {json, "", reading, diag};
	struct lh_error err = {0};
	uint64_t evaluate = 10, threads = 0;

	*ret_spec = (struct lh_learn_spec){0};
	if (lh_model_config_init(model, &ret_spec->model, &err)) {
		/* the model is named beside the specification */
		lh_diag_add(diag,
			    reading->pos_of ? reading->pos_of(reading->context, "../model")
					    : (struct lh_pos){0},
			    "model", "%s", err.message);
		return;
	}
	check_keys(&top, known);
	read_settings(&top, &ret_spec->model);
	read_data(&top, ret_spec);
	read_optimizer(&top, &ret_spec->optimizer);
	read_schedule(&top, ret_spec->optimizer.lr, &ret_spec->schedule);
	take_count(&top, "evaluate", 1000000000, &evaluate);
	take_count(&top, "threads", 1024, &threads);
	take_boolean(&top, "portable", &ret_spec->device_options.is_portable);
	ret_spec->evaluate_every = (uint32_t)evaluate;
	ret_spec->device_options.n_threads = (uint32_t)threads;
	ret_spec->device = find_device(&top, take_text(&top, "device"));
	ret_spec->device_options.compute = find_precision(&top, take_text(&top, "precision"));
}

/* ---- the model ------------------------------------------------------------------------------ */

int lh_learn_count_parameters(const struct lh_model_config *config, int64_t *ret_n,
			      struct lh_error *err)
{
	const struct lh_device_options options = {.compute = LH_F32};
	struct lh_graph *graph = NULL;
	struct lh_device *device;
	struct lh_built_model model;
	int rc = lh_device_reference32.open(&options, &device, err);

	if (rc)
		return rc;
	rc = lh_graph_new(device, &graph, err);
	if (rc == 0) {
		lh_model_build(graph, config, 1, &model);
		rc = lh_graph_finish(graph, model.loss, true, err);
	}
	if (rc == 0)
		*ret_n = lh_graph_n_parameters(graph);
	lh_graph_free(graph);
	device->ops->close(device);
	return rc;
}

void lh_learn_check(const char *model, const json_t *json, const struct lh_learn_reading *reading,
		    int64_t *ret_parameters, struct lh_diag *diag)
{
	const struct section top = {json, "", reading, diag};
	struct lh_learn_spec spec;
	struct lh_error err = {0};

	lh_learn_spec_read(model, json, reading, &spec, diag);
	if (diag->n_messages == 0 && lh_learn_count_parameters(&spec.model, ret_parameters, &err))
		complain(&top, "settings", "%s", err.message);
}

static uint32_t size_of(const struct lh_model_config *model, const char *name)
{
	return (uint32_t)lh_model_size(model, name);
}

void lh_learn_request(const struct lh_model_config *model, struct lh_data_request *data)
{
	switch (model->preset->family->task) {
	case LH_TASK_IMAGES:
		data->height = size_of(model, "image");
		data->width = data->height;
		data->channels = size_of(model, "channels");
		data->n_classes = size_of(model, "classes");
		break;
	case LH_TASK_TEXT:
	case LH_TASK_MASKED_TEXT:
		data->n_tokens = size_of(model, "sequence");
		data->vocab_size = size_of(model, "vocabulary");
		data->objective = model->preset->family->task == LH_TASK_TEXT ? LH_DATA_CAUSAL
									      : LH_DATA_MASKED;
		break;
	case LH_TASK_CTR:
		data->n_sparse = size_of(model, "fields");
		data->n_buckets = size_of(model, "buckets");
		data->n_dense = size_of(model, "numbers");
		break;
	case LH_TASK_SPEECH:
		data->n_mels = size_of(model, "mels");
		data->n_frames = size_of(model, "frames");
		data->n_decoder = size_of(model, "sequence");
		data->vocab_size = size_of(model, "vocabulary");
		break;
	}
}
