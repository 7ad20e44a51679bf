/* SPDX-License-Identifier: Apache-2.0 */
/* Capturing packets, on the engine's side. See capture.h; capture_process.c does it. */
#include "emulator/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/capture_internal.h"
#include "emulator/command.h"
#include "emulator/probe_internal.h"
#include "scenarios/capture.h"

enum {
	RING_BYTES_MAX = 2 << 20,
	RING_BYTES_MIN = 512 << 10, /* two of libpcap's blocks */
	RING_MEMORY_SHARE = 16,	    /* of the guest's memory, all rings together */
	OFFSET_TRIES = 5,
};

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * LH_NS_PER_S + t.tv_nsec;
}

/* How far the clock of the kernel's stamps is ahead: of several readings the one that took
 * the shortest. */
static int64_t measure_ahead(void)
{
	int64_t best_ns = INT64_MAX, ahead_ns = 0;

	for (int i = 0; i < OFFSET_TRIES; i++) {
		int64_t before_ns = clock_ns(CLOCK_MONOTONIC);
		int64_t real_ns = clock_ns(CLOCK_REALTIME);
		int64_t took_ns = clock_ns(CLOCK_MONOTONIC) - before_ns;

		if (took_ns < best_ns) {
			best_ns = took_ns;
			ahead_ns = real_ns - before_ns - took_ns / 2;
		}
	}
	return ahead_ns;
}

