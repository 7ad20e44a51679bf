/* SPDX-License-Identifier: Apache-2.0 */
/* What programs report, as events: lines in pieces, patterns, JSON Lines, and what is refused. */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/pattern.h"
#include "emulator/reports.h"

static char pattern[] = "epoch (?<epoch>\\d+): (?<samples>\\S+) samples(, loss (?<loss>\\S+))?";
static char total[] = "at (?<total_samples>\\d+)", step[] = "step", file[] = "reports.jsonl";

/* Gives the texts to a new reporter, one second apart, and returns the events after `start`. */
static char *events_of(const struct lh_progress_spec *progress, enum lh_report_stream stream,
		       const char *const *texts)
{
	const struct lh_reports_spec spec = {progress, "us/0", 3, 4, false};
	char path[] = "/tmp/lh-reports-XXXXXX";
	struct lh_reports *reports = NULL;
	struct lh_error err = {0};
	int64_t t_ns = 1000;
	char *text = NULL, *rest;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(lh_reports_open(path, &spec, t_ns, &reports, &err), 0);
	for (; *texts; texts++)
		assert_int_equal(
			lh_reports_take(reports, stream, *texts, strlen(*texts), ++t_ns, &err), 0);
	assert_int_equal(lh_reports_end(reports, ++t_ns, &err), 0);
	lh_reports_free(reports);
	assert_int_equal(lh_file_read(path, 1 << 20, &text, NULL, &err), 0);
	unlink(path);
	assert_int_equal(strncmp(text, "{\"event\":\"start\",\"t_ns\":1000,\"rank\":3,", 36), 0);
	rest = strdup(strchr(text, '\n') + 1);
	free(text);
	return rest;
}

static void assert_events(const struct lh_progress_spec *progress, enum lh_report_stream stream,
			  const char *const *texts, const char *expected)
{
	lh_cleanup_free char *events = events_of(progress, stream, texts);

	assert_string_equal(events, expected);
}

static void a_report_counts_when_its_line_is_whole(void **state)
{
	const struct lh_progress_spec progress = {.pattern = pattern, .samples = -1};
	static const char *const texts[] = {"noise\nepoch 0: 3",
					    "2 samp",
					    "les, loss 0.5\nepoch 1: 7 samples\r",
					    "\n",
					    "epoch 2: 8 samples, loss nan",
					    NULL};

	(void)state;
	assert_events(
		&progress, LH_REPORT_STDERR, texts,
		"{\"event\":\"progress\",\"t_ns\":1003,\"rank\":3,\"epoch\":0,\"samples\":32,"
		"\"loss\":0.5}\n"
		"{\"event\":\"progress\",\"t_ns\":1003,\"rank\":3,\"epoch\":1,\"samples\":7}\n"
		"{\"event\":\"progress\",\"t_ns\":1006,\"rank\":3,\"epoch\":2,\"samples\":8}\n"
		"{\"event\":\"end\",\"t_ns\":1006,\"rank\":3}\n");
}

static void totals_become_differences_and_lines_count_where_none_says(void **state)
{
	const struct lh_progress_spec totals = {.pattern = total, .samples = -1};
	const struct lh_progress_spec steps = {.pattern = step, .samples = 64};
	static const char *const texts[] = {"at 10\nat 10\nat 25\n", NULL};
	static const char *const two[] = {"step\nother\nstep\n", NULL};

	(void)state;
	assert_events(
		&totals, LH_REPORT_STDOUT, texts,
		"{\"event\":\"progress\",\"t_ns\":1001,\"rank\":3,\"epoch\":0,\"samples\":10}\n"
		"{\"event\":\"progress\",\"t_ns\":1001,\"rank\":3,\"epoch\":1,\"samples\":0}\n"
		"{\"event\":\"progress\",\"t_ns\":1001,\"rank\":3,\"epoch\":2,\"samples\":15}\n"
		"{\"event\":\"end\",\"t_ns\":1002,\"rank\":3}\n");
	assert_events(
		&steps, LH_REPORT_STDOUT, two,
		"{\"event\":\"progress\",\"t_ns\":1001,\"rank\":3,\"epoch\":0,\"samples\":64}\n"
		"{\"event\":\"progress\",\"t_ns\":1001,\"rank\":3,\"epoch\":1,\"samples\":64}\n"
		"{\"event\":\"end\",\"t_ns\":1002,\"rank\":3}\n");
}

