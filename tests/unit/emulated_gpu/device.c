/* SPDX-License-Identifier: Apache-2.0 */
/* See device.h. */
#include "tests/unit/emulated_gpu/device.h"

#include <stdlib.h>
#include <string.h>

#include "trainer/device/cuda/cuda.h"
#include "trainer/device/host.h"
#include "trainer/device/reference/reference.h"

int lh_cuda_check(cudaError_t code, const char *what, struct lh_error *err)
{
	return code ? lh_fail(err, LH_ERUN, 0, "%s: launch refused", what) : 0;
}

/* ---- the libraries' places ------------------------------------------------------------------ */

/* n numbers as floats: malloc'ed. */
static float *widen(struct lh_cuda *cuda, const void *x, enum lh_dtype dtype, int64_t n)
{
	float *wide = malloc((size_t)n * sizeof(*wide));

	if (wide)
		lh_cuda_convert(cuda, dtype, x, LH_F32, wide, false, n, NULL);
	return wide;
}

int lh_cuda_matmul(struct lh_cuda *cuda, const struct lh_cuda_matmul *p, struct lh_error *err)
{
	float *a = widen(cuda, p->a, p->in, p->m * p->k),
	      *b = widen(cuda, p->b, p->in, p->k * p->n);
	float *c = calloc((size_t)(p->m * p->n), sizeof(*c));
	int rc;

	for (int64_t i = 0; i < p->m * p->n; i++) {
		int64_t row = i / p->n, column = i % p->n;
		double sum = 0;

		for (int64_t k = 0; k < p->k; k++)
			sum += (double)a[p->transposes_a ? k * p->m + row : row * p->k + k] *
			       (double)b[p->transposes_b ? column * p->k + k : k * p->n + column];
		c[i] = (float)sum;
	}
	rc = lh_cuda_convert(cuda, LH_F32, c, p->out, p->c, p->adds, p->m * p->n, err);
	free(a);
	free(b);
	free(c);
	return rc;
}

struct lh_cuda_convolution {
	struct lh_conv2d spec;
	int64_t n_x, n_w, n_y;
};

int lh_cuda_convolution_new(struct lh_cuda *cuda, const struct lh_conv2d *s,
			    struct lh_cuda_convolution **ret_convolution, size_t *ret_workspace,
			    struct lh_error *err)
{
	struct lh_cuda_convolution *c = calloc(1, sizeof(*c));

	(void)cuda;
	if (!c)
		return lh_fail(err, LH_ESYS, 0, "no memory for a convolution");
	c->spec = *s;
	c->spec.has_bias = false;
	c->n_x = s->n * s->h * s->w * s->c;
	c->n_w = s->out_channels * s->kernel_h * s->kernel_w * (s->c / s->groups);
	c->n_y = s->n * s->oh * s->ow * s->out_channels;
	*ret_workspace = 0;
	*ret_convolution = c;
	return 0;
}

void lh_cuda_convolution_free(struct lh_cuda_convolution *convolution)
{
	free(convolution);
}

/* A node of the reference device over floats; those that are not wanted are zero. */
struct reference {
	struct lh_tensor x, w, y;
	struct lh_graph_node node;
};

static struct reference *reference_new(struct lh_cuda *cuda, struct lh_cuda_convolution *c,
				       const void *x, const void *w, const void *dy)
{
	enum lh_dtype dtype = cuda->device.compute;
	struct reference *r = calloc(1, sizeof(*r));

	r->x.n = c->n_x;
	r->w.n = c->n_w;
	r->y.n = c->n_y;
	r->x.data = x ? widen(cuda, x, dtype, c->n_x) : calloc((size_t)c->n_x, sizeof(float));
	r->w.data = w ? widen(cuda, w, dtype, c->n_w) : calloc((size_t)c->n_w, sizeof(float));
	r->y.data = calloc((size_t)c->n_y, sizeof(float));
	r->x.grad = calloc((size_t)c->n_x, sizeof(float));
	r->w.grad = calloc((size_t)c->n_w, sizeof(float));
	r->y.grad = dy ? widen(cuda, dy, dtype, c->n_y) : calloc((size_t)c->n_y, sizeof(float));
	r->node.spec = &c->spec;
	r->node.in[0] = &r->x;
	r->node.parameter[0] = &r->w;
	r->node.out = &r->y;
	return r;
}

static void reference_free(struct reference *r)
{
	struct lh_tensor *tensors[] = {&r->x, &r->w, &r->y};

	for (size_t i = 0; i < 3; i++) {
		free(tensors[i]->data);
		free(tensors[i]->grad);
	}
	free(r);
}

