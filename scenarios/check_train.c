/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a workload that trains is whole. Names and sizes that only the engine knows are checked
 * where it is: see cli/training.h.
 */
#include <string.h>

#include "core/yaml.h"
#include "scenarios/check_internal.h"

static void check_speed(const struct lh_workload *w, const struct lh_yaml *written,
			struct lh_diag *diag)
{
	if (!(w->speed.samples_per_s >= LH_SPEED_MIN && w->speed.samples_per_s <= LH_SPEED_MAX))
		lh_diag_add(diag, written->pos, "workload.compute.samples_per_s",
			    "%g; expected %g to %g", w->speed.samples_per_s, LH_SPEED_MIN,
			    LH_SPEED_MAX);
	if (w->speed.variation_ratio > LH_VARIATION_MAX)
		lh_diag_add(diag, written->pos, "workload.compute.variation",
			    "more than %.0f %%: a micro-batch could take no time",
			    100 * LH_VARIATION_MAX);
	if (w->micro_batch < 1)
		lh_diag_add(diag, written->pos, "workload.micro_batch",
			    "missing; with `compute` no profile says how many samples are a "
			    "micro-batch");
}

static void check_data(const struct lh_train_data *data, const struct lh_yaml *written,
		       struct lh_diag *diag)
{
	const struct lh_yaml *skew = lh_yaml_get(written, "skew");
	bool is_synthetic = strncmp(data->kind, "synthetic-", 10) == 0;

	if (is_synthetic && data->path)
		lh_diag_add(diag, lh_yaml_get(written, "path")->pos, "workload.train.data.path",
			    "%s data are made, not read", data->kind);
	if (!is_synthetic && !data->path)
		lh_diag_add(diag, written->pos, "workload.train.data.path",
			    "missing; where the %s data are", data->kind);
	if (skew && !(data->skew > 0))
		lh_diag_add(diag, skew->pos, "workload.train.data.skew",
			    "%g; expected more than 0, such as 0.5", data->skew);
}

static void check_device(const struct lh_scenario *sc, const struct lh_yaml *train,
			 struct lh_diag *diag)
{
	const struct lh_train_spec *spec = &sc->workload.train;
	const struct lh_yaml *device = lh_yaml_get(train, "device");
	const struct lh_yaml *precision = lh_yaml_get(train, "precision");
	bool is_cuda = spec->device && strcmp(spec->device, "cuda") == 0;

	if (is_cuda && sc->run.nodes != LH_NODES_HOST)
		lh_diag_add(diag, device->pos, "workload.train.device",
			    "the guest has no GPU; expected run: {nodes: host, clock: real} with "
			    "cuda, or device: cpu");
	if (!is_cuda && spec->precision && strcmp(spec->precision, "fp32") != 0)
		lh_diag_add(diag, precision->pos, "workload.train.precision",
			    "%s is computed on cuda alone; expected fp32", spec->precision);
}

static void check_transport(const struct lh_workload *w, const struct lh_yaml *workload,
			    struct lh_diag *diag)
{
	const struct lh_yaml *written = lh_yaml_get(workload, "transport");
	const char *device = w->train.device ? w->train.device : "";

	if (!w->transport || strcmp(w->transport, "nccl") != 0)
		return;
	if (w->mode != LH_MODE_TRAIN || strcmp(device, "cuda") != 0)
		lh_diag_add(
			diag, written->pos, "workload.transport",
			"NCCL moves what lies on GPUs; expected mode: train and train: {device: "
			"cuda}");
	if (w->strategy.kind && strcmp(w->strategy.kind, "ring") != 0)
		lh_diag_add(diag, written->pos, "workload.transport",
			    "NCCL reduces around rings; expected strategy: {kind: ring}");
	if (w->compress.kind && strcmp(w->compress.kind, "none") != 0)
		lh_diag_add(diag, written->pos, "workload.transport",
			    "NCCL's numbers are not compressed; expected compress: none");
	if (w->strategy.streams > 1 || w->strategy.bucket_bytes > 0 ||
	    (w->strategy.order && strcmp(w->strategy.order, "given") != 0))
		lh_diag_add(diag, written->pos, "workload.transport",
			    "NCCL has rings and buckets of its own; expected a strategy without "
			    "streams, bucket and order");
}

/* What only a model of the engine has. */
static void check_shapes(const struct lh_workload *w, const struct lh_yaml *workload,
			 struct lh_diag *diag)
{
	const struct lh_yaml *written = lh_yaml_get(workload, "compress");
	const struct lh_yaml *kind = lh_yaml_get(written, "kind");

	if (w->mode == LH_MODE_TRAIN || !w->compress.kind ||
	    strcmp(w->compress.kind, "powersgd") != 0)
		return;
	lh_diag_add(diag, kind ? kind->pos : written->pos, "workload.compress.kind",
		    "powersgd needs the shapes of the model's tensors, which replay does not have; "
		    "expected mode: train");
}

void lh_train_check(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_workload *w = &sc->workload;
	const struct lh_yaml *workload = lh_yaml_get(sc->tree, "workload");
	const struct lh_yaml *train = lh_yaml_get(workload, "train");
	const struct lh_yaml *speed = lh_yaml_get(workload, "compute");

	if (lh_scenario_has_command(sc) || !workload)
		return;
	if (speed && speed->kind == LH_YAML_MAPPING)
		check_speed(w, speed, diag);
	if (w->mode == LH_MODE_TRAIN && !train)
		lh_diag_add(diag, workload->pos, "workload.train",
			    "missing; mode train needs `data` and `optimizer` there");
	if (w->mode != LH_MODE_TRAIN && train)
		lh_diag_add(
			diag, train->pos, "workload.train",
			"stands beside mode replay, which learns nothing; expected mode: train");
	check_transport(w, workload, diag);
	check_shapes(w, workload, diag);
	if (train)
		check_device(sc, train, diag);
	if (train && w->train.data.kind)
		check_data(&w->train.data, lh_yaml_get(train, "data"), diag);
}
