/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queueing disciplines through netlink: tbf, htb, netem and the filter that sorts packets
 * into classes. The one file that turns our units into the kernel's. Messages are built
 * attribute by attribute: libnl 3.7 has no call for netem's rate and 64-bit times.
 * Private to the emulator.
 */
#ifndef LH_EMULATOR_QDISC_H
#define LH_EMULATOR_QDISC_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/nl.h"
#include "emulator/plan.h"

enum {
	LH_CLASS_NIC = 1,	   /* minor of the class that holds a port's whole rate */
	LH_CLASS_FIRST = 0x10,	   /* minor of the class of sender 0 */
	LH_NETEM_FIRST = 0x100,	   /* major of the netem of sender 0 */
	LH_SPLIT_FIRST = 0x200,	   /* major of what cuts the super-packets of sender 0 */
	LH_STAGE_FIRST = 0x300,	   /* major of the bottleneck of sender 0 */
	LH_LINK_MAJOR = 2,	   /* of a link that a site shares */
	LH_CLASS_WAKE = 2,	   /* minor of the class whose packets go nowhere */
	LH_CODEL_TARGET_US = 5000, /* the kernel's own */
	LH_CODEL_INTERVAL_US = 100000,
};

/* A network card's sending rate: tbf as the root of a link. */
int lh_tbf_add(struct lh_nl *nl, int ifindex, int64_t rate_bps, uint32_t burst_bytes,
	       uint32_t limit_bytes, struct lh_error *err);

/* htb as root of a link, with one class of the whole rate below it. */
int lh_htb_add(struct lh_nl *nl, int ifindex, int64_t rate_bps, uint32_t burst_bytes,
	       struct lh_error *err);

/* A sender's class under the link's whole rate: at least share_bps, at most rate_bps. */
int lh_htb_class_add(struct lh_nl *nl, int ifindex, unsigned sender, int64_t share_bps,
		     int64_t rate_bps, uint32_t burst_bytes, struct lh_error *err);

/* netem in a sender's class, as a path of the plan says: behind a tbf that cuts super-packets
 * of more than frame_bytes where the path splits segments. */
int lh_netem_add(struct lh_nl *nl, int ifindex, unsigned sender, const struct lh_plan_path *path,
		 uint32_t frame_bytes, struct lh_error *err);

/* netem as the root of a link, for all senders together. */
int lh_netem_root_add(struct lh_nl *nl, int ifindex, const struct lh_plan_path *path,
		      struct lh_error *err);

/* A bottleneck in a sender's class: what cuts super-packets of more than uncut_bytes, a tbf that
 * holds the rate, and the queue. */
int lh_stage_add(struct lh_nl *nl, int ifindex, unsigned sender, const struct lh_plan_bottleneck *b,
		 uint32_t uncut_bytes, struct lh_error *err);

/*
 * Messages that change what a sender's netem, or its bottleneck, holds into what the path says,
 * without losing or reordering what is in it: appended to messages, of which *n are there already.
 * LH_ESYS where memory is out.
 */
int lh_netem_change(int ifindex, unsigned sender, const struct lh_plan_path *path,
		    struct nl_msg **messages, size_t *n, struct lh_error *err);
enum { LH_STAGE_MESSAGES = 2 };
int lh_stage_change(int ifindex, unsigned sender, const struct lh_plan_path *path,
		    struct nl_msg **messages, size_t *n, struct lh_error *err);

/* A class beside a link's whole rate in which every packet is dropped: one that is sent there
 * (with this as its SO_PRIORITY) makes the link look again at what its queues may send. */
int lh_wake_class_add(struct lh_nl *nl, int ifindex, int64_t rate_bps, struct lh_error *err);
uint32_t lh_wake_priority(void);

/* The same as root of a link. */
int lh_bottleneck_add(struct lh_nl *nl, int ifindex, const struct lh_plan_bottleneck *b,
		      uint32_t frame_bytes, struct lh_error *err);

/* The classifying BPF program prog_fd on a link's htb. */
int lh_filter_add(struct lh_nl *nl, int ifindex, int prog_fd, struct lh_error *err);

/* Programs for what comes in on a link, in this order; of each at most one. */
enum lh_ingress { LH_INGRESS_FIRST = 1, LH_INGRESS_GUARD };

/* A BPF program for what comes in on a link, which says what becomes of it, or leaves that to the
 * next. */
int lh_ingress_add(struct lh_nl *nl, int ifindex, enum lh_ingress which, int prog_fd,
		   struct lh_error *err);

/* Takes away what is the root of a link, with all that waits in it. */
int lh_root_delete(struct lh_nl *nl, int ifindex, struct lh_error *err);

/* A qdisc as the kernel holds it. */
struct lh_qdisc_state {
	char kind[16];
	int ifindex;
	uint32_t handle;
	uint32_t parent;
	int64_t delay_ns;		/* netem */
	int64_t jitter_ns;		/* netem */
	struct lh_plan_chances chances; /* netem */
	uint32_t gap;			/* netem */
	uint32_t good_loss;		/* netem: what its model loses while in the good state */
	uint32_t bad_pass;		/* netem: and lets pass while in the bad one */
	uint64_t seed;			/* netem; 0: the kernel does not say */
	int64_t rate_bytes_per_s;	/* netem, tbf */
	uint32_t limit;			/* netem, codel, fq_codel: packets; tbf: bytes */
	int64_t burst_ns;		/* tbf, to 64 ns */
	uint32_t target_us;		/* codel, fq_codel */
	uint32_t interval_us;		/* codel, fq_codel */
	uint32_t ecn;			/* codel, fq_codel */
	uint32_t direct_pkts;		/* htb: packets that no class took */
	uint64_t bytes;
	uint64_t packets;
	uint32_t drops;
};

/* Calls each for every qdisc in the namespace of nl. */
int lh_qdisc_dump(struct lh_nl *nl,
		  int (*each)(const struct lh_qdisc_state *state, void *context,
			      struct lh_error *err),
		  void *context, struct lh_error *err);

/* Sends messages together (and frees them), and calls each for every qdisc as it is afterwards. */
int lh_qdisc_change(struct lh_nl *nl, struct nl_msg **messages, size_t n,
		    int (*each)(const struct lh_qdisc_state *state, void *context,
				struct lh_error *err),
		    void *context, struct lh_error *err);

/* An htb class as the kernel holds it. */
struct lh_class_state {
	uint32_t minor;
	int64_t rate_bytes_per_s;
	int64_t ceil_bytes_per_s;
};

/* Calls each for every class of a link. */
int lh_class_dump(struct lh_nl *nl, int ifindex,
		  int (*each)(const struct lh_class_state *state, void *context,
			      struct lh_error *err),
		  void *context, struct lh_error *err);

/* bit/s as the kernel's bytes per second, rounded to nearest, at least 1. */
int64_t lh_rate_to_kernel(int64_t rate_bps);

#endif