int lh_cuda_convolve(struct lh_cuda *cuda, struct lh_cuda_convolution *c, const void *x,
		     const void *w, void *y, void *workspace, struct lh_error *err)
{
	struct reference *r = reference_new(cuda, c, x, w, NULL);
	int rc = lh_reference32_conv2d_forward(NULL, &r->node, NULL, err);

	(void)workspace;
	if (rc == 0)
		rc = lh_cuda_convert(cuda, LH_F32, r->y.data, cuda->device.compute, y, false,
				     c->n_y, err);
	reference_free(r);
	return rc;
}

int lh_cuda_convolve_backward_x(struct lh_cuda *cuda, struct lh_cuda_convolution *c, const void *dy,
				const void *w, void *dx, bool adds, void *workspace,
				struct lh_error *err)
{
	struct reference *r = reference_new(cuda, c, NULL, w, dy);
	int rc = lh_reference32_conv2d_backward(NULL, &r->node, NULL, err);

	(void)workspace;
	if (rc == 0)
		rc = lh_cuda_convert(cuda, LH_F32, r->x.grad, cuda->device.compute, dx, adds,
				     c->n_x, err);
	reference_free(r);
	return rc;
}

int lh_cuda_convolve_backward_w(struct lh_cuda *cuda, struct lh_cuda_convolution *c, const void *x,
				const void *dy, void *dw, bool adds, void *workspace,
				struct lh_error *err)
{
	struct reference *r = reference_new(cuda, c, x, NULL, dy);
	int rc = lh_reference32_conv2d_backward(NULL, &r->node, NULL, err);

	(void)workspace;
	if (rc == 0)
		rc = lh_cuda_convert(cuda, LH_F32, r->w.grad, cuda->device.compute, dw, adds,
				     c->n_w, err);
	reference_free(r);
	return rc;
}

/* ---- the device ----------------------------------------------------------------------------- */

static int open_emulated(const struct lh_device_options *options, struct lh_device **ret_device,
			 struct lh_error *err)
{
	struct lh_cuda *cuda = calloc(1, sizeof(*cuda));

	if (!cuda)
		return lh_fail(err, LH_ESYS, 0, "no memory for a device");
	cuda->fault = calloc(1, sizeof(*cuda->fault));
	cuda->device = (struct lh_device){.ops = &lh_device_emulated_gpu,
					  .compute = options->compute,
					  .master = LH_F32,
					  .n_threads = 1};
	*ret_device = &cuda->device;
	return 0;
}

static void close_emulated(struct lh_device *device)
{
	free(lh_cuda_of(device)->fault);
	free(device);
}

static int write_emulated(struct lh_device *device, void *memory, enum lh_dtype dtype,
			  const void *host, int64_t n, struct lh_error *err)
{
	if (dtype == LH_I32)
		return lh_host_write(device, memory, dtype, host, n, err);
	return lh_cuda_convert(lh_cuda_of(device), LH_F32, host, dtype, memory, false, n, err);
}

static int synchronize_emulated(struct lh_device *device, struct lh_error *err)
{
	struct lh_cuda_fault *fault = lh_cuda_of(device)->fault;
	struct lh_cuda_fault found = *fault;

	memset(fault, 0, sizeof(*fault));
	return found.is_set ? lh_fail(err, LH_EINPUT, 0, "layer number %u: index %d at %d; 0 to %d",
				      found.position, found.value, (int)found.at, (int)found.n - 1)
			    : 0;
}

static int read_emulated(struct lh_device *device, const void *memory, enum lh_dtype dtype,
			 void *ret_host, int64_t n, struct lh_error *err)
{
	int rc = synchronize_emulated(device, err);

	if (rc)
		return rc;
	if (dtype == LH_I32)
		return lh_host_read(device, memory, dtype, ret_host, n, err);
	return lh_cuda_convert(lh_cuda_of(device), dtype, memory, LH_F32, ret_host, false, n, err);
}

static int cast_emulated(struct lh_device *device, void *ret_cast, const void *data, int64_t n,
			 struct lh_error *err)
{
	return lh_cuda_convert(lh_cuda_of(device), LH_F32, data, device->compute, ret_cast, false,
			       n, err);
}

const struct lh_device_ops lh_device_emulated_gpu = {
	.name = "emulated GPU",
	.doc = "the CUDA device's kernels on the CPU",
	.open = open_emulated,
	.close = close_emulated,
	.alloc = lh_host_alloc,
	.free = lh_host_free,
	.zero = lh_host_zero,
	.write = write_emulated,
	.read = read_emulated,
	.cast = cast_emulated,
	.synchronize = synchronize_emulated,
	.kernel = lh_cuda_kernel,
	.update = &lh_update_cuda,
};
