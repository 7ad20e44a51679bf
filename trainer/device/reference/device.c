/* SPDX-License-Identifier: Apache-2.0 */
/* The reference device: host memory and the table of its layers. See reference.h. */
#include <stdlib.h>
#include <string.h>

#include "trainer/device/host.h"
#include "trainer/device/reference/reference.h"
#include "trainer/device/update.h"

#define KERNEL(name)                                                                               \
	{                                                                                          \
		.forward = LH_REFERENCE(name##_forward), .backward = LH_REFERENCE(name##_backward) \
	}

static const struct lh_kernel kernels[LH_N_LAYERS] = {
	[LH_CONV2D] = KERNEL(conv2d),
	[LH_LINEAR] = KERNEL(linear),
	[LH_BATCH_NORM] = KERNEL(batch_norm),
	[LH_LAYER_NORM] = KERNEL(layer_norm),
	[LH_ACTIVATE] = KERNEL(activate),
	[LH_ADD] = KERNEL(add),
	[LH_SCALE] = KERNEL(scale),
	[LH_DROPOUT] = KERNEL(dropout),
	[LH_POOL] = KERNEL(pool),
	[LH_SHORTCUT] = KERNEL(shortcut),
	[LH_EMBEDDING] = KERNEL(embedding),
	[LH_FIELD_EMBEDDING] = KERNEL(field_embedding),
	[LH_ATTENTION] = KERNEL(attention),
	[LH_CONCAT] = KERNEL(concat),
	[LH_FACTORIZATION] = KERNEL(factorization),
	[LH_CROSS_ENTROPY] = KERNEL(cross_entropy),
	[LH_BINARY_CROSS_ENTROPY] = KERNEL(binary_cross_entropy),
};

static const struct lh_kernel *find_kernel(enum lh_layer layer)
{
	return &kernels[layer];
}

static int open_reference(const struct lh_device_options *options, struct lh_device **ret_device,
			  struct lh_error *err);

#ifdef LH_REFERENCE_DOUBLE
#define LH_REFERENCE_DOC "plain C in double precision, the oracle; slow"
#define LH_REFERENCE_UPDATE lh_update_reference64
const struct lh_device_ops lh_device_reference64 = {
	.name = "reference64",
#else
#define LH_REFERENCE_DOC "plain C, the oracle; slow"
#define LH_REFERENCE_UPDATE lh_update_reference32
const struct lh_device_ops lh_device_reference32 = {
	.name = "reference",
#endif
	.doc = LH_REFERENCE_DOC,
	.open = open_reference,
	.close = lh_host_close,
	.alloc = lh_host_alloc,
	.free = lh_host_free,
	.zero = lh_host_zero,
	.write = lh_host_write,
	.read = lh_host_read,
	.synchronize = lh_host_synchronize,
	.kernel = find_kernel,
	.update = &LH_REFERENCE_UPDATE,
};

static int open_reference(const struct lh_device_options *options, struct lh_device **ret_device,
			  struct lh_error *err)
{
	struct lh_device *device;

	if (options->compute != LH_REFERENCE_REAL)
		return lh_fail(err, LH_EINPUT, 0, "this device computes in %s, not in %s",
			       lh_dtype_name(LH_REFERENCE_REAL), lh_dtype_name(options->compute));
	device = calloc(1, sizeof(*device));
	if (!device)
		return lh_fail(err, LH_ESYS, 0, "no memory for a device");
#ifdef LH_REFERENCE_DOUBLE
	device->ops = &lh_device_reference64;
#else
	device->ops = &lh_device_reference32;
#endif
	device->compute = LH_REFERENCE_REAL;
	device->master = LH_REFERENCE_REAL;
	device->n_threads = 1;
	*ret_device = device;
	return 0;
}
