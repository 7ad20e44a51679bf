/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of two ranks and two epochs with numbers that can be worked out by hand: every column
 * of every table, and what happens when files are cut, wrong or missing.
 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/collect.h"
#include "core/cleanup.h"
#include "core/file.h"

static char google[] = "google", us[] = "us", eu[] = "eu", us0[] = "us/0", eu0[] = "eu/0",
	    machine_name[] = "m", list[] = "2023", store_name[] = "b2", source[] = "a paper",
	    name[] = "two", butterfly[] = "butterfly", fp16[] = "fp16", model_name[] = "tiny";

/* The scenario and the folder of its run. */
struct setting {
	struct lh_scenario sc;
	struct lh_site sites[2];
	struct lh_node nodes[2];
	struct lh_node_rank ranks[2];
	struct lh_machine machine;
	struct lh_profile_entry profile;
	struct lh_model model;
	struct lh_vm_price vm;
	struct lh_egress_prices egress;
	struct lh_storage_price store;
	char dir[64];
};

/* clang-format off */
#define SPAN(event, rank, epoch, begin, end, more)                                         \
	"{\"event\":\"" event "\",\"t_ns\":" end ",\"rank\":" rank ",\"epoch\":" epoch      \
	",\"begin_ns\":" begin ",\"end_ns\":" end more "}\n"
#define AVERAGE(host)                                                                      \
	",\"host_ns\":" host ",\"payload_sent_bytes\":2000,\"payload_received_bytes\":2000" \
	",\"group_samples\":100,\"checked_elements\":1"
#define SCORE(event, rank, counted, loss, accuracy)                                         \
	"{\"event\":\"" event "\",\"t_ns\":25000000000,\"rank\":" rank ",\"epoch\":1"      \
	",\"samples\":100,\"counted\":" counted ",\"loss\":" loss ",\"accuracy\":" accuracy "}\n"
#define WEIGHTS(rank, hash)                                                                 \
	"{\"event\":\"weights\",\"t_ns\":25000000000,\"rank\":" rank ",\"hash\":\"" hash "\"}\n"
#define COMPUTED(samples) ",\"samples\":" samples ",\"micro_batches\":2"

static const char rank_0[] =
	"{\"event\":\"start\",\"t_ns\":1,\"rank\":0,\"node\":\"us/0\",\"world\":2}\n"
	"{\"event\":\"connected\",\"t_ns\":10000000000,\"rank\":0,\"begin_ns\":1,"
	"\"end_ns\":10000000000}\n"
	SPAN("compute", "0", "0", "10000000000", "14000000000", COMPUTED("60"))
	SPAN("matchmaking", "0", "0", "12000000000", "14000000000", "")
	SPAN("wait", "0", "0", "14000000000", "15000000000", "")
	SPAN("average", "0", "0", "15000000000", "18000000000", AVERAGE("1000000000"))
	SPAN("apply", "0", "0", "18000000000", "18500000000", ",\"blocking\":true")
	SPAN("epoch", "0", "0", "10000000000", "19000000000", ",\"samples\":100")
	"{\"event\":\"traffic\",\"t_ns\":19000000000,\"rank\":0,\"from_ns\":15000000000,"
	"\"to_ns\":16500000000,\"payload_bytes\":[0,2000],\"control_bytes\":[0,10]}\n"
	SPAN("apply", "0", "0", "19000000000", "20000000000", ",\"blocking\":false")
	SPAN("compute", "0", "1", "19000000000", "23000000000", COMPUTED("60"))
	SPAN("average", "0", "1", "23000000000", "25000000000", AVERAGE("500000000"))
	SPAN("epoch", "0", "1", "19000000000", "25000000000", ",\"samples\":100")
	SCORE("learn", "0", "60", "2.0", "0.5")
	SCORE("evaluate", "0", "200", "0.25", "0.875")
	WEIGHTS("0", "00000000000000ab")
	"{\"event\":\"connection\",\"t_ns\":25000000000,\"rank\":0,\"peer\":1,"
	"\"channel\":\"data\",\"retransmits\":3,\"timeouts\":1}\n"
	"{\"event\":\"end\",\"t_ns\":25000000001,\"rank\":0,\"epochs\":2}\n";

