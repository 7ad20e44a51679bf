/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of a guest that is the network alone. See wan.h. */
#include "emulator/wan.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/guest/guest.h"
#include "emulator/wan_internal.h"

enum { PATIENCE_MS = 60000 }; /* for any answer; to boot takes less than a second */

struct lh_wan {
	char *run_dir;
	size_t n_pairs;
	size_t n_links;
	int line_fd;
	pid_t pid;
};

/* Reads exactly size bytes; 0 where the guest has closed its end or says nothing. */
static bool read_all(int fd, void *buf, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (size_t done = 0; done < size;) {
		ssize_t n = -1;

		if (poll(&p, 1, PATIENCE_MS) > 0)
			n = read(fd, (char *)buf + done, size - done);
		else if (errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static int take_answer(struct lh_wan *wan, struct lh_wan_answer *ret, struct lh_error *err)
{
	if (!read_all(wan->line_fd, ret, sizeof(*ret)))
		return lh_guest_explain(wan->run_dir, err);
	ret->message[sizeof(ret->message) - 1] = '\0';
	if (ret->code < 0)
		return lh_fail(err, ret->code, 0, "in the guest: %s", ret->message);
	return 0;
}

static int ask(struct lh_wan *wan, enum lh_wan_question question, struct lh_wan_answer *ret,
	       struct lh_error *err)
{
	char letter = (char)question;

	if (write(wan->line_fd, &letter, 1) != 1)
		return lh_guest_explain(wan->run_dir, err);
	return take_answer(wan, ret, err);
}

int lh_wan_start(const struct lh_wan_request *request, const char *run_dir,
		 const struct lh_plan *plan, struct lh_wan **ret_wan, struct lh_error *err)
{
	int ends[2] = {-1, -1};
	struct lh_guest_wan line = {.n_cables = plan->n_nodes};
	struct lh_guest_request guest = {.kernel_path = request->kernel_path,
					 .program_path = request->program_path,
					 .run_dir = run_dir,
					 .memory_bytes = request->memory_bytes,
					 .seed = request->seed,
					 .wan = &line,
					 .stop_fd = -1};
	struct lh_wan *wan = calloc(1, sizeof(*wan));
	struct lh_wan_answer answer;
	int r;

	if (wan)
		*wan = (struct lh_wan){.line_fd = -1,
				       .n_pairs = plan->n_nodes * plan->n_nodes,
				       .n_links = 2 * plan->n_accesses,
				       .run_dir = strdup(run_dir)};
	if (!wan || !wan->run_dir || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		lh_wan_stop(wan);
		return lh_fail(err, LH_ESYS, errno, "open a line to the guest");
	}
	wan->line_fd = ends[0];
	line.line_fd = ends[1];
	r = lh_guest_start(&guest, &wan->pid, err);
	close(ends[1]);
	if (r == 0)
		r = take_answer(wan, &answer, err);
	if (r < 0) {
		lh_wan_stop(wan);
		return r;
	}
	*ret_wan = wan;
	return 0;
}

void lh_wan_stop(struct lh_wan *wan)
{
	if (!wan)
		return;
	if (wan->pid > 0) {
		kill(wan->pid, SIGKILL);
		while (waitpid(wan->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (wan->line_fd >= 0)
		close(wan->line_fd);
	if (wan->run_dir)
		lh_guest_clear(wan->run_dir);
	free(wan->run_dir);
	free(wan);
}

int lh_wan_shape(struct lh_wan *wan, struct lh_error *err)
{
	struct lh_wan_answer answer;

	return ask(wan, LH_WAN_SHAPE, &answer, err);
}

int lh_wan_timer(struct lh_wan *wan, int64_t *ret_p99_ns, struct lh_error *err)
{
	struct lh_wan_answer answer;
	int r = ask(wan, LH_WAN_TIMER, &answer, err);

	if (r == 0)
		*ret_p99_ns = answer.value;
	return r;
}

int lh_wan_read(struct lh_wan *wan, struct lh_net_counter *counters, struct lh_site_counter *links,
		struct lh_net_faults *faults, int64_t *ret_counted_ns, struct lh_error *err)
{
	struct iovec parts[] = {{faults, sizeof(*faults)},
				{counters, wan->n_pairs * sizeof(*counters)},
				{links, wan->n_links * sizeof(*links)}};
	size_t size = parts[0].iov_len + parts[1].iov_len + parts[2].iov_len;
	lh_cleanup_free char *path = lh_path_join(wan->run_dir, LH_WAN_COUNTERS);
	lh_cleanup_close int fd = -1;
	struct lh_wan_answer answer;
	int r = path ? ask(wan, LH_WAN_READ, &answer, err)
		     : lh_fail(err, LH_ESYS, ENOMEM, "read the guest's counters");

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || readv(fd, parts, 3) != (ssize_t)size)
		return lh_fail(err, LH_ESYS, fd < 0 ? errno : 0, "read the guest's counters");
	*ret_counted_ns = answer.value;
	return 0;
}
