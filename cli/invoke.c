/* SPDX-License-Identifier: Apache-2.0 */
/* Running a scenario's command for a person. See invoke.h. */
#include "cli/invoke.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/capture_option.h"
#include "cli/cli.h"
#include "cli/execute.h"
#include "cli/terminal.h"
#include "core/cleanup.h"
#include "core/file.h"

static const char temporary_prefix[] = "longhaul-exec-";

/* Whether a rank is the one that is named, or of the node that is; with neither, the first. */
static bool is_chosen(const struct lh_invocation *in, size_t rank)
{
	const struct lh_scenario *sc = in->scenario;

	if (in->all || !in->node)
		return in->all || rank == 0;
	return strcmp(in->node, sc->ranks[rank].name) == 0 ||
	       (strcmp(in->node, lh_node_of(sc, rank)->name) == 0 &&
		(!in->terminal || sc->ranks[rank].local == 0));
}

/* Which ranks run the command. */
static int choose_ranks(const struct lh_invocation *in, struct lh_command *command,
			struct lh_error *err)
{
	const struct lh_scenario *sc = in->scenario;

	command->ranks = calloc(sc->n_ranks, sizeof(*command->ranks));
	if (!command->ranks)
		return lh_fail(err, LH_ESYS, ENOMEM, "choose nodes");
	for (size_t i = 0; i < sc->n_ranks; i++)
		if (is_chosen(in, i))
			command->ranks[command->n_ranks++] = i;
	if (!command->n_ranks)
		return lh_fail(err, LH_EUSAGE, 0, "no node '%s'; there are %zu, from %s to %s",
			       in->node, sc->n_ranks, sc->ranks[0].name,
			       sc->ranks[sc->n_ranks - 1].name);
	return 0;
}

/* Where the run is made when nothing of it is kept; owned by the caller. */
static char *temporary_out(void)
{
	const char *tmp = getenv("TMPDIR");

	tmp = tmp && *tmp ? tmp : "/tmp";
	return lh_strf("%s/%s%d", tmp, temporary_prefix, (int)getpid());
}

/* Says how it ended; the exit status. */
static int conclude(int r, const struct lh_ending *ending, const struct lh_error *err)
{
	bool is_plain = ending->n_nodes == 1 && ending->status < 124;

	if (ending->what && !is_plain && r != LH_ESIGNAL)
		fprintf(stderr, "longhaul: %s\n", ending->what);
	if (r < 0)
		lh_cli_fail(NULL, err);
	return ending->status && r != LH_ESIGNAL ? ending->status : lh_error_exit_status(err);
}

/* Runs it with a terminal, where it has one. */
static int run(struct lh_execution *ex, enum lh_terminal_kind terminal, struct lh_ending *ending,
	       struct lh_error *err)
{
	struct lh_relay *relay = NULL;
	int r = 0;

	if (terminal) {
		lh_block_signals(true);
		r = lh_relay_start(terminal, &relay, &ex->link_fd, err);
	}
	if (r == 0)
		r = lh_execute_command(ex, ending, err);
	lh_relay_stop(relay);
	return r;
}

int lh_invoke(const struct lh_invocation *in)
{
	lh_cleanup_free char *cwd = getcwd(NULL, 0);
	lh_cleanup_free char *out = in->out ? strdup(in->out) : temporary_out();
	struct lh_command command = {.environment = environ,
				     .cwd = cwd,
				     .time_limit_ns = in->time_limit_ns,
				     .keep_going = in->keep_going,
				     .terminal = in->terminal};
	struct lh_execution ex = {.scenario = in->scenario,
				  .out = out,
				  .command = &command,
				  .stuck_after_ns = in->stuck_after_ns,
				  .keeps = in->out != NULL};
	struct lh_ending ending = {.status = 0};
	struct lh_error err = {0};
	int status, r = choose_ranks(in, &command, &err);

	if (in->scenario->workload.folder)
		command.cwd = in->scenario->workload.folder;
	if (r == 0 && in->scenario->run.capture.n_where && !in->out)
		r = lh_fail(&err, LH_EUSAGE, 0,
			    "packets are to be captured, and nothing is kept without --out");
	if (r == 0 && (!cwd || !out))
		r = lh_fail(&err, LH_ESYS, errno, "find the current folder");
	if (r == 0)
		r = run(&ex, in->terminal, &ending, &err);
	if (in->scenario->run.capture.n_where && in->out)
		lh_capture_option_tell(in->out);
	status = conclude(r, &ending, &err);
	free(command.ranks);
	lh_ending_done(&ending);
	return status;
}
