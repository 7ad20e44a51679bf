/* SPDX-License-Identifier: Apache-2.0 */
/* The program longhaul-learner. See program.h. */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "core/cleanup.h"
#include "trainer/learn/alone.h"
#include "trainer/learn/profile.h"
#include "trainer/program.h"

const char lh_program_name[] = "longhaul-learner";

const struct lh_compute_ops *const lh_program_modes[] = {&lh_compute_train, NULL};

/* ---- signals -------------------------------------------------------------------------------- */

/* nohup and the like ignore a signal for us: then it is not ours to take. */
static void add_unless_ignored(sigset_t *set, int number)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
		sigaddset(set, number);
}

/* A descriptor for the signals that ask to end. */
static int open_signals(int *ret_fd, struct lh_error *err)
{
	sigset_t set;

	sigemptyset(&set);
	add_unless_ignored(&set, SIGINT);
	add_unless_ignored(&set, SIGTERM);
	add_unless_ignored(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* who reads our events may be gone: that is an error to tell, not an end */
	signal(SIGPIPE, SIG_IGN);
	*ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret_fd < 0 ? lh_fail(err, LH_ESYS, errno, "open a signal descriptor") : 0;
}

/* ---- tasks ---------------------------------------------------------------------------------- */

typedef int task_fn(const json_t *job, FILE *out, int stop_fd, struct lh_error *err);

static int run_job(FILE *in, FILE *out, task_fn *run, struct lh_error *err)
{
	lh_cleanup_close int stop_fd = -1;
	lh_cleanup_json json_t *job = NULL;
	json_error_t why;
	int rc = open_signals(&stop_fd, err);

	if (rc)
		return rc;
	job = json_loadf(in, JSON_REJECT_DUPLICATES, &why);
	if (!job)
		return lh_fail(err, LH_EINPUT, 0, "the job on standard input, line %d: %s",
			       why.line, why.text);
	return run(job, out, stop_fd, err);
}

static int run_alone(FILE *in, FILE *out, struct lh_error *err)
{
	return run_job(in, out, lh_alone_run, err);
}

static int run_profile(FILE *in, FILE *out, struct lh_error *err)
{
	return run_job(in, out, lh_profile_run, err);
}

/* One device as it is here, or why it is not. */
static json_t *describe(const struct lh_device_ops *ops)
{
	struct lh_device_options options = {.compute = LH_F32};
	struct lh_error err = {0};
	struct lh_device *device;
	json_t *json;

	if (ops == &lh_device_reference64)
		options.compute = LH_F64;
	if (ops->open(&options, &device, &err))
		return json_pack("{s:s, s:s}", "name", ops->name, "why_not", err.message);
	json = lh_alone_describe_device(device);
	device->ops->close(device);
	return json;
}

static int run_about(FILE *in, FILE *out, struct lh_error *err)
{
	lh_cleanup_json json_t *devices = json_array();
	lh_cleanup_json json_t *line = NULL;

	(void)in;
	for (size_t i = 0; lh_devices[i]; i++)
		json_array_append_new(devices, describe(lh_devices[i]));
	line = json_pack("{s:s, s:O}", "event", "about", "devices", devices);
	if (!line)
		return lh_fail(err, LH_ESYS, ENOMEM, "devices");
	if (json_dumpf(line, out, JSON_COMPACT) || fputc('\n', out) == EOF || fflush(out))
		return lh_fail(err, LH_ESYS, errno, "write");
	return 0;
}

const struct lh_program_task lh_program_tasks[] = {
	{"alone", "train alone, as the job on standard input says; events on standard output",
	 run_alone},
	{"profile", "measure how fast a model learns; the same", run_profile},
	{"about", "print the devices of this machine", run_about},
	{NULL, NULL, NULL},
};
