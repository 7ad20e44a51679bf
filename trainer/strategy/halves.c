/* SPDX-License-Identifier: Apache-2.0 */
/* An all-reduce in its two halves. See halves.h. */
#include "trainer/strategy/halves.h"

#include <errno.h>
#include <stdlib.h>

enum { SCATTER, GATHER };

static int open_half(const struct lh_halves_config *config, const struct lh_collective_ops *ops,
		     const uint64_t *shares, struct lh_halves *halves, struct lh_error *err)
{
	int half = shares ? GATHER : SCATTER;
	struct lh_collective_form form = {
		.elements = config->elements,
		.n = config->n_members,
		.members = config->members,
		.block_elements = shares,
	};
	struct lh_collective_run_config run = {
		.comm = config->rank->comm,
		.plan = &halves->plans[half],
		.codec = config->codec,
		.slice_elements = config->slice_elements,
		.host_bps = config->rank->me->averaging_bps,
	};
	int rc = ops->make(&form, config->rank->self, &halves->plans[half], err);

	return rc ? rc : lh_collective_run_open(&run, &halves->runs[half], err);
}

int lh_halves_open(const struct lh_halves_config *config, struct lh_halves *halves,
		   struct lh_error *err)
{
	const uint64_t *at;
	uint64_t *shares;
	int rc = open_half(config, &lh_collective_scatter_direct, NULL, halves, err);

	if (rc)
		return rc;
	shares = calloc(config->n_members, sizeof(*shares));
	if (!shares)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	at = halves->plans[SCATTER].at;
	for (uint32_t i = 0; i < config->n_members; i++)
		shares[i] = at[i + 1] - at[i];
	rc = open_half(config, &lh_collective_gather_direct, shares, halves, err);
	free(shares);
	if (rc == 0)
		halves->slices = lh_collective_run_slices(halves->runs[SCATTER]);
	return rc;
}

void lh_halves_close(struct lh_halves *halves)
{
	for (int half = SCATTER; half <= GATHER; half++) {
		lh_collective_run_close(halves->runs[half]);
		lh_collective_plan_done(&halves->plans[half]);
	}
	*halves = (struct lh_halves){0};
}

static int run_half(struct lh_halves *halves, int half, uint32_t epoch, float *values,
		    struct lh_average *done, struct lh_error *err)
{
	struct lh_collective_done round;
	int rc = lh_collective_run_round(halves->runs[half], epoch, done->group_samples, values,
					 INT64_MAX, &round, err);

	if (rc)
		return rc;
	done->host_ns += round.host_ns;
	done->payload_sent_bytes += round.sent_bytes;
	done->payload_received_bytes += round.received_bytes;
	return 0;
}

int lh_halves_scatter(struct lh_halves *halves, uint32_t epoch, float *values,
		      struct lh_average *done, struct lh_error *err)
{
	return run_half(halves, SCATTER, epoch, values, done, err);
}

const void *lh_halves_sent(const struct lh_halves *halves, uint32_t member)
{
	return lh_collective_run_part(halves->runs[SCATTER], member);
}

int lh_halves_gather(struct lh_halves *halves, uint32_t epoch, float *values,
		     struct lh_average *done, struct lh_error *err)
{
	int rc = run_half(halves, GATHER, epoch, values, done, err);

	if (rc == 0)
		lh_collective_run_decode(halves->runs[GATHER]);
	return rc;
}
