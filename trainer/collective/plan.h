/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective plans: one member's programme of an all-reduce (or of a reduce-scatter or all-gather
 * alone) as plain data. A plan says which chunks of a vector go to whom, and which come from whom;
 * it knows nothing of sockets, of time, or of what the numbers are. Pure functions.
 *
 * Rules that every plan keeps, and that lh_collective_program_build (interpret.h) checks:
 * - A member begins with its own numbers in every chunk. Sending a chunk that is not finished gives
 *   it away: the sender adds nothing to it any more, and later gets it back finished.
 * - A receive with is_reduced adds to what is there; else the finished chunk replaces it.
 * - Exactly one member finishes each chunk, after all its receives up to that phase: it divides by
 *   the number of members (but in an all-gather) and encodes. What is passed on from there are
 * these bytes, unchanged, and the finisher decodes them, too: all members end with the same bits.
 * - A phase is what leaves together: as soon as every receive of an earlier phase that brings one
 * of the chunks that it sends is in and reduced. Other receives it need not wait for, so phases of
 *   different chunks overtake each other; but messages to one peer leave in the plan's order.
 * - Between two members, the k-th message sent is the k-th received. Receives are posted ahead.
 * - Into a chunk, receives are reduced in the plan's order, whenever they come.
 * - A message is a run of chunks, each encoded by itself. Nothing is sent that has no elements.
 */
#ifndef LH_TRAINER_COLLECTIVE_PLAN_H
#define LH_TRAINER_COLLECTIVE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

enum {
	LH_COLLECTIVE_MEMBERS_MAX = 1024,
	LH_COLLECTIVE_RANKS_MAX = 1 << 16,
	LH_COLLECTIVE_CHUNKS_MAX = 1 << 16,
	LH_COLLECTIVE_SEGMENTS_MAX = 1024,
	LH_COLLECTIVE_LEVELS_MAX = 8, /* also of dimensions */
};

enum lh_collective_kind {
	LH_COLLECTIVE_ALL_REDUCE,
	LH_COLLECTIVE_REDUCE_SCATTER, /* a finished chunk stays where it is */
	LH_COLLECTIVE_ALL_GATHER,     /* chunk i begins finished at member i, and nowhere else */
};

/* Chunks [first_chunk, first_chunk + n_chunks) from or to a peer. */
struct lh_collective_move {
	uint32_t peer; /* a rank */
	uint32_t first_chunk;
	uint32_t n_chunks;
	bool is_reduced; /* receives: added to what is there */
};

/* Runs of the plan's sends and receives, and the chunks that are finished once these are in. */
struct lh_collective_phase {
	uint32_t first_send;
	uint32_t n_sends;
	uint32_t first_receive;
	uint32_t n_receives;
	uint32_t first_finished;
	uint32_t n_finished;
};

/* One member's programme. Plain data; lh_collective_plan_done frees what it points to. */
struct lh_collective_plan {
	enum lh_collective_kind kind;
	uint32_t self;	    /* a rank */
	uint32_t n_members; /* that the sums are of */
	uint32_t n_chunks;
	uint64_t *at; /* n_chunks + 1 elements: where each chunk begins, and where the last ends */
	uint32_t n_phases;
	uint32_t n_sends;
	uint32_t n_receives;
	struct lh_collective_phase *phases;
	struct lh_collective_move *sends;
	struct lh_collective_move *receives;
};

/* How the members of a group exchange what they have. */
enum lh_collective_exchange {
	LH_COLLECTIVE_AROUND,	  /* around a ring: few connections, a delay for every member */
	LH_COLLECTIVE_ALL_TO_ALL, /* to each directly: two delays */
};

/* A level of a hierarchy. */
struct lh_collective_level {
	const uint32_t *group_of;	      /* by member: its group, below n; NULL: all in one */
	enum lh_collective_exchange exchange; /* between what the level joins */
};

