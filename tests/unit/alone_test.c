/* SPDX-License-Identifier: Apache-2.0 */
/* Training alone: its job, its events, where it stops and goes on; and each task's own measure. */
#include "trainer/learn/alone.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/test.h"
#include "trainer/learn/learner_internal.h"

#define TRAIN                                                                                 \
	"\"train\": {\"settings\": {\"classes\": 4}, \"evaluate\": 2,"                        \
	" \"data\": {\"kind\": \"synthetic-images\", \"samples\": 40, \"test_samples\": 30}," \
	" \"optimizer\": {\"kind\": \"sgd\", \"lr\": 0.02, \"momentum\": 0.9},"               \
	" \"schedule\": {\"kind\": \"cosine\"}, \"threads\": 1}"

static json_t *parse(const char *text)
{
	json_error_t why;
	json_t *json = json_loads(text, 0, &why);

	if (!json)
		fail_msg("%s: %s", why.text, text);
	return json;
}

/* Who reads the events, and asks to stop when a text comes. */
struct listener {
	char text[1 << 16];
	size_t n;
	const char *stop_at; /* NULL: never */
	int signals[2];	     /* a pipe in place of a signalfd */
};

static ssize_t listen_to(void *cookie, const char *text, size_t n)
{
	const struct signalfd_siginfo info = {.ssi_signo = SIGTERM};
	struct listener *l = cookie;

	assert_true(l->n + n < sizeof(l->text));
	memcpy(l->text + l->n, text, n);
	l->n += n;
	l->text[l->n] = '\0';
	if (l->stop_at && strstr(l->text, l->stop_at)) {
		l->stop_at = NULL;
		assert_int_equal(write(l->signals[1], &info, sizeof(info)), sizeof(info));
	}
	return (ssize_t)n;
}

/* What a job tells, as an array; its result in *ret_r. It is asked to stop when stop_at (not NULL)
 * has been told; "" at once. */
static json_t *run_job(const char *text, const char *stop_at, int *ret_r, struct lh_error *err)
{
	lh_cleanup_json json_t *job = parse(text);
	lh_cleanup_free struct listener *l = calloc(1, sizeof(*l));
	json_t *events = json_array();
	char *rest, *line;
	FILE *out;

	assert_non_null(l);
	l->stop_at = stop_at;
	assert_int_equal(pipe2(l->signals, O_NONBLOCK), 0);
	out = fopencookie(l, "w", (cookie_io_functions_t){.write = listen_to});
	assert_non_null(out);
	if (stop_at && !*stop_at)
		listen_to(l, "", 0);
	*ret_r = lh_alone_run(job, out, l->signals[0], err);
	fclose(out);
	close(l->signals[0]);
	close(l->signals[1]);
	for (rest = l->text; (line = strsep(&rest, "\n")) && *line;)
		json_array_append_new(events, parse(line));
	return events;
}

static json_t *run_well(const char *text)
{
	struct lh_error err = {0};
	json_t *events;
	int r;

	events = run_job(text, NULL, &r, &err);
	if (r)
		fail_msg("%s", err.message);
	return events;
}

/* The steps of all events of that name, with blanks. */
static void list_steps(const json_t *events, const char *name, char *ret_text, size_t size)
{
	const json_t *event;
	size_t i, n = 0;

	*ret_text = '\0';
	json_array_foreach (events, i, event)
		if (strcmp(json_string_value(json_object_get(event, "event")), name) == 0)
			n += (size_t)snprintf(ret_text + n, size - n, "%s%lld", n ? " " : "",
					      json_integer_value(json_object_get(event, "step")));
}

static const json_t *last_of(const json_t *events, const char *name)
{
	const json_t *event, *last = NULL;
	size_t i;

	json_array_foreach (events, i, event)
		if (strcmp(json_string_value(json_object_get(event, "event")), name) == 0)
			last = event;
	return last;
}

static double number(const json_t *event, const char *key)
{
	return json_number_value(json_object_get(event, key));
}

