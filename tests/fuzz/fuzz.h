/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target gives to its driver: libFuzzer, or fuzz_main.c in `make check`. */
#ifndef LH_TESTS_FUZZ_FUZZ_H
#define LH_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Feeds size bytes to the reader under test; ends the program where something does not hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of fuzz_main.c alone: the target's name, its seeds (a folder below tests/fuzz/corpus), and
 * words that are put into inputs; ends with NULL. */
extern const char lh_fuzz_name[];
extern const char *const lh_fuzz_words[];

#endif
