/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BPF programs as instructions. See bpf.h.
 * Source of the interfaces: include/uapi/linux/bpf.h (bpf_sock_ops, TCP_BPF_SNDCWND_CLAMP,
 * skb_load_bytes) and net/sched/cls_bpf.c (a returned class id).
 */
#include "emulator/bpf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "emulator/qdisc.h"

#ifndef TCP_BPF_SNDCWND_CLAMP
#define TCP_BPF_SNDCWND_CLAMP 1002
#endif

/* One instruction; the names follow the kernel's documentation of the set. */
#define INSN(c, d, s, o, i)                              \
	((struct bpf_insn){.code = (c),                  \
			   .dst_reg = (unsigned)(d)&15u, \
			   .src_reg = (unsigned)(s)&15u, \
			   .off = (o),                   \
			   .imm = (i)})
#define MOV_REG(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOV_IMM(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD_REG(d, s) INSN(BPF_ALU64 | BPF_ADD | BPF_X, d, s, 0, 0)
#define ADD_IMM(d, i) INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define ADD32_IMM(d, i) INSN(BPF_ALU | BPF_ADD | BPF_K, d, 0, 0, i)
#define MUL_IMM(d, i) INSN(BPF_ALU64 | BPF_MUL | BPF_K, d, 0, 0, i)
#define RSH_IMM(d, i) INSN(BPF_ALU64 | BPF_RSH | BPF_K, d, 0, 0, i)
#define LSH_IMM(d, i) INSN(BPF_ALU64 | BPF_LSH | BPF_K, d, 0, 0, i)
#define TO_BE32(d) INSN(BPF_ALU | BPF_END | BPF_TO_BE, d, 0, 0, 32)
#define LOAD_W(d, s, o) INSN(BPF_LDX | BPF_MEM | BPF_W, d, s, o, 0)
#define LOAD_B(d, s, o) INSN(BPF_LDX | BPF_MEM | BPF_B, d, s, o, 0)
#define STORE_W(d, s, o) INSN(BPF_STX | BPF_MEM | BPF_W, d, s, o, 0)
#define ATOMIC_ADD(d, s, o) INSN(BPF_STX | BPF_ATOMIC | BPF_DW, d, s, o, BPF_ADD)
#define JUMP_EQ(d, i, o) INSN(BPF_JMP | BPF_JEQ | BPF_K, d, 0, o, i)
#define JUMP_NE(d, i) INSN(BPF_JMP | BPF_JNE | BPF_K, d, 0, 0, i)
#define JUMP_NE_REG(d, s) INSN(BPF_JMP | BPF_JNE | BPF_X, d, s, 0, 0)
#define JUMP_GE(d, i) INSN(BPF_JMP | BPF_JGE | BPF_K, d, 0, 0, i)
#define CALL(f) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
enum { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FP };

enum { LOG_BYTES = 16384 };

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* A table of n values, which are mapped: reading or filling it is no system call for each. */
static int map_new(uint32_t value_bytes, uint32_t n, int *ret_fd, void **ret_values,
		   struct lh_error *err)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = sizeof(uint32_t),
		.value_size = value_bytes,
		.max_entries = n,
		.map_flags = BPF_F_MMAPABLE,
	};
	long fd = bpf(BPF_MAP_CREATE, &attr);
	void *values;

	if (fd < 0)
		return lh_fail(err, LH_EENV, errno,
			       "make a BPF table (needs CAP_BPF and CAP_NET_ADMIN)");
	*ret_fd = (int)fd;
	values =
		mmap(NULL, (size_t)value_bytes * n, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
	if (values == MAP_FAILED)
		return lh_fail(err, LH_EENV, errno, "map a BPF table (needs Linux 5.5)");
	*ret_values = values;
	return 0;
}

/* A program being written. Jumps go forward only, to one of two labels. */
enum { PROGRAM_INSNS_MAX = 96, PROGRAM_JUMPS_MAX = 16 };

struct label {
	size_t jumps[PROGRAM_JUMPS_MAX];
	size_t n_jumps;
};

