/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the threads of a grid as fibers. See cuda_runtime.h. Fibers are made once and change by
 * setjmp and longjmp, which ask nothing of the system; AddressSanitizer is told.
 */
#undef _FORTIFY_SOURCE // its longjmp takes another stack for a mistake

#include "cuda_runtime.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

dim3 gridDim, blockDim, blockIdx, threadIdx;
enum lh_emulated_order lh_emulated_order;

namespace
{

enum { WARP = 32, STACK_BYTES = 64 << 10 };

struct barrier {
	unsigned int arrived, wanted, generation;
};

/* Where a stack goes on. */
struct place {
	ucontext_t context; /* the first time */
	jmp_buf jump;	    /* after that */
	bool has_left;
	/* for AddressSanitizer */
	const void *stack;
	size_t stack_bytes;
	void *fake_stack;
};

struct fiber {
	struct place place;
	dim3 index;
	struct barrier *waits_for;
	unsigned int generation;
	bool is_done;
	char stack[STACK_BYTES];
};

struct {
	std::vector<std::unique_ptr<struct fiber>> fibers;
	std::vector<struct barrier> warps;
	std::vector<uint64_t> slots; /* of shuffles */
	struct barrier block;
	unsigned int running;
	struct place scheduler;
	const std::function<void()> *thread;
} engine;

struct fiber &me()
{
	return *engine.fibers[engine.running];
}

#ifdef __SANITIZE_ADDRESS__
void tell_leaving(struct place &from, struct place &to)
{
	__sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
}

/* The first fiber to begin finds out where the scheduler's stack is. */
void tell_arrived(struct place &at)
{
	const void *stack;
	size_t bytes;

	__sanitizer_finish_switch_fiber(at.fake_stack, &stack, &bytes);
	if (engine.scheduler.stack == nullptr) {
		engine.scheduler.stack = stack;
		engine.scheduler.stack_bytes = bytes;
	}
}
#else
void tell_leaving(struct place &, struct place &)
{
}

void tell_arrived(struct place &)
{
}
#endif

void go(struct place &from, struct place &to)
{
	from.has_left = true;
	tell_leaving(from, to);
	if (_setjmp(from.jump)) {
		tell_arrived(from);
		return;
	}
	if (to.has_left)
		_longjmp(to.jump, 1);
	setcontext(&to.context);
}

[[noreturn]] void die(const char *what)
{
	fprintf(stderr, "emulated GPU: block %u %u %u, thread %u: %s\n", blockIdx.x, blockIdx.y,
		blockIdx.z, engine.running, what);
	abort();
}

/* A thread of one block after the other. */
void run_fiber()
{
	tell_arrived(me().place);
	for (;;) {
		(*engine.thread)();
		me().is_done = true;
		go(me().place, engine.scheduler);
	}
}

void wait_for(struct barrier &barrier)
{
	if (++barrier.arrived == barrier.wanted) {
		barrier.arrived = 0;
		barrier.generation++;
		return;
	}
	me().waits_for = &barrier;
	me().generation = barrier.generation;
	go(me().place, engine.scheduler);
	me().waits_for = nullptr;
}

std::unique_ptr<struct fiber> make_fiber()
{
	std::unique_ptr<struct fiber> fiber = std::make_unique<struct fiber>();

	getcontext(&fiber->place.context);
	fiber->place.stack = fiber->stack;
	fiber->place.stack_bytes = STACK_BYTES;
	fiber->place.context.uc_stack.ss_sp = fiber->stack;
	fiber->place.context.uc_stack.ss_size = STACK_BYTES;
	fiber->place.context.uc_link = nullptr;
	makecontext(&fiber->place.context, run_fiber, 0);
	return fiber;
}

void prepare_block(unsigned int n)
{
	if (n % WARP)
		die("a block that is not of whole warps");
	while (engine.fibers.size() < n)
		engine.fibers.push_back(make_fiber());
	engine.block = {0, n, 0};
	engine.warps.assign(n / WARP, {0, WARP, 0});
	engine.slots.assign(n, 0);
	for (unsigned int i = 0; i < n; i++) {
		struct fiber &fiber = *engine.fibers[i];

		fiber.index = dim3(i % blockDim.x, i / blockDim.x % blockDim.y,
				   i / blockDim.x / blockDim.y);
		fiber.waits_for = nullptr;
		fiber.is_done = false;
	}
}

/* Runs a fiber until it waits, if it can run; returns whether it could. */
bool run_one(unsigned int thread, unsigned int *n_done)
{
	engine.running = thread;
	struct fiber &fiber = me();

	if (fiber.is_done || (fiber.waits_for && fiber.waits_for->generation == fiber.generation))
		return false;
	threadIdx = fiber.index;
	go(engine.scheduler, fiber.place);
	*n_done += fiber.is_done;
	return true;
}

/* Runs the warp's fibers; warp by warp: until all have come to a barrier of the block. */
bool run_warp(unsigned int warp, unsigned int *n_done)
{
	bool has_run = false, runs_on;

	do {
		runs_on = false;
		for (unsigned int lane = 0; lane < WARP; lane++) {
			unsigned int at =
				lh_emulated_order == LH_DESCENDING ? WARP - 1 - lane : lane;

			runs_on = run_one(warp * WARP + at, n_done) || runs_on;
		}
		has_run = has_run || runs_on;
	} while (runs_on && lh_emulated_order == LH_WARP_BY_WARP);
	return has_run;
}

void run_block()
{
	unsigned int n = blockDim.x * blockDim.y * blockDim.z, n_done = 0;

	prepare_block(n);
	while (n_done < n) {
		bool has_run = false;

		for (unsigned int i = 0; i < n / WARP; i++) {
			bool is_ascending = lh_emulated_order == LH_ASCENDING;

			has_run = run_warp(is_ascending ? i : n / WARP - 1 - i, &n_done) || has_run;
		}
		if (!has_run)
			die("a barrier that not all threads reach");
	}
}

} // namespace

void __syncthreads()
{
	wait_for(engine.block);
}

void __syncwarp()
{
	wait_for(engine.warps[engine.running / WARP]);
}

unsigned int lh_emulated_lane()
{
	return engine.running % WARP;
}

uint64_t lh_emulated_exchange(uint64_t mine, unsigned int lane)
{
	unsigned int warp = engine.running / WARP;
	uint64_t theirs;

	engine.slots[engine.running] = mine;
	wait_for(engine.warps[warp]);
	theirs = engine.slots[warp * WARP + lane % WARP];
	wait_for(engine.warps[warp]);
	return theirs;
}

void lh_emulated_run(dim3 grid, dim3 block, const std::function<void()> &thread)
{
	engine.thread = &thread;
	gridDim = grid;
	blockDim = block;
	for (unsigned int z = 0; z < grid.z; z++)
		for (unsigned int y = 0; y < grid.y; y++)
			for (unsigned int x = 0; x < grid.x; x++) {
				blockIdx = dim3(x, y, z);
				run_block();
			}
}
