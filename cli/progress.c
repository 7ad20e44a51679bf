/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of a run. See progress.h. */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"

enum { LINE_EVERY_S = 10, READ_BYTES = 65536 };

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void lh_progress_start(struct lh_progress *p, const char *run_dir, const char *name,
		       int64_t n_epochs, bool quiet)
{
	memset(p, 0, sizeof(*p));
	p->run_dir = run_dir;
	p->name = name;
	p->n_epochs = n_epochs;
	p->quiet = quiet;
	p->on_terminal = isatty(STDERR_FILENO);
	p->begin_ns = now_ns();
	p->next_ns = p->begin_ns + (p->on_terminal ? 0 : LINE_EVERY_S * INT64_C(1000000000));
}

/* Counts the epochs in what rank 0 has written since the last look; whole lines only. */
static void look(struct lh_progress *p)
{
	lh_cleanup_free char *path = lh_path_join(p->run_dir, "events/rank-0.jsonl");
	lh_cleanup_fclose FILE *f = path ? fopen(path, "re") : NULL;
	char line[READ_BYTES];

	if (!f || fseek(f, (long)p->read_bytes, SEEK_SET) < 0)
		return;
	if (!p->training_ns)
		p->training_ns = now_ns();
	while (fgets(line, sizeof(line), f)) {
		size_t n = strlen(line);

		if (line[n - 1] != '\n')
			return;
		p->read_bytes += n;
		if (strstr(line, "\"event\":\"epoch\"") || strstr(line, "\"event\":\"progress\"")) {
			p->epochs_done++;
			p->epoch_ns = now_ns();
		}
	}
}

static void print_state(const struct lh_progress *p, char *buf, size_t n_buf)
{
	double wall_s = (double)(now_ns() - p->begin_ns) / 1e9;
	double per_epoch_s = (double)(p->epoch_ns - p->training_ns) / 1e9 /
			     (double)(p->epochs_done ? p->epochs_done : 1);
	double since_s = (double)(now_ns() - p->epoch_ns) / 1e9;
	double left_s = per_epoch_s * (double)(p->n_epochs - p->epochs_done) - since_s;

	if (!p->training_ns)
		snprintf(buf, n_buf, "%s: building and measuring the network (%.0f s)", p->name,
			 wall_s);
	else if (!p->n_epochs)
		snprintf(buf, n_buf, "%s: %lld reports of rank 0 (%.0f s)", p->name,
			 (long long)p->epochs_done, wall_s);
	else if (!p->epochs_done)
		snprintf(buf, n_buf, "%s: epoch 1 of %lld (%.0f s)", p->name,
			 (long long)p->n_epochs, wall_s);
	else
		snprintf(buf, n_buf, "%s: %lld of %lld epochs, about %.0f s left (%.0f s)", p->name,
			 (long long)p->epochs_done, (long long)p->n_epochs, left_s > 0 ? left_s : 0,
			 wall_s);
}

void lh_progress_tick(void *context)
{
	struct lh_progress *p = context;
	char state[256];

	if (p->quiet)
		return;
	look(p);
	if (now_ns() < p->next_ns)
		return;
	print_state(p, state, sizeof(state));
	if (p->on_terminal) {
		fprintf(stderr, "\r\033[K%s", state);
		fflush(stderr);
		return;
	}
	fprintf(stderr, "%s\n", state);
	p->next_ns += LINE_EVERY_S * INT64_C(1000000000);
}

void lh_progress_stop(struct lh_progress *p)
{
	if (!p->quiet && p->on_terminal)
		fputs("\r\033[K", stderr);
}
