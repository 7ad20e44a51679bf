/* SPDX-License-Identifier: Apache-2.0 */
/* The list of devices. See device.h. */
#include "trainer/device/device.h"

#include <stdio.h>
#include <string.h>

const struct lh_device_ops *const lh_devices[] = {
	&lh_device_cpu,
	&lh_device_reference32,
	&lh_device_reference64,
#ifdef LH_HAVE_CUDA
	&lh_device_cuda,
#endif
	NULL,
};

const struct lh_device_ops *lh_device_find(const char *name)
{
	for (size_t i = 0; lh_devices[i]; i++)
		if (strcmp(lh_devices[i]->name, name) == 0)
			return lh_devices[i];
	return NULL;
}

static int fail_name(const char *name, struct lh_error *err)
{
	char names[256] = "";
	size_t at = 0;

	for (size_t i = 0; lh_devices[i] && at < sizeof(names); i++)
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "",
				       lh_devices[i]->name);
	if (strcmp(name, "cuda") == 0)
		return lh_fail(
			err, LH_EENV, 0,
			"device cuda: built without CUDA; install NVIDIA's CUDA toolkit with "
			"cuBLAS and cuDNN 9, then run configure and make again");
	return lh_fail(err, LH_EUSAGE, 0, "device %s: expected one of %s", name, names);
}

int lh_device_open(const char *name, const struct lh_device_options *options,
		   struct lh_device **ret_device, struct lh_error *err)
{
	const struct lh_device_ops *ops = lh_device_find(name);

	return ops ? ops->open(options, ret_device, err) : fail_name(name, err);
}
