/* SPDX-License-Identifier: Apache-2.0 */
/* A run from a scenario to a results folder. See execute.h. */
#include "cli/execute_internal.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/node_output.h"
#include "cli/run_folder.h"
#include "config.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "core/log.h"
#include "emulator/engine.h"
#include "plots/plots.h"
#include "plots/report.h"
#include "scenarios/check.h"
#include "trainer/job.h"

enum {
	NAMES_TRIED_MAX = 1000,
	CONNECTED_RANKS_MAX = 128,
};

_Static_assert((int)LH_RANKS_MAX <= (int)LH_JOB_RANKS_MAX, "trainers take all ranks of a scenario");

/* Names as they stand in run.json. */
static const char *const clock_names[] = {[LH_CLOCK_VIRTUAL] = "virtual", [LH_CLOCK_REAL] = "real"};
static const char *const nodes_names[] = {[LH_NODES_GUEST] = "guest", [LH_NODES_HOST] = "host"};
static const char *const backend_names[] = {
	[LH_BACKEND_AUTO] = "auto", [LH_BACKEND_HOST] = "host", [LH_BACKEND_GUEST] = "guest"};

char *lh_default_out(const struct lh_scenario *sc)
{
	lh_cleanup_free char *out =
		lh_strf("results/%s-seed%lld", sc->name, (long long)sc->run.seed);

	return out ? lh_path_unused(out) : NULL;
}

/* The nodes, or ranks of nodes with several, that exec's program runs in. */
static json_t *nodes_to_json(const struct lh_run *run)
{
	json_t *nodes = json_array();

	for (size_t i = 0; i < run->command->n_ranks; i++)
		json_array_append_new(
			nodes, json_string(run->ex->scenario->ranks[run->command->ranks[i]].name));
	return nodes;
}

static int write_run_json(const struct lh_run *run, const char *status, struct lh_error *err)
{
	const struct lh_scenario *sc = run->ex->scenario;
	lh_cleanup_free char *path = lh_path_join(run->dir, "run.json");
	lh_cleanup_json json_t *doc = json_pack(
		"{s:s, s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:O}", "format", "longhaul-run/1",
		"version", PACKAGE_VERSION, "name", sc->name, "seed", (json_int_t)sc->run.seed,
		"clock", clock_names[sc->run.clock], "backend", backend_names[run->backend],
		"nodes",
		nodes_names[run->backend == LH_BACKEND_HOST ? LH_NODES_HOST : sc->run.nodes],
		"status", status, "scenario", sc->resolved);

	if (!path || !doc)
		return lh_fail(err, LH_ESYS, ENOMEM, "write run.json");
	if (sc->run.charge_cpu)
		json_object_set_new(doc, "charges_cpu", json_true());
	if (run->ex->verifies)
		json_object_set_new(doc, "verify", json_integer((json_int_t)run->ex->sample));
	if (run->command)
		json_object_set_new(doc, "folder", json_string(run->command->cwd));
	if (run->ex->command)
		json_object_set_new(doc, "exec", nodes_to_json(run));
	return lh_json_write(path, doc, err);
}

/* What differs from run to run stands apart from what must not. */
static int write_wall_json(const struct lh_run *run, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run->dir, "wall.json");
	lh_cleanup_json json_t *doc = NULL;
	struct utsname host = {0};
	struct timespec now;
	char date[32];
	time_t t = time(NULL);
	struct tm tm;

	uname(&host);
	clock_gettime(CLOCK_MONOTONIC, &now);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
	doc = json_pack("{s:s, s:s, s:s, s:s, s:f}", "format", "longhaul-wall/1", "ended", date,
			"host_kernel", host.release, "host_machine", host.machine, "wall_s",
			(double)(now.tv_sec - run->begin.tv_sec) +
				(double)(now.tv_nsec - run->begin.tv_nsec) / 1e9);
	if (!path || !doc)
		return lh_fail(err, LH_ESYS, ENOMEM, "write wall.json");
	return lh_json_write(path, doc, err);
}

