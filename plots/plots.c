/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the figures' scripts and data, and runs gnuplot. See plots.h; the data are plots_*.c's. */
#include "plots/plots.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/table.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "plots/plots_internal.h"

enum { TEMPLATE_MAX_BYTES = 1 << 20, STDERR_MAX = 600, N_PLOTS = 6, DRAWN_MAX = 16 };

const struct lh_plot lh_plots[N_PLOTS + 1] = {
	{"throughput", "Throughput of the group per epoch, beside what the ranks reach without "
		       "averaging, one node alone and, where known, the published figure."},
	{"time", "Where the time of an epoch goes, as means over ranks. The number above a bar is "
		 "the granularity: (wall - communication) / communication."},
	{"traffic", "Traffic per sending site over the training: bytes on the wire as the emulated "
		    "links counted them, headers and acknowledgements included, and payload as "
		    "trainers sent it."},
	{"links", "The network that the run was made on: targets and what was measured before the "
		  "training. An exclamation mark is a target that was missed."},
	{"cost", "What the run would cost per hour, and per million samples, at the price list's "
		 "spot and on-demand prices."},
	{"loss",
	 "What the model has learnt by when: loss and accuracy of the training samples, and of "
	 "the test data where it was looked at."},
	{NULL, NULL},
};

static const struct lh_plot_figure figures_of_runs[N_PLOTS] = {
	{"throughput", "Throughput per epoch", lh_plot_throughput_prepare},
	{"time", "Time per epoch", lh_plot_time_prepare},
	{"traffic", "Traffic by sending site", lh_plot_traffic_prepare},
	{"links", "The network as measured", lh_plot_links_prepare},
	{"cost", "Cost by item", lh_plot_cost_prepare},
	{"loss", "Loss and accuracy", lh_plot_learning_prepare},
};

void lh_plot_put_text(FILE *head, const char *name, const char *text)
{
	fprintf(head, "%s = '", name);
	for (const char *p = text; *p; p++) {
		if (*p == '\'')
			fputc('\'', head);
		fputc((unsigned char)*p < ' ' ? ' ' : *p, head);
	}
	fputs("'\n", head);
}

void lh_plot_put_real(FILE *head, const char *name, double value)
{
	char buf[400];

	fprintf(head, "%s = %s\n", name,
		isfinite(value) ? lh_number_format(value, 9, buf, sizeof(buf)) : "NaN");
}

int lh_plot_csv_open(const struct lh_plot_run *run, const char *name, struct lh_csv *ret_csv,
		     struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run->dir, name);
	int r;

	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", name);
	if (!lh_path_exists(path))
		return 0;
	r = lh_csv_open(path, ret_csv, err);
	return r < 0 ? r : 1;
}

/* What may stand in a name within scripts and CSV; all else becomes an underscore. */
static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '-' || c == '.' || c == '/' || (unsigned char)c >= 0x80;
}

int lh_plot_names_add(struct lh_plot_names *names, const char *name)
{
	lh_cleanup_free char *plain = strdup(name);
	char **grown;

	for (char *p = plain; p && *p; p++)
		*p = is_plain(*p) ? *p : '_';
	for (size_t i = 0; plain && i < names->n; i++)
		if (strcmp(names->items[i], plain) == 0)
			return (int)i;
	grown = plain ? reallocarray(names->items, names->n + 1, sizeof(*grown)) : NULL;
	if (!grown)
		return -1;
	names->items = grown;
	names->items[names->n] = lh_steal(&plain);
	return (int)names->n++;
}

void lh_plot_names_done(struct lh_plot_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
	memset(names, 0, sizeof(*names));
}

void lh_plot_names_put(FILE *head, const char *name, const struct lh_plot_names *names)
{
	fprintf(head, "%s = '", name);
	for (size_t i = 0; i < names->n; i++)
		fprintf(head, "%s%s", i ? " " : "", names->items[i]);
	fputs("'\n", head);
}

