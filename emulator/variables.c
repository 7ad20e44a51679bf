/* SPDX-License-Identifier: Apache-2.0 */
/* What a program finds in its environment. See variables.h. */
#include "emulator/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/command.h"

enum { MASTER_PORT = 29500 };

/* Host names of all nodes, with blanks between. Owned by the caller. */
static char *all_host_names(const struct lh_plan *plan)
{
	char *all = NULL;
	size_t size;
	FILE *f = open_memstream(&all, &size);

	for (size_t i = 0; f && i < plan->n_ranks; i++) {
		lh_cleanup_free char *name = lh_host_name(plan->ranks[i].name);

		fprintf(f, "%s%s", i ? " " : "", name ? name : "");
	}
	if (f)
		fclose(f);
	return all;
}

static void add(struct lh_variables *v, char *text)
{
	if (text && v->n < LH_VARIABLES_MAX)
		v->list[v->n++] = text;
	else
		free(text);
}

/* The user's search path. */
static const char *path_of(char *const *user)
{
	for (; *user; user++)
		if (strncmp(*user, "PATH=", 5) == 0)
			return *user + 5;
	return "/usr/local/bin:/usr/bin:/bin";
}

void lh_variables_make(const struct lh_plan *plan, const struct lh_variables_spec *spec,
		       char *const *user, struct lh_variables *v)
{
	const struct lh_plan_rank *own = &plan->ranks[spec->member];
	const struct lh_plan_rank *master = &plan->ranks[spec->master];
	const struct lh_plan_node *node = &plan->nodes[own->node];
	lh_cleanup_free char *names = all_host_names(plan);
	lh_cleanup_free char *host_name = lh_host_name(own->name);
	char address[16];

	v->n = 0;
	add(v, lh_strf("RANK=%zu", spec->rank));
	add(v, lh_strf("WORLD_SIZE=%zu", spec->n_ranks));
	add(v, lh_strf("LOCAL_RANK=%zu", own->local));
	add(v, lh_strf("LOCAL_WORLD_SIZE=%zu", node->n_ranks));
	add(v, lh_strf("MASTER_ADDR=%s",
		       lh_address_format(master->address, address, sizeof(address))));
	add(v, lh_strf("MASTER_PORT=%d", MASTER_PORT));
	add(v, strdup("NCCL_SOCKET_IFNAME==eth0"));
	add(v, strdup("GLOO_SOCKET_IFNAME=eth0"));
	add(v, lh_strf("NCCL_HOSTID=%s", host_name ? host_name : ""));
	add(v, lh_strf("HOSTNAME=%s", host_name ? host_name : ""));
	add(v, lh_strf("LONGHAUL_NODE=%s", own->name));
	add(v, lh_strf("LONGHAUL_SITE=%s", plan->scenario->network.sites[node->site].name));
	add(v, lh_strf("LONGHAUL_RANK=%zu", spec->member));
	add(v, lh_strf("LONGHAUL_ADDRESS=%s",
		       lh_address_format(own->address, address, sizeof(address))));
	add(v, lh_strf("LONGHAUL_HOSTS=%s", names ? names : ""));
	if (node->n_ranks > 1)
		add(v, lh_strf("LONGHAUL_VM=%s", node->name));
	add(v, lh_strf("LONGHAUL_CLOCK=%s",
		       plan->scenario->run.clock == LH_CLOCK_VIRTUAL ? "virtual" : "real"));
	add(v, lh_strf("LONGHAUL_INCARNATION=%u", spec->incarnation));
	if (spec->doors_folder)
		add(v, lh_strf("PATH=%s:%s", spec->doors_folder, path_of(user)));
	if (spec->report_path)
		add(v, lh_strf("LONGHAUL_PROGRESS=%s", spec->report_path));
	/* a report that waits in a buffer would be stamped late */
	if (plan->scenario->workload.progress.pattern)
		add(v, strdup("PYTHONUNBUFFERED=1"));
}

/* Whether one of ours has the name of this NAME=VALUE. */
static bool is_replaced(const struct lh_variables *ours, const char *variable)
{
	size_t n = strcspn(variable, "=") + 1;

	for (size_t i = 0; i < ours->n; i++)
		if (strncmp(ours->list[i], variable, n) == 0)
			return true;
	return false;
}

char **lh_variables_merge(char *const *user, const struct lh_variables *ours)
{
	size_t n = 0, used = 0;
	char **all;

	while (user[n])
		n++;
	all = calloc(n + ours->n + 1, sizeof(*all));
	if (!all)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!is_replaced(ours, user[i]))
			all[used++] = user[i];
	memcpy(all + used, ours->list, ours->n * sizeof(*all));
	return all;
}

void lh_variables_done(struct lh_variables *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->list[i]);
	v->n = 0;
}