static const char rank_1[] =
	SPAN("compute", "1", "0", "10500000000", "15000000000", COMPUTED("40"))
	SPAN("matchmaking", "1", "0", "12000000000", "15000000000", "")
	SPAN("average", "1", "0", "15000000000", "18000000000", AVERAGE("1000000000"))
	SPAN("epoch", "1", "0", "10500000000", "18000000000", ",\"samples\":100")
	SPAN("compute", "1", "1", "18000000000", "22000000000", COMPUTED("40"))
	SPAN("wait", "1", "1", "22000000000", "23000000000", "")
	SPAN("average", "1", "1", "23000000000", "25000000000", AVERAGE("500000000"))
	SPAN("epoch", "1", "1", "18000000000", "25000000000", ",\"samples\":100")
	"{\"event\":\"traffic\",\"t_ns\":25000000000,\"rank\":1,\"from_ns\":23000000000,"
	"\"to_ns\":24000000000,\"payload_bytes\":[1001,0],\"control_bytes\":[0,0]}\n"
	SCORE("learn", "1", "40", "1.0", "0.75")
	WEIGHTS("1", "00000000000000ab")
	"{\"event\":\"end\",\"t_ns\":25000000001,\"rank\":1,\"epochs\":2}\n";
/* clang-format on */

static const char counters[] =
	"t_ns,from,to,wire_bytes,wire_packets,ack_bytes,ack_packets,dropped_packets\n"
	"9000000000,us/0,eu/0,900,9,0,0,5\n"
	"9500000000,us/0,eu/0,1000,10,66,1,5\n"
	"15500000000,us/0,eu/0,1000,10,66,1,5\n"
	"16500000000,us/0,eu/0,4000,13,132,2,6\n"
	"25200000000,us/0,eu/0,4100,14,132,2,6\n"
	"24500000000,eu/0,us/0,1201,2,0,0,0\n"
	"29000000000,eu/0,us/0,1201,2,0,0,0\n";

static const char engine[] =
	"{\"format\": \"longhaul-engine/1\", \"status\": \"done\", \"message\": \"\","
	" \"begin_ns\": 1, \"end_ns\": 2, \"pinned\": {}, \"unexplained\": {\"retransmits\": 0}}";

static const char links[] =
	"kind,from,to,from_node,to_node,streams,duration_s,target,achieved,unit,error_ratio,"
	"tolerance_ratio,tolerance_abs,ok,published,published_source\n"
	"rtt,us,eu,us/0,eu/0,,,103.1,103.2,ms,0.001,0.01,0.1,1,,\n";

static void put(const struct setting *s, const char *file, const char *text)
{
	lh_cleanup_free char *path = lh_path_join(s->dir, file);

	assert_int_equal(lh_file_write(path, text, strlen(text), NULL), 0);
}

static void make_scenario(struct setting *s)
{
	s->sites[0] =
		(struct lh_site){.name = us, .provider = google, .continent = LH_NORTH_AMERICA};
	s->sites[1] = (struct lh_site){.name = eu, .provider = google, .continent = LH_EUROPE};
	s->machine = (struct lh_machine){.name = machine_name, .gpus = 1};
	s->profile.samples_per_s = 10;
	for (size_t i = 0; i < 2; i++)
		s->nodes[i] = (struct lh_node){.name = i ? eu0 : us0,
					       .site = i,
					       .machine = &s->machine,
					       .profile = &s->profile,
					       .micro_batch = i ? 20 : 30,
					       .first_rank = i,
					       .n_ranks = 1};
	s->ranks[0] = (struct lh_node_rank){us0, 0, 0};
	s->ranks[1] = (struct lh_node_rank){eu0, 1, 0};
	s->model = (struct lh_model){
		.name = model_name, .parameters = 1000, .bytes_per_sample = 125000};
	s->vm = (struct lh_vm_price){machine_name, NULL, 180000, 572000, source};
	s->egress = (struct lh_egress_prices){
		.name = google, .source = source, .inter_continent = {80000000000, 1000000000}};
	s->store = (struct lh_storage_price){.name = store_name, .egress = {10000, 1000000000}};
	s->sc.name = name;
	s->sc.network.sites = s->sites;
	s->sc.network.n_sites = 2;
	s->sc.nodes = s->nodes;
	s->sc.n_nodes = 2;
	s->sc.ranks = s->ranks;
	s->sc.n_ranks = 2;
	s->sc.model = &s->model;
	s->sc.data.store = store_name;
	s->sc.workload.target_batch = 100;
	s->sc.workload.epochs = 2;
	s->sc.workload.strategy.kind = butterfly;
	s->sc.workload.compress.kind = fp16;
	s->sc.run.seed = 7;
	s->sc.published = (struct lh_published){12.5, -1, 3, source};
	s->sc.pricing.catalog = (struct lh_prices){.name = list,
						   .vm = &s->vm,
						   .n_vm = 1,
						   .egress = &s->egress,
						   .n_egress = 1,
						   .storage = &s->store,
						   .n_storage = 1};
}