struct program {
	struct bpf_insn insns[PROGRAM_INSNS_MAX];
	size_t n;
};

static int prog_load(enum bpf_prog_type type, enum bpf_attach_type attach,
		     const struct program *program, const char *name, int *ret_fd,
		     struct lh_error *err)
{
	char log[LOG_BYTES] = "";
	union bpf_attr attr = {
		.prog_type = type,
		.insns = (uint64_t)(uintptr_t)program->insns,
		.insn_cnt = (uint32_t)program->n,
		.license = (uint64_t)(uintptr_t) "Apache-2.0",
		.log_buf = (uint64_t)(uintptr_t)log,
		.log_size = sizeof(log),
		.log_level = 1,
		.expected_attach_type = attach,
	};
	long fd;

	snprintf(attr.prog_name, sizeof(attr.prog_name), "%s", name);
	fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd < 0) {
		size_t used = strlen(log);

		return lh_fail(err, LH_EENV, errno, "load the BPF program %s (verifier: %s)", name,
			       used > 400 ? log + used - 400 : log);
	}
	*ret_fd = (int)fd;
	return 0;
}

static void emit(struct program *p, struct bpf_insn insn)
{
	assert(p->n < PROGRAM_INSNS_MAX);
	p->insns[p->n++] = insn;
}

static void emit_map(struct program *p, int reg, int map_fd)
{
	emit(p, INSN(BPF_LD | BPF_DW | BPF_IMM, reg, BPF_PSEUDO_MAP_FD, 0, map_fd));
	emit(p, INSN(0, 0, 0, 0, 0));
}

/* Emits a jump whose target is where the label will be placed. */
static void emit_jump(struct program *p, struct bpf_insn jump, struct label *to)
{
	assert(to->n_jumps < PROGRAM_JUMPS_MAX);
	to->jumps[to->n_jumps++] = p->n;
	emit(p, jump);
}

static void place(struct program *p, const struct label *label)
{
	for (size_t i = 0; i < label->n_jumps; i++)
		p->insns[label->jumps[i]].off = (int16_t)(p->n - label->jumps[i] - 1);
}

/* reg: an address in network order -> the node's index; leaves for `outside` where it is none. */
static void emit_node_index(struct program *p, int reg, const struct lh_plan *plan,
			    struct label *outside)
{
	emit(p, TO_BE32(reg));
	emit(p, ADD32_IMM(reg, -(int32_t)plan->nodes[0].address));
	if (plan->rank_bits)
		emit(p, RSH_IMM(reg, (int32_t)plan->rank_bits));
	emit_jump(p, JUMP_GE(reg, (int32_t)plan->n_nodes), outside);
}

/* R0 = pointer to map[a * n + b], or 0; uses the stack at slot and R1, R2. */
static void emit_pair_lookup(struct program *p, int a, int b, const struct lh_plan *plan,
			     int map_fd, int16_t slot)
{
	emit(p, MOV_REG(R2, a));
	emit(p, MUL_IMM(R2, (int32_t)plan->n_nodes));
	emit(p, ADD_REG(R2, b));
	emit(p, STORE_W(FP, R2, slot));
	emit_map(p, R1, map_fd);
	emit(p, MOV_REG(R2, FP));
	emit(p, ADD_IMM(R2, slot));
	emit(p, CALL(BPF_FUNC_map_lookup_elem));
}

enum {
	FIRST_RTO_FLOOR_NS = 1000000000, /* Linux's own, RFC 6298 */
};

/* How long, in the kernel's ticks, a connection's first packet waits for its answer: past the
 * plan's longest round trip. 0: the kernel's own. */
static int32_t first_rto_ticks(const struct lh_plan *plan)
{
	struct timespec tick = {0, 1000000};
	int64_t rto = 2 * lh_plan_longest_rtt_ns(plan);

	if (rto < FIRST_RTO_FLOOR_NS)
		return 0;
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	if (rto > LH_TCP_RTO_MAX_NS)
		rto = LH_TCP_RTO_MAX_NS;
	return (int32_t)(rto / (tick.tv_nsec ? tick.tv_nsec : 1000000));
}

