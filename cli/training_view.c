/* SPDX-License-Identifier: Apache-2.0 */
/* A training as a person sees it. See training_view.h. */
#include "cli/training_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trainer/clock.h"

enum { LINE_EVERY_S = 10, TERMINAL_EVERY_MS = 100 };

static const struct lh_column columns[LH_LOSS_N_COLUMNS] = {
	[LH_LOSS_STEP] = {.name = "step", .kind = LH_CELL_INT},
	[LH_LOSS_EPOCH] = {.name = "epoch", .kind = LH_CELL_REAL, .csv_decimals = 6},
	[LH_LOSS_LR] = {.name = "lr", .kind = LH_CELL_REAL, .csv_decimals = 12},
	[LH_LOSS_LOSS] = {.name = "loss", .kind = LH_CELL_REAL, .csv_decimals = 9},
	[LH_LOSS_ACCURACY] = {.name = "accuracy", .kind = LH_CELL_REAL, .csv_decimals = 9},
	[LH_LOSS_GRAD_NORM] = {.name = "grad_norm", .kind = LH_CELL_REAL, .csv_decimals = 9},
	[LH_LOSS_TEST_LOSS] = {.name = "test_loss", .kind = LH_CELL_REAL, .csv_decimals = 9},
	[LH_LOSS_TEST_ACCURACY] = {.name = "test_accuracy",
				   .kind = LH_CELL_REAL,
				   .csv_decimals = 9},
	[LH_LOSS_BITS_PER_BYTE] = {.name = "test_bits_per_byte",
				   .kind = LH_CELL_REAL,
				   .csv_decimals = 9},
	[LH_LOSS_WORD_ACCURACY] = {.name = "test_word_accuracy",
				   .kind = LH_CELL_REAL,
				   .csv_decimals = 9},
};

void lh_training_view_init(struct lh_training_view *v, bool is_silent, bool quiet)
{
	*v = (struct lh_training_view){
		.is_silent = is_silent, .quiet = quiet, .on_terminal = isatty(STDERR_FILENO)};
	lh_table_init(&v->rows, columns, LH_LOSS_N_COLUMNS);
}

void lh_training_view_done(struct lh_training_view *v)
{
	lh_table_done(&v->rows);
	json_decref(v->begin);
	json_decref(v->test);
	json_decref(v->end);
}