static int set_up(void **state)
{
	struct setting *s = calloc(1, sizeof(*s));
	lh_cleanup_free char *events = NULL;

	assert_non_null(s);
	make_scenario(s);
	snprintf(s->dir, sizeof(s->dir), "/tmp/lh-run-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	events = lh_path_join(s->dir, "events");
	assert_int_equal(lh_dir_make(events, NULL), 0);
	put(s, "events/rank-0.jsonl", rank_0);
	put(s, "events/rank-1.jsonl", rank_1);
	put(s, "counters.csv", counters);
	put(s, "engine.json", engine);
	put(s, "links.csv", links);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct setting *s = *state;

	assert_int_equal(lh_dir_remove(s->dir, NULL), 0);
	free(s);
	return 0;
}

static void assert_file(const struct setting *s, const char *file, const char *expected)
{
	lh_cleanup_free char *path = lh_path_join(s->dir, file);
	lh_cleanup_free char *text = NULL;

	assert_int_equal(lh_file_read(path, 1 << 20, &text, NULL, NULL), 0);
	assert_string_equal(text, expected);
}

static void every_column_is_as_worked_out_by_hand(void **state)
{
	const struct setting *s = *state;
	struct lh_results results = {0};
	struct lh_error err = {0};

	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, &err), 0);
	assert_true(results.is_valid);
	assert_file(
		s, "epochs.csv",
		"epoch,begin_s,end_s,samples,wall_s,calculation_s,communication_s,matchmaking_s,"
		"wait_s,host_s,transfer_s,apply_s,throughput_sps,local_sps,granularity,loss,"
		"accuracy,"
		"test_loss,test_accuracy\n"
		"0,0.000000000,9.000000000,100,9.000000000,4.250000,3.750000,2.500000,0.500000,"
		"1.000000,2.000000,0.250000,11.111,23.889,1.4000,,,,\n"
		"1,9.000000000,15.000000000,100,6.000000000,4.000000,2.500000,0.000000,0.500000,"
		"0.500000,1.500000,0.000000,16.667,25.000,1.4000,1.600000,0.600000,"
		"0.250000,0.875000\n");
	assert_file(s, "throughput.csv",
		    "scenario,seed,nodes,gpus,epochs,samples,wall_s,throughput_sps,local_sps,"
		    "calculation_s,communication_s,matchmaking_s,granularity,baseline_sps,speedup,"
		    "contribution_per_gpu,valid,published_throughput_sps,published_granularity,"
		    "published_comm_s,published_source\n"
		    "two,7,2,2,2,200,15.000000000,13.333,24.444,4.125000,3.125000,1.250000,1.4000,"
		    "10.000,1.3333,0.6667,1,12.500,,3.000,a paper\n");
	assert_int_equal(results.summary.retransmits, 3);
	assert_int_equal(results.summary.timeouts, 1);
	assert_int_equal(results.summary.dropped_packets, 1);
	assert_int_equal(results.summary.wire_bytes, 3100 + 1201);
	assert_int_equal(results.summary.sent_bytes, 2000 + 10 + 1001);
	lh_results_done(&results);
}