/* Answers the kernel's question for the first timeout of a connection. */
static void emit_first_rto(struct program *p, int32_t ticks)
{
	struct label other = {.n_jumps = 0};

	if (!ticks)
		return;
	emit_jump(p, JUMP_NE(R2, BPF_SOCK_OPS_TIMEOUT_INIT), &other);
	emit(p, MOV_IMM(R3, ticks));
	emit(p, STORE_W(R6, R3, offsetof(struct bpf_sock_ops, reply)));
	emit(p, MOV_IMM(R0, 1));
	emit(p, EXIT);
	place(p, &other);
}

/*
 * At a connection's establishment: window[local * n + remote] segments, if not 0, become
 * the upper bound of its congestion window. Addresses outside the plan are left alone.
 */
static int load_windows(struct lh_bpf *b, const struct lh_plan *plan, struct lh_error *err)
{
	struct program p = {.n = 0};
	struct label end = {.n_jumps = 0};

	emit(&p, MOV_REG(R6, R1));
	emit(&p, LOAD_W(R2, R6, offsetof(struct bpf_sock_ops, op)));
	emit_first_rto(&p, first_rto_ticks(plan));
	emit(&p, JUMP_EQ(R2, BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, 1));
	emit_jump(&p, JUMP_NE(R2, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB), &end);
	emit(&p, LOAD_W(R7, R6, offsetof(struct bpf_sock_ops, local_ip4)));
	emit_node_index(&p, R7, plan, &end);
	emit(&p, LOAD_W(R8, R6, offsetof(struct bpf_sock_ops, remote_ip4)));
	emit_node_index(&p, R8, plan, &end);
	emit_pair_lookup(&p, R7, R8, plan, b->window_map_fd, -4);
	emit_jump(&p, JUMP_EQ(R0, 0, 0), &end);
	emit(&p, LOAD_W(R2, R0, 0));
	emit_jump(&p, JUMP_EQ(R2, 0, 0), &end);
	emit(&p, STORE_W(FP, R2, -8));
	emit(&p, MOV_REG(R1, R6));
	emit(&p, MOV_IMM(R2, IPPROTO_TCP));
	emit(&p, MOV_IMM(R3, TCP_BPF_SNDCWND_CLAMP));
	emit(&p, MOV_REG(R4, FP));
	emit(&p, ADD_IMM(R4, -8));
	emit(&p, MOV_IMM(R5, 4));
	emit(&p, CALL(BPF_FUNC_setsockopt));
	place(&p, &end);
	emit(&p, MOV_IMM(R0, 1));
	emit(&p, EXIT);
	return prog_load(BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS, &p, "lh_window",
			 &b->window_prog_fd, err);
}

enum {
	IP_OFFSET = LH_ETHERNET_HEADER_BYTES,
	IP_BYTES = 20,
	IP_SLOT = -24, /* the IP header on the program's stack */
	TCP_DATA_OFFSET_BYTE = IP_OFFSET + IP_BYTES + 12,
	IP_VERSION_4_NO_OPTIONS = 0x45,
	UDP_BYTES = 8,
	PORTS_SLOT = -32,
	KEY_SLOT = -36,
};

/* Copies len bytes of the packet at offset to the stack at slot; jumps to fail where it is shorter.
 */
static void emit_load_bytes(struct program *p, int offset, int16_t slot, int len,
			    struct label *fail)
{
	emit(p, MOV_REG(R1, R6));
	emit(p, MOV_IMM(R2, offset));
	emit(p, MOV_REG(R3, FP));
	emit(p, ADD_IMM(R3, slot));
	emit(p, MOV_IMM(R4, len));
	emit(p, CALL(BPF_FUNC_skb_load_bytes));
	emit_jump(p, JUMP_NE(R0, 0), fail);
}