/* How the scenario's command is run: in every node, as the user would run it. */
static int make_command(const struct lh_run *run, struct lh_command *ret, struct lh_error *err)
{
	const struct lh_scenario *sc = run->ex->scenario;
	const char *folder = sc->workload.folder ? sc->workload.folder : run->ex->folder;

	*ret = (struct lh_command){.environment = environ,
				   .cwd = folder ? strdup(folder) : getcwd(NULL, 0),
				   .ranks = calloc(sc->n_ranks, sizeof(*ret->ranks)),
				   .n_ranks = sc->n_ranks};
	if (!ret->cwd || !ret->ranks)
		return lh_fail(err, LH_ESYS, errno, "find the current folder");
	for (size_t i = 0; i < sc->n_ranks; i++)
		ret->ranks[i] = i;
	return 0;
}

static int run_workload(struct lh_run *run, struct lh_error *err)
{
	int r;

	lh_progress_start(&run->progress, run->dir, run->ex->scenario->name,
			  run->ex->scenario->workload.epochs, run->ex->quiet);
	run->tick = lh_progress_tick;
	run->context = &run->progress;
	r = lh_run_backend(run, err);
	lh_progress_stop(&run->progress);
	return r;
}

static int draw(const struct lh_run *run, const struct lh_results *results, struct lh_error *err)
{
	int r = lh_plots_make(run->dir, lh_cli_plot_dir(), err);

	if (r == LH_EENV) {
		lh_log(LH_LOG_WARNING, "no figures: %s", err->message);
		r = 0;
	}
	return r < 0 ? r : lh_report_write(run->dir, run->ex->scenario, results, err);
}

/* Whether all was done, and the figures are not to be used. */
static bool is_doubtful(int outcome)
{
	return outcome == LH_EMEASURE || outcome == LH_EUNFIT;
}

static const char *status_name(int outcome)
{
	switch (outcome) {
	case 0:
		return "done";
	case LH_EMEASURE:
		return "invalid";
	case LH_EUNFIT:
		return "unfit";
	case LH_ESIGNAL:
		return "stopped";
	default:
		return "failed";
	}
}

/* Adds to the message of a run that failed where its files are. */
static void say_where(struct lh_error *err, const char *folder)
{
	size_t used = strlen(err->message);

	snprintf(err->message + used, sizeof(err->message) - used, " (its files are kept in %s)",
		 folder);
}

/* Puts a finished folder in its place, or beside it where another run was faster. */
static int move_folder(const struct lh_run *run, struct lh_error *err)
{
	lh_cleanup_free char *name = strdup(run->ex->out);
	int r = name ? write_wall_json(run, err) : lh_fail(err, LH_ESYS, ENOMEM, "name results");

	for (int i = 2; r == 0 && rename(run->dir, name) < 0; i++) {
		if ((errno != ENOTEMPTY && errno != EEXIST) || i > NAMES_TRIED_MAX)
			return lh_fail(err, LH_ESYS, errno, "rename %s to %s", run->dir, name);
		free(name);
		name = lh_strf("%s-%d", run->ex->out, i);
		if (!name)
			return lh_fail(err, LH_ESYS, ENOMEM, "name results");
	}
	if (r == 0 && strcmp(name, run->ex->out) != 0)
		lh_log(LH_LOG_WARNING, "%s came into being meanwhile; the results are in %s",
		       run->ex->out, name);
	if (r == 0 && run->ex->ret_out)
		snprintf(run->ex->ret_out, PATH_MAX, "%s", name);
	return r;
}

/* The same for a proof: it is kept where there is a verdict. */
static int finish_proof(struct lh_run *run, int outcome, struct lh_error *err)
{
	struct lh_error why = *err;
	int r;

	if (outcome < 0 && !is_doubtful(outcome))
		return outcome;
	r = write_run_json(run, status_name(outcome), err);
	if (r == 0 && run->ex->figures) {
		struct lh_error drawn = {0};

		if (lh_plots_make_proof(run->dir, lh_cli_plot_dir(), &drawn) < 0)
			lh_log(LH_LOG_WARNING, "no figures: %s", drawn.message);
	}
	if (r == 0)
		r = move_folder(run, err);
	if (r == 0)
		*err = why;
	return r < 0 ? r : outcome;
}

