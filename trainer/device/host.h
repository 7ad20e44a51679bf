/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of devices that compute on the host: functions for their struct lh_device_ops. */
#ifndef LH_TRAINER_HOST_H
#define LH_TRAINER_HOST_H

#include "trainer/device/device.h"

void lh_host_close(struct lh_device *device);
int lh_host_alloc(struct lh_device *device, size_t bytes, void **ret_memory, struct lh_error *err);
void lh_host_free(struct lh_device *device, void *memory);
int lh_host_zero(struct lh_device *device, void *memory, size_t bytes, struct lh_error *err);
int lh_host_write(struct lh_device *device, void *memory, enum lh_dtype dtype, const void *host,
		  int64_t n, struct lh_error *err);
int lh_host_read(struct lh_device *device, const void *memory, enum lh_dtype dtype, void *ret_host,
		 int64_t n, struct lh_error *err);
int lh_host_synchronize(struct lh_device *device, struct lh_error *err);

#endif
