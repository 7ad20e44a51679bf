/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures and the report of a made-up run whose names try to break out of their quotes. Tests
 * that draw are skipped where gnuplot or the templates (LONGHAUL_PLOTDIR) are missing.
 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "plots/html.h"
#include "plots/plots.h"
#include "plots/report.h"

static char dir[64];
static char odd_name[] = "it's <b>\"odd\"</b> & `date` {/ x_1} $HOME";

static const struct {
	const char *name;
	const char *text;
} files[] = {
	{"throughput.csv",
	 "scenario,seed,nodes,epochs,samples,wall_s,valid,baseline_sps,published_throughput_sps\n"
	 "\"it's <b>\"\"odd\"\"</b> & `date` {/ x_1} $HOME\",7,3,2,200,15.5,0,10.0,14.0\n"},
	{"epochs.csv",
	 "epoch,calculation_s,wait_s,host_s,transfer_s,apply_s,wall_s,granularity,throughput_sps,"
	 "local_sps,end_s,loss,accuracy,test_loss,test_accuracy\n"
	 "0,4.25,0.5,1.0,2.0,0.25,9.0,1.4,11.1,23.9,9.0,2.5,0.125,,\n"
	 "1,4.0,0.5,0.5,1.5,0.0,6.5,,15.4,25.0,15.5,1.5,0.5,1.25,0.75\n"},
	{"cost.csv", "scope,item,class,usd_per_hour\n"
		     "spot,vm,,0.36\nspot,egress,oceania,1.5\n"
		     "on-demand,vm,,1.1\non-demand,egress,oceania,1.5\non-demand,total,,2.6\n"},
	{"traffic.csv", "second,from,to,payload_bytes,control_bytes,wire_bytes\n"
			"5,us,eu,1000000,1,1100000\n6,eu,us,2000000,1,2100000\n15,us,eu,5,0,9\n"},
	{"links.csv",
	 "kind,from,to,streams,target,achieved,unit,ok\n"
	 "rtt,us,eu,,103.1,103.2,ms,1\nrtt,us,eu,,103.1,103.4,ms,1\nrtt,eu,us,,103.1,150,ms,0\n"
	 "throughput,us,eu,10,2100,2000,Mbit/s,1\nthroughput,us,eu,1,210,205,Mbit/s,1\n"},
	{"verify.json", "{\"network\": \"it's a {/ mesh}\", \"ok\": false, \"paths\": 2, "
			"\"all_paths\": 6, \"rows\": [1, 2, 3, 4]}"},
	{"verify.csv", "property,from,to,unit,target,achieved,tolerance,chance,ok\n"
		       "delay,a,b,ms,20,20.01,0.04,0.01,yes\ndelay,b,a,ms,20,21,0.05,0,no\n"
		       "rate,a,b,Mbit/s,100,,1,0,no\novertaken,a,b,packets,0,0,0,0,yes\n"},
	{"jitter.csv", "from_node,to_node,share,asked_ms,achieved_ms,asked_mean_ms,asked_sd_ms,"
		       "packets\n"
		       "a/0,b/0,0.1,17,18,20,2,500\na/0,b/0,0.9,23,23.5,20,2,500\n"},
	{"engine.json", "{\"status\": \"done\", \"pinned\": {\"tcp\": {\"a<b\": [1, 2]}}}"},
};

static int set_up(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/lh-plots-XXXXXX");
	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < N_ELEMENTS(files); i++) {
		lh_cleanup_free char *path = lh_path_join(dir, files[i].name);

		assert_int_equal(lh_file_write(path, files[i].text, strlen(files[i].text), NULL),
				 0);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return lh_dir_remove(dir, NULL);
}

static char *read_file(const char *name)
{
	lh_cleanup_free char *path = lh_path_join(dir, name);
	char *text = NULL;

	assert_int_equal(lh_file_read(path, 1 << 26, &text, NULL, NULL), 0);
	return text;
}

/* Draws, or skips the test where this machine cannot. */
static void draw(void)
{
	const char *templates = getenv("LONGHAUL_PLOTDIR");
	struct lh_error err = {0};
	int r;

	if (!templates)
		skip();
	r = lh_plots_make(dir, templates, &err);
	if (r == LH_EENV)
		skip();
	if (r < 0)
		print_error("%s\n", err.message);
	assert_int_equal(r, 0);
}