/* Whether a program has failed, and the last that it said. */
static int judge_programs(const struct lh_run *run, struct lh_error *err)
{
	struct lh_ending ending = {.status = 0};
	int r = 0;

	lh_ending_read(run->dir, &ending);
	if (ending.status)
		r = lh_fail(err, LH_ERUN, 0, "%s%s%s; what it said is in nodes/%s.stderr",
			    ending.what ? ending.what : "a program failed",
			    ending.last_line ? ": " : "", ending.last_line ? ending.last_line : "",
			    ending.host ? ending.host : "*");
	lh_ending_done(&ending);
	return r;
}

/* Everything after the backend has ended with `outcome`; returns what the run comes to. */
static int finish(struct lh_run *run, int outcome, struct lh_results *ret_results,
		  bool *ret_has_results, struct lh_error *err)
{
	struct lh_error collect_err = {0};
	int r = 0;

	if (run->ex->verifies)
		return finish_proof(run, outcome, err);
	if (run->command && (outcome == 0 || is_doubtful(outcome))) {
		r = judge_programs(run, err);
		outcome = r < 0 ? r : outcome;
		r = 0;
	}
	if (outcome != LH_EENV)
		r = lh_collect_run(run->dir, run->ex->scenario, ret_results, &collect_err);
	if (r < 0 || outcome == LH_EENV) {
		bool is_new = outcome == 0 || (is_doubtful(outcome) && r < 0);

		if (is_new)
			*err = collect_err;
		return is_new ? r : outcome;
	}
	*ret_has_results = true;
	if (outcome == 0 && !ret_results->is_valid)
		outcome = lh_fail(err, LH_EMEASURE, 0, "the run is not valid");
	r = write_run_json(run, status_name(outcome), &collect_err);
	if (r == 0 && run->ex->figures && draw(run, ret_results, &collect_err) < 0)
		lh_log(LH_LOG_WARNING, "figures or report: %s", collect_err.message);
	if (r == 0)
		r = move_folder(run, &collect_err);
	if (r < 0) {
		lh_results_done(ret_results);
		*ret_has_results = false;
		*err = collect_err;
		return r;
	}
	if (outcome == LH_ERUN)
		say_where(err, run->ex->ret_out ? run->ex->ret_out : run->ex->out);
	return outcome;
}

/* What is left of a run that came to nothing: kept under a name of its own where its logs
 * may explain a failure, removed otherwise. */
static void clear_away(struct lh_run *run, int result, struct lh_error *err)
{
	lh_cleanup_free char *failed = lh_strf("%s.failed", run->ex->out);
	lh_cleanup_free char *kept = failed ? lh_path_unused(failed) : NULL;
	struct lh_error ignored;

	if (!run->dir || !lh_path_exists(run->dir))
		return;
	if (result == LH_ERUN && kept && rename(run->dir, kept) == 0)
		say_where(err, kept);
	else
		lh_dir_remove(run->dir, &ignored);
}

/* Whether each trainer is connected with every other. */
static bool connects_all(const struct lh_strategy_spec *strategy)
{
	if (!strategy->balance)
		return false;
	return strcmp(strategy->balance, "dynamic") == 0 ||
	       strcmp(strategy->kind, "butterfly") == 0 ||
	       strcmp(strategy->kind, "sparse-allgather") == 0;
}

/* A connection takes two threads at each end: with more ranks the guest would hold 130,000. */
static int check_ranks(const struct lh_run *run, struct lh_error *err)
{
	const struct lh_scenario *sc = run->ex->scenario;

	if (run->command || run->ex->verifies || sc->n_ranks <= CONNECTED_RANKS_MAX ||
	    !connects_all(&sc->workload.strategy))
		return 0;
	return lh_fail(err, LH_EINPUT, 0,
		       "%s: nodes: %zu ranks with a trainer each, every two connected; expected at "
		       "most %d, or a strategy with balance: fixed other than butterfly and "
		       "sparse-allgather",
		       sc->name, sc->n_ranks, CONNECTED_RANKS_MAX);
}

