/* SPDX-License-Identifier: Apache-2.0 */
/* Steps apart and synchronisations between them. See synchronise.h. */
#include "trainer/strategy/synchronise.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/collective/plan.h"
#include "trainer/compute/compute.h"
#include "trainer/strategy/beside.h"
#include "trainer/strategy/fragments.h"
#include "trainer/strategy/outer.h"
#include "trainer/strategy/steps.h"

/* A fragment on its way between ranks. Where weights are replayed, there are no numbers. */
struct part {
	struct sync *sync;
	const struct lh_fragment *fragment;
	struct lh_outer outer;
	float *own;	   /* this rank's weights of it */
	float *gradient;   /* what is averaged */
	void *averager;	   /* NULL: the rank is alone */
	uint64_t *samples; /* by rank, since the last synchronisation */
	uint64_t *sent;	   /* by rank, of the one under way */
	bool is_under_way;
	uint32_t sent_epoch;
	int64_t sent_ns;
	struct lh_average done;
	struct lh_beside_task task;
};

struct sync {
	struct lh_rank *rank;
	const struct lh_synchronise_config *config;
	const struct lh_averaging_ops *averaging;
	struct lh_steps steps;
	struct lh_fragments fragments;
	struct part *parts;
	float *weights;		  /* of the whole model; NULL: replayed */
	struct lh_beside *beside; /* NULL: nothing is delayed */
};

int lh_synchronise_check(const struct lh_job *job, const struct lh_synchronise_config *config,
			 struct lh_error *err)
{
	if (!lh_collective_find(job->settings.collective))
		return lh_fail(err, LH_EINPUT, 0, "strategy.collective: \"%s\" is no all-reduce",
			       job->settings.collective);
	if (config->n_fragments > config->period)
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.fragments: %" PRIu32 " in a period of %" PRIu32
			       " epochs; expected at most one an epoch",
			       config->n_fragments, config->period);
	if (config->delay >= config->period)
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.fragment_delay: %" PRIu32 " epochs of a period of %" PRIu32
			       "; expected less",
			       config->delay, config->period);
	return 0;
}

/* ---- opening and closing ------------------------------------------------------------------ */

static void close_part(struct part *part)
{
	if (part->averager)
		part->sync->averaging->close(part->averager);
	free(part->outer.start);
	free(part->outer.velocity);
	free(part->own);
	free(part->gradient);
	free(part->samples);
	free(part->sent);
}

static void close_sync(struct sync *s)
{
	/* whatever the helper waits for ends now */
	for (uint32_t peer = 0; s->beside && s->rank->comm && peer < s->rank->n; peer++)
		lh_comm_detach(s->rank->comm, peer);
	lh_beside_close(s->beside);
	for (uint32_t i = 0; s->parts && i < s->fragments.n; i++)
		close_part(&s->parts[i]);
	free(s->parts);
	free(s->weights);
	lh_fragments_done(&s->fragments);
	lh_steps_done(&s->steps);
}

static int run_averaging(void *arg, struct lh_error *err)
{
	struct part *part = arg;
	int64_t timeout_ns = part->sync->rank->job->settings.timeout_ns;
	int rc = part->sync->averaging->average(part->averager, part->sent_epoch, part->sent,
						&part->done, err);

	if (rc && err && err->sys == ETIMEDOUT)
		lh_error_prefix(err, "no averaging within %g s",
				(double)timeout_ns / (double)LH_NS_PER_S);
	return rc;
}

static int open_numbers(struct part *part, struct lh_error *err)
{
	const struct lh_synchronise_config *config = part->sync->config;
	size_t n = part->fragment->n;

	part->outer = (struct lh_outer){
		.n = n,
		.start = calloc(n, sizeof(*part->outer.start)),
		.velocity = config->momentum > 0 ? calloc(n, sizeof(*part->outer.velocity)) : NULL,
		.lr = config->lr,
		.momentum = config->momentum,
	};
	part->own = calloc(n, sizeof(*part->own));
	part->gradient = calloc(n, sizeof(*part->gradient));
	if (!part->outer.start || (config->momentum > 0 && !part->outer.velocity) || !part->own ||
	    !part->gradient)
		return lh_fail(err, LH_ESYS, ENOMEM, "keep weights apart");
	lh_fragment_gather(part->fragment, part->sync->weights, part->outer.start);
	return 0;
}

