/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's counters under /proc/net, from canned texts. */
#include "emulator/proc.h"
#include "tests/unit/test.h"

static const char snmp[] = "Ip: Forwarding InReceives\n"
			   "Ip: 1 100\n"
			   "Tcp: RtoAlgorithm MaxConn ActiveOpens RetransSegs InErrs\n"
			   "Tcp: 1 -1 20 189 3\n"
			   "Udp: InDatagrams\n"
			   "Udp: 7\n";

static void test_the_value_below_a_name_is_found(void **state)
{
	(void)state;
	assert_int_equal(lh_proc_value(snmp, "Tcp:", "RetransSegs"), 189);
	assert_int_equal(lh_proc_value(snmp, "Tcp:", "RtoAlgorithm"), 1);
	assert_int_equal(lh_proc_value(snmp, "Tcp:", "InErrs"), 3);
	assert_int_equal(lh_proc_value(snmp, "Udp:", "InDatagrams"), 7);
	assert_int_equal(lh_proc_value(snmp, "Ip:", "InReceives"), 100);
}

static void test_what_is_not_there_is_zero(void **state)
{
	(void)state;
	assert_int_equal(lh_proc_value(snmp, "Tcp:", "Retrans"), 0);
	assert_int_equal(lh_proc_value(snmp, "TcpExt:", "RetransSegs"), 0);
	assert_int_equal(lh_proc_value("", "Tcp:", "RetransSegs"), 0);
	assert_int_equal(lh_proc_value("Tcp: a b", "Tcp:", "b"), 0);
	assert_int_equal(lh_proc_value("Tcp: a b\nTcp: 1", "Tcp:", "b"), 0);
	assert_int_equal(lh_proc_value("Tcp: a b\nTcp: 1 2", "Tcp:", "b"), 2);
}

static void test_softnet_drops_are_summed_over_cpus(void **state)
{
	(void)state;
	assert_int_equal(lh_proc_softnet_drops("0000ffff 0000000a 00000000\n"
					       "00000001 00000010 00000000\n"),
			 26);
	assert_int_equal(lh_proc_softnet_drops("00000001 00000000"), 0);
	assert_int_equal(lh_proc_softnet_drops(""), 0);
}

static void test_link_drops_are_summed_without_the_loopback(void **state)
{
	static const char dev[] =
		"Inter-|   Receive                            |  Transmit\n"
		" face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs "
		"drop fifo colls carrier compressed\n"
		"    lo:  100   2    0    7    0     0          0         0   100    2    0    8   "
		" 0  "
		"   0       0          0\n"
		"  eth0: 7000  70    1    3    0     0          0         0  8000   80    2   40   "
		" 0  "
		"   0       0          0\n"
		"vec12:7000  70    1    100    0     0          0         0  8000   80    2   1000 "
		"   0 "
		"    0       0          0\n";

	(void)state;
	assert_int_equal(lh_proc_link_drops(dev), 1143);
	assert_int_equal(lh_proc_link_drops(""), 0);
	assert_int_equal(lh_proc_link_drops("eth0: 1 2 3"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_value_below_a_name_is_found),
		cmocka_unit_test(test_what_is_not_there_is_zero),
		cmocka_unit_test(test_softnet_drops_are_summed_over_cpus),
		cmocka_unit_test(test_link_drops_are_summed_without_the_loopback),
	};

	return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
