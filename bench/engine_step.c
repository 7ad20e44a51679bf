/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a training step of the engine on the CPU for each line that it reads, and prints its
 * seconds: bench/train-step lets it and PyTorch take turns. The workloads are those of
 * bench/torch_step.py. A batch is drawn once; nothing is read from disk.
 *
 * Usage: engine-step WORKLOAD THREADS [portable]
 *        engine-step WORKLOAD THREADS layers STEPS: processor time by kind of layer instead,
 *        which tells most with one thread: others wait by turning
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/rng.h"
#include "trainer/layers/layers.h"
#include "trainer/models/model.h"
#include "trainer/models/transformer.h"
#include "trainer/optim/optimizer.h"

struct run {
	struct lh_device *device;
	struct lh_graph *graph;
	struct lh_tensor *loss;
	struct lh_optimizer *optimizer;
	struct lh_pass pass;
};

static int64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- workloads ------------------------------------------------------------------------------ */

static struct lh_tensor *build_model(struct lh_graph *graph, const char *name, int64_t batch,
				     struct lh_error *err)
{
	struct lh_model_config config;
	struct lh_built_model model;

	if (lh_model_config_init(name, &config, err))
		return NULL;
	lh_model_build(graph, &config, batch, &model);
	return model.loss;
}

/* 12 layers of RoBERTa-base on 8 sequences of 128, without dropout. In place of PyTorch's mean of
 * squares the loss is a cross entropy, which is more work. */
static struct lh_tensor *build_layers(struct lh_graph *graph)
{
	enum { BATCH = 8, TOKENS = 128, WIDTH = 768, LAYERS = 12 };
	const struct lh_transformer t = {.width = WIDTH,
					 .heads = 12,
					 .inner = 3072,
					 .activation = LH_GELU,
					 .has_key_bias = true,
					 .deviation = 0.02,
					 .output_deviation = 0.02};
	struct lh_tensor *x = lh_graph_input(graph, "vectors", LH_F32, 3,
					     (const int64_t[]){BATCH, TOKENS, WIDTH});
	struct lh_tensor *targets =
		lh_graph_input(graph, "labels", LH_I32, 2, (const int64_t[]){BATCH, TOKENS});

	lh_graph_want_gradient(x);
	for (int i = 0; i < LAYERS; i++) {
		struct lh_tensor *y;

		lh_graph_enter(graph, "layers.%d", i);
		y = lh_transformer_attention(graph, &t, "attention", x, x, false);
		x = lh_layer_norm(graph, "attention_norm", lh_add(graph, y, x, false),
				  LH_TRANSFORMER_EPS);
		y = lh_transformer_mlp(graph, &t, x);
		x = lh_layer_norm(graph, "mlp_norm", lh_add(graph, y, x, false),
				  LH_TRANSFORMER_EPS);
		lh_graph_leave(graph);
	}
	return lh_cross_entropy(graph, x, targets, 0);
}

static struct lh_tensor *build(struct lh_graph *graph, const char *workload, struct lh_error *err)
{
	if (strcmp(workload, "resnet18") == 0)
		return build_model(graph, "resnet18", 16, err);
	if (strcmp(workload, "resnet20") == 0)
		return build_model(graph, "resnet20", 128, err);
	if (strcmp(workload, "roberta-layers") == 0)
		return build_layers(graph);
	lh_fail(err, LH_EUSAGE, 0, "no workload %s; there are resnet18, resnet20, roberta-layers",
		workload);
	return NULL;
}

/* Normal numbers, and labels below 10, of which every workload has more. */
static int fill(struct lh_graph *graph, struct lh_tensor *tensor, struct lh_error *err)
{
	enum { LABELS = 10 };
	union {
		float number;
		int32_t label;
	} *values = calloc((size_t)tensor->n, sizeof(*values));
	struct lh_rng rng;
	int rc;

	if (!values)
		return lh_fail(err, LH_ESYS, 0, "no memory for %s", tensor->name);
	lh_rng_init(&rng, 1, tensor->name);
	for (int64_t i = 0; i < tensor->n; i++) {
		if (tensor->dtype == LH_I32)
			values[i].label = (int32_t)lh_rng_below(&rng, LABELS);
		else
			values[i].number = (float)lh_rng_normal(&rng);
	}
	rc = lh_tensor_write(graph, tensor, values, err);
	free(values);
	return rc;
}

static int start(struct run *run, const char *workload, const struct lh_device_options *options,
		 struct lh_error *err)
{
	struct lh_optimizer_options sgd;
	struct lh_tensor *const *tensors;
	uint32_t n;
	int rc = lh_device_cpu.open(options, &run->device, err);

