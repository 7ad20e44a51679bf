/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory. See map.h. */
#include "trainer/data/map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/cleanup.h"

int lh_map_open(const char *path, struct lh_map *ret, struct lh_error *err)
{
	/* a fifo must not make it wait */
	lh_cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st) < 0)
		return lh_fail(err, LH_ESYS, errno, "open %s", path);
	if (!S_ISREG(st.st_mode))
		return lh_fail(err, LH_EINPUT, 0, "%s: is not a regular file", path);
	if (st.st_size == 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: is empty", path);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return lh_fail(err, LH_ESYS, errno, "map %s", path);
	*ret = (struct lh_map){data, (size_t)st.st_size};
	return 0;
}

void lh_map_close(struct lh_map *map)
{
	if (map->data)
		munmap((void *)map->data, map->size);
	*map = (struct lh_map){0};
}