static double number(const json_t *event, const char *key)
{
	const json_t *value = json_object_get(event, key);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static int64_t whole(const json_t *event, const char *key)
{
	return json_integer_value(json_object_get(event, key));
}

static const char *text(const json_t *event, const char *key)
{
	const char *value = json_string_value(json_object_get(event, key));

	return value ? value : "";
}

/* ---- the table ------------------------------------------------------------------------------ */

static void keep_row(struct lh_training_view *v)
{
	if (!v->has_row)
		return;
	lh_table_row(&v->rows);
	lh_table_put_int(&v->rows, (int64_t)v->row[LH_LOSS_STEP]);
	for (int i = LH_LOSS_EPOCH; i < LH_LOSS_N_COLUMNS; i++)
		lh_table_put_real(&v->rows, v->row[i]);
	v->has_row = false;
}

static void begin_row(struct lh_training_view *v, const json_t *event)
{
	keep_row(v);
	for (int i = 0; i < LH_LOSS_N_COLUMNS; i++)
		v->row[i] = NAN;
	v->row[LH_LOSS_STEP] = number(event, "step");
	v->row[LH_LOSS_EPOCH] = number(event, "epoch");
	v->has_row = true;
}

static void take_learnt(struct lh_training_view *v, const json_t *event)
{
	double counted = number(event, "counted");

	begin_row(v, event);
	v->row[LH_LOSS_LR] = number(event, "lr");
	v->row[LH_LOSS_LOSS] = number(event, "loss");
	v->row[LH_LOSS_ACCURACY] = number(event, "accuracy");
	v->row[LH_LOSS_GRAD_NORM] = number(event, "grad_norm");
	v->loss_sum += number(event, "loss") * counted;
	v->right_sum += number(event, "accuracy") * counted;
	v->n_counted += counted;
}

/* ---- what is told --------------------------------------------------------------------------- */

static void print_size(const char *before, int64_t bytes)
{
	printf("%s%.1f MB", before, (double)bytes / 1e6);
}

static void print_begin(const json_t *begin)
{
	const json_t *device = json_object_get(begin, "device");
	const json_t *memory = json_object_get(begin, "memory");
	int64_t others = whole(memory, "state_bytes") + whole(memory, "inputs_bytes") +
			 whole(memory, "workspace_bytes");

	printf("%s: %" PRId64 " parameters; %" PRId64 " samples to train, %" PRId64
	       " to test; %" PRId64 " steps\n",
	       text(begin, "model"), whole(begin, "parameters"), whole(begin, "samples"),
	       whole(begin, "test_samples"), whole(begin, "steps"));
	printf("device %s: %s%s%s, %" PRId64 " thread%s, %s\n", text(device, "name"),
	       *text(device, "processor") ? text(device, "processor") : "this machine",
	       *text(device, "software") ? "; " : "", text(device, "software"),
	       whole(device, "threads"), whole(device, "threads") == 1 ? "" : "s",
	       text(device, "precision"));
	print_size("memory: weights ", whole(memory, "weights_bytes"));
	print_size(" + gradients ", whole(memory, "gradients_bytes"));
	print_size(" + optimizer ", whole(memory, "optimizer_bytes"));
	print_size(" + activations ", whole(memory, "activations_bytes"));
	print_size(" + inputs and others ", others);
	print_size(" = ", whole(memory, "sum_bytes"));
	printf("\n\n");
}

/* The task's own measure of the test data, as the last column. */
static void print_own_measure(const json_t *test)
{
	if (!isnan(number(test, "bits_per_byte")))
		printf("  %9.4f", number(test, "bits_per_byte"));
	if (!isnan(number(test, "word_accuracy")))
		printf("  %7.2f %%", 100 * number(test, "word_accuracy"));
}

static void print_test(struct lh_training_view *v, const json_t *test)
{
	if (!v->has_head)
		printf("%8s %8s %10s %9s %10s %10s %14s%s%s\n", "epoch", "step", "lr", "loss",
		       "accuracy", "test loss", "test accuracy",
		       isnan(number(test, "bits_per_byte")) ? "" : "  bits/byte",
		       isnan(number(test, "word_accuracy")) ? "" : "  words ok");
	v->has_head = true;
	printf("%8.4g %8" PRId64, number(test, "epoch"), whole(test, "step"));
	if (v->n_counted > 0)
		printf(" %10.3g %9.4f %8.2f %%", v->row[LH_LOSS_LR], v->loss_sum / v->n_counted,
		       100 * v->right_sum / v->n_counted);
	else
		printf(" %10s %9s %10s", "-", "-", "-");
	printf(" %10.4f %12.2f %%", number(test, "loss"), 100 * number(test, "accuracy"));
	print_own_measure(test);
	printf("\n");
	fflush(stdout);
	v->loss_sum = v->right_sum = v->n_counted = 0;
}

void lh_training_view_clear(void *context)
{
	const struct lh_training_view *v = context;

	if (!v->quiet && v->on_terminal)
		fputs("\r\033[K", stderr);
}

/* On a terminal one line that changes, elsewhere a line every ten seconds. */
static void show_progress(struct lh_training_view *v, const json_t *event)
{
	int64_t now_ns = lh_clock_now_ns(), steps = whole(v->begin, "steps");
	int64_t done = whole(event, "step") - whole(v->begin, "first_step");
	double seconds = number(event, "wall_s");
	double left_s =
		done > 0 ? seconds / (double)done * (double)(steps - whole(event, "step")) : 0;

	if (v->quiet || now_ns < v->next_ns)
		return;
	v->next_ns = now_ns + (v->on_terminal ? TERMINAL_EVERY_MS * LH_NS_PER_MS
					      : LINE_EVERY_S * LH_NS_PER_S);
	lh_training_view_clear(v);
	fprintf(stderr,
		"%s: step %" PRId64 " of %" PRId64 ", epoch %.2f, loss %.4f, accuracy %.1f %%, "
		"about %.0f s left%s",
		text(v->begin, "model"), whole(event, "step"), steps, number(event, "epoch"),
		number(event, "loss"), 100 * number(event, "accuracy"), left_s,
		v->on_terminal ? "" : "\n");
	fflush(stderr);
}

/* ---- events --------------------------------------------------------------------------------- */

static void keep(json_t **kept, const json_t *event)
{
	json_decref(*kept);
	*kept = json_deep_copy(event);
}

static void on_begin(struct lh_training_view *v, const json_t *event)
{
	keep(&v->begin, event);
	v->begin_ns = lh_clock_now_ns();
	v->next_ns = v->begin_ns + (v->on_terminal ? 0 : LINE_EVERY_S * LH_NS_PER_S);
	if (!v->is_silent)
		print_begin(event);
	fflush(stdout);
}

static void on_learn(struct lh_training_view *v, const json_t *event)
{
	take_learnt(v, event);
	show_progress(v, event);
}

static void on_evaluate(struct lh_training_view *v, const json_t *event)
{
	if (!v->has_row || v->row[LH_LOSS_STEP] != number(event, "step"))
		begin_row(v, event);
	v->row[LH_LOSS_TEST_LOSS] = number(event, "loss");
	v->row[LH_LOSS_TEST_ACCURACY] = number(event, "accuracy");
	v->row[LH_LOSS_BITS_PER_BYTE] = number(event, "bits_per_byte");
	v->row[LH_LOSS_WORD_ACCURACY] = number(event, "word_accuracy");
	keep(&v->test, event);
	lh_training_view_clear(v);
	if (!v->is_silent)
		print_test(v, event);
}

static void on_resume(struct lh_training_view *v, const json_t *event)
{
	if (!v->is_silent)
		printf("goes on after step %" PRId64 " (%s)\n", whole(event, "step"),
		       text(event, "path"));
}

static void on_skipped(struct lh_training_view *v, const json_t *event)
{
	lh_training_view_clear(v);
	fprintf(stderr, "longhaul: passed over: %s\n", text(event, "why"));
}

static void on_checkpoint(struct lh_training_view *v, const json_t *event)
{
	(void)v;
	(void)event;
}

static void on_end(struct lh_training_view *v, const json_t *event)
{
	keep(&v->end, event);
}

int lh_training_view_event(void *context, const json_t *event, struct lh_error *err)
{
	static const struct {
		const char *name;
		void (*take)(struct lh_training_view *view, const json_t *event);
	} kinds[] = {
		{"begin", on_begin},   {"learn", on_learn},	{"evaluate", on_evaluate},
		{"resume", on_resume}, {"skipped", on_skipped}, {"checkpoint", on_checkpoint},
		{"end", on_end},
	};
	const char *name = text(event, "event");

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, name) == 0) {
			kinds[i].take(context, event);
			return 0;
		}
	}
	return lh_fail(err, LH_ERUN, 0, "longhaul-learner told of '%.60s', which is not known",
		       name);
}

