/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul doctor: what this machine can do, and the command that mends what it cannot. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/learner.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "plots/plots.h"

enum { DETAIL = 1024, GUEST_MEMORY_MIN_KB = 1 << 20 };

/* What a check found. */
struct finding {
	bool ok;
	bool needed; /* for a run in virtual time */
	char detail[DETAIL];
	const char *mend; /* borrowed; NULL where nothing is to be done */
};

struct check {
	const char *what;
	void (*look)(struct finding *ret);
};

static void look_host_netem(struct finding *f)
{
	f->ok = lh_cli_host_is_fit(f->detail, sizeof(f->detail));
	if (f->ok)
		snprintf(f->detail, sizeof(f->detail), "netem works: --backend host can be used");
	else if (geteuid() != 0)
		f->mend = "run as root, or use the guest (--backend guest), which needs no rights";
	else
		f->mend = "modprobe -a sch_netem sch_htb sch_tbf cls_bpf veth, or use the guest "
			  "(--backend guest)";
}

static void look_host_nodes(struct finding *f)
{
	f->ok = lh_cli_has_host_nodes(f->detail, sizeof(f->detail));
	if (f->ok)
		snprintf(f->detail, sizeof(f->detail), "--nodes host can be used%s",
			 geteuid() == 0 ? ""
					: ", but not with a `stream_window`: run as root for that");
	else
		f->mend = "see above, or run as root; --nodes guest needs no rights";
}

/* Says what kernels of other versions take, which nobody removes by himself. */
static void add_other_kernels(const char *kernel, struct finding *f)
{
	lh_cleanup_free char *folder = lh_path_dirname(kernel);
	lh_cleanup_free char *cache = folder ? lh_path_dirname(folder) : NULL;
	lh_cleanup_closedir DIR *dir = cache ? opendir(cache) : NULL;
	size_t used = strlen(f->detail);
	double bytes = 0;
	struct dirent *e;
	int n = 0;

	while (dir && (e = readdir(dir))) {
		lh_cleanup_free char *other = lh_strf("%s/%s/linux", cache, e->d_name);
		struct stat st;

		if (strncmp(e->d_name, "guest-", strlen("guest-")) != 0 || !other ||
		    strcmp(other, kernel) == 0 || stat(other, &st) < 0)
			continue;
		bytes += (double)st.st_size;
		n++;
	}
	if (n)
		snprintf(f->detail + used, sizeof(f->detail) - used,
			 " (%d of other versions in %s take %.1f MiB; folders guest-* that are not "
			 "used any more may be removed)",
			 n, cache, bytes / (1 << 20));
}

static void look_guest_kernel(struct finding *f)
{
	lh_cleanup_free char *path = NULL;
	struct lh_error err = {0};

	f->needed = true;
	f->ok = lh_cli_guest_kernel(&path, &err) == 0;
	snprintf(f->detail, sizeof(f->detail), "%s", f->ok ? path : err.message);
	if (f->ok)
		add_other_kernels(path, f);
	f->mend = "./bootstrap build";
}

/* Whether a child may be traced, as the guest does with its processes. */
static void look_ptrace(struct finding *f)
{
	pid_t pid = fork();
	int status = 0;

	f->needed = true;
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	if (pid > 0 && waitpid(pid, &status, WUNTRACED) > 0 && WIFSTOPPED(status)) {
		f->ok = ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_EXITKILL) == 0;
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	snprintf(f->detail, sizeof(f->detail), "%s",
		 f->ok ? "children can be traced" : "children cannot be traced");
	f->mend = "sysctl kernel.yama.ptrace_scope=1; in Docker: --cap-add SYS_PTRACE";
}

/* The guest's memory is a memfd that holds code, too. */
static void look_memory_file(struct finding *f)
{
	lh_cleanup_close int fd = memfd_create("longhaul-doctor", MFD_CLOEXEC);
	void *p = MAP_FAILED;

	f->needed = true;
	if (fd >= 0 && ftruncate(fd, 4096) == 0)
		p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd, 0);
	f->ok = p != MAP_FAILED;
	snprintf(f->detail, sizeof(f->detail), "%s%s",
		 f->ok ? "memory files can hold the guest (no room in /dev/shm is needed)"
		       : "memory files cannot be executed: ",
		 f->ok ? "" : strerror(errno));
	f->mend = "sysctl vm.memfd_noexec=0";
	if (f->ok)
		munmap(p, 4096);
}

static void look_memory(struct finding *f)
{
	lh_cleanup_free char *text = NULL;
	struct lh_error err = {0};
	const char *line = NULL;
	long kb = 0;

	f->needed = true;
	if (lh_file_read("/proc/meminfo", 65536, &text, NULL, &err) == 0)
		line = strstr(text, "MemAvailable:");
	if (line)
		kb = strtol(line + strlen("MemAvailable:"), NULL, 10);
	f->ok = kb >= GUEST_MEMORY_MIN_KB;
	snprintf(f->detail, sizeof(f->detail),
		 "%.1f GiB available; a run with eight nodes takes "
		 "less than 1 GiB",
		 (double)kb / (1 << 20));
	f->mend = "end other programs, or run fewer nodes";
}

