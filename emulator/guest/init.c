/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's init. See guest.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/engine.h"
#include "emulator/guest/guest.h"
#include "emulator/guest/guest_internal.h"
#include "emulator/netns.h"
#include "emulator/wan.h"

enum { ARGS_EXPECTED = 5, START_S = 10 };

/* In the guest's own file system of devices, where no program's files are. */
#define OUR_FOLDER "/dev/longhaul"
#define OUR_RUN_DIR OUR_FOLDER "/run"
#define OUR_TRAINER OUR_FOLDER "/longhaul-trainer"

/* The most that the kernel takes. */
#define PID_MAX "4194304"

struct mount_point {
	const char *type;
	const char *path;
};

static const struct mount_point mount_points[] = {
	{"proc", "/proc"},
	{"sysfs", "/sys"},
	{"cgroup2", "/sys/fs/cgroup"},
	{NULL, NULL},
};

/* What programs expect below /dev. */
static const struct mount_point dev_mount_points[] = {
	{"devpts", "/dev/pts"},
	{"tmpfs", "/dev/shm"},
	{NULL, NULL},
};

static const struct {
	const char *to;
	const char *path;
} dev_links[] = {
	{"/proc/self/fd", "/dev/fd"},	    {"/proc/self/fd/0", "/dev/stdin"},
	{"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
	{"/dev/pts/ptmx", "/dev/ptmx"},
};

static int mount_all(struct lh_error *err)
{
	/* the time of an access to a fresh file would wake the writeback of a shared folder,
	 * at an instant that depends on the host */
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_NOATIME, NULL) < 0)
		return lh_fail(err, LH_ESYS, errno, "remount / without access times");
	for (const struct mount_point *m = mount_points; m->type; m++)
		if (mount("none", m->path, m->type, MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
			return lh_fail(err, LH_ESYS, errno, "mount %s on %s", m->type, m->path);
	return 0;
}

/* Completes /dev for programs of any kind. */
static int complete_dev(struct lh_error *err)
{
	for (const struct mount_point *m = dev_mount_points; m->type; m++) {
		if (mkdir(m->path, 0755) < 0 && errno != EEXIST)
			return lh_fail(err, LH_ESYS, errno, "make %s", m->path);
		if (mount("none", m->path, m->type, MS_NOSUID,
			  strcmp(m->type, "devpts") == 0 ? "ptmxmode=666" : "mode=1777") < 0)
			return lh_fail(err, LH_ESYS, errno, "mount %s on %s", m->type, m->path);
	}
	unlink("/dev/ptmx");
	for (size_t i = 0; i < sizeof(dev_links) / sizeof(dev_links[0]); i++)
		if (symlink(dev_links[i].to, dev_links[i].path) < 0 && errno != EEXIST)
			return lh_fail(err, LH_ESYS, errno, "link %s", dev_links[i].path);
	return 0;
}

/*
 * Puts what stands at the descriptor's path under target, in a file system of our own. The
 * number of folders above a file costs clock reads, and each clock read costs virtual time:
 * so nothing that runs later may see where the host keeps it.
 */
static int bind_to(int fd, const char *target, struct lh_error *err)
{
	char source[64];

	snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
	if (mount(source, target, NULL, MS_BIND, NULL) < 0)
		return lh_fail(err, LH_ESYS, errno, "bind %s", target);
	return 0;
}

static int bind_trainer(const char *trainer, struct lh_error *err)
{
	lh_cleanup_close int trainer_fd = open(trainer, O_PATH | O_CLOEXEC);
	lh_cleanup_close int file = open(OUR_TRAINER, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);

	if (trainer_fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open %s", trainer);
	if (file < 0)
		return lh_fail(err, LH_ESYS, errno, "prepare " OUR_TRAINER);
	return bind_to(trainer_fd, OUR_TRAINER, err);
}

static int bind_run_dir(const char *run_dir, struct lh_error *err)
{
	lh_cleanup_close int run_fd = open(run_dir, O_PATH | O_CLOEXEC);

	if (run_fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open %s", run_dir);
	if (mkdir(OUR_FOLDER, 0755) < 0 ||
	    mount("none", OUR_FOLDER, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") < 0)
		return lh_fail(err, LH_ESYS, errno, "mount tmpfs on " OUR_FOLDER);
	if (mkdir(OUR_RUN_DIR, 0755) < 0)
		return lh_fail(err, LH_ESYS, errno, "prepare " OUR_FOLDER);
	return bind_to(run_fd, OUR_RUN_DIR, err);
}

/* What is to run: the trainer, or the command that waits in the run's folder. */
static int prepare(struct lh_engine_request *request, const char *trainer,
		   struct lh_command *command, struct lh_error *err)
{
	int r;

	if (strcmp(trainer, LH_GUEST_NO_TRAINER) != 0) {
		request->trainer_path = OUR_TRAINER;
		return bind_trainer(trainer, err);
	}
	r = complete_dev(err);
	if (r == 0)
		r = lh_command_take(OUR_RUN_DIR "/" LH_GUEST_COMMAND, command, err);
	request->command = command;
	request->heartbeat_path = OUR_RUN_DIR "/" LH_GUEST_HEARTBEAT;
	if (r == 0 && command->terminal) {
		request->link_fd = open(LH_GUEST_LINK_DEVICE, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (request->link_fd < 0)
			r = lh_fail(err, LH_ESYS, errno, "open " LH_GUEST_LINK_DEVICE);
	}
	return r;
}

/* Waits for a fixed instant: whatever it took to get here does not shift what follows. */
static void wait_for_start(void)
{
	const struct timespec start = {START_S, 0};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL) == EINTR)
		;
}

static int read_scenario(struct lh_engine_request *request, struct lh_scenario **ret_scenario,
			 struct lh_error *err)
{
	static const char path[] = OUR_RUN_DIR "/run.json";
	lh_cleanup_json json_t *doc = NULL;
	struct lh_diag diag = {0};
	int r = lh_json_read(path, &doc, err);

	if (r == 0)
		r = lh_scenario_from_json(path, json_object_get(doc, "scenario"), ret_scenario,
					  &diag, err);
	for (size_t i = 0; i < diag.n_messages; i++)
		fprintf(stderr, "%s\n", diag.messages[i]);
	lh_diag_done(&diag);
	request->scenario = *ret_scenario;
	request->verifies = json_object_get(doc, "verify") != NULL;
	request->verify_sample = (size_t)json_integer_value(json_object_get(doc, "verify"));
	return r;
}

static int run(const char *run_dir, const char *trainer, const char *mode, struct lh_error *err)
{
	bool is_wan = strcmp(mode, LH_GUEST_WAN) == 0;
	struct lh_engine_request request = {.run_dir = OUR_RUN_DIR, .owns_kernel = true};
	struct lh_command command = {.environment = NULL};
	struct lh_scenario *scenario = NULL;
	int r = mount_all(err);

	/* 128 trainers have as many threads as there are numbers otherwise */
	if (r == 0)
		r = lh_sysctl_write("kernel/pid_max", PID_MAX, err);
	if (r == 0)
		r = bind_run_dir(run_dir, err);
	if (r == 0 && !is_wan)
		r = prepare(&request, trainer, &command, err);
	if (r == 0)
		r = read_scenario(&request, &scenario, err);
	if (strcmp(mode, LH_GUEST_VIRTUAL) == 0)
		wait_for_start();
	if (r == 0)
		r = is_wan ? lh_wan_serve(scenario, OUR_RUN_DIR, err)
			   : lh_engine_run(&request, err);
	lh_command_done(&command);
	lh_scenario_free(scenario);
	return r;
}

_Noreturn void lh_guest_init(int argc, char **argv)
{
	struct lh_error err = {0};

	umask(022);
	if (argc < ARGS_EXPECTED) {
		fprintf(stderr, "longhaul: the guest was given no run\n");
	} else {
		lh_guest_decode(argv[2]);
		lh_guest_decode(argv[3]);
		if (run(argv[2], argv[3], argv[4], &err) < 0)
			fprintf(stderr, "longhaul: %s\n", err.message);
	}
	fflush(NULL);
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}