/* What the capturing process says; false where it has gone. */
static bool hear(int fd, void *ret_data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = read(fd, (char *)ret_data + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/* Below the run's folder; owned by the caller. */
static char *file_of(const struct lh_plan *plan, size_t node)
{
	lh_cleanup_free char *host = lh_host_name(plan->nodes[node].name);

	return host ? lh_strf("capture/%s.pcap", host) : NULL;
}

/* Which links are tapped, and for which peers. */
static int choose_taps(struct lh_capture *c, struct lh_error *err)
{
	size_t n = c->plan->n_nodes;

	c->taps = calloc(n, sizeof(*c->taps));
	if (!c->taps)
		return lh_fail(err, LH_ESYS, ENOMEM, "capture");
	for (size_t i = 0; i < n; i++) {
		lh_cleanup_free bool *peers = calloc(n, sizeof(*peers));
		struct lh_tap *tap = &c->taps[c->n_taps];
		enum lh_capture_extent extent;

		if (!peers)
			return lh_fail(err, LH_ESYS, ENOMEM, "capture");
		extent = lh_capture_extent_at(c->plan->scenario, i, peers);
		if (extent == LH_CAPTURE_NOTHING)
			continue;
		*tap = (struct lh_tap){.node = i, .file = file_of(c->plan, i), .capture = c};
		if (!tap->file)
			return lh_fail(err, LH_ESYS, ENOMEM, "capture");
		if (extent == LH_CAPTURE_PEERS)
			tap->peers = lh_steal(&peers);
		c->n_taps++;
	}
	return 0;
}

/* What a link's packets wait in, in the memory that the guest has. */
static int64_t choose_ring_bytes(const struct lh_capture *c)
{
	int64_t share = c->plan->guest_memory_bytes / RING_MEMORY_SHARE / (int64_t)c->n_taps;

	return share < RING_BYTES_MIN ? RING_BYTES_MIN
				      : (share > RING_BYTES_MAX ? RING_BYTES_MAX : share);
}

static int start_process(struct lh_capture *c, struct lh_net *net, const char *run_dir,
			 struct lh_error *err)
{
	struct lh_error said = {0};
	int control[2], report[2];
	pid_t parent = getpid();

	if (pipe2(control, O_CLOEXEC) < 0)
		return lh_fail(err, LH_ESYS, errno, "start capturing");
	if (pipe2(report, O_CLOEXEC) < 0) {
		close(control[0]);
		close(control[1]);
		return lh_fail(err, LH_ESYS, errno, "start capturing");
	}
	c->pid = fork();
	if (c->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(control[1]);
		if (getppid() == parent)
			lh_capture_become(c, net, run_dir, control[0], report[1]);
		_exit(1);
	}
	close(control[0]);
	close(report[1]);
	c->control_fd = control[1];
	c->report_fd = report[0];
	if (c->pid < 0)
		return lh_fail(err, LH_ESYS, errno, "start capturing");
	if (!hear(c->report_fd, &said, sizeof(said)))
		return lh_fail(err, LH_ESYS, 0, "the capturing process ended before its time");
	if (said.code)
		*err = said;
	return said.code;
}

/* Whatever the process does, it ends here. */
static void end_process(struct lh_capture *c)
{
	if (c->pid <= 0)
		return;
	kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void capture_free(struct lh_capture *c)
{
	end_process(c);
	for (size_t i = 0; i < c->n_taps; i++) {
		free(c->taps[i].file);
		free(c->taps[i].peers);
	}
	if (c->control_fd >= 0)
		close(c->control_fd);
	if (c->report_fd >= 0)
		close(c->report_fd);
	free(c->taps);
	free(c);
}

int lh_capture_start(struct lh_net *net, const struct lh_plan *plan, const char *run_dir,
		     struct lh_capture **ret_capture, struct lh_error *err)
{
	lh_cleanup_free char *folder = lh_path_join(run_dir, "capture");
	struct lh_capture *c;
	int r;

	*ret_capture = NULL;
	if (!plan->scenario->run.capture.n_where)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c || !folder) {
		free(c);
		return lh_fail(err, LH_ESYS, ENOMEM, "capture");
	}
	*c = (struct lh_capture){.plan = plan, .pid = -1, .control_fd = -1, .report_fd = -1};
	r = choose_taps(c, err);
	if (r == 0)
		r = lh_dir_make(folder, err);
	c->ring_bytes = c->n_taps ? choose_ring_bytes(c) : 0;
	c->realtime_ahead_ns = measure_ahead();
	if (r == 0)
		r = start_process(c, net, run_dir, err);
	if (r < 0) {
		capture_free(c);
		return r;
	}
	*ret_capture = c;
	return 0;
}

static json_t *tap_to_json(const struct lh_capture *c, const struct lh_tap *tap, bool has_told)
{
	const struct lh_tap_tally *t = &tap->tally;
	const char *node = c->plan->nodes[tap->node].name;
	json_t *doc;

	if (!has_told)
		return json_pack("{s:s, s:s, s:s}", "file", tap->file, "node", node, "error",
				 "the capturing process ended before its time");
	doc = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "file", tap->file, "node", node,
			"packets", (json_int_t)t->packets, "file_bytes", (json_int_t)t->file_bytes,
			"past_bound_packets", (json_int_t)t->past_bound_packets, "other_packets",
			(json_int_t)t->other_packets, "kernel_dropped_packets",
			(json_int_t)t->kernel_dropped_packets, "lost_packets",
			(json_int_t)t->lost_packets);
	if (t->sys)
		json_object_set_new(doc, "error",
				    json_sprintf("capture into %s: %s", tap->file,
						 strerror(t->sys)));
	return doc;
}

json_t *lh_capture_stop(struct lh_capture *c)
{
	json_t *files, *doc;

	if (!c)
		return NULL;
	close(c->control_fd);
	c->control_fd = -1;
	files = json_array();
	for (size_t i = 0; i < c->n_taps; i++) {
		struct lh_tap *tap = &c->taps[i];
		bool has_told = hear(c->report_fd, &tap->tally, sizeof(tap->tally));

		json_array_append_new(files, tap_to_json(c, tap, has_told));
	}
	doc = json_pack("{s:I, s:I, s:I, s:o}", "snaplen_bytes",
			(json_int_t)lh_capture_spec_of(c)->snaplen_bytes, "max_bytes",
			(json_int_t)lh_capture_spec_of(c)->max_bytes, "ring_bytes",
			(json_int_t)c->ring_bytes, "files", files);
	capture_free(c);
	return doc;
}