static void lines_of_json_say_what_they_like(void **state)
{
	const struct lh_progress_spec progress = {.file = file, .samples = -1};
	static const char *const texts[] = {
		"{\"samples\": 5, \"comm_s\": 0.25, \"calc_s\": 1, \"lr\": \"warm\"}\n\n",
		"{\"epoch\": 4, \"samples\": null, \"loss\": 2}\n{\"samples\": 6}", NULL};

	(void)state;
	assert_events(
		&progress, LH_REPORT_FILE, texts,
		"{\"event\":\"progress\",\"t_ns\":1001,\"rank\":3,\"epoch\":0,\"samples\":5,"
		"\"calc_s\":1.0,\"comm_s\":0.25}\n"
		"{\"event\":\"progress\",\"t_ns\":1002,\"rank\":3,\"epoch\":4,\"loss\":2.0}\n"
		"{\"event\":\"progress\",\"t_ns\":1003,\"rank\":3,\"epoch\":4,\"samples\":6}\n"
		"{\"event\":\"end\",\"t_ns\":1003,\"rank\":3}\n");
	/* what it says on its streams is no report then */
	assert_events(&progress, LH_REPORT_STDOUT, texts,
		      "{\"event\":\"end\",\"t_ns\":1003,\"rank\":3}\n");
}

static void what_cannot_be_read_is_told_once(void **state)
{
	static const struct {
		const char *line;
		const char *why;
	} cases[] = {
		{"no json\n", "expected near"},
		{"[1]\n", "expected a JSON object"},
		{"{\"samples\": \"5\"}\n", "a value is no number"},
		{"{\"samples\": -1}\n", "samples is not a whole number"},
		{"{\"samples\": 1.5}\n", "samples is not a whole number"},
		{"{\"samples\": 1e300}\n", "samples is not a whole number"},
		{"{\"epoch\": 1000000}\n", "epoch is not a whole number"},
		{"{\"comm_s\": -1}\n", "not a time in seconds"},
		{"{\"epoch\": 2}\n{\"epoch\": 1}\n", "epoch runs backwards"},
		{"{\"total_samples\": 2}\n{\"total_samples\": 1}\n",
		 "total_samples runs backwards"},
		{"\xff\n", "unable to decode byte"},
	};
	const struct lh_progress_spec progress = {.file = file, .samples = -1};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const char *const texts[] = {cases[i].line, cases[i].line, NULL};
		lh_cleanup_free char *events = events_of(&progress, LH_REPORT_FILE, texts);
		const char *error = strstr(events, "\"event\":\"error\"");

		assert_non_null(error);
		assert_non_null(strstr(error, cases[i].why));
		assert_null(strstr(error + 1, "\"event\":\"error\""));
	}
}

static void a_line_without_end_is_cut_not_kept(void **state)
{
	const struct lh_progress_spec json = {.file = file, .samples = -1};
	const struct lh_progress_spec steps = {.pattern = step, .samples = 1};
	lh_cleanup_free char *longest = malloc(200001);
	const char *const texts[] = {"{\"samples\": 1, \"x\": \"", longest, "\"}\n", "step\n",
				     NULL};
	lh_cleanup_free char *refused = NULL, *found = NULL;

	(void)state;
	memset(longest, 'a', 200000);
	longest[200000] = '\0';
	refused = events_of(&json, LH_REPORT_FILE, texts);
	assert_non_null(strstr(refused, "longer than 64 KiB"));
	found = events_of(&steps, LH_REPORT_STDOUT, texts);
	assert_non_null(strstr(found, "\"progress\",\"t_ns\":1004"));
}

static void patterns_name_their_faults_and_groups(void **state)
{
	struct lh_pattern *p = NULL;
	struct lh_error err = {0};
	lh_cleanup_free char *samples = NULL;

	(void)state;
	assert_int_equal(lh_pattern_new("a(b", &p, &err), LH_EINPUT);
	assert_string_equal(err.message, "missing closing parenthesis, at character 4 of 'a(b'");
	assert_int_equal(lh_pattern_new("(?<samples>\\d+)|(?<loss>x)", &p, &err), 0);
	assert_string_equal(lh_pattern_group(p, 0), "loss");
	assert_string_equal(lh_pattern_group(p, 1), "samples");
	assert_null(lh_pattern_group(p, 2));
	assert_false(lh_pattern_find(p, "nothing", 7));
	assert_true(lh_pattern_find(p, "a 42\0 7", 7));
	samples = lh_pattern_take(p, "samples");
	assert_string_equal(samples, "42");
	assert_null(lh_pattern_take(p, "loss"));
	assert_null(lh_pattern_take(p, "none"));
	lh_pattern_free(p);
	/* one that would never end gives up */
	assert_int_equal(lh_pattern_new("^(a+)+$", &p, &err), 0);
	assert_false(lh_pattern_find(p, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 49));
	lh_pattern_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_report_counts_when_its_line_is_whole),
		cmocka_unit_test(totals_become_differences_and_lines_count_where_none_says),
		cmocka_unit_test(lines_of_json_say_what_they_like),
		cmocka_unit_test(what_cannot_be_read_is_told_once),
		cmocka_unit_test(a_line_without_end_is_cut_not_kept),
		cmocka_unit_test(patterns_name_their_faults_and_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