static int read_run(struct lh_plot_run *run, struct lh_error *err)
{
	static const char *const names[] = {"scenario", "seed", "nodes", "epochs", "valid"};
	lh_cleanup_csv struct lh_csv csv = {0};
	int columns[5], r = lh_plot_csv_open(run, "throughput.csv", &csv, err);
	int64_t valid;

	if (r == 0)
		return lh_fail(err, LH_EINPUT, 0, "%s/throughput.csv is missing", run->dir);
	if (r > 0)
		r = lh_csv_find_all(&csv, names, 5, columns, err);
	if (r == 0 && (r = lh_csv_next(&csv, err)) == 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: no row", csv.path);
	if (r < 0 || (r = lh_csv_int(&csv, columns[1], &run->seed, err)) < 0 ||
	    (r = lh_csv_int(&csv, columns[2], &run->n_nodes, err)) < 0 ||
	    (r = lh_csv_int(&csv, columns[3], &run->n_epochs, err)) < 0 ||
	    (r = lh_csv_int(&csv, columns[4], &valid, err)) < 0 ||
	    (r = lh_csv_real(&csv, lh_csv_find(&csv, "samples"), &run->samples, err)) < 0 ||
	    (r = lh_csv_real(&csv, lh_csv_find(&csv, "wall_s"), &run->wall_s, err)) < 0 ||
	    (r = lh_csv_real(&csv, lh_csv_find(&csv, "baseline_sps"), &run->baseline_sps, err)) <
		    0 ||
	    (r = lh_csv_real(&csv, lh_csv_find(&csv, "published_throughput_sps"),
			     &run->published_throughput_sps, err)) < 0)
		return r;
	run->is_valid = valid != 0;
	run->scenario = strdup(csv.cells[columns[0]]);
	run->about = lh_strf("%s%s, %lld node%s, %lld epoch%s, seed %lld",
			     run->is_valid ? "" : "INVALID RUN: ", csv.cells[columns[0]],
			     (long long)run->n_nodes, run->n_nodes == 1 ? "" : "s",
			     (long long)run->n_epochs, run->n_epochs == 1 ? "" : "s",
			     (long long)run->seed);
	return run->scenario && run->about ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "read %s", csv.path);
}

/* The variables that every template needs. */
static void put_common(FILE *head, const struct lh_plot_run *run,
		       const struct lh_plot_figure *figure)
{
	const char *name = figure->name;
	lh_cleanup_free char *data_file = lh_strf("%s.csv", name);

	fprintf(head,
		"# Draws %s.svg and %s.png from %s.csv. In this folder: gnuplot %s.gp\n"
		"reset session\n",
		name, name, name, name);
	lh_plot_put_text(head, "name", name);
	lh_plot_put_text(head, "data_file", data_file ? data_file : "");
	lh_plot_put_text(head, "title_text", figure->title);
	lh_plot_put_text(head, "about_text", run->about);
	fprintf(head, "is_valid = %d\n", run->is_valid);
}

static int append_template(FILE *head, const char *template_dir, const char *name,
			   struct lh_error *err)
{
	lh_cleanup_free char *path = lh_strf("%s/%s.gp", template_dir, name);
	lh_cleanup_free char *text = NULL;
	int r = path ? lh_file_read(path, TEMPLATE_MAX_BYTES, &text, NULL, err)
		     : lh_fail(err, LH_ESYS, ENOMEM, "read %s", name);

	if (r == 0)
		fprintf(head, "\n%s", text);
	return r;
}

static int write_part(const char *folder, const char *name, const char *ending, const char *text,
		      struct lh_error *err)
{
	lh_cleanup_free char *path = lh_strf("%s/%s.%s", folder, name, ending);

	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", name);
	return lh_file_write(path, text, strlen(text), err);
}

/* Takes away what an earlier call left of a figure. */
static void remove_parts(const char *folder, const char *name)
{
	static const char *const endings[] = {"csv", "gp", "svg", "png"};

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		lh_cleanup_free char *path = lh_strf("%s/%s.%s", folder, name, endings[i]);

		if (path)
			unlink(path);
	}
}

/* Writes one figure's data and script: 1, 0 where the run has no data for it, or an error. */
static int write_plot(const struct lh_plot_run *run, const char *folder, const char *template_dir,
		      const struct lh_plot_figure *figure, struct lh_error *err)
{
	const char *name = figure->name;
	lh_cleanup_free char *head_text = NULL, *data_text = NULL;
	size_t head_size, data_size;
	FILE *head = open_memstream(&head_text, &head_size);
	FILE *data = open_memstream(&data_text, &data_size);
	int r = LH_ESYS;

	remove_parts(folder, name);
	if (head && data) {
		put_common(head, run, figure);
		r = figure->prepare(run, head, data, err);
		if (r > 0 && (r = append_template(head, template_dir, "style", err)) == 0 &&
		    (r = append_template(head, template_dir, name, err)) == 0)
			r = 1;
	} else {
		lh_fail(err, LH_ESYS, ENOMEM, "write figure %s", name);
	}
	if ((head && fclose(head) != 0) || (data && fclose(data) != 0))
		r = lh_fail(err, LH_ESYS, ENOMEM, "write figure %s", name);
	if (r <= 0)
		return r;
	r = write_part(folder, name, "csv", data_text, err);
	if (r == 0)
		r = write_part(folder, name, "gp", head_text, err);
	return r < 0 ? r : 1;
}

/* The pipes of a gnuplot: what it says, and why it could not be started (errno). */
struct pipes {
	int said[2];
	int failed[2];
};

/* In the child: never returns. */
static void exec_gnuplot(const char *folder, char **argv, const struct pipes *pipes, pid_t parent)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && null_fd >= 0 && chdir(folder) == 0 && dup2(null_fd, 0) >= 0 &&
	    dup2(null_fd, 1) >= 0 && dup2(pipes->said[1], 2) >= 0)
		execvp(argv[0], argv);
	why = errno;
	if (write(pipes->failed[1], &why, sizeof(why)) < 0)
		_exit(2);
	_exit(1);
}