static int open_part(struct part *part, struct sync *s, const struct lh_fragment *fragment,
		     struct lh_error *err)
{
	struct lh_rank *rank = s->rank;
	struct lh_averaged averaged = {
		.n = fragment->n,
		.patience_ns = rank->job->settings.timeout_ns,
		.device = rank->compute->averaged(rank->computing).device,
	};
	int rc = 0;

	part->sync = s;
	part->fragment = fragment;
	part->task = (struct lh_beside_task){.run = run_averaging, .arg = part};
	part->samples = calloc(rank->n, sizeof(*part->samples));
	part->sent = calloc(rank->n, sizeof(*part->sent));
	if (!part->samples || !part->sent)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a rank");
	if (s->weights)
		rc = open_numbers(part, err);
	averaged.values = part->gradient;
	if (rc == 0 && rank->n > 1)
		rc = s->averaging->open(rank, averaged, &part->averager, err);
	return rc;
}

/* All ranks have the weights that the seed draws. */
static int read_first_weights(struct sync *s, struct lh_error *err)
{
	struct lh_averaged model = s->rank->compute->averaged(s->rank->computing);

	if (!model.values)
		return 0;
	s->weights = calloc(model.n, sizeof(*s->weights));
	if (!s->weights)
		return lh_fail(err, LH_ESYS, ENOMEM, "keep weights");
	return s->rank->compute->read_weights(s->rank->computing, s->weights, err);
}

static int check_beside(void *checked, struct lh_error *err)
{
	struct sync *s = checked;
	int rc = s->beside ? lh_beside_check(s->beside, err) : 0;

	return rc ? rc : lh_rank_check(s->rank, err);
}

static int connect_ranks(struct sync *s, struct lh_error *err)
{
	struct lh_rank *rank = s->rank;
	lh_cleanup_free uint8_t *wanted = calloc(rank->n, sizeof(*wanted));
	int rc = 0;

	if (!wanted)
		return lh_fail(err, LH_ESYS, ENOMEM, "list peers");
	for (uint32_t i = 0; rc == 0 && i < s->fragments.n; i++)
		rc = lh_steps_want(rank, s->averaging, s->fragments.fragments[i].n, wanted, err);
	return rc ? rc : lh_rank_connect(rank, wanted, err);
}

static int cut_fragments(struct sync *s, struct lh_error *err)
{
	const struct lh_compute_ops *compute = s->rank->compute;
	uint64_t n_values = compute->averaged(s->rank->computing).n;
	lh_cleanup_free struct lh_layer_run *layers = NULL;
	size_t n_runs = 0;
	int rc = 0;

	if (compute->layers)
		rc = compute->layers(s->rank->computing, &layers, &n_runs, err);
	return rc ? rc
		  : lh_fragments_cut(n_values, s->config->n_fragments, layers, n_runs,
				     &s->fragments, err);
}

static int start(struct sync *s, struct lh_error *err)
{
	struct lh_rank *rank = s->rank;
	int rc = lh_steps_init(&s->steps, rank, err);

	if (rc || (rc = cut_fragments(s, err)) || (rc = connect_ranks(s, err)) ||
	    (rc = read_first_weights(s, err)))
		return rc;
	s->parts = calloc(s->fragments.n, sizeof(*s->parts));
	if (!s->parts)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a rank");
	for (uint32_t i = 0; rc == 0 && i < s->fragments.n; i++)
		rc = open_part(&s->parts[i], s, &s->fragments.fragments[i], err);
	if (rc == 0 && s->config->delay)
		rc = lh_beside_open(&s->beside, err);
	s->steps.check = check_beside;
	s->steps.checked = s;
	return rc ? rc : lh_rank_write_connected(rank, err);
}