static void every_figure_has_its_four_files(void **state)
{
	static const char *const endings[] = {"csv", "gp", "svg", "png"};

	(void)state;
	draw();
	for (const struct lh_plot *plot = lh_plots; plot->name; plot++)
		for (size_t i = 0; i < N_ELEMENTS(endings); i++) {
			lh_cleanup_free char *path =
				lh_strf("%s/figures/%s.%s", dir, plot->name, endings[i]);

			assert_true(lh_path_exists(path));
		}
}

static void names_stay_text(void **state)
{
	lh_cleanup_free char *svg = NULL;

	(void)state;
	draw();
	svg = read_file("figures/throughput.svg");
	assert_non_null(strstr(svg, "INVALID RUN: it's &lt;b"));
	assert_null(strstr(svg, "<b>"));
	assert_non_null(strstr(svg, "`date` {/ x_1} $HOME"));
}

static void the_same_run_gives_the_same_bytes(void **state)
{
	(void)state;
	draw();
	for (const struct lh_plot *plot = lh_plots; plot->name; plot++) {
		lh_cleanup_free char *name = lh_strf("figures/%s.svg", plot->name);
		lh_cleanup_free char *first = read_file(name);
		lh_cleanup_free char *second = NULL;

		draw();
		second = read_file(name);
		assert_string_equal(first, second);
	}
}

static void data_of_figures_add_up(void **state)
{
	lh_cleanup_free char *time = NULL, *links = NULL, *cost = NULL;

	(void)state;
	draw();
	time = read_file("figures/time.csv");
	assert_non_null(strstr(time, "\n0,4.250000,0.500000,1.000000,2.000000,0.250000,1.000000,"
				     "9.000000,1.4000,\n"));
	/* means over pairs of nodes; the fewest streams */
	links = read_file("figures/links.csv");
	assert_non_null(strstr(links, "rtt,us,eu,0,1,103.1000,103.3000,1,103.1,103.3\n"));
	assert_non_null(strstr(links, "rtt,eu,us,1,0,103.1000,150.0000,0,103.1,150.0\n"));
	assert_non_null(strstr(links, "throughput,us,eu,0,1,210.0000,205.0000,1,210.0,205.0\n"));
	/* no total, no bar */
	cost = read_file("figures/cost.csv");
	assert_string_equal(cost, "scope,VMs,egress: oceania,total\n"
				  "on-demand,1.100000,1.500000,2.600000\n");
}

static void figures_without_data_are_left_out(void **state)
{
	static const char *const gone[] = {"links.csv", "traffic.csv", "cost.csv"};

	(void)state;
	draw();
	for (size_t i = 0; i < N_ELEMENTS(gone); i++) {
		lh_cleanup_free char *path = lh_path_join(dir, gone[i]);

		unlink(path);
	}
	draw();
	for (const struct lh_plot *plot = lh_plots; plot->name; plot++) {
		lh_cleanup_free char *path = lh_strf("%s/figures/%s.svg", dir, plot->name);
		bool is_of_epochs = strcmp(plot->name, "throughput") == 0 ||
				    strcmp(plot->name, "time") == 0 ||
				    strcmp(plot->name, "loss") == 0;

		assert_int_equal(lh_path_exists(path), is_of_epochs);
	}
}

/* Draws the proof, or skips the test where this machine cannot. */
static void draw_proof(void)
{
	const char *templates = getenv("LONGHAUL_PLOTDIR");
	struct lh_error err = {0};
	int r;

	if (!templates)
		skip();
	r = lh_plots_make_proof(dir, templates, &err);
	if (r == LH_EENV)
		skip();
	if (r < 0)
		print_error("%s\n", err.message);
	assert_int_equal(r, 0);
}

static void a_proofs_figure_has_every_row_in_shares_of_what_is_allowed(void **state)
{
	lh_cleanup_free char *data = NULL, *svg = NULL, *jitter = NULL;

	(void)state;
	draw_proof();
	data = read_file("figures/verify.csv");
	/* 0.01 of 0.05; what misses by more than the axis shows; what never came */
	assert_string_equal(data, "kind,lane,share,lowest,quarter,three_quarters,highest\n"
				  "miss,0.000,1.30000,,,,\n"
				  "miss,1.000,-1.30000,,,,\n"
				  "point,0.000,0.20000,,,,\n"
				  "point,2.000,0.00000,,,,\n");
	svg = read_file("figures/verify.svg");
	assert_non_null(strstr(svg, "it's a {/ mesh}: 2 of 6 directed paths, 4 rows, NOT as"));
	assert_non_null(strstr(svg, "n 2 (1 missed): +1 of \302\2610.05 ms"));
	assert_non_null(strstr(svg, "n 1 (1 missed): nothing came"));
	jitter = read_file("figures/jitter.csv");
	assert_string_equal(jitter, "path,asked,achieved\n0,-1.50000,-1.00000\n"
				    "0,1.50000,1.75000\n");
}

