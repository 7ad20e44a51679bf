/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's init. See guest.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/engine.h"
#include "emulator/guest/guest.h"
#include "emulator/guest/guest_internal.h"

enum { ARGS_EXPECTED = 4 };

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

static int run(const char *run_dir, const char *trainer, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "run.json");
	lh_cleanup_json json_t *doc = NULL;
	struct lh_engine_request request = {
		.run_dir = run_dir, .trainer_path = trainer, .owns_kernel = true};
	struct lh_scenario *scenario = NULL;
	struct lh_diag diag = {0};
	int r = mount_all(err);

	if (r == 0)
		r = lh_json_read(path, &doc, err);
	if (r == 0)
		r = lh_scenario_from_json(path, json_object_get(doc, "scenario"), &scenario, &diag,
					  err);
	for (size_t i = 0; i < diag.n_messages; i++)
		fprintf(stderr, "%s\n", diag.messages[i]);
	lh_diag_done(&diag);
	request.scenario = scenario;
	if (r == 0)
		r = lh_engine_run(&request, err);
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
		if (run(argv[2], argv[3], &err) < 0)
			fprintf(stderr, "longhaul: %s\n", err.message);
	}
	fflush(NULL);
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}