/* What a collective is made for. All that it points to is borrowed during calls. */
struct lh_collective_form {
	uint64_t elements; /* of the vector */
	uint32_t n;	   /* members, 1 to LH_COLLECTIVE_MEMBERS_MAX */
	/* Their ranks, each once, in the order in which rings go; NULL: 0 to n - 1. */
	const uint32_t *members;
	/* ring, tree: pieces that follow each other, 1 to LH_COLLECTIVE_SEGMENTS_MAX; 0 is 1. Of a
	 * ring's shard, of a tree's vector. */
	uint32_t n_segments;
	/* butterfly: by member, any unit, 0: owns nothing; NULL: all equal. */
	const double *bandwidths;
	/* torus: their product is n; member i is at coordinates i in mixed radix, the first
	 * dimension running fastest. */
	const uint32_t *dimensions;
	uint32_t n_dimensions;
	/* hierarchical: innermost first, groups of a level inside those of the next, the last has
	 * all in one. */
	const struct lh_collective_level *levels;
	uint32_t n_levels;
	/* all-gathers: elements of each member's block; `elements` is not used. */
	const uint64_t *block_elements;
};

struct lh_collective_ops {
	const char *name;
	const char *doc; /* one line */
	/* Makes the plan of the member with rank self. LH_EINPUT where the form does not fit,
	 * LH_ESYS; then *ret_plan is left alone. */
	int (*make)(const struct lh_collective_form *form, uint32_t self,
		    struct lh_collective_plan *ret_plan, struct lh_error *err);
};

extern const struct lh_collective_ops lh_collective_ring;
extern const struct lh_collective_ops lh_collective_butterfly;
extern const struct lh_collective_ops lh_collective_halving_doubling;
extern const struct lh_collective_ops lh_collective_tree;
extern const struct lh_collective_ops lh_collective_torus;
extern const struct lh_collective_ops lh_collective_hierarchical;
extern const struct lh_collective_ops lh_collective_gather_ring;
extern const struct lh_collective_ops lh_collective_gather_direct;
extern const struct lh_collective_ops lh_collective_scatter_direct;

/* All all-reduces, NULL at the end. */
extern const struct lh_collective_ops *const lh_collectives[];

/* The all-reduce of that name, or NULL. */
const struct lh_collective_ops *lh_collective_find(const char *name);

/* Frees what a plan points to; one of all zeros is fine. */
void lh_collective_plan_done(struct lh_collective_plan *plan);

/* Makes the plans of all members, in their order. *ret_plans: form->n of them, given to
 * lh_collective_plans_free. Errors as make. */
int lh_collective_plans_make(const struct lh_collective_ops *ops,
			     const struct lh_collective_form *form,
			     struct lh_collective_plan **ret_plans, struct lh_error *err);

/* NULL is fine. */
void lh_collective_plans_free(struct lh_collective_plan *plans, uint32_t n);

/* Elements of the chunks of a move. */
static inline uint64_t lh_collective_move_elements(const struct lh_collective_plan *plan,
						   const struct lh_collective_move *move)
{
	return plan->at[move->first_chunk + move->n_chunks] - plan->at[move->first_chunk];
}

/* Elements that the plan's member sends. */
uint64_t lh_collective_sent_elements(const struct lh_collective_plan *plan);

/*
 * Shares of a butterfly that let the slowest member send for as short as possible: a member with
 * share s of a vector sends 1 + (n - 2) s vectors. bandwidths in any unit, 0: its share is 0, and
 * it is not waited for. ret_shares: n, their sum 1. LH_EINPUT where all are 0, or one is not
 * finite.
 *
 * Source: minimise max (1 + (n - 2) share) / bandwidth, solved by levels (water filling): the
 * shares that are not 0 end at the same time, and those that are 0 would end later still.
 */
int lh_collective_shares(const double *bandwidths, uint32_t n, double *ret_shares,
			 struct lh_error *err);

#endif