/* Counts the packet from R7 to R8 if its length is that of its headers alone. */
static void emit_count_ack(struct program *p, const struct lh_bpf *b, const struct lh_plan *plan,
			   struct label *no_ack)
{
	emit(p, LOAD_B(R2, FP, IP_SLOT));
	emit_jump(p, JUMP_NE(R2, IP_VERSION_4_NO_OPTIONS), no_ack);
	emit(p, LOAD_B(R2, FP, IP_SLOT + 9));
	emit_jump(p, JUMP_NE(R2, IPPROTO_TCP), no_ack);
	emit_load_bytes(p, TCP_DATA_OFFSET_BYTE, -32, 1, no_ack);
	emit(p, LOAD_W(R9, R6, offsetof(struct __sk_buff, len)));
	emit(p, LOAD_B(R2, FP, -32));
	emit(p, RSH_IMM(R2, 4));
	emit(p, LSH_IMM(R2, 2));
	emit(p, ADD_IMM(R2, IP_OFFSET + IP_BYTES));
	emit_jump(p, JUMP_NE_REG(R2, R9), no_ack);
	emit_pair_lookup(p, R7, R8, plan, b->acks_map_fd, -36);
	emit_jump(p, JUMP_EQ(R0, 0, 0), no_ack);
	emit(p, ATOMIC_ADD(R0, R9, offsetof(struct lh_bpf_count, bytes)));
	emit(p, MOV_IMM(R2, 1));
	emit(p, ATOMIC_ADD(R0, R2, offsetof(struct lh_bpf_count, packets)));
}

/* On the way out of a port: the class of the sender; 0 (no class) for anything but our IPv4. */
int lh_bpf_classifier_open(const struct lh_bpf *b, const struct lh_plan *plan, size_t first,
			   size_t n, int *ret_fd, struct lh_error *err)
{
	struct program p = {.n = 0};
	struct label end = {.n_jumps = 0}, classify = {.n_jumps = 0};

	emit(&p, MOV_REG(R6, R1));
	emit_load_bytes(&p, IP_OFFSET, IP_SLOT, IP_BYTES, &end);
	emit(&p, LOAD_W(R7, FP, IP_SLOT + 12));
	emit_node_index(&p, R7, plan, &end);
	emit(&p, LOAD_W(R8, FP, IP_SLOT + 16));
	emit_node_index(&p, R8, plan, &end);
	if (n < plan->n_nodes) {
		/* senders before the first become large numbers */
		emit(&p, MOV_REG(R2, R7));
		emit(&p, ADD_IMM(R2, -(int32_t)first));
		emit_jump(&p, JUMP_GE(R2, (int32_t)n), &classify);
	}
	emit_count_ack(&p, b, plan, &classify);
	place(&p, &classify);
	emit(&p, MOV_REG(R0, R7));
	emit(&p, ADD_IMM(R0, TC_H_MAKE(1 << 16, LH_CLASS_FIRST)));
	emit(&p, EXIT);
	place(&p, &end);
	emit(&p, MOV_IMM(R0, 0));
	emit(&p, EXIT);
	return prog_load(BPF_PROG_TYPE_SCHED_CLS, 0, &p, "lh_classify", ret_fd, err);
}

uint32_t lh_bpf_link_key(const struct lh_plan *plan, size_t access, bool is_up)
{
	return (uint32_t)(plan->n_nodes * plan->n_nodes + 2 * access + !is_up);
}

/* R9 = bytes on the wire of a packet that may be a super-packet of UDP, R8 = its packets. */
static void emit_wire_size(struct program *p)
{
	emit(p, LOAD_W(R9, R6, offsetof(struct __sk_buff, len)));
	emit(p, LOAD_W(R8, R6, offsetof(struct __sk_buff, gso_segs)));
	emit(p, JUMP_NE(R8, 0));
	p->insns[p->n - 1].off = 1;
	emit(p, MOV_IMM(R8, 1));
	emit(p, MOV_REG(R2, R8));
	emit(p, ADD_IMM(R2, -1));
	emit(p, MUL_IMM(R2, IP_OFFSET + IP_BYTES + UDP_BYTES));
	emit(p, ADD_REG(R9, R2));
}

