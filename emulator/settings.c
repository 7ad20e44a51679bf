/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel settings that change a result. See settings.h. */
#include "emulator/settings.h"

#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "emulator/netns.h"

struct setting {
	const char *key;
	const char *value;
};

/*
 * What every node's TCP does. All but the first are Linux's defaults, written down
 * because hosts differ. Averaging rounds start from idle, so slow start after idle is on;
 * remembered metrics would make a second connection differ from the first.
 */
static const struct setting node_settings[] = {
	{"net/ipv4/tcp_no_metrics_save", "1"},
	{"net/ipv4/tcp_slow_start_after_idle", "1"},
	{"net/ipv4/tcp_mtu_probing", "0"},
	{"net/ipv4/tcp_timestamps", "1"},
	{"net/ipv4/tcp_sack", "1"},
	{"net/ipv4/tcp_window_scaling", "1"},
	{"net/ipv4/tcp_moderate_rcvbuf", "1"},
	{"net/ipv4/tcp_autocorking", "1"},
	{"net/ipv4/tcp_limit_output_bytes", "4194304"},
	{NULL, NULL},
};

static const struct setting router_settings[] = {
	{"net/ipv4/ip_forward", "1"},
	{"net/ipv4/conf/all/rp_filter", "0"},
	{NULL, NULL},
};

/* At their defaults packets vanish in the receive path, outside any queue of ours. */
static const struct setting kernel_settings[] = {
	{"net/core/netdev_max_backlog", "1000000"},
	{"net/core/netdev_budget", "100000"},
	{"net/core/netdev_budget_usecs", "1000000"},
	{"/sys/module/tcp_cubic/parameters/hystart", "1"},
	{NULL, NULL},
};

/* Connections of a node are listed whenever it is taken away, and a list of the kernel's own length
 * takes milliseconds to go through. Namespaces made from now on have one of their own. */
static const struct setting churn_setting = {"net/ipv4/tcp_child_ehash_entries", "4096"};

static int record(json_t *pinned, const char *section, const char *key, const char *value)
{
	json_t *map = json_object_get(pinned, section);

	if (!map) {
		json_object_set_new(pinned, section, json_object());
		map = json_object_get(pinned, section);
	}
	return json_object_set_new(map, key, json_string(value));
}

static int write_setting(json_t *pinned, const char *section, const char *key, const char *value,
			 struct lh_error *err)
{
	int r = lh_sysctl_write(key, value, err);

	if (r == 0)
		record(pinned, section, key, value);
	return r;
}

static int write_all(json_t *pinned, const char *section, const struct setting *settings,
		     struct lh_error *err)
{
	int r = 0;

	for (const struct setting *s = settings; s->key && r == 0; s++)
		r = write_setting(pinned, section, s->key, s->value, err);
	return r;
}

/* Records what a shared kernel holds; a setting that it does not have is left out. */
static void record_found(json_t *pinned, const char *key)
{
	struct lh_error ignored;
	char value[256];

	if (lh_sysctl_read(key, value, sizeof(value), &ignored) == 0)
		record(pinned, "kernel", key, value);
}

int lh_settings_kernel(const struct lh_plan *plan, bool own, json_t *pinned, struct lh_error *err)
{
	char value[96];
	int r;

	if (!own) {
		for (const struct setting *s = kernel_settings; s->key; s++)
			record_found(pinned, s->key);
		record_found(pinned, "net/ipv4/tcp_mem");
		return 0;
	}
	snprintf(value, sizeof(value), "%lld %lld %lld", (long long)plan->tcp_mem_pages[0],
		 (long long)plan->tcp_mem_pages[1], (long long)plan->tcp_mem_pages[2]);
	r = write_all(pinned, "kernel", kernel_settings, err);
	if (r == 0 && plan->scenario->n_absences)
		r = write_setting(pinned, "kernel", churn_setting.key, churn_setting.value, err);
	return r < 0 ? r : write_setting(pinned, "kernel", "net/ipv4/tcp_mem", value, err);
}

/* A kernel that knows IPv6 would speak it on every link, past the classes. */
static int silence_ipv6(struct lh_error *err)
{
	static const char key[] = "net/ipv6/conf/default/disable_ipv6";
	struct lh_error ignored;
	char held[8];

	if (lh_sysctl_read(key, held, sizeof(held), &ignored) < 0)
		return 0;
	return lh_sysctl_write(key, "1", err);
}

static int set_congestion_control(json_t *pinned, const char *machine, const char *name,
				  struct lh_error *err)
{
	char has[256] = "";
	struct lh_error ignored;

	if (write_setting(pinned, machine, "net/ipv4/tcp_congestion_control", name, &ignored) == 0)
		return 0;
	lh_sysctl_read("net/ipv4/tcp_allowed_congestion_control", has, sizeof(has), &ignored);
	return lh_fail(
		err, LH_EENV, 0,
		"this kernel lets nodes have no congestion control '%s', but: %s (as root: "
		"modprobe tcp_%s; sysctl net.ipv4.tcp_allowed_congestion_control='%s %s'; or "
		"--set machines.%s.tcp.congestion_control=NAME)",
		name, has, name, has, name, machine);
}

int lh_settings_node(const struct lh_plan *plan, size_t i, json_t *pinned, struct lh_error *err)
{
	const struct lh_tcp *tcp = plan->nodes[i].tcp;
	const char *section = plan->scenario->nodes[i].machine->name;
	char rmem[96], wmem[96], burst[16];
	int r;

	/* Receive buffers begin at their maximum: growing them takes a connection anything from
	 * one to many seconds, and the stream window is bounded elsewhere. */
	snprintf(rmem, sizeof(rmem), "4096 %lld %lld", (long long)tcp->rmem_max_bytes,
		 (long long)tcp->rmem_max_bytes);
	snprintf(wmem, sizeof(wmem), "4096 16384 %lld", (long long)tcp->wmem_max_bytes);
	snprintf(burst, sizeof(burst), "%u", (unsigned)plan->nodes[i].burst_segments);
	r = write_setting(pinned, section, "net/ipv4/tcp_min_tso_segs", burst, err);
	if (r == 0)
		r = set_congestion_control(pinned, section, tcp->congestion_control, err);
	if (r == 0)
		r = write_setting(pinned, section, "net/ipv4/tcp_rmem", rmem, err);
	if (r == 0)
		r = write_setting(pinned, section, "net/ipv4/tcp_wmem", wmem, err);
	/* 2, Linux's default, only answers; some queue must mark for the rest to make sense */
	if (r == 0)
		r = write_setting(pinned, section, "net/ipv4/tcp_ecn", plan->uses_ecn ? "1" : "2",
				  err);
	if (r == 0)
		r = silence_ipv6(err);
	return r < 0 ? r : write_all(pinned, section, node_settings, err);
}

int lh_settings_router(json_t *pinned, struct lh_error *err)
{
	int r = silence_ipv6(err);

	return r < 0 ? r : write_all(pinned, "router", router_settings, err);
}
