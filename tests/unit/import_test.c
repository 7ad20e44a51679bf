/* SPDX-License-Identifier: Apache-2.0 */
/* Importing measurements: the closed form of slow start, window or link, and each reader. */
#include "import/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/test.h"

enum { SEGMENT = 1448, INITIAL = 10 * SEGMENT };

static void setup_import(struct lh_import **ret)
{
	*ret = lh_import_new();
	assert_non_null(*ret);
	lh_import_set_provider(*ret, NULL, "someone", NULL);
	lh_import_set_continent(*ret, NULL, "europe", NULL);
	assert_int_equal(lh_import_set_address(*ret, "10.0.0.1", "a", NULL), 0);
	assert_int_equal(lh_import_set_address(*ret, "10.0.0.2", "b", NULL), 0);
}

/* The network file of some texts; NULL ends them. Freed by the caller. */
static char *import(const struct lh_import_options *o, const struct lh_import_file *file,
		    const char *const *texts)
{
	struct lh_import *im;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	char *yaml = NULL;
	size_t n;
	int r = 0;

	setup_import(&im);
	for (; *texts && r == 0; texts++)
		r = lh_import_read(im, file, *texts, strlen(*texts), &diag, &err);
	if (r == 0)
		r = lh_import_write(im, o, &yaml, &n, &diag, &err);
	for (size_t i = 0; i < diag.n_messages; i++)
		print_message("%s\n", diag.messages[i]);
	assert_int_equal(r, 0);
	lh_diag_done(&diag);
	lh_import_free(im);
	return yaml;
}

static void expect(const char *yaml, const char *part)
{
	if (strstr(yaml, part))
		return;
	print_message("%s", yaml);
	fail_msg("no '%s'", part);
}

static const struct lh_import_options plain = {.name = "n"};
static const struct lh_import_file here = {.name = "file"};

static void the_window_is_the_inverse_of_the_closed_form(void **state)
{
	static const double windows[] = {20000, 1e6, 2.92e6, 5e7};
	static const double rtts_s[] = {0.001, 0.1, 0.27};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(windows); i++)
		for (size_t k = 0; k < N_ELEMENTS(rtts_s); k++) {
			double w = windows[i], rtt = rtts_s[k];
			double payload = w * (10 / rtt - log2(w / INITIAL) + 1 - INITIAL / w);

			assert_near(lh_import_window(payload, 10, rtt, INITIAL) / w, 1, 1e-9);
		}
}

static void the_window_agrees_with_counting_round_trips(void **state)
{
	const double w = INITIAL * 128.0, rtt = 0.1;
	double sent = 0, window = INITIAL;

	/* 100 round trips: seven of doubling, the rest at the full window */
	(void)state;
	for (int i = 0; i < 100; i++) {
		sent += window;
		window = fmin(w, 2 * window);
	}
	assert_near(lh_import_window(sent, 10, rtt, INITIAL) / w, 1, 1e-9);
}

static void what_is_still_in_slow_start_has_no_window(void **state)
{
	(void)state;
	assert_true(isnan(lh_import_window(1e9, 1, 0.3, INITIAL)));
	assert_near(lh_import_window(5000.0 * 100, 10, 0.1, INITIAL), 5000, 1e-9);
}

static void many_streams_tell_window_from_link(void **state)
{
	static const struct {
		const char *rows;
		const char *expected[3];
	} cases[] = {
		/* twenty of 1 Mbyte windows, no end in sight */
		{"a,b,100,78.8,1\na,b,100,1576,20\n",
		 {"stream_window: 1.039 MB", "# a lower bound", "as many windows"}},
		/* a hundred fill the link */
		{"a,b,100,78.8,1\na,b,100,788,10\na,b,100,3000,100\n",
		 {"stream_window: 1.039 MB", "bandwidth: 3.2",
		  "less than so many windows: the link"}},
		{"a,b,20,940,1\na,b,20,941,10\n",
		 {"bandwidth: 9", "1 and 10 streams carry the same: the link limits",
		  "rtt: 20 ms"}},
		{"a,b,100,210,1\n",
		 {"# a lower bound", "cannot be told apart", "the link is assumed"}},
		{"a,b,100,210,1\na,c,100,80,1\na,c,100,800,10\n",
		 {"a window is assumed, as other paths show one",
		  "assumed, as measured between a and c", "stream_window: "}},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *rows =
			lh_strf("from,to,rtt_ms,throughput_mbps,streams\n%s", cases[i].rows);
		lh_cleanup_free char *yaml =
			import(&plain, &here, (const char *const[]){rows, NULL});

		for (size_t k = 0; k < N_ELEMENTS(cases[i].expected); k++)
			expect(yaml, cases[i].expected[k]);
	}
}

static void assumptions_can_be_given(void **state)
{
	static const char *const texts[] = {"from,to,rtt_ms,throughput_mbps\na,b,100,210\n", NULL};
	static const struct lh_import_options window = {
		.name = "n", .assume = LH_ASSUME_WINDOW, .bandwidth_bps = 5000000000};
	lh_cleanup_free char *yaml = import(&window, &here, texts);

	(void)state;
	expect(yaml, "bandwidth: 5 Gbit/s\n    stream_window: 2.8");
	expect(yaml, "a window is assumed;");
}

