/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the kernel's counters under /proc/net. Private to the emulator. */
#ifndef LH_EMULATOR_PROC_H
#define LH_EMULATOR_PROC_H

#include <stdint.h>

/*
 * The value called name in the text of a file like /proc/net/snmp or /proc/net/netstat, where
 * a line "GROUP: name name ..." is followed by a line "GROUP: value value ...". group comes
 * with its colon ("Tcp:"). 0 where it is not there.
 */
uint64_t lh_proc_value(const char *text, const char *group, const char *name);

/* The sum of the second numbers (hexadecimal) of the lines of /proc/net/softnet_stat: packets
 * dropped for a full backlog. */
uint64_t lh_proc_softnet_drops(const char *text);

/* Packets that the links of /proc/net/dev have dropped in both directions, lo apart. */
uint64_t lh_proc_link_drops(const char *text);

#endif