static void test_all_faults_of_a_job_are_told(void **state)
{
	static const char *const expected[] = {"colour: unknown key",
					       "resume: expected true or false",
					       "seed: expected a whole number",
					       "batch: expected a whole number",
					       "steps: expected a whole number",
					       "warm_up_ratio: expected a number from 0"};
	lh_cleanup_json json_t *json =
		parse("{\"model\": \"lenet5\", \"train\": {}, \"colour\": 1, \"batch\": 0,"
		      " \"steps\": \"x\", \"seed\": -1, \"warm_up_ratio\": 1, \"resume\": 3}");
	struct lh_alone_job job;
	struct lh_diag diag = {0};

	(void)state;
	lh_alone_job_read(json, &job, &diag);
	assert_int_equal(diag.n_messages, N_ELEMENTS(expected));
	for (size_t i = 0; i < N_ELEMENTS(expected); i++)
		assert_non_null(strstr(diag.messages[i], expected[i]));
	lh_diag_done(&diag);
}

static void test_what_does_not_fit_together_is_told(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"\"batch\": 10, \"micro_batch\": 4, \"steps\": 1", "multiple of micro_batch, 4"},
		{"\"batch\": 10, \"steps\": 1, \"epochs\": 1", "expected one of epochs and steps"},
		{"\"batch\": 10", "expected one of epochs and steps"},
		{"\"steps\": 1", "batch: missing"},
		{"\"batch\": 1, \"steps\": 1, \"resume\": true", "the folder to write them to"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *text =
			lh_strf("{\"model\": \"lenet5\", %s, " TRAIN "}", cases[i].text);
		lh_cleanup_json json_t *json = parse(text);
		struct lh_alone_job job;
		struct lh_diag diag = {0};

		lh_alone_job_read(json, &job, &diag);
		assert_int_equal(diag.n_messages, 1);
		if (!strstr(diag.messages[0], cases[i].message))
			fail_msg("%s: %s", cases[i].text, diag.messages[0]);
		lh_diag_done(&diag);
	}
}

/* 40 samples in batches of 8: five steps an epoch; looks come after every second epoch and the last
 * step, rows besides every fourth step. */
static void test_looks_and_rows_come_when_they_are_due(void **state)
{
	lh_cleanup_json json_t *events =
		run_well("{\"model\": \"lenet5\", \"batch\": 8, \"micro_batch\": 4, \"epochs\": 5,"
			 " \"log_every\": 4, " TRAIN "}");
	char steps[128];

	(void)state;
	list_steps(events, "learn", steps, sizeof(steps));
	assert_string_equal(steps, "4 8 10 12 16 20 24 25");
	list_steps(events, "evaluate", steps, sizeof(steps));
	assert_string_equal(steps, "10 20 25");
	assert_int_equal((int)number(last_of(events, "begin"), "steps"), 25);
	assert_int_equal((int)number(last_of(events, "evaluate"), "counted"), 30);
	assert_int_equal((int)number(last_of(events, "end"), "steps"), 25);
	assert_near(number(last_of(events, "learn"), "epoch"), 5, 1e-12);
}