/* What every run needs before it can begin. */
static int begin(struct lh_run *run, struct lh_error *err)
{
	int r = check_ranks(run, err);

	if (r < 0)
		return r;

	clock_gettime(CLOCK_MONOTONIC, &run->begin);
	r = lh_cli_choose_backend(run->ex->scenario, &run->backend, &run->kernel, err);
	if (r == 0 && !run->command)
		r = run->ex->scenario->workload.mode == LH_MODE_TRAIN
			    ? lh_cli_learner_path(run->ex->scenario->workload.train.device,
						  &run->trainer, err)
			    : lh_cli_trainer_path(&run->trainer, err);
	if (r == 0)
		r = lh_run_open_signals(run->ex->command != NULL, &run->stop_fd, err);
	if (r == 0)
		r = lh_run_folder_make(run->ex->out, &run->dir, &run->lock_fd, err);
	return r < 0 ? r : write_run_json(run, "running", err);
}

static void run_done(struct lh_run *run)
{
	if (run->stop_fd >= 0)
		close(run->stop_fd);
	if (run->lock_fd >= 0)
		close(run->lock_fd);
	free(run->dir);
	free(run->trainer);
	free(run->kernel);
}

int lh_execute(const struct lh_execution *ex, struct lh_results *ret_results, bool *ret_has_results,
	       struct lh_error *err)
{
	struct lh_run run = {.ex = ex, .stop_fd = -1, .lock_fd = -1};
	struct lh_command command = {.environment = NULL};
	int r = 0;

	*ret_has_results = false;
	if (lh_scenario_has_command(ex->scenario) && !ex->verifies) {
		r = make_command(&run, &command, err);
		run.command = &command;
	}
	if (r == 0)
		r = begin(&run, err);
	if (r == 0)
		r = finish(&run, run_workload(&run, err), ret_results, ret_has_results, err);
	clear_away(&run, r, err);
	run_done(&run);
	free(command.cwd);
	free(command.ranks);
	return r;
}

/* Runs the command, passing on what it says. */
static int run_command(struct lh_run *run, struct lh_error *err)
{
	const struct lh_execution *ex = run->ex;
	size_t n = run->command->n_ranks;
	lh_cleanup_free const char **names = calloc(n, sizeof(*names));
	struct lh_node_output *output = NULL;
	int r;

	if (!names)
		return lh_fail(err, LH_ESYS, ENOMEM, "run a command");
	for (size_t i = 0; i < n; i++)
		names[i] = ex->scenario->ranks[run->command->ranks[i]].name;
	r = lh_node_output_new(run->dir, names, n, &output, err);
	run->tick = lh_node_output_tick;
	run->context = output;
	if (r == 0)
		r = lh_run_backend(run, err);
	lh_node_output_finish(output);
	return r;
}

/* What is left of the command's run goes under out, where it is kept. */
static int keep_command(struct lh_run *run, int outcome, struct lh_error *err)
{
	struct lh_error failed = {0};
	int r;

	if (!run->ex->keeps || outcome == LH_EENV || outcome == LH_ERUN)
		return outcome;
	r = write_run_json(run, status_name(outcome), &failed);
	if (r == 0)
		r = write_wall_json(run, &failed);
	if (r == 0 && rename(run->dir, run->ex->out) < 0)
		r = lh_fail(&failed, LH_ESYS, errno, "rename %s to %s", run->dir, run->ex->out);
	if (r < 0 && outcome == 0)
		*err = failed;
	return outcome == 0 ? r : outcome;
}

int lh_execute_command(const struct lh_execution *ex, struct lh_ending *ret_ending,
		       struct lh_error *err)
{
	struct lh_run run = {.ex = ex, .command = ex->command, .stop_fd = -1, .lock_fd = -1};
	struct lh_error ignored;
	int r = begin(&run, err);

	if (ex->scenario->run.charge_cpu)
		lh_log(LH_LOG_INFO, "CPU time passes in virtual time: another run differs");
	if (r == 0) {
		r = run_command(&run, err);
		lh_ending_read(run.dir, ret_ending);
		r = keep_command(&run, r, err);
	}
	if (ex->keeps)
		clear_away(&run, r, err);
	else if (run.dir)
		lh_dir_remove(run.dir, &ignored);
	run_done(&run);
	return r;
}