/* us to eu: 3000 bytes in 15.5 to 16.5 s, then 100 in 24.2 to 25 s (the training's end); eu to us:
 * nothing until the sample at 24.5 s, so 1201 bytes in 23.5 to 24.5 s. */
static void traffic_is_spread_over_seconds_without_loss(void **state)
{
	const struct setting *s = *state;
	struct lh_results results = {0};

	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, NULL), 0);
	assert_file(s, "traffic.csv",
		    "second,from,to,payload_bytes,control_bytes,wire_bytes,ack_bytes,wire_packets,"
		    "ack_packets\n"
		    "5,us,eu,1333,6,1500,33,1,0\n"
		    "6,us,eu,667,4,1500,33,2,1\n"
		    "13,eu,us,1001,0,600,0,1,0\n"
		    "14,us,eu,0,0,100,0,1,0\n"
		    "14,eu,us,0,0,601,0,1,0\n");
	lh_results_done(&results);
}

/* Rank 1's events with its one second of traffic in another form. */
static void put_traffic(const struct setting *s, const char *form)
{
	static const char dense[] = "\"payload_bytes\":[1001,0],\"control_bytes\":[0,0]";
	const char *at = strstr(rank_1, dense);
	lh_cleanup_free char *text = NULL;

	assert_non_null(at);
	text = lh_strf("%.*s%s%s", (int)(at - rank_1), rank_1, form, at + strlen(dense));
	put(s, "events/rank-1.jsonl", text);
}

static void events_may_name_the_peers_that_were_sent_to(void **state)
{
	static const char *const wrong[] = {
		"\"peers\":[2],\"payload_bytes\":[1001],\"control_bytes\":[0]",
		"\"peers\":[-1],\"payload_bytes\":[1001],\"control_bytes\":[0]",
		"\"peers\":[0],\"payload_bytes\":[1001,0],\"control_bytes\":[0]",
		"\"peers\":[0],\"payload_bytes\":[1001]",
		"\"peers\":[0,1,0],\"payload_bytes\":[1,1,1],\"control_bytes\":[0,0,0]",
		"\"payload_bytes\":[1001],\"control_bytes\":[0]",
	};
	const struct setting *s = *state;
	struct lh_results results = {0};

	put_traffic(s, "\"peers\":[0],\"payload_bytes\":[1001],\"control_bytes\":[0]");
	traffic_is_spread_over_seconds_without_loss(state);
	for (size_t i = 0; i < N_ELEMENTS(wrong); i++) {
		struct lh_error err = {0};

		put_traffic(s, wrong[i]);
		assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, &err), LH_EINPUT);
		assert_non_null(strstr(err.message, "rank-1.jsonl:9"));
	}
}

/* The same two ranks in one node: nothing leaves it, and it is paid once. */
static void ranks_of_one_node_share_its_price(void **state)
{
	static char inside_0[] = "us/0.0", inside_1[] = "us/0.1";
	struct setting *s = *state;
	struct lh_results results = {0};
	const struct lh_cost_sum *spot = &results.cost.scopes[LH_VM_SPOT];

	s->machine.inner.bandwidth_bps = 1000000000000;
	s->machine.gpus = 8;
	s->nodes[0].n_ranks = 2;
	s->sc.n_nodes = 1;
	s->ranks[0] = (struct lh_node_rank){inside_0, 0, 0};
	s->ranks[1] = (struct lh_node_rank){inside_1, 0, 1};
	put(s, "counters.csv",
	    "t_ns,from,to,wire_bytes,wire_packets,ack_bytes,ack_packets,dropped_packets\n"
	    "16500000000,us/0,us/0,4000,13,0,0,0\n");
	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, NULL), 0);
	assert_true(results.is_valid);
	assert_file(s, "traffic.csv",
		    "second,from,to,payload_bytes,control_bytes,wire_bytes,ack_bytes,wire_packets,"
		    "ack_packets\n"
		    "5,us,(inside node),1333,6,2000,0,6,0\n"
		    "6,us,(inside node),667,4,2000,0,7,0\n"
		    "13,us,(inside node),1001,0,0,0,0,0\n");
	assert_int_equal(results.summary.n_nodes, 1);
	assert_int_equal(results.summary.n_gpus, 2);
	assert_int_equal(spot->vm_usd_micro, 750);
	assert_int_equal(spot->egress_usd_micro, 0);
	assert_true(spot->is_complete);
	assert_int_equal(spot->data_usd_micro, 250);
	lh_results_done(&results);
}