int lh_bpf_sink_open(const struct lh_bpf *b, const struct lh_plan *plan, long to, uint32_t key,
		     int *ret_fd, struct lh_error *err)
{
	struct program p = {.n = 0};
	struct label pass = {.n_jumps = 0}, drop = {.n_jumps = 0};

	emit(&p, MOV_REG(R6, R1));
	emit_load_bytes(&p, IP_OFFSET, IP_SLOT, IP_BYTES, &pass);
	emit(&p, LOAD_B(R2, FP, IP_SLOT));
	emit_jump(&p, JUMP_NE(R2, IP_VERSION_4_NO_OPTIONS), &pass);
	emit(&p, LOAD_B(R2, FP, IP_SLOT + 9));
	emit_jump(&p, JUMP_NE(R2, IPPROTO_UDP), &pass);
	emit_load_bytes(&p, IP_OFFSET + IP_BYTES, PORTS_SLOT, 4, &pass);
	/* both ports are it; in network order */
	emit(&p, LOAD_W(R2, FP, PORTS_SLOT));
	emit(&p, TO_BE32(R2));
	emit_jump(&p, JUMP_NE(R2, LH_CROSS_PORT << 16 | LH_CROSS_PORT), &pass);
	if (to >= 0) {
		emit(&p, LOAD_W(R7, FP, IP_SLOT + 12));
		emit_node_index(&p, R7, plan, &pass);
		emit(&p, MUL_IMM(R7, (int32_t)plan->n_nodes));
		emit(&p, ADD_IMM(R7, (int32_t)to));
	} else {
		emit(&p, MOV_IMM(R7, (int32_t)key));
	}
	emit_wire_size(&p);
	emit(&p, STORE_W(FP, R7, KEY_SLOT));
	emit_map(&p, R1, b->cross_map_fd);
	emit(&p, MOV_REG(R2, FP));
	emit(&p, ADD_IMM(R2, KEY_SLOT));
	emit(&p, CALL(BPF_FUNC_map_lookup_elem));
	emit_jump(&p, JUMP_EQ(R0, 0, 0), &drop);
	emit(&p, ATOMIC_ADD(R0, R9, offsetof(struct lh_bpf_count, bytes)));
	emit(&p, ATOMIC_ADD(R0, R8, offsetof(struct lh_bpf_count, packets)));
	place(&p, &drop);
	emit(&p, MOV_IMM(R0, TC_ACT_SHOT));
	emit(&p, EXIT);
	place(&p, &pass);
	emit(&p, MOV_IMM(R0, TC_ACT_UNSPEC));
	emit(&p, EXIT);
	return prog_load(BPF_PROG_TYPE_SCHED_CLS, 0, &p, "lh_sink", ret_fd, err);
}

int lh_bpf_guard_open(const struct lh_bpf *b, size_t node, int *ret_fd, struct lh_error *err)
{
	struct program p = {.n = 0};
	struct label pass = {.n_jumps = 0};

	emit(&p, MOV_IMM(R2, (int32_t)node));
	emit(&p, STORE_W(FP, R2, -4));
	emit_map(&p, R1, b->away_map_fd);
	emit(&p, MOV_REG(R2, FP));
	emit(&p, ADD_IMM(R2, -4));
	emit(&p, CALL(BPF_FUNC_map_lookup_elem));
	emit_jump(&p, JUMP_EQ(R0, 0, 0), &pass);
	emit(&p, LOAD_W(R2, R0, offsetof(struct lh_away, is_away)));
	emit_jump(&p, JUMP_EQ(R2, 0, 0), &pass);
	emit(&p, MOV_IMM(R0, TC_ACT_SHOT));
	emit(&p, EXIT);
	place(&p, &pass);
	emit(&p, MOV_IMM(R0, TC_ACT_UNSPEC));
	emit(&p, EXIT);
	return prog_load(BPF_PROG_TYPE_SCHED_CLS, 0, &p, "lh_guard", ret_fd, err);
}

