/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two small BPF programs, written as instructions (no compiler is needed):
 * one sorts packets into the sender's class on a port and counts pure acknowledgements;
 * one bounds the congestion window of every TCP connection between two nodes, from its
 * first round trip on, whichever program made it. Private to the emulator.
 */
#ifndef LH_EMULATOR_BPF_H
#define LH_EMULATOR_BPF_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "emulator/plan.h"

/* What was counted on the wire. */
struct lh_bpf_count {
	uint64_t bytes;
	uint64_t packets;
};

/* An upper bound of congestion windows; 0: none. Eight bytes, as the kernel's tables have. */
struct lh_window {
	uint32_t segments;
	uint32_t unused;
};

/* Whether a node is away. Eight bytes, as the kernel's tables have. */
struct lh_away {
	uint32_t is_away;
	uint32_t unused;
};

/* The programs and their tables, as descriptors; -1 where not open. The tables are mapped: what
 * the kernel counts stands in them. */
struct lh_bpf {
	int classify_prog_fd;
	int acks_map_fd;
	int window_prog_fd;
	int window_map_fd;
	int cross_map_fd;
	int away_map_fd;
	size_t n_pairs;
	size_t n_cross;
	struct lh_window *windows;  /* [from * n_nodes + to] */
	struct lh_bpf_count *acks;  /* the same: pure acknowledgements */
	struct lh_bpf_count *cross; /* cross traffic taken out; those of sites' links behind */
	struct lh_away *away;	    /* by node; NULL: none is ever away */
	size_t n_away;
};

#define LH_BPF_NONE                                                              \
	{                                                                        \
		.classify_prog_fd = -1, .acks_map_fd = -1, .window_prog_fd = -1, \
		.window_map_fd = -1, .cross_map_fd = -1, .away_map_fd = -1       \
	}

/* Loads both programs for a plan. LH_EENV where the kernel or the rights do not allow it. */
int lh_bpf_open(struct lh_bpf *bpf, const struct lh_plan *plan, struct lh_error *err);
void lh_bpf_close(struct lh_bpf *bpf);

/* Loads the one that bounds windows alone; lh_bpf_open does, too. */
int lh_bpf_open_windows(struct lh_bpf *bpf, const struct lh_plan *plan, struct lh_error *err);

/* Whether a plan asks anything of that program. */
bool lh_bpf_has_windows(const struct lh_plan *plan);

/* Loads a program that sends every frame out of another link of the same namespace. The caller
 * owns *ret_fd. */
int lh_bpf_load_redirect(int ifindex, int *ret_fd, struct lh_error *err);

/*
 * Another classifier: it counts acknowledgements of the senders first .. first + n - 1 only, so
 * that a packet that passes several ports is counted once. The caller closes *ret_fd.
 */
int lh_bpf_classifier_open(const struct lh_bpf *bpf, const struct lh_plan *plan, size_t first,
			   size_t n, int *ret_fd, struct lh_error *err);

/* Binds the window program to the cgroup (v2) folder: it then holds for all sockets made
 * by processes in it. */
int lh_bpf_attach_windows(const struct lh_bpf *bpf, const char *cgroup_path, struct lh_error *err);

enum { LH_CROSS_PORT = 9 /* UDP's discard */ };

/*
 * A program for what comes in on a link: it takes cross traffic out and counts it, by the sender
 * and node to, or where that is not a node (-1) under the key. The caller closes *ret_fd.
 */
int lh_bpf_sink_open(const struct lh_bpf *bpf, const struct lh_plan *plan, long to, uint32_t key,
		     int *ret_fd, struct lh_error *err);

/* A program for what comes in on a link: it drops everything while the node is away, as the table
 * says. The caller closes *ret_fd. */
int lh_bpf_guard_open(const struct lh_bpf *bpf, size_t node, int *ret_fd, struct lh_error *err);

/* The key of a site's link; those of pairs are from * n_nodes + to. */
uint32_t lh_bpf_link_key(const struct lh_plan *plan, size_t access, bool is_up);

#endif
