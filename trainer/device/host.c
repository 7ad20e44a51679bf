/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of devices that compute on the host. See host.h. */
#include "trainer/device/host.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Before what is handed out, which stays aligned. */
enum { HEADER_BYTES = 64 };
struct header {
	void *mapping;
	size_t bytes;
};

/* Memory of this size and more is asked for in pages of this size: fewer of them are looked up,
 * and fewer faults are taken (up to a third faster sums of long vectors). */
static const size_t HUGE_PAGE_BYTES = (size_t)2 << 20;

void lh_host_close(struct lh_device *device)
{
	free(device);
}

static char *align(char *memory, size_t to)
{
	return (char *)(((uintptr_t)memory + to - 1) / to * to);
}

/* Mapped, not allocated: zero without being touched, and given back at once. */
int lh_host_alloc(struct lh_device *device, size_t bytes, void **ret_memory, struct lh_error *err)
{
	bool is_large = bytes >= HUGE_PAGE_BYTES;
	size_t all = bytes + HEADER_BYTES + (is_large ? HUGE_PAGE_BYTES : 0);
	char *mapping = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *memory = mapping;

	(void)device;
	if (mapping == MAP_FAILED)
		return lh_fail(err, LH_EENV, 0, "no memory for %.1f MB", (double)bytes / 1e6);
	if (is_large) {
		memory = align(mapping, HUGE_PAGE_BYTES);
		/* where the kernel has no such pages, small ones do */
		madvise(memory, bytes + HEADER_BYTES, MADV_HUGEPAGE);
	}
	*(struct header *)(void *)memory = (struct header){mapping, all};
	*ret_memory = memory + HEADER_BYTES;
	return 0;
}

void lh_host_free(struct lh_device *device, void *memory)
{
	struct header *header = memory ? (void *)((char *)memory - HEADER_BYTES) : NULL;

	(void)device;
	if (header)
		munmap(header->mapping, header->bytes);
}

int lh_host_zero(struct lh_device *device, void *memory, size_t bytes, struct lh_error *err)
{
	(void)device;
	(void)err;
	if (bytes) /* a graph without parameters has no gradients */
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
