/* SPDX-License-Identifier: Apache-2.0 */
/* See model_runs.h. */
#include "tests/unit/model_runs.h"

#include "tests/unit/test.h"

void lh_model_case_open(const struct lh_model_case *c, const struct lh_device_ops *ops,
			enum lh_dtype compute, struct lh_case_run *ret_run)
{
	struct lh_device_options options = {.n_threads = 2, .compute = compute};
	struct lh_error err = {0};
	struct lh_model_config config;
	struct lh_built_model model;

	*ret_run = (struct lh_case_run){.pass = {.is_training = true, .seed = 3, .step = 5}};
	if (lh_model_case_config(c, &config, &err) || ops->open(&options, &ret_run->device, &err) ||
	    lh_graph_new(ret_run->device, &ret_run->graph, &err))
		fail_msg("%s: %s", c->name, err.message);
	lh_model_build(ret_run->graph, &config, c->batch, &model);
	ret_run->logits = model.logits;
	ret_run->loss = model.loss;
	lh_graph_keep(model.logits);
	if (lh_graph_finish(ret_run->graph, model.loss, false, &err))
		fail_msg("%s: %s", c->name, err.message);
}

double lh_model_case_forward(const struct lh_model_case *c, struct lh_case_run *run)
{
	struct lh_model_config config;
	struct lh_error err = {0};
	struct lh_loss loss;

	if (lh_model_case_config(c, &config, &err) ||
	    lh_model_parameters_write(run->graph, 1, &err) ||
	    lh_model_batch_write(run->graph, &config, 1, 0, &err) ||
	    lh_graph_forward(run->graph, &run->pass, &err) ||
	    lh_loss_read(run->graph, run->loss, &loss, &err))
		fail_msg("%s: %s", c->name, err.message);
	return loss.mean;
}