static void test_a_batch_in_pieces_is_the_whole_batch(void **state)
{
	static const char form[] = "{\"model\": \"lenet5\", \"batch\": 8, \"micro_batch\": %d,"
				   " \"steps\": 12, " TRAIN "}";
	double loss[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		lh_cleanup_free char *text = lh_strf(form, i ? 2 : 8);
		lh_cleanup_json json_t *events = run_well(text);

		loss[i] = number(last_of(events, "evaluate"), "loss");
	}
	/* the same gradients, summed in another order */
	assert_near(loss[1], loss[0], 1e-5);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static char *job_with(const char *dir, bool resumes, const char *weights)
{
	return lh_strf("{\"model\": \"lenet5\", \"batch\": 8, \"steps\": 10, \"log_every\": 1,"
		       " \"checkpoints\": \"%s/c\", \"checkpoint_every\": 3, \"resume\": %s,"
		       " \"weights\": \"%s/%s\", " TRAIN "}",
		       dir, resumes ? "true" : "false", dir, weights);
}

static char *read_bytes(const char *dir, const char *name, size_t *ret_size)
{
	lh_cleanup_free char *path = lh_path_join(dir, name);
	char *text;

	assert_int_equal(lh_file_read(path, 1 << 24, &text, ret_size, NULL), 0);
	return text;
}

static void test_it_stops_after_the_step_and_goes_on_bit_for_bit(void **state)
{
	char dir[] = "/tmp/lh-alone-XXXXXX";
	lh_cleanup_free char *whole = NULL, *first = NULL, *rest = NULL, *a = NULL, *b = NULL;
	struct lh_error err = {0};
	json_t *events;
	size_t n_a, n_b;
	int r;

	(void)state;
	assert_non_null(mkdtemp(dir));
	whole = lh_strf("{\"model\": \"lenet5\", \"batch\": 8, \"steps\": 10, \"weights\": "
			"\"%s/whole\", " TRAIN "}",
			dir);
	json_decref(run_well(whole));
	first = job_with(dir, false, "first");
	events = run_job(first, "\"step\":4,", &r, &err);
	assert_int_equal(r, LH_ESIGNAL);
	assert_int_equal(err.sys, SIGTERM);
	assert_int_equal((int)number(last_of(events, "end"), "steps"), 5);
	assert_int_equal((int)number(last_of(events, "end"), "signal"), SIGTERM);
	json_decref(events);
	/* its folder is not for another training */
	json_decref(run_job(first, NULL, &r, &err));
	assert_int_equal(r, LH_EUSAGE);
	rest = job_with(dir, true, "rest");
	events = run_well(rest);
	assert_int_equal((int)number(last_of(events, "begin"), "first_step"), 5);
	assert_int_equal((int)number(last_of(events, "end"), "steps"), 5);
	json_decref(events);
	a = read_bytes(dir, "whole", &n_a);
	b = read_bytes(dir, "rest", &n_b);
	assert_int_equal(n_a, n_b);
	assert_memory_equal(a, b, n_a);
	assert_int_equal(lh_dir_remove(dir, NULL), 0);
}

static void test_a_stop_before_the_first_step_leaves_no_checkpoint(void **state)
{
	char dir[] = "/tmp/lh-alone-XXXXXX";
	lh_cleanup_free char *first = NULL, *rest = NULL;
	struct lh_error err = {0};
	json_t *events;
	int r;

	(void)state;
	assert_non_null(mkdtemp(dir));
	first = job_with(dir, false, "first");
	events = run_job(first, "", &r, &err);
	assert_int_equal(r, LH_ESIGNAL);
	assert_int_equal((int)number(last_of(events, "end"), "steps"), 0);
	json_decref(events);
	rest = job_with(dir, true, "rest");
	json_decref(run_job(rest, NULL, &r, &err));
	assert_int_equal(r, LH_EINPUT);
	assert_non_null(strstr(err.message, "no whole checkpoint to go on from"));
	assert_int_equal(lh_dir_remove(dir, NULL), 0);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void test_what_does_not_fit_into_memory_is_refused_with_numbers(void **state)
{
	static const char text[] =
		"{\"model\": \"resnet152\", \"batch\": 1000000, \"steps\": 1, \"train\":"
		" {\"data\": {\"kind\": \"synthetic-images\"},"
		" \"optimizer\": {\"kind\": \"adamw\"}}}";
	struct lh_error err = {0};
	int r;

	(void)state;
	json_decref(run_job(text, NULL, &r, &err));
	assert_int_equal(r, LH_EENV);
	assert_non_null(strstr(err.message, "model resnet152 needs "));
	assert_non_null(strstr(err.message, "weights 241, gradients 241, optimizer 482"));
	assert_non_null(strstr(err.message, "MB free"));
}

static void test_memory_is_foreseen_as_it_comes(void **state)
{
	lh_cleanup_json json_t *json =
		parse("{\"model\": \"lenet5\", \"batch\": 8, \"steps\": 1, " TRAIN "}");
	const struct lh_learner_place place = {.seed = 1, .micro_batch = 8, .n_ranks = 1};
	struct lh_learner_memory foreseen, counted;
	struct lh_alone_job job;
	struct lh_learn_spec spec;
	struct lh_learner *learner;
	struct lh_diag diag = {0};

	(void)state;
	lh_alone_job_read(json, &job, &diag);
	assert_int_equal(lh_alone_spec_read(&job, &spec, NULL), 0);
	assert_int_equal(lh_learner_foresee(&spec, 8, &foreseen, NULL), 0);
	assert_int_equal(lh_learner_open(&spec, &place, &learner, NULL), 0);
	lh_learner_count_memory(learner, &counted);
	assert_int_equal(foreseen.optimizer_bytes, counted.optimizer_bytes);
	assert_int_equal(foreseen.graph.parameters_bytes, counted.graph.parameters_bytes);
	assert_int_equal(foreseen.graph.gradients_bytes, counted.graph.gradients_bytes);
	assert_int_equal(foreseen.graph.arena_bytes, counted.graph.arena_bytes);
	assert_int_equal(foreseen.graph.inputs_bytes, counted.graph.inputs_bytes);
	lh_learner_close(learner);
}

/* ---- a task's own measure ------------------------------------------------------------------- */

static struct lh_learner *open_learner(const char *model, const char *train, uint32_t micro_batch)
{
	const struct lh_learner_place place = {
		.seed = 2, .micro_batch = micro_batch, .n_ranks = 1, .evaluates = true};
	lh_cleanup_json json_t *json = parse(train);
	const struct lh_alone_job job = {.model = model, .train = json};
	struct lh_learn_spec spec;
	struct lh_learner *learner;
	struct lh_schedule schedule;
	struct lh_error err = {0};

	if (lh_alone_spec_read(&job, &spec, &err) || lh_learner_open(&spec, &place, &learner, &err))
		fail_msg("%s", err.message);
	lh_schedule_init(spec.optimizer.lr, &schedule);
	assert_int_equal(lh_learner_set_schedule(learner, &schedule, &err), 0);
	return learner;
}

static int32_t largest(const float *logits, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return (int32_t)best;
}

/* Writes each test sample token by token, each from those written before, and counts those that
 * come out whole. */
static int decode_greedily(struct lh_learner *l, uint32_t n)
{
	const struct lh_pass pass = {.is_training = false};
	int64_t rows = l->model.logits->dims[l->model.logits->n_dims - 2];
	int64_t classes = l->model.logits->dims[l->model.logits->n_dims - 1];
	lh_cleanup_free float *logits = calloc((size_t)l->model.logits->n, sizeof(*logits));
	struct lh_tensor *input = lh_graph_find(l->graph, "tokens");
	int32_t *tokens = l->batch.fields[1], *targets = l->batch.fields[2];
	int n_right = 0;

	assert_non_null(logits);
	lh_loader_seek(l->test_loader, 0);
	assert_int_equal(lh_loader_next(l->test_loader, n, l->batch.fields, NULL), 0);
	assert_int_equal(lh_learner_write_inputs(l, NULL), 0);
	for (uint32_t i = 0; i < n; i++)
		for (int64_t t = 1; t < rows; t++)
			tokens[i * rows + t] = LH_SPEECH_PAD;
	for (int64_t t = 0; t < rows; t++) {
		assert_int_equal(lh_tensor_write(l->graph, input, tokens, NULL), 0);
		assert_int_equal(lh_graph_forward(l->graph, &pass, NULL), 0);
		assert_int_equal(lh_tensor_read(l->graph, l->model.logits, LH_DATA, logits, NULL),
				 0);
		for (uint32_t i = 0; t + 1 < rows && i < n; i++)
			tokens[i * rows + t + 1] =
				largest(logits + (i * rows + t) * classes, classes);
	}
	for (uint32_t i = 0; i < n; i++) {
		bool is_right = true;

		for (int64_t t = 0; t + 1 < rows && targets[i * rows + t] != -1; t++)
			is_right = is_right && tokens[i * rows + t + 1] == targets[i * rows + t];
		n_right += is_right;
	}
	return n_right;
}

/* Greedy decoding, really done, counts the same words as the measure, at several stages. */
static void test_words_are_those_that_greedy_decoding_writes(void **state)
{
	static const char train[] =
		"{\"settings\": {\"vocabulary\": 259, \"sequence\": 6, \"positions\": 6,"
		" \"frames\": 50, \"frame_positions\": 25, \"mels\": 20, \"width\": 32,"
		" \"layers\": 1, \"heads\": 2},"
		" \"data\": {\"kind\": \"synthetic-speech\", \"samples\": 320,"
		" \"test_samples\": 32},"
		" \"optimizer\": {\"kind\": \"adamw\", \"lr\": 0.005}, \"threads\": 1}";
	struct lh_learner *l = open_learner("whisper-tiny", train, 32);
	int n_between = 0;

	(void)state;
	for (int stage = 0; stage < 6; stage++) {
		struct lh_score score;

		assert_int_equal(lh_learner_evaluate(l, &score, NULL), 0);
		assert_near(32 * score.word_accuracy, decode_greedily(l, 32), 1e-9);
		assert_true(isnan(score.bits_per_byte));
		n_between += score.word_accuracy > 0 && score.word_accuracy < 1;
		for (int i = 0; i < 30; i++) {
			assert_int_equal(lh_learner_accumulate(l, NULL), 0);
			assert_int_equal(lh_learner_step(l, NULL), 0);
		}
	}
	/* or it would have compared nothing but none and all */
	assert_true(n_between > 0);
	lh_learner_close(l);
}

/* A model that knows nothing: every token of V costs about log2 V bits, and stands for as many
 * bytes as the text has for each. */
static void test_bits_per_byte_are_of_the_texts_bytes(void **state)
{
	char dir[] = "/tmp/lh-alone-XXXXXX";
	lh_cleanup_free char *text = NULL, *vocabulary = NULL;
	static const char form[] =
		"{\"settings\": {\"vocabulary\": %d, \"sequence\": 10, \"positions\": 10,"
		" \"width\": 8, \"layers\": 1, \"heads\": 1, \"inner\": 8},"
		" \"data\": {\"kind\": \"text\", \"path\": \"%s\"%s%s%s},"
		" \"optimizer\": {\"kind\": \"adamw\"}, \"threads\": 1}";
	char words[4000];

	(void)state;
	assert_non_null(mkdtemp(dir));
	text = lh_strf("%s/text.txt", dir);
	vocabulary = lh_strf("%s/v.bpe", dir);
	for (size_t i = 0; i < sizeof(words); i++)
		words[i] = "abab cd "[i % 8];
	assert_int_equal(lh_file_write(text, words, sizeof(words), NULL), 0);
	assert_int_equal(lh_file_write(vocabulary, "longhaul-bpe 1\nmerges 2\n97 98\n256 256\n",
				       strlen("longhaul-bpe 1\nmerges 2\n97 98\n256 256\n"), NULL),
			 0);
	for (int with_pairs = 0; with_pairs < 2; with_pairs++) {
		lh_cleanup_free char *train =
			lh_strf(form, with_pairs ? 258 : 256, text,
				with_pairs ? ", \"vocabulary\": \"" : "",
				with_pairs ? vocabulary : "", with_pairs ? "\"" : "");
		struct lh_learner *l = open_learner("gpt-small", train, 4);
		/* "abab cd " is eight bytes, and five tokens with pairs: abab, blank, c, d, blank
		 */
		double bytes_per_token = with_pairs ? 8.0 / 5 : 1;
		struct lh_score score;

		assert_int_equal(lh_learner_evaluate(l, &score, NULL), 0);
		assert_near(score.bits_per_byte, score.loss / log(2) / bytes_per_token,
			    with_pairs ? 0.1 : 1e-9);
		assert_true(isnan(score.word_accuracy));
		lh_learner_close(l);
	}
	assert_int_equal(lh_dir_remove(dir, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_faults_of_a_job_are_told),
		cmocka_unit_test(test_what_does_not_fit_together_is_told),
		cmocka_unit_test(test_looks_and_rows_come_when_they_are_due),
		cmocka_unit_test(test_a_batch_in_pieces_is_the_whole_batch),
		cmocka_unit_test(test_it_stops_after_the_step_and_goes_on_bit_for_bit),
		cmocka_unit_test(test_a_stop_before_the_first_step_leaves_no_checkpoint),
		cmocka_unit_test(test_what_does_not_fit_into_memory_is_refused_with_numbers),
		cmocka_unit_test(test_memory_is_foreseen_as_it_comes),
		cmocka_unit_test(test_words_are_those_that_greedy_decoding_writes),
		cmocka_unit_test(test_bits_per_byte_are_of_the_texts_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