static void directions_that_differ_become_two_paths(void **state)
{
	static const char *const texts[] = {
		"from,to,rtt_ms,throughput_mbps\na,b,40,900\nb,a,41,100\n", NULL};
	lh_cleanup_free char *yaml = import(&plain, &here, texts);

	(void)state;
	expect(yaml, "  - from: a\n    to: b\n    delay: 20.25 ms\t");
	expect(yaml, "  - from: b\n    to: a\n    delay: 20.25 ms\t");
	assert_null(strstr(yaml, "between: "));
}

static void repetitions_scatter(void **state)
{
	static const char *const texts[] = {
		"from,to,rtt_ms,throughput_mbps,streams\na,b,100,60,1\na,b,100,90,1\na,b,,800,10\n",
		NULL};
	lh_cleanup_free char *yaml = import(&plain, &here, texts);

	(void)state;
	expect(yaml, "# repetitions scatter by 28 %: loss or cross traffic");
	expect(yaml, "streams: 1, duration: 10 s, throughput: 75 Mbit/s, sd: 21.213 Mbit/s");
	expect(yaml, "; 2 runs");
}

/* Reads a seed of the fuzz test. */
static char *seed(const char *name)
{
	const char *srcdir = getenv("srcdir");
	lh_cleanup_free char *path =
		lh_strf("%s/tests/fuzz/corpus/import/%s", srcdir ? srcdir : ".", name);
	char *text = NULL;

	assert_int_equal(lh_file_read(path, 1 << 20, &text, NULL, NULL), 0);
	return text;
}

static void every_format_is_read(void **state)
{
	static const struct lh_import_options o = {
		.name = "n", .bandwidth_bps = 9000000000, .jitter = true};
	static const struct lh_import_file from_a = {.name = "f", .from = "a"};
	static const struct lh_import_file both = {.name = "f", .from = "a", .to = "b"};
	static const struct {
		const char *seeds[2];
		const struct lh_import_file *file;
		const char *expected[4];
	} cases[] = {
		{{"iperf3.json"},
		 &both,
		 {"streams: 2, ", "smallest RTT that TCP saw", "mtu: 32820 B", "iperf3, "}},
		{{"iperf.txt", "ping.txt"},
		 &from_a,
		 {"streams: 1, duration: 10 s, throughput: 210 Mbit/s",
		  "streams: 2, duration: 10.002 s, throughput: 420 Mbit/s", "rtt: 103.2 ms",
		  "median of 3 samples, smallest 103 ms, 1 of 4 echoes lost"}},
		{{"iperf-csv.txt", "ping.txt"},
		 &from_a,
		 {"streams: 1, duration: 10 s, throughput: 210 Mbit/s",
		  "streams: 2, duration: 10 s, throughput: 419.6 Mbit/s", "round trips: sd 1.04 ms",
		  "jitter: 738 us"}},
		{{"ping-summary.txt"},
		 &both,
		 {"rtt: 20.5 ms", "mean in the summary", "jitter: 212 us"}},
		{{"rows.csv"},
		 &here,
		 {"rtt: 103.15 ms", "by hand, twice", "between: [a, a]", "jitter: 141 us"}},
		{{"rtt-matrix.csv", "rate-matrix.csv"},
		 &here,
		 {"rtt: 103.2 ms", "between: [b, b]", "from: a\n    to: c", "80 Mbit/s"}},
		{{"mixed-matrix.csv"}, &here, {"rtt: 10 ms", "throughput: 210 Mbit/s"}},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *first = seed(cases[i].seeds[0]);
		lh_cleanup_free char *second = cases[i].seeds[1] ? seed(cases[i].seeds[1]) : NULL;
		bool lacks_path = strcmp(cases[i].seeds[0], "rtt-matrix.csv") == 0;
		lh_cleanup_free char *yaml = NULL;

		if (lacks_path) { /* the matrix of rates has b-c without a round trip */
			char *bad = strstr(second, ",80");

			memcpy(bad, ",- ", 3);
		}
		yaml = import(&o, cases[i].file, (const char *const[]){first, second, NULL});
		for (size_t k = 0; k < N_ELEMENTS(cases[i].expected) && cases[i].expected[k]; k++)
			if (!lacks_path || k < 3)
				expect(yaml, cases[i].expected[k]);
	}
}

