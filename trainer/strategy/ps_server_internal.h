/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of strategy parameter-server: one thread that waits for whatever comes first, the end of
 * a micro-batch of its own worker among that. See parameter_server.c.
 */
#ifndef LH_TRAINER_PS_SERVER_INTERNAL_H
#define LH_TRAINER_PS_SERVER_INTERNAL_H

#include "trainer/strategy/ps_internal.h"

enum {
	SERVER_QUEUE = 4, /* messages of asgd on their way to a peer, the kernel's buffers included:
			     one on the wire, others behind it */
};

struct server;

/* A message posted, and what to do once it is done. */
struct lh_ps_wire {
	struct lh_request request;
	uint8_t *bytes; /* owned */
	uint32_t owner; /* of the peers or workers */
	int (*take)(struct server *s, struct lh_ps_wire *wire, struct lh_error *err); /* or NULL */
};

/* The server of another site. */
struct lh_ps_peer {
	uint32_t site;
	uint32_t rank;
	struct lh_ps_form form;	      /* of what it is sent */
	struct lh_ps_form their_form; /* of what it sends */
	float *lacks;		      /* gradients, and what its form leaves there; n_real */
	uint32_t n_told;	      /* updates that it has been sent */
	uint32_t n_heard;	      /* updates that have come from it */
	uint32_t n_messages_sent;
	uint32_t n_messages_received;
	float *received;	   /* n_real: its last message, or its weights */
	bool has_come;		   /* what a barrier waits for */
	struct lh_ps_wire *coming; /* of its messages */
	struct lh_ps_wire *going;  /* n_going */
	/* replayed: what must be in its messages, by own reckoning; n_real */
	float *expected;
	float *drawn;
	uint8_t *expected_bytes;
};

struct server {
	struct lh_rank *rank;
	const struct lh_job *job;
	const struct lh_ps_plan *plan;
	struct lh_ps_numbers numbers;
	uint32_t wire_bytes;	   /* room of each wire */
	uint32_t n_updates;	   /* own, applied */
	uint64_t checked_elements; /* since last written */
	int64_t host_ns;	   /* the same */
	struct lh_ps_peer *peers;
	uint32_t n_peers;
	uint32_t n_going;	     /* messages to a peer at a time */
	struct lh_ps_wire *workers;  /* 2 per worker: its push, its pull */
	uint32_t n_workers;	     /* but the server's own */
	uint32_t n_pushed;	     /* of this update */
	float *sum;		     /* n_real */
	struct lh_ps_wire *wires;    /* all of the above lie here */
	struct lh_request **pending; /* by wire; NULL: not posted */
	uint32_t n_wires;
	int64_t compute_end_ns;
};

/* Posts a wire's message. */
void lh_ps_server_send(struct server *s, struct lh_ps_wire *wire, uint32_t peer,
		       const struct lh_message *message);
void lh_ps_server_expect(struct server *s, struct lh_ps_wire *wire, uint32_t peer,
			 const struct lh_message *message);

bool lh_ps_server_is_pending(const struct server *s, const struct lh_ps_wire *wire);

/* Handles what comes until is_met says so; then, or past until_ns, returns. is_met NULL: never. */
int lh_ps_server_pump(struct server *s, bool (*is_met)(const struct server *s, const void *arg),
		      const void *arg, int64_t until_ns, struct lh_error *err);

/* Lets time pass in which the server's processor is busy; its own worker computes on. */
void lh_ps_server_charge(int64_t ns);

/* ---- ps_exchange.c ---- */

int lh_ps_peer_open(struct server *s, struct lh_ps_peer *peer, struct lh_error *err);
void lh_ps_peer_close(struct lh_ps_peer *peer);

/* Expects the first message of every peer. */
void lh_ps_exchange_begin(struct server *s);

/* After an own update: sends what is due, and waits where the exchange says so. is_last: then also
 * until all peers' updates have come. */
int lh_ps_exchange(struct server *s, bool is_last, struct lh_error *err);

/* The weights become the mean of all servers'; *ret_distance: how far the farthest was from it, of
 * its norm. */
int lh_ps_exchange_final(struct server *s, double *ret_distance, struct lh_error *err);

#endif
