/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over threads, the only place of the device's own loops that knows OpenMP. See cpu.h. */
#include <omp.h>

#include "trainer/device/cpu/cpu.h"

/* Starting a thread's part takes a few microseconds: as long as this many numbers. */
enum { FLOATS_PER_THREAD = 32768 };

/* oneDNN waits for as many threads as a primitive was made for: it must get them. */
uint32_t lh_cpu_threads(uint32_t wanted)
{
	uint32_t limit = (uint32_t)omp_get_thread_limit();

	omp_set_dynamic(0);
	return wanted < limit ? wanted : limit;
}

static struct lh_cpu_span find_span(int64_t n, int64_t step, uint32_t thread, uint32_t n_threads)
{
	int64_t steps = (n + step - 1) / step;
	int64_t from = steps * thread / n_threads * step,
		to = steps * (thread + 1) / n_threads * step;

	return (struct lh_cpu_span){from, to < n ? to : n, thread};
}

void lh_cpu_for(const struct lh_device *device, int64_t n, int64_t step, int64_t floats,
		lh_cpu_body *body, const void *work)
{
	int64_t wanted = floats / FLOATS_PER_THREAD;

	if (wanted > device->n_threads)
		wanted = device->n_threads;
	if (wanted < 2) {
		body(work, (struct lh_cpu_span){0, n, 0});
		return;
	}
#pragma omp parallel num_threads((int)wanted)
	{
		struct lh_cpu_span span = find_span(n, step, (uint32_t)omp_get_thread_num(),
						    (uint32_t)omp_get_num_threads());

		if (span.from < span.to)
			body(work, span);
	}
}
