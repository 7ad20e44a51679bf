/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a safetensors file: what is refused is refused with a message; what is read
 * consists of tensors that cover the data and that can be read and found by name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "trainer/tensor/safetensors.h"

const char lh_fuzz_name[] = "safetensors";
const char *const lh_fuzz_words[] = {
	"\"dtype\":\"F32\"",
	"\"dtype\":\"I64\"",
	"\"dtype\":\"F8_E4M3\"",
	"\"shape\":[",
	"\"data_offsets\":[0,8]",
	"\"__metadata__\":{",
	"[]",
	"{}",
	",",
	"0",
	"-1",
	"4294967296",
	"9223372036854775807",
	"1e3",
	"\"\"",
	"\\u0000",
	" ",
	"\x10",
	"\x01\x01",
	"\xff\xff\xff\xff",
	NULL,
};

static void require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "does not hold: %s\n", what);
	abort();
}

static void check(const struct lh_safetensors *file, size_t size)
{
	size_t n;
	const struct lh_safetensor *tensors = lh_safetensors_list(file, &n);
	uint64_t at = n ? tensors[0].at_bytes : size;

	for (size_t i = 0; i < n; i++) {
		const struct lh_safetensor *t = &tensors[i];
		struct lh_error err = {0};
		void *data = malloc(t->n_bytes + 1);

		require(data != NULL, "memory");
		require(t->at_bytes == at && t->n_bytes <= size - at, "tensors cover the data");
		require(t->n >= 0 && t->n_dims <= LH_TENSOR_DIMS_MAX, "shape");
		at += t->n_bytes;
		require(lh_safetensors_find(file, t->name) == t, "tensors are found");
		require((lh_safetensors_read(file, t, 0, t->n, data, &err) == 0) == t->is_known,
			"known types are read");
		free(data);
	}
	require(at == size, "data end with the file");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lh_safetensors *file = NULL;
	struct lh_error err = {0};
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	require(fd >= 0 && write(fd, data, size) == (ssize_t)size, "a file in memory");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (lh_safetensors_open(path, &file, &err) == 0)
		check(file, size);
	else
		require(err.message[0] && !file, "an error has a message");
	lh_safetensors_close(file);
	close(fd);
	return 0;
}
