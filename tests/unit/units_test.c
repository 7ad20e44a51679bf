/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities: exact values, what is refused and why, and that what is written reads back. */
#include "core/units.h"

#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"

enum { WHY_MAX = 256 };

static const enum lh_unit_kind kinds[] = {LH_UNIT_DURATION, LH_UNIT_RATE, LH_UNIT_SIZE,
					  LH_UNIT_USD_PER_HOUR};

static void test_quantities_are_exact(void **state)
{
	static const struct {
		enum lh_unit_kind kind;
		const char *text;
		int64_t value;
	} cases[] = {
		{LH_UNIT_DURATION, "0 s", 0},
		{LH_UNIT_DURATION, "1 ns", 1},
		{LH_UNIT_DURATION, "1 us", 1000},
		{LH_UNIT_DURATION, "103.1 ms", 103100000},
		{LH_UNIT_DURATION, "103.124 ms", 103124000},
		{LH_UNIT_DURATION, "0.1 s", 100000000},
		{LH_UNIT_DURATION, "300 s", 300000000000},
		{LH_UNIT_DURATION, "5 min", 300000000000},
		{LH_UNIT_DURATION, "1.5 h", 5400000000000},
		{LH_UNIT_DURATION, ".5 us", 500},
		{LH_UNIT_DURATION, "51.55ms", 51550000},
		{LH_UNIT_DURATION, "9223372036854775807 ns", INT64_MAX},
		{LH_UNIT_RATE, "1 bit/s", 1},
		{LH_UNIT_RATE, "210 Mbit/s", 210000000},
		{LH_UNIT_RATE, "45 Gbit/s", 45000000000},
		{LH_UNIT_RATE, "6.93 Gbit/s", 6930000000},
		{LH_UNIT_RATE, "1 B/s", 8},
		{LH_UNIT_RATE, "1.25 MB/s", 10000000},
		{LH_UNIT_RATE, "1 MiB/s", 8388608},
		{LH_UNIT_SIZE, "1460 B", 1460},
		{LH_UNIT_SIZE, "395.6 MB", 395600000},
		{LH_UNIT_SIZE, "6 MiB", 6291456},
		{LH_UNIT_SIZE, "0.5 KiB", 512},
		{LH_UNIT_SIZE, "2.99 MB", 2990000},
		{LH_UNIT_SIZE, "8 GiB", 8589934592},
		{LH_UNIT_USD_PER_HOUR, "0.18 USD/h", 180000},
		{LH_UNIT_USD_PER_HOUR, "0.0475 USD/h", 47500},
		{LH_UNIT_USD_PER_HOUR, "0.000001 USD/h", 1},
		/* what is no whole number of the base unit goes to the nearest */
		{LH_UNIT_DURATION, "0.4 ns", 0},
		{LH_UNIT_DURATION, "0.5 ns", 1},
		{LH_UNIT_DURATION, "1.0000000004 s", 1000000000},
		{LH_UNIT_DURATION, "1.0000000006 s", 1000000001},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		char why[WHY_MAX] = "";
		int64_t value = -1;

		if (lh_unit_parse(cases[i].kind, cases[i].text, &value, why, sizeof(why)) < 0)
			fail_msg("'%s' was refused: %s", cases[i].text, why);
		if (value != cases[i].value)
			fail_msg("'%s' is %lld, not %lld", cases[i].text, (long long)cases[i].value,
				 (long long)value);
	}
}

