/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of the command share. Only cli/ prints and exits. */
#ifndef LH_CLI_CLI_H
#define LH_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "scenarios/scenario.h"

/* A verb. run gets argv from the verb's own name on and returns the exit status. */
struct lh_verb {
	const char *name;
	const char *args; /* for the help */
	const char *doc;
	int (*run)(int argc, char **argv);
};

/* All verbs; ends with name NULL. */
extern const struct lh_verb lh_verbs[];

int lh_cmd_run(int argc, char **argv);
int lh_cmd_exec(int argc, char **argv);
int lh_cmd_shell(int argc, char **argv);
int lh_cmd_rerun(int argc, char **argv);
int lh_cmd_verify(int argc, char **argv);
int lh_cmd_list(int argc, char **argv);
int lh_cmd_plot(int argc, char **argv);
int lh_cmd_capture(int argc, char **argv);
int lh_cmd_reproduce(int argc, char **argv);
int lh_cmd_import(int argc, char **argv);
int lh_cmd_train(int argc, char **argv);
int lh_cmd_profile(int argc, char **argv);
int lh_cmd_doctor(int argc, char **argv);
int lh_cmd_schema(int argc, char **argv);

/* Prints the messages of diag and err to standard error; returns err's exit status. */
int lh_cli_fail(const struct lh_diag *diag, const struct lh_error *err);

/* Prints "longhaul VERB: message" and where help is; returns 2. */
int lh_cli_usage(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The catalog folder: LONGHAUL_DATADIR, else where it was installed. */
const char *lh_cli_catalog_dir(void);

/* The folder of gnuplot templates: LONGHAUL_PLOTDIR, else where it was installed. */
const char *lh_cli_plot_dir(void);

/* The absolute path of longhaul-trainer: LONGHAUL_TRAINER, else beside this program, else
 * where it was installed; owned by the caller. LH_EENV. */
int lh_cli_trainer_path(char **ret_path, struct lh_error *err);

/* The same of longhaul-learner, by LONGHAUL_LEARNER; for device cuda (NULL: any other) of
 * longhaul-learner-cuda, by LONGHAUL_LEARNER_CUDA: LH_EENV where it was built without CUDA. */
int lh_cli_learner_path(const char *device, char **ret_path, struct lh_error *err);

/* The absolute path of this program; owned by the caller. */
int lh_cli_program_path(char **ret_path, struct lh_error *err);

/* The guest's kernel: LONGHAUL_GUEST_KERNEL, else what build-kernel --path prints; owned by
 * the caller. LH_EENV where there is none. */
int lh_cli_guest_kernel(char **ret_path, struct lh_error *err);

/* Whether this kernel has netem and lets us use it; if not, why (borrowed static text or in buf).
 */
bool lh_cli_host_is_fit(char *why, size_t n_why);

/* Whether nodes may be here and their network in a guest; if not, why and what mends it. */
bool lh_cli_has_host_nodes(char *why, size_t n_why);

/* The backend that fits a scenario: the host's kernel where it can and the clock is real; and the
 * guest's kernel where that is needed, owned by the caller. LH_EENV, LH_EINPUT. */
int lh_cli_choose_backend(const struct lh_scenario *scenario, enum lh_backend *ret_backend,
			  char **ret_kernel, struct lh_error *err);

/* Reads the scenario that a results folder holds and, owned by the caller, the folder that its
 * command ran in, or NULL (ret_folder may be NULL). LH_EINPUT where it is none. */
int lh_cli_read_run(const char *dir, struct lh_scenario **ret_scenario, char **ret_folder,
		    struct lh_diag *diag, struct lh_error *err);

/* Prints what the run in a results folder found out about this machine: nothing on the virtual
 * clock. */
void lh_cli_print_fitness(const char *out);

/* Width of the terminal on standard output in columns; 0 where it is none. */
size_t lh_cli_width(void);

#endif