/* The table of nodes that are away, where any ever is. */
static int open_away(struct lh_bpf *b, const struct lh_plan *plan, struct lh_error *err)
{
	void *away = NULL;
	int r;

	if (!plan->scenario->n_absences)
		return 0;
	r = map_new(sizeof(*b->away), (uint32_t)plan->n_nodes, &b->away_map_fd, &away, err);
	b->n_away = plan->n_nodes;
	b->away = away;
	return r;
}

int lh_bpf_open(struct lh_bpf *b, const struct lh_plan *plan, struct lh_error *err)
{
	uint32_t pairs = (uint32_t)(plan->n_nodes * plan->n_nodes);
	uint32_t crosses = pairs + 2 * (uint32_t)plan->n_accesses;
	void *acks = NULL, *cross = NULL;
	int r = map_new(sizeof(*b->acks), pairs, &b->acks_map_fd, &acks, err);

	b->n_pairs = pairs;
	b->acks = acks;
	if (r == 0)
		r = map_new(sizeof(*b->cross), crosses, &b->cross_map_fd, &cross, err);
	b->n_cross = crosses;
	b->cross = cross;
	if (r == 0)
		r = open_away(b, plan, err);
	if (r == 0)
		r = lh_bpf_classifier_open(b, plan, 0, plan->n_nodes, &b->classify_prog_fd, err);
	return r < 0 ? r : lh_bpf_open_windows(b, plan, err);
}

int lh_bpf_open_windows(struct lh_bpf *b, const struct lh_plan *plan, struct lh_error *err)
{
	uint32_t pairs = (uint32_t)(plan->n_nodes * plan->n_nodes);
	void *windows = NULL;
	int r = map_new(sizeof(*b->windows), pairs, &b->window_map_fd, &windows, err);

	b->n_pairs = pairs;
	b->windows = windows;
	for (uint32_t i = 0; i < pairs && r == 0; i++)
		b->windows[i].segments = plan->paths[i].clamp_segments;
	return r < 0 ? r : load_windows(b, plan, err);
}

bool lh_bpf_has_windows(const struct lh_plan *plan)
{
	for (size_t i = 0; i < plan->n_nodes * plan->n_nodes; i++)
		if (plan->paths[i].clamp_segments)
			return true;
	return first_rto_ticks(plan) != 0;
}

int lh_bpf_load_redirect(int ifindex, int *ret_fd, struct lh_error *err)
{
	struct program p = {.n = 0};

	emit(&p, MOV_IMM(R1, ifindex));
	emit(&p, MOV_IMM(R2, 0));
	emit(&p, CALL(BPF_FUNC_redirect));
	emit(&p, EXIT);
	return prog_load(BPF_PROG_TYPE_SCHED_CLS, 0, &p, "lh_cable", ret_fd, err);
}

void lh_bpf_close(struct lh_bpf *b)
{
	int *fds[] = {&b->classify_prog_fd, &b->acks_map_fd,  &b->window_prog_fd,
		      &b->window_map_fd,    &b->cross_map_fd, &b->away_map_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	if (b->acks)
		munmap(b->acks, b->n_pairs * sizeof(*b->acks));
	if (b->windows)
		munmap(b->windows, b->n_pairs * sizeof(*b->windows));
	if (b->cross)
		munmap(b->cross, b->n_cross * sizeof(*b->cross));
	if (b->away)
		munmap(b->away, b->n_away * sizeof(*b->away));
	b->away = NULL;
	b->acks = b->cross = NULL;
	b->windows = NULL;
}

int lh_bpf_attach_windows(const struct lh_bpf *b, const char *cgroup_path, struct lh_error *err)
{
	lh_cleanup_close int fd = open(cgroup_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	union bpf_attr attr = {
		.target_fd = (uint32_t)fd,
		.attach_bpf_fd = (uint32_t)b->window_prog_fd,
		.attach_type = BPF_CGROUP_SOCK_OPS,
	};

	if (fd < 0)
		return lh_fail(err, LH_EENV, errno, "open cgroup %s", cgroup_path);
	if (bpf(BPF_PROG_ATTACH, &attr) < 0)
		return lh_fail(err, LH_EENV, errno, "attach the window program to cgroup %s",
			       cgroup_path);
	return 0;
}
