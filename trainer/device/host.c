/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of devices that compute on the host. See host.h. */
#include "trainer/device/host.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Room for the size of a mapping before what is handed out, which stays aligned. */
enum { HEADER_BYTES = 64 };

void lh_host_close(struct lh_device *device)
{
	free(device);
}

/* Mapped, not allocated: zero without being touched, and given back at once. */
int lh_host_alloc(struct lh_device *device, size_t bytes, void **ret_memory, struct lh_error *err)
{
	size_t all = bytes + HEADER_BYTES;
	char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)device;
	if (memory == MAP_FAILED)
		return lh_fail(err, LH_EENV, 0, "no memory for %.1f MB", (double)bytes / 1e6);
	*(size_t *)memory = all;
	*ret_memory = memory + HEADER_BYTES;
	return 0;
}

void lh_host_free(struct lh_device *device, void *memory)
{
	char *begin = memory ? (char *)memory - HEADER_BYTES : NULL;

	(void)device;
	if (begin)
		munmap(begin, *(size_t *)begin);
}

int lh_host_zero(struct lh_device *device, void *memory, size_t bytes, struct lh_error *err)
{
	(void)device;
	(void)err;
	memset(memory, 0, bytes);
	return 0;
}

int lh_host_write(struct lh_device *device, void *memory, enum lh_dtype dtype, const void *host,
		  int64_t n, struct lh_error *err)
{
	(void)device;
	(void)err;
	memcpy(memory, host, (size_t)n * lh_dtype_bytes(dtype));
	return 0;
}

int lh_host_read(struct lh_device *device, const void *memory, enum lh_dtype dtype, void *ret_host,
		 int64_t n, struct lh_error *err)
{
	(void)device;
	(void)err;
	memcpy(ret_host, memory, (size_t)n * lh_dtype_bytes(dtype));
	return 0;
}

int lh_host_synchronize(struct lh_device *device, struct lh_error *err)
{
	(void)device;
	(void)err;
	return 0;
}