static void look_trainer(struct finding *f)
{
	lh_cleanup_free char *path = NULL;
	struct lh_error err = {0};

	f->needed = true;
	f->ok = lh_cli_trainer_path(&path, &err) == 0;
	snprintf(f->detail, sizeof(f->detail), "%s", f->ok ? path : err.message);
	f->mend = "./bootstrap build, or make install";
}

/* What it computes on, as it says itself. */
static int list_devices(void *context, const json_t *about, struct lh_error *err)
{
	struct finding *f = context;
	size_t i, used = strlen(f->detail);
	const json_t *device;

	(void)err;
	json_array_foreach (json_object_get(about, "devices"), i, device) {
		const char *name = json_string_value(json_object_get(device, "name"));
		const char *why = json_string_value(json_object_get(device, "why_not"));
		const char *software = json_string_value(json_object_get(device, "software"));
		const char *what = why ? why : software;

		if (used < sizeof(f->detail))
			used += (size_t)snprintf(f->detail + used, sizeof(f->detail) - used,
						 "%s %s%s%s%s%s", i ? "," : ":", name ? name : "?",
						 why ? " (not here: " : "",
						 what && *what && !why ? " (" : "",
						 what && *what ? what : "",
						 what && *what ? ")" : "");
	}
	return 0;
}

static void look_learner(struct finding *f)
{
	const struct lh_learner_listener listener = {f, list_devices, NULL};
	lh_cleanup_free char *path = NULL;
	struct lh_error err = {0};
	int status = 1;

	f->ok = lh_cli_learner_path(NULL, &path, &err) == 0;
	snprintf(f->detail, sizeof(f->detail), "%.200s", f->ok ? path : err.message);
	f->mend = "./bootstrap build, or make install";
	if (f->ok &&
	    (lh_cli_learner_run("about", NULL, NULL, &listener, &status, &err) < 0 || status)) {
		f->ok = false;
		snprintf(f->detail, sizeof(f->detail), "%.200s does not run%s%.600s", path,
			 *err.message ? ": " : "", err.message);
	}
}

static void look_catalog(struct finding *f)
{
	lh_cleanup_free char *networks = lh_path_join(lh_cli_catalog_dir(), "networks");

	f->needed = true;
	f->ok = networks && lh_path_exists(networks);
	snprintf(f->detail, sizeof(f->detail), "%s", lh_cli_catalog_dir());
	f->mend = "make install, or set LONGHAUL_DATADIR to the folder `scenarios`";
}

/* Whether a program stands in a folder of PATH. */
static bool find_program(const char *name, char *ret_path, size_t n_path)
{
	lh_cleanup_free char *path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
	char *rest = path;
	char *folder;

	while (path && (folder = strsep(&rest, ":"))) {
		snprintf(ret_path, n_path, "%s/%s", folder, name);
		if (access(ret_path, X_OK) == 0)
			return true;
	}
	return false;
}

static void look_gnuplot(struct finding *f)
{
	f->ok = find_program("gnuplot", f->detail, sizeof(f->detail));
	if (!f->ok)
		snprintf(f->detail, sizeof(f->detail), "gnuplot is not installed: no figures");
	f->mend = "apt-get install gnuplot-nox";
}

static void look_gpu(struct finding *f)
{
	f->ok = lh_path_exists("/dev/nvidia0");
	snprintf(f->detail, sizeof(f->detail), "%s",
		 f->ok ? "/dev/nvidia0 is there; this version does not use GPUs"
		       : "no NVIDIA GPU; this version does not use GPUs");
}

static const struct check checks[] = {
	{"trainer", look_trainer},
	{"learner", look_learner},
	{"catalog", look_catalog},
	{"guest kernel", look_guest_kernel},
	{"ptrace", look_ptrace},
	{"memory file", look_memory_file},
	{"memory", look_memory},
	{"host netem", look_host_netem},
	{"host nodes", look_host_nodes},
	{"gnuplot", look_gnuplot},
	{"GPU", look_gpu},
};

int lh_cmd_doctor(int argc, char **argv)
{
	bool fit = true;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		printf("Usage: longhaul doctor\n\n"
		       "Says what this machine can do, and the command that mends what it cannot.\n"
		       "Exit status 4 where scenarios cannot be run in virtual time.\n");
		return 0;
	}
	if (argc > 1)
		return lh_cli_usage("doctor", "takes no argument");
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct finding f = {0};

		checks[i].look(&f);
		printf("%-8s %-13s %s\n",
		       f.ok	  ? "ok"
		       : f.needed ? "MISSING"
				  : "absent",
		       checks[i].what, f.detail);
		if (!f.ok && f.mend)
			printf("%-22s mend: %s\n", "", f.mend);
		fit &= f.ok || !f.needed;
	}
	printf("\n%s\n", fit ? "Scenarios can be run here."
			     : "Scenarios cannot be run here before what is MISSING is mended.");
	return fit ? 0 : 4;
}
