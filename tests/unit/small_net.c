/* SPDX-License-Identifier: Apache-2.0 */
/* A small network to be trained. See small_net.h. */
#include "tests/unit/small_net.h"

#include "core/rng.h"
#include "tests/unit/test.h"
#include "trainer/device/update.h"

enum { BATCH = 8, FEATURES = 6, CLASSES = 3 };

static void build(struct lh_small_net *net, int64_t hidden)
{
	const struct lh_init init = {.kind = LH_INIT_NORMAL, .scale = 0.3};
	struct lh_graph *graph = net->graph;
	struct lh_tensor *y;

	net->x = lh_graph_input(graph, "x", LH_F32, 2, (const int64_t[]){BATCH, FEATURES});
	net->labels = lh_graph_input(graph, "labels", LH_I32, 1, (const int64_t[]){BATCH});
	y = lh_linear(graph, "fc1", net->x,
		      (struct lh_linear){.out_features = hidden, .has_bias = true}, init, init);
	y = lh_batch_norm(graph, "bn1", y,
			  (struct lh_batch_norm){.eps = 1e-5, .momentum = 0.1, .has_relu = true});
	y = lh_dropout(graph, y, 0.2, false);
	y = lh_linear(graph, "fc2", y,
		      (struct lh_linear){.out_features = CLASSES, .has_bias = true}, init, init);
	net->loss = lh_cross_entropy(graph, y, net->labels, 0);
}

void lh_small_net_open(enum lh_small_net_device device, int64_t hidden,
		       struct lh_small_net *ret_net)
{
	struct lh_error err = {0};
	bool is_double = device == LH_SMALL_DOUBLE;
	enum lh_dtype dtype = is_double ? LH_F64 : LH_F32;

	*ret_net = (struct lh_small_net){
		.ops = is_double ? lh_device_reference64 : lh_device_reference32,
		.device = {.compute = dtype, .master = dtype, .n_threads = 2}};
	if (device == LH_SMALL_CPU)
		ret_net->ops.update = &lh_update_cpu;
	ret_net->device.ops = &ret_net->ops;
	if (lh_graph_new(&ret_net->device, &ret_net->graph, &err))
		fail_msg("%s", err.message);
	build(ret_net, hidden);
	if (lh_graph_finish(ret_net->graph, ret_net->loss, false, &err) ||
	    lh_graph_init_parameters(ret_net->graph, 1, &err))
		fail_msg("%s", err.message);
}

void lh_small_net_close(struct lh_small_net *net)
{
	lh_graph_free(net->graph);
}

static void write_batch(struct lh_small_net *net)
{
	double x[BATCH * FEATURES];
	float narrow[BATCH * FEATURES];
	int32_t labels[BATCH];
	struct lh_error err = {0};
	struct lh_rng rng;

	lh_rng_init(&rng, net->steps, "batch");
	for (int i = 0; i < BATCH; i++) {
		labels[i] = (int32_t)lh_rng_below(&rng, CLASSES);
		for (int j = 0; j < FEATURES; j++) {
			double z = lh_rng_normal(&rng) + (j == labels[i] ? 2 : 0);

			narrow[i * FEATURES + j] = (float)z;
			x[i * FEATURES + j] = (double)(float)z;
		}
	}
	if (lh_tensor_write(net->graph, net->x,
			    net->device.compute == LH_F64 ? (const void *)x : narrow, &err) ||
	    lh_tensor_write(net->graph, net->labels, labels, &err))
		fail_msg("%s", err.message);
}

double lh_small_net_train(struct lh_small_net *net, struct lh_optimizer *optimizer, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++) {
		struct lh_pass pass = {.is_training = true, .seed = 7, .step = net->steps};
		struct lh_error err = {0};
		struct lh_loss loss;
		double norm;

		write_batch(net);
		if (lh_graph_forward(net->graph, &pass, &err) ||
		    lh_loss_read(net->graph, net->loss, &loss, &err) ||
		    lh_graph_zero_gradients(net->graph, &err) ||
		    lh_graph_backward(net->graph, &pass, 1, &err) ||
		    lh_optimizer_step(optimizer, lh_optimizer_options(optimizer)->lr, 1, &norm,
				      &err))
			fail_msg("%s", err.message);
		net->steps++;
		sum += loss.mean;
	}
	return sum / n;
}