/* row 44 */
static void test_wrong_quantities_are_refused_with_the_reason(void **state)
{
	static const struct {
		enum lh_unit_kind kind;
		const char *text;
		const char *reason;
	} cases[] = {
		{LH_UNIT_DURATION, "103.1", "bare number"},
		{LH_UNIT_DURATION, "0", "bare number"},
		{LH_UNIT_RATE, "210 ", "bare number"},
		{LH_UNIT_SIZE, "6", "bare number"},
		{LH_UNIT_USD_PER_HOUR, "0.18", "bare number"},
		{LH_UNIT_DURATION, "", "does not begin with a number"},
		{LH_UNIT_DURATION, "ms", "does not begin with a number"},
		{LH_UNIT_DURATION, ". ms", "does not begin with a number"},
		{LH_UNIT_DURATION, "+5 ms", "does not begin with a number"},
		{LH_UNIT_DURATION, "nan s", "does not begin with a number"},
		{LH_UNIT_DURATION, "-5 ms", "negative"},
		{LH_UNIT_DURATION, "5 m", "unknown unit 'm'"},
		{LH_UNIT_DURATION, "1e3 ms", "unknown unit 'e3 ms'"},
		{LH_UNIT_DURATION, "1,5 ms", "unknown unit ',5 ms'"},
		{LH_UNIT_DURATION, "1.2.3 ms", "unknown unit '.3 ms'"},
		{LH_UNIT_DURATION, "5 ms x", "unknown unit 'ms x'"},
		{LH_UNIT_RATE, "210 Mbps", "unknown unit 'Mbps'"},
		{LH_UNIT_RATE, "210 mbit/s", "unknown unit 'mbit/s'"},
		{LH_UNIT_RATE, "210 Mb/s", "unknown unit 'Mb/s'"},
		{LH_UNIT_RATE, "210 MB", "unknown unit 'MB'"},
		{LH_UNIT_SIZE, "6 Mb", "unknown unit 'Mb'"},
		{LH_UNIT_SIZE, "6 mib", "unknown unit 'mib'"},
		{LH_UNIT_USD_PER_HOUR, "0.18 EUR/h", "unknown unit 'EUR/h'"},
		{LH_UNIT_DURATION, "9223372036854775808 ns", "too many digits"},
		{LH_UNIT_DURATION, "1.0000000000000000000 s", "too many digits"},
		{LH_UNIT_DURATION, "9223372037 s", "too large"},
		{LH_UNIT_SIZE, "9223372036854775807 TiB", "too large"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		char why[WHY_MAX] = "";
		int64_t value = 42;

		if (lh_unit_parse(cases[i].kind, cases[i].text, &value, why, sizeof(why)) == 0)
			fail_msg("'%s' was taken as %lld", cases[i].text, (long long)value);
		if (!strstr(why, cases[i].reason))
			fail_msg("'%s': the reason is '%s', not '%s'", cases[i].text, why,
				 cases[i].reason);
		assert_int_equal(value, 42);
	}
}

static void test_a_long_unit_does_not_overrun_the_reason(void **state)
{
	char text[4096], why[8];
	int64_t value;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[0] = '1';
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(lh_unit_parse(LH_UNIT_SIZE, text, &value, why, sizeof(why)), -1);
	assert_int_equal(strlen(why), sizeof(why) - 1);
}

static void test_quantities_are_written_as_people_write_them(void **state)
{
	static const struct {
		enum lh_unit_kind kind;
		int64_t value;
		const char *exact;
		const char *brief;
	} cases[] = {
		{LH_UNIT_DURATION, 0, "0 ns", "0 ns"},
		{LH_UNIT_DURATION, 1000, "1 us", "1 us"},
		{LH_UNIT_DURATION, 103100000, "103.1 ms", "103.1 ms"},
		{LH_UNIT_DURATION, 90000000000, "90 s", "90 s"},
		{LH_UNIT_DURATION, 300000000000, "5 min", "300 s"},
		{LH_UNIT_DURATION, 123456789, "123456.789 us", "123.5 ms"},
		{LH_UNIT_RATE, 12, "12 bit/s", "12 bit/s"},
		{LH_UNIT_RATE, 999, "999 bit/s", "999 bit/s"},
		{LH_UNIT_RATE, 8192, "8.192 kbit/s", "8.192 kbit/s"},
		{LH_UNIT_RATE, 210000000, "210 Mbit/s", "210 Mbit/s"},
		{LH_UNIT_RATE, 45000000000, "45 Gbit/s", "45 Gbit/s"},
		{LH_UNIT_SIZE, 6291456, "6 MiB", "6.291 MB"},
		{LH_UNIT_SIZE, 395600000, "395.6 MB", "395.6 MB"},
		{LH_UNIT_SIZE, 1100, "1.1 kB", "1.1 kB"},
		{LH_UNIT_USD_PER_HOUR, 0, "0 USD/h", "0 USD/h"},
		{LH_UNIT_USD_PER_HOUR, 180000, "0.18 USD/h", "0.18 USD/h"},
		{LH_UNIT_USD_PER_HOUR, 47500, "0.0475 USD/h", "0.0475 USD/h"},
		{LH_UNIT_USD_PER_HOUR, 1, "0.000001 USD/h", "1e-06 USD/h"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		char buf[64];

		assert_string_equal(lh_unit_format(cases[i].kind, cases[i].value, buf, sizeof(buf)),
				    cases[i].exact);
		assert_string_equal(lh_unit_format_short(cases[i].kind, cases[i].value, buf,
							 sizeof(buf)),
				    cases[i].brief);
	}
}

/* A value of random magnitude; often a round one, as people's are. */
static int64_t random_value(struct lh_rng *rng)
{
	static const int64_t rounds[] = {1, 10, 1000, 1024, 1048576, 1000000, 60000000000};
	uint64_t bits = lh_rng_next(rng) >> (1 + lh_rng_below(rng, 63));
	int64_t round = rounds[lh_rng_below(rng, N_ELEMENTS(rounds))];

	return (int64_t)bits / round * round;
}

static void assert_reads_back(enum lh_unit_kind kind, int64_t value)
{
	char buf[64], why[WHY_MAX] = "";
	int64_t back = -1;

	lh_unit_format(kind, value, buf, sizeof(buf));
	if (lh_unit_parse(kind, buf, &back, why, sizeof(why)) < 0)
		fail_msg("%lld is written '%s', which is refused: it %s", (long long)value, buf,
			 why);
	if (back != value)
		fail_msg("%lld is written '%s', which reads %lld", (long long)value, buf,
			 (long long)back);
}

static void test_what_is_written_reads_back_to_the_same_value(void **state)
{
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "units");
	for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
		for (int64_t value = 0; value <= 20000; value++)
			assert_reads_back(kinds[k], value);
		for (int i = 0; i < 100000; i++)
			assert_reads_back(kinds[k], random_value(&rng));
		assert_reads_back(kinds[k], INT64_MAX);
		assert_reads_back(kinds[k], INT64_MAX - 1);
	}
}

