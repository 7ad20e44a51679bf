/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU device: opening it, and the table of its layers. This file alone is compiled for any
 * x86-64, so that it can tell a machine that lacks the instructions of the others. See cpu.h.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/onednn.h"
#include "trainer/device/host.h"
#include "trainer/device/update.h"

enum { THREADS_MAX = 256 };

#define KERNEL(name) .forward = lh_cpu_##name##_forward, .backward = lh_cpu_##name##_backward
#define PREPARED(name) .prepare = lh_cpu_##name##_prepare, KERNEL(name)

static const struct lh_kernel kernels[LH_N_LAYERS] = {
	[LH_CONV2D] = {PREPARED(conv2d), .done = lh_cpu_conv2d_done},
	[LH_LINEAR] = {PREPARED(linear), .done = lh_cpu_linear_done},
	[LH_BATCH_NORM] = {PREPARED(batch_norm)},
	[LH_LAYER_NORM] = {PREPARED(layer_norm)},
	[LH_ACTIVATE] = {KERNEL(activate)},
	[LH_ADD] = {KERNEL(add)},
	[LH_SCALE] = {PREPARED(scale)},
	[LH_DROPOUT] = {KERNEL(dropout)},
	[LH_POOL] = {KERNEL(pool)},
	[LH_SHORTCUT] = {KERNEL(shortcut)},
	[LH_EMBEDDING] = {KERNEL(embedding)},
	[LH_FIELD_EMBEDDING] = {KERNEL(field_embedding)},
	[LH_ATTENTION] = {PREPARED(attention)},
	[LH_CONCAT] = {KERNEL(concat)},
	[LH_FACTORIZATION] = {KERNEL(factorization)},
	[LH_CROSS_ENTROPY] = {PREPARED(cross_entropy)},
	[LH_BINARY_CROSS_ENTROPY] = {PREPARED(binary_cross_entropy)},
};

static const struct lh_kernel *find_kernel(enum lh_layer layer)
{
	return kernels[layer].forward ? &kernels[layer] : NULL;
}

/* ---- the machine ---------------------------------------------------------------------------- */

#ifdef __x86_64__
static bool has_instructions(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

/* The processor's own name: /proc/cpuinfo has another one inside User-Mode Linux. */
static void read_processor(char *ret_text, size_t size)
{
	union {
		uint32_t registers[12];
		char text[48];
	} brand = {{0}};
	const char *begin = brand.text;

	for (uint32_t i = 0; i < 3; i++)
		__get_cpuid(0x80000002 + i, &brand.registers[4 * i], &brand.registers[4 * i + 1],
			    &brand.registers[4 * i + 2], &brand.registers[4 * i + 3]);
	begin += strspn(begin, " ");
	snprintf(ret_text, size, "%.47s", *begin ? begin : "an unknown processor");
}
#else
static bool has_instructions(void)
{
	return true;
}

static void read_processor(char *ret_text, size_t size)
{
	snprintf(ret_text, size, "not x86-64");
}
#endif

static uint32_t count_processors(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (uint32_t)CPU_COUNT(&set);
}

static const char *instructions_name(void)
{
	static const struct {
		dnnl_cpu_isa_t isa;
		const char *name;
	} names[] = {
		{dnnl_cpu_isa_sse41, "SSE 4.1"},
		{dnnl_cpu_isa_avx, "AVX"},
		{dnnl_cpu_isa_avx2, "AVX2"},
		{dnnl_cpu_isa_avx2_vnni, "AVX2 VNNI"},
		{dnnl_cpu_isa_avx512_core, "AVX-512"},
		{dnnl_cpu_isa_avx512_core_vnni, "AVX-512 VNNI"},
		{dnnl_cpu_isa_avx512_core_bf16, "AVX-512 BF16"},
		{dnnl_cpu_isa_avx512_core_amx, "AVX-512 AMX"},
	};
	dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].isa == isa)
			return names[i].name;
	return "others";
}

/* ---- opening -------------------------------------------------------------------------------- */

static void close_cpu(struct lh_device *device)
{
	struct lh_cpu *cpu = (struct lh_cpu *)device;

	dnnl_stream_destroy(cpu->stream);
	dnnl_engine_destroy(cpu->engine);
	free(cpu);
}

/* oneDNN takes a limit before its first use alone. */
static int limit_instructions(struct lh_error *err)
{
	dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
	if (dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_avx2)
		return 0;
	return lh_fail(err, LH_EENV, 0,
		       "oneDNN has begun to compute with %s in this process: portable numbers need "
		       "AVX2 from the beginning",
		       instructions_name());
}

static void describe(struct lh_cpu *cpu)
{
	const dnnl_version_t *version = dnnl_version();

	read_processor(cpu->device.processor, sizeof(cpu->device.processor));
	snprintf(cpu->device.software, sizeof(cpu->device.software),
		 "oneDNN %d.%d.%d with %s, own loops with AVX2", version->major, version->minor,
		 version->patch, instructions_name());
}

static int open_cpu(const struct lh_device_options *options, struct lh_device **ret_device,
		    struct lh_error *err);

const struct lh_device_ops lh_device_cpu = {
	.name = "cpu",
	.doc = "the host's processors, by oneDNN and own loops",
	.open = open_cpu,
	.close = close_cpu,
	.alloc = lh_host_alloc,
	.free = lh_host_free,
	.zero = lh_host_zero,
	.write = lh_host_write,
	.read = lh_host_read,
	.synchronize = lh_host_synchronize,
	.kernel = find_kernel,
	.update = &lh_update_cpu,
};

static int open_cpu(const struct lh_device_options *options, struct lh_device **ret_device,
		    struct lh_error *err)
{
	struct lh_cpu *cpu;
	uint32_t n_threads = options->n_threads ? options->n_threads : count_processors();
	int rc;

	if (options->compute != LH_F32)
		return lh_fail(err, LH_EINPUT, 0, "this device computes in %s, not in %s",
			       lh_dtype_name(LH_F32), lh_dtype_name(options->compute));
	if (!has_instructions())
		return lh_fail(err, LH_EENV, 0,
			       "this processor lacks AVX2, FMA or BMI, which the device cpu needs "
			       "(x86-64-v3); the device reference needs none of them");
	if (options->is_portable && (rc = limit_instructions(err)) != 0)
		return rc;
	n_threads = lh_cpu_threads(n_threads < THREADS_MAX ? n_threads : THREADS_MAX);
	cpu = calloc(1, sizeof(*cpu));
	if (!cpu)
		return lh_fail(err, LH_ESYS, 0, "no memory for a device");
	cpu->device = (struct lh_device){
		.ops = &lh_device_cpu, .compute = LH_F32, .master = LH_F32, .n_threads = n_threads};
	rc = lh_onednn_check(dnnl_engine_create(&cpu->engine, dnnl_cpu, 0), "starting", err);
	if (rc == 0)
		rc = lh_onednn_check(dnnl_stream_create(&cpu->stream, cpu->engine,
							dnnl_stream_default_flags),
				     "starting", err);
	if (rc) {
		close_cpu(&cpu->device);
		return rc;
	}
	describe(cpu);
	*ret_device = &cpu->device;
	return 0;
}
