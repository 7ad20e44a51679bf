/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's side of a guest that is the network alone. See wan.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/fitness.h"
#include "emulator/wan.h"
#include "emulator/wan_internal.h"

struct server {
	const struct lh_plan *plan;
	struct lh_net *net;
	struct lh_net_counter *counters;
	struct lh_site_counter *links;
	int line_fd;
	int counters_fd;
};

static int open_line(int *ret_fd, struct lh_error *err)
{
	struct termios raw;
	int fd = open(LH_WAN_LINE, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open " LH_WAN_LINE);
	*ret_fd = fd;
	if (tcgetattr(fd, &raw) < 0)
		return lh_fail(err, LH_ESYS, errno, "ask for the state of " LH_WAN_LINE);
	cfmakeraw(&raw);
	if (tcsetattr(fd, TCSANOW, &raw) < 0)
		return lh_fail(err, LH_ESYS, errno, "set up " LH_WAN_LINE);
	return 0;
}

static bool send_answer(const struct server *s, int code, int64_t value, const struct lh_error *why)
{
	struct lh_wan_answer answer = {.code = code, .value = value};
	const char *rest = (const char *)&answer;

	if (code < 0)
		snprintf(answer.message, sizeof(answer.message), "%s", why->message);
	for (size_t left = sizeof(answer); left;) {
		ssize_t n = write(s->line_fd, rest, left);

		if (n < 0 && errno != EINTR)
			return false;
		rest += n > 0 ? n : 0;
		left -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

static int write_counters(struct server *s, struct lh_error *err)
{
	struct lh_net_faults faults;
	struct iovec parts[] = {{&faults, sizeof(faults)},
				{s->counters,
				 s->plan->n_nodes * s->plan->n_nodes * sizeof(*s->counters)},
				{s->links, 2 * s->plan->n_accesses * sizeof(*s->links)}};
	size_t size = parts[0].iov_len + parts[1].iov_len + parts[2].iov_len;
	int r = lh_net_read_faults(s->net, &faults, err);

	if (r == 0 && s->plan->n_accesses)
		r = lh_net_read_site_links(s->net, s->links, err);
	if (r == 0)
		r = lh_net_read_counters(s->net, s->counters, err);
	if (r < 0)
		return r;
	if (pwritev(s->counters_fd, parts, 3, 0) != (ssize_t)size ||
	    /* the guest would keep it to itself for a while */
	    sync_file_range(s->counters_fd, 0, 0,
			    SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) < 0)
		return lh_fail(err, LH_ESYS, errno, "write the counters");
	return 0;
}

static int carry_out(struct server *s, char question, int64_t *ret_value, struct lh_error *err)
{
	int r;

	switch (question) {
	case LH_WAN_SHAPE:
		return lh_net_shape(s->net, err);
	case LH_WAN_READ:
		r = write_counters(s, err);
		*ret_value = lh_net_counted_ns(s->net);
		return r;
	case LH_WAN_TIMER:
		*ret_value = lh_fitness_timer();
		return 0;
	default:
		return lh_fail(err, LH_ERUN, 0, "the line says '%c'", question);
	}
}

static int open_all(struct server *s, const struct lh_scenario *scenario, const char *run_dir,
		    struct lh_plan **ret_plan, struct lh_error *err)
{
	const struct lh_net_options options = {.owns_kernel = true, .part = LH_NET_WAN};
	lh_cleanup_free char *path = lh_path_join(run_dir, LH_WAN_COUNTERS);
	int r = lh_plan_build(scenario, ret_plan, err);

	if (r < 0)
		return r;
	s->plan = *ret_plan;
	s->counters = calloc(s->plan->n_nodes * s->plan->n_nodes, sizeof(*s->counters));
	s->counters_fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	s->links = calloc(2 * s->plan->n_accesses + 1, sizeof(*s->links));
	if (!s->counters || !s->links || s->counters_fd < 0)
		return lh_fail(err, LH_ESYS, errno, "create " LH_WAN_COUNTERS);
	return lh_net_open(s->plan, &options, &s->net, err);
}

int lh_wan_serve(const struct lh_scenario *scenario, const char *run_dir, struct lh_error *err)
{
	struct server s = {.line_fd = -1, .counters_fd = -1};
	struct lh_plan *plan = NULL;
	struct lh_error why = {0};
	char question;
	int r = open_line(&s.line_fd, err);

	if (r == 0) {
		int code = open_all(&s, scenario, run_dir, &plan, &why);
		bool listens = send_answer(&s, code, 0, &why);

		while (code == 0 && listens && read(s.line_fd, &question, 1) == 1) {
			int64_t value = 0;
			int result = carry_out(&s, question, &value, &why);

			listens = send_answer(&s, result, value, &why);
		}
	}
	lh_net_close(s.net);
	lh_plan_free(plan);
	free(s.counters);
	free(s.links);
	if (s.counters_fd >= 0)
		close(s.counters_fd);
	if (s.line_fd >= 0)
		close(s.line_fd);
	return r;
}
