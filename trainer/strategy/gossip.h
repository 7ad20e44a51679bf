/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gossip: ranks average with neighbours in a graph instead of with all. What d_psgd.c and ad_psgd.c
 * share: the graphs, the messages, and the end: after the last epoch all weights are averaged
 * around a ring in single precision, whatever the compressor, so that every rank ends with the
 * model that the papers judge, the mean of all. How far a rank was from it is told as `consensus`.
 *
 * Where weights are replayed, a message begins with a slice of seeded numbers, which the receiver
 * compares bit by bit with what they must be.
 */
#ifndef LH_TRAINER_GOSSIP_H
#define LH_TRAINER_GOSSIP_H

#include <stdbool.h>

#include "core/error.h"
#include "trainer/rank.h"
#include "trainer/strategy/beside.h"
#include "trainer/strategy/settings.h"
#include "trainer/strategy/steps.h"

/* Whether `from` sends to `to` in a graph of n ranks; every rank has as many that it sends to as
 * that send to it. */
bool lh_gossip_has_edge(enum lh_gossip_graph graph, uint32_t n, uint32_t from, uint32_t to);

/* Ranks that each sends to. Its own weight and that of each that it hears are 1 / (degree + 1). */
uint32_t lh_gossip_degree(enum lh_gossip_graph graph, uint32_t n);

/*
 * Whether two ranks average in pairs: one of them even, which asks, the other odd, which answers,
 * so that nobody waits in a circle. Of an exponential graph the distances 1, 3, 5, 9, 17 ... are
 * left.
 *
 * Source: Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML
 * 2018, arXiv 1710.06952, on graphs without deadlock.
 */
bool lh_gossip_is_pair(enum lh_gossip_graph graph, uint32_t n, uint32_t asks, uint32_t answers);

/* What a rank gossips with. */
struct lh_gossip {
	struct lh_rank *rank; /* borrowed */
	struct lh_steps steps;
	uint64_t n;	     /* parameters */
	uint32_t n_real;     /* of a message, that are real numbers */
	uint64_t wire_bytes; /* of a message */
	uint32_t head_bytes; /* of the real ones */
	float *weights;	     /* n; NULL: replayed */
	float *scratch;	     /* n_real */
	unsigned char *wire; /* head_bytes, for comparing */
	struct lh_beside *beside;
	/* Of the end: the same rank in a job that averages around a ring and does not compress. */
	struct lh_job last_job;
	struct lh_rank last_rank;
	void *last;
};

/* Connects rank with those that wanted marks (by rank), and with the ring's; starts a helper. Given
 * to lh_gossip_close also where it fails. LH_EINPUT, LH_ESYS, LH_ERUN. */
int lh_gossip_open(struct lh_gossip *ret_gossip, struct lh_rank *rank, uint8_t *wanted,
		   struct lh_error *err);

void lh_gossip_close(struct lh_gossip *gossip);

/* A message with weights. */
struct lh_message lh_gossip_message(const struct lh_gossip *gossip, uint32_t epoch, uint16_t phase,
				    uint64_t samples);

/* The numbers of a replayed message from rank `from` to `to`, the count-th, as on the wire. */
void lh_gossip_draw(struct lh_gossip *gossip, uint32_t from, uint32_t to, uint32_t count,
		    unsigned char *ret_wire);

/* Compares a replayed message with what it must be. LH_ERUN. */
int lh_gossip_check(struct lh_gossip *gossip, uint32_t from, uint32_t to, uint32_t count,
		    const unsigned char *wire, struct lh_error *err);

/* The end of the last epoch, while nothing else is under way: waits for all ranks, for as long as
 * the timeout and four times what the slowest needs for all epochs by its profile. Writes `average`
 * and `consensus`. LH_ESYS, LH_ERUN. */
int lh_gossip_end(struct lh_gossip *gossip, uint32_t epoch, struct lh_error *err);

#endif