static void bad_measurements_are_told_with_their_place(void **state)
{
	static const struct {
		const char *text;
		const char *expected;
	} cases[] = {
		{"", "f:1:1: not recognised"},
		{"hello\n", "f:1:1: not recognised"},
		{"{\n  \"start\": }", "f:2:12: not JSON"},
		{"{}", "f:1:1: start: is missing"},
		{"{\"start\": {}, \"end\": 5}", "f:1:1: end: has another type"},
		{"{\"error\": \"unable to connect\"}", "f:1:1: error: iperf3 failed: unable to"},
		{"{\"start\":{\"connected\":[],\"test_start\":{\"protocol\":\"UDP\"}},\"end\":{}}",
		 "f:1:1: start.test_start.protocol: a test of UDP"},
		{"PING 10.0.0.2 (10.0.0.2) 56(84) bytes\n64 bytes from 10.0.0.2: icmp_seq=1 ttl=9 "
		 "time=fast ms\n",
		 "f:2:47: not a time"},
		{"PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.\n", "f:1:1: no echo of 10.0.0.2"},
		{"PING 10.0.0.2 (10.0.0.2) 56(84)\n8 bytes from b: time=1 ms\n",
		 "f:1:1: the file does not say where it was measured; give --from"},
		{"Server listening on TCP port 5001\n", "f:1:1: a server's report"},
		{"Client connecting to 10.0.0.2, TCP port 5001\n[  3] local 10.0.0.1 port 1 "
		 "connected "
		 "with 10.0.0.2 port 5001\n[  3]  0.0-10.0 sec  250 MBytes  210 Mbits/h\n",
		 "f:3:37: 'Mbits/h' is not a unit"},
		{"20230401120000,10.0.0.1,1,10.0.0.2,5001,3,1.0-2.0,1,8\n",
		 "f:1:43: '1.0-2.0' is not a "
		 "whole test"},
		{"20230401120000,10.0.0.1,1,10.0.0.9,5001,3,0.0-2.0,1,8\n",
		 "f:1:27: the site of 10.0.0.9 is not known; give --site 10.0.0.9=NAME"},
		{"20230401120000,10.0.0.1,1,10.0.0.2,5001,-1,0.0-2.0,1,8\n",
		 "f:1:1: the streams before this sum"},
		{"from,to,rtt_ms\na,b,12 ms\n", "f:2:5: rtt_ms: '12 ms' is not a number"},
		{"from,to,rtt_ms\na,b\n", "f:2:3: 2 cells; expected 3"},
		{"from,to,rtt_ms\na/b,b,1\n", "f:2:1: 'a/b' is not a name of a site"},
		{"from,to,rtt_ms,rate\na,b,1,2\n", "f:1:16: the column 'rate' is not known"},
		{"from,to,throughput_mbps,streams\na,b,1,2.5\n",
		 "f:2:7: streams: expected a whole"},
		{"from,to,throughput_mbps\na,b,99999999\n", "f:2:5: a throughput of 1e+14"},
		{",a,b\na,,5\n", "f:2:4: '5' is neither"},
		{"kg,a,b\na,,5 ms\nb,x y,\n", "f:3:3: 'x y' is neither"},
	};
	static const struct lh_import_file file = {.name = "f"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_import *im;
		struct lh_diag diag = {0};
		struct lh_error err = {0};

		setup_import(&im);
		assert_int_equal(lh_import_read(im, &file, cases[i].text, strlen(cases[i].text),
						&diag, &err),
				 LH_EINPUT);
		assert_true(diag.n_messages > 0);
		if (!strstr(diag.messages[0], cases[i].expected))
			fail_msg("'%s' is not '%s'", diag.messages[0], cases[i].expected);
		lh_diag_done(&diag);
		lh_import_free(im);
	}
}

static void what_is_missing_is_told_at_once(void **state)
{
	static const char text[] = "from,to,rtt_ms,throughput_mbps\na,b,,5\na,c,10,\n";
	static const struct lh_import_file file = {.name = "f"};
	struct lh_import *im = lh_import_new();
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	char *yaml = NULL;
	size_t n;

	(void)state;
	assert_int_equal(lh_import_read(im, &file, text, strlen(text), &diag, &err), 0);
	assert_int_equal(lh_import_write(im, &plain, &yaml, &n, &diag, &err), LH_EINPUT);
	assert_null(yaml);
	assert_int_equal(diag.n_messages, 4);
	assert_non_null(strstr(diag.messages[0], "no provider is known of a, b, c;"));
	assert_non_null(strstr(diag.messages[1], "no continent is known of a, b, c;"));
	assert_non_null(
		strstr(diag.messages[2], "between a and b: a throughput, but no round trip"));
	assert_non_null(
		strstr(diag.messages[3], "between a and c: a round trip, but no throughput"));
	lh_diag_done(&diag);
	lh_import_free(im);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_window_is_the_inverse_of_the_closed_form),
		cmocka_unit_test(the_window_agrees_with_counting_round_trips),
		cmocka_unit_test(what_is_still_in_slow_start_has_no_window),
		cmocka_unit_test(many_streams_tell_window_from_link),
		cmocka_unit_test(assumptions_can_be_given),
		cmocka_unit_test(directions_that_differ_become_two_paths),
		cmocka_unit_test(repetitions_scatter),
		cmocka_unit_test(every_format_is_read),
		cmocka_unit_test(bad_measurements_are_told_with_their_place),
		cmocka_unit_test(what_is_missing_is_told_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