static void test_examples_parse(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
		char why[WHY_MAX];
		int64_t value;

		assert_int_equal(lh_unit_parse(kinds[k], lh_unit_example(kinds[k]), &value, why,
					       sizeof(why)),
				 0);
	}
}

static void test_prices_per_data_keep_their_unit(void **state)
{
	struct lh_byte_price price;
	char why[WHY_MAX];

	(void)state;
	assert_int_equal(lh_byte_price_parse("0.08 USD/GB", &price, why, sizeof(why)), 0);
	assert_int_equal(price.usd_micro, 80000);
	assert_int_equal(price.per_bytes, 1000000000);
	assert_int_equal(lh_byte_price_parse("0.15 USD/GiB", &price, why, sizeof(why)), 0);
	assert_int_equal(price.usd_micro, 150000);
	assert_int_equal(price.per_bytes, 1073741824);
	assert_int_equal(lh_byte_price_parse("0.15", &price, why, sizeof(why)), -1);
	assert_non_null(strstr(why, "bare number"));
	assert_int_equal(lh_byte_price_parse("0.15 USD/MB", &price, why, sizeof(why)), -1);
	assert_non_null(strstr(why, "unknown unit"));
	assert_int_equal(lh_byte_price_parse("-1 USD/GB", &price, why, sizeof(why)), -1);
	assert_int_equal(
		lh_byte_price_parse("9223372036854775807 USD/GB", &price, why, sizeof(why)), -1);
}

static void test_shares_are_from_0_to_1(void **state)
{
	static const struct {
		const char *text;
		double ratio;
	} taken[] = {{"0", 0},	    {"1", 1},	  {"0.05", 0.05},
		     {"5 %", 0.05}, {"100 %", 1}, {"0.1%", 0.001}};
	static const char *const refused[] = {"1.01", "101 %", "-1 %", "5 percent", "", "%"};
	char why[WHY_MAX];
	double ratio;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(taken); i++) {
		assert_int_equal(lh_ratio_parse(taken[i].text, &ratio, why, sizeof(why)), 0);
		assert_near(ratio, taken[i].ratio, 1e-15);
	}
	for (size_t i = 0; i < N_ELEMENTS(refused); i++)
		assert_int_equal(lh_ratio_parse(refused[i], &ratio, why, sizeof(why)), -1);
}

static void test_a_queue_is_a_time_bytes_packets_or_bdp(void **state)
{
	static const struct {
		const char *text;
		enum lh_queue_unit unit;
		int64_t amount;
	} taken[] = {{"50 ms", LH_QUEUE_TIME, 50000000}, {"1 MB", LH_QUEUE_BYTES, 1000000},
		     {"64 KiB", LH_QUEUE_BYTES, 65536},	 {"1000 packets", LH_QUEUE_PACKETS, 1000},
		     {"1 packet", LH_QUEUE_PACKETS, 1},	 {"1 BDP", LH_QUEUE_BDP, 1000},
		     {"0.25BDP", LH_QUEUE_BDP, 250},	 {"0 s", LH_QUEUE_TIME, 0}};
	static const char *const refused[] = {"50",	  "",	    "-1 packets",
					      "1 bdp",	  "5 pkts", "9223372036854775807 BDP",
					      "1 Mbit/s", "packets"};
	struct lh_queue_size queue;
	char why[WHY_MAX];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(taken); i++) {
		assert_int_equal(lh_queue_parse(taken[i].text, &queue, why, sizeof(why)), 0);
		assert_int_equal(queue.unit, taken[i].unit);
		assert_true(queue.amount == taken[i].amount);
	}
	for (size_t i = 0; i < N_ELEMENTS(refused); i++)
		assert_int_equal(lh_queue_parse(refused[i], &queue, why, sizeof(why)), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantities_are_exact),
		cmocka_unit_test(test_wrong_quantities_are_refused_with_the_reason),
		cmocka_unit_test(test_a_long_unit_does_not_overrun_the_reason),
		cmocka_unit_test(test_quantities_are_written_as_people_write_them),
		cmocka_unit_test(test_what_is_written_reads_back_to_the_same_value),
		cmocka_unit_test(test_examples_parse),
		cmocka_unit_test(test_prices_per_data_keep_their_unit),
		cmocka_unit_test(test_shares_are_from_0_to_1),
		cmocka_unit_test(test_a_queue_is_a_time_bytes_packets_or_bdp),
	};

	return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
