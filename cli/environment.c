/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are: this program, the trainer, catalogs, templates, the guest's kernel. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "config.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/detach.h"
#include "emulator/netns.h"
#include "emulator/nl.h"
#include "emulator/qdisc.h"

int lh_cli_fail(const struct lh_diag *diag, const struct lh_error *err)
{
	for (size_t i = 0; diag && i < diag->n_messages; i++)
		fprintf(stderr, "%s\n", diag->messages[i]);
	if (diag && diag->n_dropped)
		fprintf(stderr, "(and %zu more)\n", diag->n_dropped);
	if (!diag || !diag->n_messages)
		fprintf(stderr, "longhaul: %s\n", err->message);
	return lh_error_exit_status(err);
}

int lh_cli_usage(const char *verb, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "longhaul%s%s: ", verb ? " " : "", verb ? verb : "");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nTry `longhaul %s%s--help`.\n", verb ? verb : "", verb ? " " : "");
	return 2;
}

static const char *from_environment(const char *name, const char *fallback)
{
	const char *v = getenv(name);

	return v && *v ? v : fallback;
}

const char *lh_cli_catalog_dir(void)
{
	return from_environment("LONGHAUL_DATADIR", LH_DATADIR);
}

const char *lh_cli_plot_dir(void)
{
	return from_environment("LONGHAUL_PLOTDIR", LH_PLOTDIR);
}

int lh_cli_program_path(char **ret_path, struct lh_error *err)
{
	char buf[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", buf, sizeof(buf) - 1);

	if (n < 0)
		return lh_fail(err, LH_ESYS, errno, "read /proc/self/exe");
	buf[n] = '\0';
	*ret_path = strdup(buf);
	return *ret_path ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "find this program");
}

/* The absolute path of a program of ours: what the environment says under variable, else beside
 * this program, else where it is installed. */
static int find_own_program(const char *name, const char *variable, char **ret_path,
			    struct lh_error *err)
{
	const char *set = from_environment(variable, NULL);
	lh_cleanup_free char *program = NULL;
	lh_cleanup_free char *folder = NULL;
	lh_cleanup_free char *beside = NULL;
	lh_cleanup_free char *installed = lh_path_join(LH_BINDIR, name);
	const char *candidates[3];
	int r = lh_cli_program_path(&program, err);

	if (r < 0)
		return r;
	folder = lh_path_dirname(program);
	beside = folder ? lh_path_join(folder, name) : NULL;
	candidates[0] = set;
	candidates[1] = beside;
	candidates[2] = installed;
	for (size_t i = 0; i < 3; i++) {
		if (!candidates[i] || access(candidates[i], X_OK) < 0) {
			if (i == 0 && set)
				return lh_fail(err, LH_EENV, errno, "%s=%s", variable, set);
			continue;
		}
		*ret_path = realpath(candidates[i], NULL);
		return *ret_path ? 0 : lh_fail(err, LH_ESYS, errno, "find %s", candidates[i]);
	}
	return lh_fail(err, LH_EENV, 0,
		       "%s is neither beside this program (%s) nor in %s; make install puts it "
		       "there",
		       name, folder, LH_BINDIR);
}

int lh_cli_trainer_path(char **ret_path, struct lh_error *err)
{
	return find_own_program("longhaul-trainer", "LONGHAUL_TRAINER", ret_path, err);
}

int lh_cli_learner_path(const char *device, char **ret_path, struct lh_error *err)
{
	if (device && strcmp(device, "cuda") == 0) {
		if (!HAVE_CUDA)
			return lh_fail(err, LH_EENV, 0,
				       "device cuda: built without CUDA; install NVIDIA's CUDA "
				       "toolkit with cuBLAS and cuDNN 9, then run configure and "
				       "make again");
		return find_own_program("longhaul-learner-cuda", "LONGHAUL_LEARNER_CUDA", ret_path,
					err);
	}
	return find_own_program("longhaul-learner", "LONGHAUL_LEARNER", ret_path, err);
}