static void costs_follow_time_bytes_and_samples(void **state)
{
	const struct setting *s = *state;
	struct lh_results results = {0};
	const struct lh_cost_sum *spot = &results.cost.scopes[LH_VM_SPOT];
	const struct lh_cost_sum *on_demand = &results.cost.scopes[LH_VM_ON_DEMAND];

	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, NULL), 0);
	/* 0.18 USD/h for 15 s on two nodes */
	assert_int_equal(spot->vm_usd_micro, 2 * 750);
	/* 572000 / 240 = 2383.3 */
	assert_int_equal(on_demand->vm_usd_micro, 2 * 2383);
	/* 80 micro-dollars per byte in this list */
	assert_int_equal(spot->egress_usd_micro, 3100 * 80 + 1201 * 80);
	/* 120 and 80 samples of 125 kB at 0.01 USD/GB */
	assert_int_equal(spot->data_usd_micro, 150 + 100);
	assert_int_equal(spot->total_usd_micro, 1500 + 4301 * 80 + 250);
	lh_results_done(&results);
}

static void results_read_as_text_and_json(void **state)
{
	const struct setting *s = *state;
	struct lh_results results = {0};
	lh_cleanup_free char *text = NULL;
	lh_cleanup_json json_t *json = NULL;

	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, NULL), 0);
	assert_int_equal(lh_results_format(&results, 80, &text, NULL), 0);
	assert_non_null(strstr(text, "two: 2 nodes, 2 GPUs, 2 epochs, seed 7: valid\n"));
	assert_non_null(strstr(text, "throughput     13.3 samples/s  (published 12.5, +6.7 %)\n"));
	json = lh_results_json(&results);
	assert_near(json_real_value(json_object_get(json, "throughput_sps")), 200.0 / 15, 1e-9);
	assert_near(json_real_value(json_object_get(json, "comm_s")), 3.125, 1e-9);
	assert_true(json_is_true(json_object_get(json, "valid")));
	lh_results_done(&results);
}

/* Writes a rank's events without their end, from the given text on. */
static void cut_before(const struct setting *s, const char *file, const char *events,
		       const char *from, const char *rest)
{
	const char *at = strstr(events, from);
	lh_cleanup_free char *text = NULL;

	assert_non_null(at);
	text = lh_strf("%.*s%s", (int)(at - events), events, rest);
	put(s, file, text);
}

static bool says(const struct lh_notes *notes, const char *text)
{
	for (size_t i = 0; i < notes->n_items; i++)
		if (strstr(notes->items[i], text))
			return true;
	return false;
}

static void of_a_run_that_was_cut_whole_epochs_count(void **state)
{
	const struct setting *s = *state;
	struct lh_results results = {0};

	cut_before(s, "events/rank-1.jsonl", rank_1,
		   "{\"event\":\"wait\",\"t_ns\":23000000000,\"rank\":1",
		   "{\"event\":\"wait\",\"t_ns\":230");
	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, NULL), 0);
	assert_int_equal(results.summary.n_epochs, 1);
	assert_int_equal(results.summary.wall_ns, INT64_C(9000000000));
	assert_int_equal(results.summary.samples, 100);
	assert_false(results.is_valid);
	assert_true(says(&results.invalid, "only 1 of 2 epochs were finished"));
	lh_results_done(&results);
}

static void no_finished_epoch_is_an_error(void **state)
{
	const struct setting *s = *state;
	struct lh_results results = {0};
	struct lh_error err = {0};

	put(s, "events/rank-1.jsonl", "");
	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, &err), LH_ERUN);
	assert_non_null(strstr(err.message, "no epoch was finished by all 2 ranks"));
}