/* ---- synchronising ------------------------------------------------------------------------ */

/* How a synchronisation ends. */
enum ending {
	ENDING_STEP, /* the outer optimizer's */
	ENDING_MEAN, /* plain averaging, after the last epoch */
};

/* The fragment's way so far becomes what is averaged; the next way begins. */
static void begin_part(struct part *part, uint32_t epoch)
{
	struct sync *s = part->sync;
	size_t size = s->rank->n * sizeof(*part->samples);

	memcpy(part->sent, part->samples, size);
	memset(part->samples, 0, size);
	part->sent_epoch = epoch;
	part->sent_ns = lh_clock_now_ns();
	if (s->weights) {
		lh_fragment_gather(part->fragment, s->weights, part->own);
		lh_outer_take(&part->outer, part->own, part->gradient);
	}
}

/* The outer optimizer's step takes its share of the inner one's time. */
static int pass_time_of_step(const struct part *part, uint32_t epoch, struct lh_error *err)
{
	struct lh_rank *rank = part->sync->rank;
	const struct lh_synchronise_config *config = part->sync->config;
	double share = (double)part->fragment->n / (double)rank->job->parameters;
	int64_t begin_ns = lh_clock_now_ns(), end_ns;

	if (config->lr == 1 && config->momentum <= 0)
		return 0;
	lh_clock_sleep_until(begin_ns + (int64_t)(share * (double)rank->me->apply_ns));
	end_ns = lh_clock_now_ns();
	return lh_rank_write_apply(rank, epoch, begin_ns, end_ns, true, end_ns, err);
}

static int end_part(struct part *part, uint32_t epoch, enum ending ending, double mix,
		    struct lh_error *err)
{
	struct sync *s = part->sync;

	if (s->weights) {
		if (ending == ENDING_STEP)
			lh_outer_step(&part->outer, part->gradient);
		else
			lh_outer_average(&part->outer, part->gradient);
		lh_fragment_gather(part->fragment, s->weights, part->own);
		lh_outer_merge(&part->outer, mix, part->own);
		lh_fragment_scatter(part->fragment, part->own, s->weights);
	}
	return ending == ENDING_STEP ? pass_time_of_step(part, epoch, err) : 0;
}

/* Averages at once, while nothing is under way. */
static int synchronise_part(struct part *part, uint32_t epoch, enum ending ending, double mix,
			    struct lh_error *err)
{
	struct lh_rank *rank = part->sync->rank;
	int rc = 0;

	begin_part(part, epoch);
	rank->doing = "averaging";
	if (part->averager)
		rc = run_averaging(part, err);
	if (rc == 0 && part->averager)
		rc = lh_rank_write_average(rank, epoch, part->sent_ns, &part->done, err);
	return rc ? rc : end_part(part, epoch, ending, mix, err);
}

static void send_part(struct part *part, uint32_t epoch)
{
	begin_part(part, epoch);
	part->is_under_way = true;
	if (part->averager)
		lh_beside_post(part->sync->beside, &part->task);
}

/* Waits for what was sent beside computing, and merges it. */
static int merge_part(struct part *part, uint32_t epoch, struct lh_error *err)
{
	struct sync *s = part->sync;
	int64_t begin_ns = lh_clock_now_ns(), now_ns;
	int rc = 0;

	s->rank->doing = "waiting for a fragment";
	if (part->averager)
		rc = lh_beside_wait(s->beside, &part->task, INT64_MAX, err);
	now_ns = lh_clock_now_ns();
	if (rc == 0 && part->averager)
		rc = lh_rank_write_span(s->rank, "wait", epoch, begin_ns, now_ns, now_ns, err);
	if (rc == 0 && part->averager)
		rc = lh_rank_write_average_beside(s->rank, epoch, part->sent_ns, part->task.end_ns,
						  &part->done, err);
	part->is_under_way = false;
	return rc ? rc : end_part(part, epoch, ENDING_STEP, s->config->mix, err);
}