/* A hundred rows are a strip; only what misses is drawn by itself. */
static void many_rows_are_quantiles(void **state)
{
	lh_cleanup_free char *path = lh_path_join(dir, "verify.csv");
	lh_cleanup_free char *data = NULL;
	FILE *f = fopen(path, "we");

	(void)state;
	assert_non_null(f);
	fputs("property,from,to,unit,target,achieved,tolerance,chance,ok\n", f);
	for (int i = 0; i <= 100; i++)
		fprintf(f, "rate,a,b,Mbit/s,100,%.2f,1,0,%s\n", i == 100 ? 102 : 99.5 + i / 100.0,
			i == 100 ? "no" : "yes");
	fclose(f);
	draw_proof();
	data = read_file("figures/verify.csv");
	assert_string_equal(data, "kind,lane,share,lowest,quarter,three_quarters,highest\n"
				  "miss,0.000,1.30000,,,,\n"
				  "strip,0.000,0.00000,-0.50000,-0.25000,0.24000,0.49000\n");
}

static void without_gnuplot_the_error_says_what_to_install(void **state)
{
	const char *templates = getenv("LONGHAUL_PLOTDIR");
	lh_cleanup_free char *path = strdup(getenv("PATH") ? getenv("PATH") : "");
	struct lh_error err = {0};

	(void)state;
	if (!templates)
		skip();
	setenv("PATH", "/nonexistent", 1);
	assert_int_equal(lh_plots_make(dir, templates, &err), LH_EENV);
	setenv("PATH", path, 1);
	assert_string_equal(err.message, "gnuplot is not installed; apt-get install gnuplot-nox");
}

static void html_is_escaped(void **state)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	lh_html_put(f, "<a href='x'>\"&\"</a>");
	lh_html_put(f, NULL);
	lh_html_putf(f, " %s %d", "<", 3);
	fclose(f);
	assert_string_equal(text, "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt; &lt; 3");
	free(text);
}

static void the_report_escapes_names_and_says_why_a_run_is_invalid(void **state)
{
	static char about[] = "<script>alert(1)</script>", model[] = "m", kind[] = "butterfly";
	struct lh_scenario sc = {.name = odd_name, .about = about};
	struct lh_results results = {.scenario = odd_name, .seed = 7};
	lh_cleanup_free char *page = NULL;
	struct lh_error err = {0};

	(void)state;
	sc.workload.model = model;
	sc.workload.strategy.kind = kind;
	results.summary.n_nodes = 3;
	results.summary.throughput_sps = 12.9;
	lh_notes_add(&results.invalid, "rtt <missed>");
	assert_int_equal(lh_report_write(dir, &sc, &results, &err), 0);
	page = read_file("report.html");
	assert_null(strstr(page, "<script"));
	assert_null(strstr(page, "<b>\"odd\""));
	assert_non_null(strstr(page, "<li>rtt &lt;missed&gt;</li>"));
	assert_non_null(strstr(page, "<b>Invalid:</b>"));
	assert_non_null(strstr(page, "tcp.a&lt;b"));
	assert_non_null(strstr(page, "12.9 samples/s"));
	assert_non_null(strstr(page, "longhaul rerun"));
	lh_results_done(&(struct lh_results){0});
	lh_notes_done(&results.invalid);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_figure_has_its_four_files),
		TEST(names_stay_text),
		TEST(the_same_run_gives_the_same_bytes),
		TEST(data_of_figures_add_up),
		TEST(figures_without_data_are_left_out),
		TEST(a_proofs_figure_has_every_row_in_shares_of_what_is_allowed),
		TEST(many_rows_are_quantiles),
		TEST(without_gnuplot_the_error_says_what_to_install),
		TEST(html_is_escaped),
		TEST(the_report_escapes_names_and_says_why_a_run_is_invalid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
