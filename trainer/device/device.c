/* SPDX-License-Identifier: Apache-2.0 */
/* The list of devices. See device.h. */
#include "trainer/device/device.h"

#include <string.h>

const struct lh_device_ops *const lh_devices[] = {
	&lh_device_cpu,
	&lh_device_reference32,
	&lh_device_reference64,
	NULL,
};

const struct lh_device_ops *lh_device_find(const char *name)
{
	for (size_t i = 0; lh_devices[i]; i++)
		if (strcmp(lh_devices[i]->name, name) == 0)
			return lh_devices[i];
	return NULL;
}