static void print_end(const struct lh_training_view *v)
{
	double others = number(v->end, "files_bytes") + number(v->end, "before_bytes");
	double peak = number(v->end, "peak_bytes");

	printf("\n%" PRId64 " steps in %.1f s: %.0f samples/s\n", whole(v->end, "steps"),
	       number(v->end, "training_s"), number(v->end, "samples_per_s"));
	if (v->test) {
		printf("test loss %.4f, accuracy %.2f %%", number(v->test, "loss"),
		       100 * number(v->test, "accuracy"));
		if (!isnan(number(v->test, "bits_per_byte")))
			printf(", %.4f bits per byte", number(v->test, "bits_per_byte"));
		if (!isnan(number(v->test, "word_accuracy")))
			printf(", %.2f %% of the words whole",
			       100 * number(v->test, "word_accuracy"));
		printf("\n");
	}
	printf("memory: at most %.1f MB, of which %.1f MB programs and files; %.1f MB for the "
	       "model, planned %.1f MB\n",
	       peak / 1e6, others / 1e6, (peak - others) / 1e6,
	       number(json_object_get(v->begin, "memory"), "sum_bytes") / 1e6);
}

int lh_training_view_finish(struct lh_training_view *v, struct lh_error *err)
{
	keep_row(v);
	lh_training_view_clear(v);
	if (!v->begin || !v->end)
		return lh_fail(err, LH_ERUN, 0, "longhaul-learner did not tell of its end");
	if (!v->is_silent)
		print_end(v);
	return lh_table_check(&v->rows, err);
}