static void malformed_events_name_file_and_line(void **state)
{
	static const struct {
		const char *line;
		const char *expected;
	} cases[] = {
		{"not json\n{}\n", "rank-1.jsonl:1:"},
		{"[]\n", "rank-1.jsonl:1:1: not an object"},
		{"{\"event\":\"end\",\"t_ns\":1,\"rank\":1}\n{\"event\":\"end\",\"rank\":0}\n",
		 "rank-1.jsonl:2: 'rank'"},
		{SPAN("wait", "1", "-1", "1", "2", ""), "'epoch'"},
		{SPAN("wait", "1", "99999999", "1", "2", ""), "'epoch'"},
		{SPAN("wait", "1", "0", "3", "2", ""), "'end_ns'"},
		{SPAN("wait", "1", "0", "1", "9223372036854775807", ""), "'end_ns'"},
		{SPAN("compute", "1", "0", "1", "2", ""), "'samples'"},
		{SPAN("average", "1", "0", "1", "2", AVERAGE("5")), "'host_ns'"},
		{SPAN("apply", "1", "0", "1", "2", ""), "'blocking'"},
		{"{\"event\":\"traffic\",\"rank\":1,\"from_ns\":1,\"to_ns\":2,"
		 "\"payload_bytes\":[1],\"control_bytes\":[1,1]}\n",
		 "'payload_bytes'"},
	};
	const struct setting *s = *state;

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_results results = {0};
		struct lh_error err = {0};

		put(s, "events/rank-1.jsonl", cases[i].line);
		assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, &err), LH_EINPUT);
		assert_non_null(strstr(err.message, cases[i].expected));
	}
}

/* Replaces the first from in the text by to, of the same length. */
static char *replaced(const char *text, const char *from, const char *to)
{
	char *copy = strdup(text);
	char *at = copy ? strstr(copy, from) : NULL;

	assert_non_null(at);
	memcpy(at, to, strlen(to));
	return copy;
}

static void samples_and_payload_must_be_conserved(void **state)
{
	static const struct {
		const char *from;
		const char *to;
		const char *expected;
	} cases[] = {
		{"\"samples\":40", "\"samples\":39",
		 "epoch 0: the ranks computed 99 samples together, but rank 0 ended it with 100"},
		{"\"group_samples\":100", "\"group_samples\":101",
		 "epoch 0: the ranks computed 100 samples together, but rank 1 averaged 101"},
		{"\"payload_sent_bytes\":2000", "\"payload_sent_bytes\":1999",
		 "epoch 0: the ranks sent 3999 bytes of payload and received 4000"},
	};
	const struct setting *s = *state;

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *text = replaced(rank_1, cases[i].from, cases[i].to);
		struct lh_results results = {0};
		struct lh_error err = {0};

		put(s, "events/rank-1.jsonl", text);
		assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, &err), LH_ERUN);
		assert_string_equal(err.message, cases[i].expected);
	}
}

static void butterfly_sends_exactly_its_formula(void **state)
{
	struct setting *s = *state;
	struct lh_results results = {0};
	struct lh_error err = {0};

	s->model.parameters = 1001;
	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, &err), LH_ERUN);
	assert_string_equal(err.message, "epoch 0: the ranks sent 4000 bytes of payload; strategy "
					 "butterfly sends 4004");
}

static void a_counter_that_runs_backwards_is_an_error(void **state)
{
	const struct setting *s = *state;
	lh_cleanup_free char *text = replaced(counters, ",4100,", ",3900,");
	struct lh_results results = {0};
	struct lh_error err = {0};

	put(s, "counters.csv", text);
	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "counters.csv:6: wire_bytes runs backwards"));
}

static void without_counters_there_is_no_wire_and_no_total(void **state)
{
	const struct setting *s = *state;
	lh_cleanup_free char *path = lh_path_join(s->dir, "counters.csv");
	struct lh_results results = {0};

	unlink(path);
	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, NULL), 0);
	assert_file(s, "traffic.csv",
		    "second,from,to,payload_bytes,control_bytes,wire_bytes,ack_bytes,wire_packets,"
		    "ack_packets\n"
		    "5,us,eu,1333,6,,,,\n"
		    "6,us,eu,667,4,,,,\n"
		    "13,eu,us,1001,0,,,,\n");
	assert_false(results.cost.scopes[LH_VM_SPOT].is_complete);
	assert_true(says(&results.notes, "counters.csv is missing"));
	lh_results_done(&results);
}