/* Reads all of fd; keeps the first bytes in text. */
static void read_stderr(int fd, char *text, size_t n_text)
{
	size_t used = 0;
	char buf[512];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		for (ssize_t i = 0; i < n && used + 1 < n_text; i++)
			text[used++] = (unsigned char)buf[i] < ' ' ? ' ' : buf[i];
	text[used] = '\0';
}

static void close_pair(int *fds)
{
	close(fds[0]);
	close(fds[1]);
}

/* Starts gnuplot and waits for it: its wait status, what it said, and 0 or why exec failed. */
static int run_child(const char *folder, char **argv, char *said, size_t n_said, int *ret_status,
		     int *ret_why, struct lh_error *err)
{
	pid_t parent = getpid(), child;
	struct pipes pipes;
	int r = 0;

	if (pipe2(pipes.said, O_CLOEXEC) < 0)
		return lh_fail(err, LH_ESYS, errno, "run gnuplot");
	if (pipe2(pipes.failed, O_CLOEXEC) < 0) {
		r = lh_fail(err, LH_ESYS, errno, "run gnuplot");
		close_pair(pipes.said);
		return r;
	}
	child = fork();
	if (child == 0)
		exec_gnuplot(folder, argv, &pipes, parent);
	if (child < 0) {
		r = lh_fail(err, LH_ESYS, errno, "run gnuplot");
		close_pair(pipes.said);
		close_pair(pipes.failed);
		return r;
	}
	close(pipes.said[1]);
	close(pipes.failed[1]);
	read_stderr(pipes.said[0], said, n_said);
	if (read(pipes.failed[0], ret_why, sizeof(*ret_why)) != (ssize_t)sizeof(*ret_why))
		*ret_why = 0;
	close(pipes.said[0]);
	close(pipes.failed[0]);
	while (waitpid(child, ret_status, 0) < 0)
		if (errno != EINTR)
			return lh_fail(err, LH_ESYS, errno, "wait for gnuplot");
	return 0;
}

static int run_gnuplot(const char *folder, char **argv, struct lh_error *err)
{
	char said[STDERR_MAX];
	int status, why;
	int r = run_child(folder, argv, said, sizeof(said), &status, &why, err);

	if (r < 0)
		return r;
	if (why == ENOENT)
		return lh_fail(err, LH_EENV, 0,
			       "gnuplot is not installed; apt-get install gnuplot-nox");
	if (why)
		return lh_fail(err, LH_ESYS, why, "start gnuplot");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return lh_fail(err, LH_ERUN, 0, "gnuplot failed in %s: %s", folder,
		       *said ? said : "it said nothing");
}

int lh_plot_draw(const struct lh_plot_run *run, const struct lh_plot_figure *figures,
		 size_t n_figures, const char *template_dir, struct lh_error *err)
{
	lh_cleanup_free char *folder = lh_path_join(run->dir, "figures");
	char *argv[DRAWN_MAX + 3] = {(char[]){"gnuplot"}, (char[]){"--default-settings"}};
	char *scripts[DRAWN_MAX] = {NULL};
	size_t n = 0;
	int r = folder ? lh_dir_make(folder, err)
		       : lh_fail(err, LH_ESYS, ENOMEM, "write figures of %s", run->dir);

	assert(n_figures <= DRAWN_MAX);
	for (size_t i = 0; i < n_figures && r == 0; i++) {
		r = write_plot(run, folder, template_dir, &figures[i], err);
		if (r <= 0)
			continue;
		scripts[n] = lh_strf("%s.gp", figures[i].name);
		r = scripts[n] ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "write figures");
		argv[2 + n] = scripts[n];
		n++;
	}
	if (r == 0 && n > 0)
		r = run_gnuplot(folder, argv, err);
	for (size_t i = 0; i < n; i++)
		free(scripts[i]);
	return r;
}

int lh_plots_make(const char *run_dir, const char *template_dir, struct lh_error *err)
{
	struct lh_plot_run run = {.dir = run_dir};
	int r = read_run(&run, err);

	if (r == 0)
		r = lh_plot_draw(&run, figures_of_runs, N_PLOTS, template_dir, err);
	free(run.scenario);
	free(run.about);
	return r;
}

int lh_plots_make_flows(const char *dir, const char *template_dir, const char *about,
			struct lh_error *err)
{
	static const struct lh_plot_figure figure = {"flows", "TCP flows as captured",
						     lh_plot_flows_prepare};
	lh_cleanup_free char *line = strdup(about);
	const struct lh_plot_run run = {.dir = dir, .about = line, .is_valid = true};

	if (!line)
		return lh_fail(err, LH_ESYS, ENOMEM, "write figures");
	return lh_plot_draw(&run, &figure, 1, template_dir, err);
}