static bool is_due(const struct sync *s, uint32_t i, uint32_t epoch)
{
	return lh_fragment_is_due(i, s->fragments.n, s->config->period, epoch);
}

/* Merges what comes back in this epoch: in the order in which it was sent, which an epoch has one
 * of at most. After the last epoch all. */
static int merge_parts(struct sync *s, uint32_t epoch, bool is_last, struct lh_error *err)
{
	int rc = 0;

	for (uint32_t age = s->config->delay + 1; rc == 0 && age--;)
		for (uint32_t i = 0; rc == 0 && i < s->fragments.n; i++) {
			struct part *part = &s->parts[i];

			if (part->is_under_way && epoch - part->sent_epoch == age &&
			    (is_last || age == s->config->delay))
				rc = merge_part(part, epoch, err);
		}
	return rc;
}

static int exchange(struct sync *s, uint32_t epoch, bool is_last, struct lh_error *err)
{
	int rc = merge_parts(s, epoch, is_last, err);

	for (uint32_t i = 0; rc == 0 && i < s->fragments.n; i++) {
		struct part *part = &s->parts[i];

		if (is_last)
			rc = synchronise_part(part, epoch,
					      is_due(s, i, epoch) ? ENDING_STEP : ENDING_MEAN, 0,
					      err);
		else if (is_due(s, i, epoch) && s->config->delay)
			send_part(part, epoch);
		else if (is_due(s, i, epoch))
			rc = synchronise_part(part, epoch, ENDING_STEP, s->config->mix, err);
	}
	return rc;
}

/* Whether any fragment is sent or comes back. */
static bool has_exchange(const struct sync *s, uint32_t epoch)
{
	for (uint32_t i = 0; i < s->fragments.n; i++)
		if (is_due(s, i, epoch) || (s->parts[i].is_under_way &&
					    epoch - s->parts[i].sent_epoch == s->config->delay))
			return true;
	return false;
}

static int synchronise(struct sync *s, uint32_t epoch, struct lh_error *err)
{
	struct lh_rank *rank = s->rank;
	bool is_last = epoch + 1 == rank->job->epochs;
	int rc = 0;

	for (uint32_t i = 0; i < s->fragments.n; i++)
		for (uint32_t r = 0; r < rank->n; r++)
			s->parts[i].samples[r] += s->steps.samples[r];
	if (!is_last && !has_exchange(s, epoch))
		return 0;
	if (s->weights)
		rc = rank->compute->read_weights(rank->computing, s->weights, err);
	if (rc == 0)
		rc = exchange(s, epoch, is_last, err);
	if (rc == 0 && s->weights)
		rc = rank->compute->write_weights(rank->computing, s->weights, err);
	return rc;
}

static int run_epoch(struct sync *s, uint32_t epoch, struct lh_error *err)
{
	int rc;

	lh_steps_begin(&s->steps, epoch);
	if ((rc = lh_steps_compute(&s->steps, err)) || (rc = lh_steps_apply(&s->steps, err)) ||
	    (rc = synchronise(s, epoch, err)))
		return rc;
	return lh_steps_end(&s->steps, err);
}

static int run(struct sync *s, struct lh_error *err)
{
	int rc = start(s, err);

	if (rc)
		return lh_error_prefix(err, "connecting");
	for (uint32_t epoch = 0; rc == 0 && epoch < s->rank->job->epochs; epoch++)
		if ((rc = run_epoch(s, epoch, err)))
			lh_error_prefix(err, "epoch %" PRIu32 ", %s", epoch, s->rank->doing);
	if (rc == 0 && (rc = lh_rank_finish(s->rank, err)))
		lh_error_prefix(err, "ending");
	return rc;
}

int lh_synchronise_run(struct lh_rank *rank, const struct lh_synchronise_config *config,
		       struct lh_error *err)
{
	struct sync s = {.rank = rank, .config = config, .averaging = &lh_averaging_dense};
	int rc = run(&s, err);

	close_sync(&s);
	return rc;
}