static void what_makes_a_run_invalid_is_said(void **state)
{
	static const struct {
		const char *file;
		const char *text;
		const char *expected;
	} cases[] = {
		{"engine.json", "{\"status\": \"invalid\", \"message\": \"late\"}",
		 "the engine says invalid: late"},
		{"engine.json", "{\"status\": \"done\", \"unexplained\": {\"qdisc_drops\": 4}}",
		 "qdisc_drops 4"},
		{"links.csv", "kind,from,to,target,achieved,unit,ok\nrtt,us,eu,103.1,150.0,ms,0\n",
		 "rtt from us to eu missed its target: 150.0 ms; expected 103.1"},
		{"links.csv",
		 "kind,from,to,target,achieved,unit,ok\nrtt,us,eu,103.1,150.0,ms,false\n",
		 "missed its target"},
		{"counters.csv",
		 "t_ns,from,to,wire_bytes,wire_packets,ack_bytes,ack_packets,dropped_packets\n",
		 "the links counted fewer bytes (0) than the trainers sent (3011)"},
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_results results = {0};
		struct setting *s;

		tear_down(state);
		set_up(state);
		s = *state;
		put(s, cases[i].file, cases[i].text);
		assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, NULL), 0);
		assert_false(results.is_valid);
		assert_true(says(&results.invalid, cases[i].expected));
		lh_results_done(&results);
	}
}

static void repetitions_become_means_and_intervals(void **state)
{
	const struct setting *s = *state;
	const char *const dirs[] = {s->dir, s->dir};
	lh_cleanup_free char *path = lh_path_join(s->dir, "repeat.csv");
	struct lh_results results = {0};
	struct lh_table table = {0};

	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, NULL), 0);
	assert_int_equal(lh_collect_repeat(dirs, 2, path, &table, NULL), 0);
	assert_string_equal(lh_table_cell(&table, 0, 0)->text, "throughput_sps");
	assert_int_equal(lh_table_cell(&table, 0, 1)->integer, 2);
	assert_near(lh_table_cell(&table, 0, 2)->real, 13.333, 1e-9);
	assert_near(lh_table_cell(&table, 0, 3)->real, 0, 1e-12);
	assert_int_equal(table.n_rows, 13);
	lh_table_done(&table);
	lh_results_done(&results);
}

static void replicas_that_differ_are_no_run(void **state)
{
	struct setting *s = *state;
	lh_cleanup_free char *other = strdup(rank_1);
	struct lh_results results = {0};
	struct lh_error err = {0};

	assert_non_null(other);
	*strstr(other, "ab\"}") = 'c';
	put(s, "events/rank-1.jsonl", other);
	assert_int_equal(lh_collect_run(s->dir, &s->sc, &results, &err), LH_ERUN);
	assert_non_null(strstr(err.message, "rank 1 ended with other weights than rank 0"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_column_is_as_worked_out_by_hand),
		TEST(traffic_is_spread_over_seconds_without_loss),
		TEST(events_may_name_the_peers_that_were_sent_to),
		TEST(ranks_of_one_node_share_its_price),
		TEST(costs_follow_time_bytes_and_samples),
		TEST(results_read_as_text_and_json),
		TEST(of_a_run_that_was_cut_whole_epochs_count),
		TEST(no_finished_epoch_is_an_error),
		TEST(malformed_events_name_file_and_line),
		TEST(samples_and_payload_must_be_conserved),
		TEST(butterfly_sends_exactly_its_formula),
		TEST(replicas_that_differ_are_no_run),
		TEST(a_counter_that_runs_backwards_is_an_error),
		TEST(without_counters_there_is_no_wire_and_no_total),
		TEST(what_makes_a_run_invalid_is_said),
		TEST(repetitions_become_means_and_intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