	if (rc == 0)
		rc = lh_graph_new(run->device, &run->graph, err);
	if (rc)
		return rc;
	run->loss = build(run->graph, workload, err);
	if (!run->loss && err->code)
		return err->code;
	rc = lh_graph_finish(run->graph, run->loss, false, err);
	if (rc == 0)
		rc = lh_graph_init_parameters(run->graph, 1, err);
	tensors = lh_graph_tensors(run->graph, &n);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		if (tensors[i]->role == LH_INPUT)
			rc = fill(run->graph, tensors[i], err);
	if (rc == 0)
		rc = lh_optimizer_options_init("sgd", &sgd, err);
	sgd.lr = 1e-4;
	sgd.momentum = 0.9;
	sgd.weight_decay = 1e-4;
	return rc ? rc : lh_optimizer_new(run->graph, &sgd, &run->optimizer, err);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int step(struct run *run, struct lh_error *err)
{
	double norm;
	int rc = lh_graph_zero_gradients(run->graph, err);

	if (rc == 0)
		rc = lh_graph_forward(run->graph, &run->pass, err);
	if (rc == 0)
		rc = lh_graph_backward(run->graph, &run->pass, 1, err);
	run->pass.step++;
	return rc ? rc : lh_optimizer_step(run->optimizer, 1e-4, 1, &norm, err);
}

static int take_turns(struct run *run, struct lh_error *err)
{
	struct lh_graph_memory memory;
	struct lh_loss loss;
	char line[16];
	int rc = 0;

	lh_graph_count_memory(run->graph, &memory);
	printf("%s; %s; threads %u; activations %.0f MB, workspace %.0f MB\n",
	       run->device->processor, run->device->software, run->device->n_threads,
	       (double)memory.arena_bytes / 1e6, (double)memory.workspace_bytes / 1e6);
	fflush(stdout);
	while (rc == 0 && fgets(line, sizeof(line), stdin)) {
		int64_t from = now_ns(CLOCK_MONOTONIC);

		rc = step(run, err);
		printf("%.6f\n", (double)(now_ns(CLOCK_MONOTONIC) - from) / 1e9);
		fflush(stdout);
	}
	if (rc == 0)
		rc = lh_loss_read(run->graph, run->loss, &loss, err);
	return rc == 0 && !(loss.mean < 1e6) ? lh_fail(err, LH_ERUN, 0, "the loss is %g", loss.mean)
					     : rc;
}

/* Seconds of [forward, backward] by kind. */
struct kinds {
	double seconds[LH_N_LAYERS][2];
	uint32_t n[LH_N_LAYERS];
};

static int time_node(struct run *run, const struct lh_graph_node *node, int pass,
		     struct kinds *kinds, struct lh_error *err)
{
	const struct lh_kernel *kernel = run->device->ops->kernel(node->layer);
	int64_t from = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	int rc = (pass ? kernel->backward : kernel->forward)(run->device, node, &run->pass, err);

	kinds->seconds[node->layer][pass] +=
		(double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - from) / 1e9;
	kinds->n[node->layer] += pass == 0;
	return rc;
}

static int time_layers(struct run *run, int n_steps, struct lh_error *err)
{
	uint32_t n;
	struct lh_graph_node *const *nodes = lh_graph_nodes(run->graph, &n);
	const char *names[LH_N_LAYERS] = {NULL};
	struct kinds kinds = {0};
	double total = 0;
	int rc = step(run, err);

	for (uint32_t i = 0; i < n; i++)
		names[nodes[i]->layer] = lh_layer_kind(nodes[i]->layer, nodes[i]->spec)->name;
	for (int s = 0; s < n_steps; s++) {
		for (uint32_t i = 0; rc == 0 && i < n; i++)
			rc = time_node(run, nodes[i], 0, &kinds, err);
		*(float *)run->loss->grad = 1;
		for (uint32_t i = n; rc == 0 && i-- > 0;)
			rc = nodes[i]->out->grad ? time_node(run, nodes[i], 1, &kinds, err) : 0;
	}
	for (int l = 0; rc == 0 && l < LH_N_LAYERS; l++) {
		const uint32_t count = kinds.n[l] / (uint32_t)n_steps;

		if (count == 0)
			continue;
		printf("%-14s %3u layers  forward %8.2f ms  backward %8.2f ms\n", names[l], count,
		       kinds.seconds[l][0] / n_steps * 1e3, kinds.seconds[l][1] / n_steps * 1e3);
		total += (kinds.seconds[l][0] + kinds.seconds[l][1]) / n_steps * 1e3;
	}
	printf("all %.2f ms\n", total);
	return rc;
}

int main(int argc, char **argv)
{
	struct lh_device_options options = {.compute = LH_F32};
	struct run run = {.pass = {.is_training = true, .seed = 1}};
	struct lh_error err = {0};
	int rc;

	if (argc < 3) {
		fprintf(stderr, "usage: engine-step WORKLOAD THREADS [portable | layers STEPS]\n");
		return 2;
	}
	options.n_threads = (uint32_t)atoi(argv[2]);
	options.is_portable = argc > 3 && strcmp(argv[3], "portable") == 0;
	rc = start(&run, argv[1], &options, &err);
	if (rc == 0 && argc > 4)
		rc = time_layers(&run, atoi(argv[4]), &err);
	else if (rc == 0)
		rc = take_turns(&run, &err);
	if (rc)
		fprintf(stderr, "engine-step: %s\n", err.message);
	lh_optimizer_free(run.optimizer);
	lh_graph_free(run.graph);
	if (run.device)
		run.device->ops->close(run.device);
	return rc ? lh_error_exit_status(&err) : 0;
}