/* The first line that a program prints, owned; NULL where it fails. */
static char *first_line_of(const char *program, const char *arg)
{
	char *const argv[] = {(char *)program, (char *)arg, NULL};
	char line[PATH_MAX];
	lh_cleanup_fclose FILE *f = NULL;
	int fds[2], status = 0;
	bool got;
	pid_t pid;

	if (pipe(fds) < 0)
		return NULL;
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execv(program, argv);
		_exit(127);
	}
	close(fds[1]);
	f = fdopen(fds[0], "r");
	got = f && fgets(line, sizeof(line), f);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (pid < 0 || !got || status)
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	return strdup(line);
}

int lh_cli_guest_kernel(char **ret_path, struct lh_error *err)
{
	const char *set = from_environment("LONGHAUL_GUEST_KERNEL", NULL);
	static const char script[] = LH_GUESTDIR "/build-kernel";
	char *path;

	if (set) {
		if (access(set, X_OK) < 0)
			return lh_fail(err, LH_EENV, errno,
				       "guest kernel LONGHAUL_GUEST_KERNEL=%s (./bootstrap build "
				       "makes one)",
				       set);
		*ret_path = realpath(set, NULL);
		return *ret_path ? 0 : lh_fail(err, LH_ESYS, errno, "find %s", set);
	}
	path = access(script, X_OK) == 0 ? first_line_of(script, "--path") : NULL;
	if (!path)
		return lh_fail(err, LH_EENV, 0,
			       "the guest kernel has not been built; ./bootstrap build (or %s) "
			       "builds it, about three minutes",
			       script);
	*ret_path = path;
	return 0;
}

/* In a child: tries netem on the loopback link of a new namespace. */
static int try_netem(struct lh_error *err)
{
	const struct lh_plan_path path = {
		.delay_ns = 1000000, .bandwidth_bps = 1000000, .limit_pkts = 1000};
	struct lh_nl *nl = NULL;
	int fd = -1;
	int r = lh_netns_create(&fd, err);

	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = lh_htb_add(nl, 1, 1000000, 65536, err);
	if (r == 0)
		r = lh_htb_class_add(nl, 1, 0, 1000000, 1000000, 65536, err);
	if (r == 0)
		r = lh_netem_add(nl, 1, 0, &path, 0, err);
	lh_nl_close(nl);
	if (fd >= 0)
		close(fd);
	return r;
}

/* Whether something works, tried in a child; if not, why. */
static bool works(int (*attempt)(struct lh_error *err), char *why, size_t n_why)
{
	int fds[2], status = 1;
	ssize_t n = 0;
	pid_t pid;

	snprintf(why, n_why, "the test could not be run");
	if (pipe(fds) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		struct lh_error err = {0};
		int r = attempt(&err);

		if (r < 0)
			(void)!write(fds[1], err.message, strlen(err.message));
		_exit(r < 0);
	}
	close(fds[1]);
	if (pid > 0) {
		n = read(fds[0], why, n_why - 1);
		waitpid(pid, &status, 0);
	}
	close(fds[0]);
	if (n > 0)
		why[n] = '\0';
	return pid > 0 && status == 0;
}

bool lh_cli_host_is_fit(char *why, size_t n_why)
{
	return works(try_netem, why, n_why);
}

bool lh_cli_has_host_nodes(char *why, size_t n_why)
{
	return works(lh_detach_try, why, n_why);
}

int lh_cli_read_run(const char *dir, struct lh_scenario **ret_scenario, char **ret_folder,
		    struct lh_diag *diag, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(dir, "run.json");
	lh_cleanup_json json_t *doc = NULL;
	const char *folder;

	if (!path || lh_json_read(path, &doc, err) < 0) {
		err->code = LH_EINPUT;
		return lh_error_prefix(err, "%s is not a results folder", dir);
	}
	if (json_object_get(doc, "exec") || json_object_get(doc, "verify"))
		return lh_fail(err, LH_EINPUT, 0,
			       "%s is of longhaul %s, which leaves no tables and no figures", dir,
			       json_object_get(doc, "exec") ? "exec" : "verify");
	folder = json_string_value(json_object_get(doc, "folder"));
	if (ret_folder && folder)
		*ret_folder = strdup(folder);
	return lh_scenario_from_json(path, json_object_get(doc, "scenario"), ret_scenario, diag,
				     err);
}

size_t lh_cli_width(void)
{
	struct winsize size;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col
										     : 0;
}
