/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seconds of choosing k of n values, and of codecs; bench/compress runs it and judges. Each thread
 * has values of its own, and all of them do the same at the same time: of a round the slowest
 * counts. Everything is touched once before it is timed.
 *
 * Usage: compress-speed select ELEMENTS normal|heavy DENSITY THREADS ROUNDS
 *        compress-speed codecs ELEMENTS THREADS ROUNDS
 * Writes a line of JSON for each method and round; methods take turns.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/rng.h"
#include "trainer/compress/compress.h"
#include "trainer/compress/kernels_sparse_internal.h"
#include "trainer/compress/select_internal.h"
#include "trainer/compress/sparse.h"

enum { THREADS_MAX = 64, METHODS_MAX = 16 };

struct worker;
typedef void method_fn(struct worker *w);

struct method {
	const char *name;
	method_fn *run;
	const struct lh_sparse_ops *choice; /* of `choose` */
	const struct lh_codec_ops *codec;   /* of `encode` and `decode` */
};

struct bench {
	struct method methods[METHODS_MAX];
	int n_methods, n_threads, n_rounds;
	uint32_t n, k;
	int is_heavy;
	pthread_barrier_t turn;
	struct worker *workers;
};

struct worker {
	struct bench *bench;
	const struct method *method;
	pthread_t thread;
	int number;
	float *values, *decoded;
	void *scratch; /* of choices, or the wire */
	struct lh_sparse chosen;
	struct lh_rng rng;
	double seconds, largest_squares, squares;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- methods -------------------------------------------------------------------------------- */

static void choose(struct worker *w)
{
	const struct lh_sparse_choice choice = {
		.k = w->bench->k, .rng = &w->rng, .scratch = w->scratch};

	w->method->choice->select(w->values, w->bench->n, &choice, &w->chosen);
}

uint32_t lh_bench_nth_element(uint32_t *keys, size_t n, size_t k);

/* As topk does it, but for the selection. */
static void choose_by_library(struct worker *w)
{
	const struct lh_sparse_kernels *kernels = lh_sparse_kernels();
	struct lh_band band = {.need = w->bench->k};
	uint32_t *keys = w->scratch;

	kernels->keys(w->values, w->bench->n, keys);
	band.low = lh_bench_nth_element(keys, w->bench->n, w->bench->k);
	band.high = band.low + 1;
	for (size_t i = 0; i < w->bench->k; i++)
		band.need -= keys[i] > band.low;
	w->chosen.count = (uint32_t)kernels->emit(w->values, w->bench->n, &band, w->bench->k,
						  w->chosen.indices);
	lh_select_fetch(w->values, &w->chosen);
}

static void encode(struct worker *w)
{
	w->method->codec->encode(w->values, w->bench->n, w->scratch);
}

static void decode(struct worker *w)
{
	w->method->codec->decode(w->scratch, w->bench->n, w->decoded);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void draw(struct worker *w)
{
	for (uint32_t i = 0; i < w->bench->n; i++) {
		/* twelve uniform numbers of 16 bits: normal but for its ends, and quick to draw */
		double z = -6;

		for (int j = 0; j < 3; j++) {
			uint64_t bits = lh_rng_next(&w->rng);

			for (int part = 0; part < 4; part++)
				z += (double)(bits >> 16 * part & 0xffff) / 65536;
		}
		w->values[i] = (float)(w->bench->is_heavy ? z * z * z * z * z : z);
	}
}

static void reverse(float *values, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		float t = values[i];

		values[i] = values[n - 1 - i];
		values[n - 1 - i] = t;
	}
}

/* Puts others where partitions look for a pivot, so that none is lucky in all rounds. */
static void rotate(struct worker *w)
{
	size_t n = w->bench->n, by = lh_rng_below(&w->rng, n);

	reverse(w->values, by);
	reverse(w->values + by, n - by);
	reverse(w->values, n);
}

static void *work(void *argument)
{
	struct worker *w = argument;
	struct bench *b = w->bench;

	draw(w);
	/* the first round warms up */
	for (int i = 0; i < b->n_methods * (b->n_rounds + 1); i++) {
		double begin;

		/* the round before is judged */
		pthread_barrier_wait(&b->turn);
		w->method = &b->methods[i % b->n_methods];
		if (w->method == b->methods)
			rotate(w);
		pthread_barrier_wait(&b->turn);
		begin = now_s();
		w->method->run(w);
		w->seconds = now_s() - begin;
		pthread_barrier_wait(&b->turn);
	}
	return NULL;
}

/* The part of the true k largest squares that was chosen, -1 where it is not k elements in order.
 */
static double judge(const struct worker *w)
{
	const struct lh_sparse *c = &w->chosen;
	double sum = 0;

	for (uint32_t i = 0; i < c->count; i++) {
		if (c->indices[i] >= w->bench->n || (i && c->indices[i] <= c->indices[i - 1]) ||
		    c->values[i] != w->values[c->indices[i]])
			return -1;
		sum += (double)c->values[i] * (double)c->values[i];
	}
	return c->count == w->bench->k ? sum : -1;
}

static void report(struct bench *b, const struct method *m)
{
	double slowest = 0, least = 1;

	for (int t = 0; t < b->n_threads; t++) {
		struct worker *w = &b->workers[t];

		slowest = w->seconds > slowest ? w->seconds : slowest;
		if (m->codec)
			continue;
		w->squares = judge(w);
		/* topk is the first of the methods */
		if (m == b->methods)
			w->largest_squares = w->squares;
		least = fmin(least, w->squares / w->largest_squares);
	}
	if (m->codec)
		printf("{\"method\": \"%s\", \"elements\": %u, \"threads\": %d, \"seconds\": %.9f, "
		       "\"wire_bytes\": %llu}\n",
		       m->name, b->n, b->n_threads, slowest,
		       (unsigned long long)m->codec->wire_bytes(b->n));
	else
		printf("{\"method\": \"%s\", \"elements\": %u, \"k\": %u, \"values\": \"%s\", "
		       "\"threads\": %d, \"seconds\": %.9f, \"squares_ratio\": %.9f}\n",
		       m->name, b->n, b->k, b->is_heavy ? "heavy" : "normal", b->n_threads, slowest,
		       least);
	fflush(stdout);
}

/* ---- set-up --------------------------------------------------------------------------------- */

static void add_choices(struct bench *b)
{
	b->methods[b->n_methods++] =
		(struct method){.name = "topk", .run = choose, .choice = &lh_sparse_topk};
	b->methods[b->n_methods++] =
		(struct method){.name = "nth_element", .run = choose_by_library};
	b->methods[b->n_methods++] =
		(struct method){.name = "mstopk", .run = choose, .choice = &lh_sparse_mstopk};
	b->methods[b->n_methods++] =
		(struct method){.name = "dgc", .run = choose, .choice = &lh_sparse_dgc};
}

static void add_codecs(struct bench *b)
{
	static char names[METHODS_MAX][32];

	for (size_t i = 0; lh_codecs[i]; i++) {
		char *name = names[b->n_methods];

		snprintf(name, sizeof(names[0]), "%s encode", lh_codecs[i]->name);
		b->methods[b->n_methods++] =
			(struct method){.name = name, .run = encode, .codec = lh_codecs[i]};
		name = names[b->n_methods];
		snprintf(name, sizeof(names[0]), "%s decode", lh_codecs[i]->name);
		b->methods[b->n_methods++] =
			(struct method){.name = name, .run = decode, .codec = lh_codecs[i]};
	}
}

static size_t scratch_bytes(const struct bench *b)
{
	size_t most = 1;

	for (int i = 0; i < b->n_methods; i++) {
		const struct method *m = &b->methods[i];
		size_t bytes = m->choice  ? m->choice->scratch_bytes(b->n, b->k)
			       : m->codec ? m->codec->wire_bytes(b->n)
					  : (size_t)b->n * sizeof(uint32_t);

		most = bytes > most ? bytes : most;
	}
	return most;
}

static int start(struct bench *b, struct worker *w, int number)
{
	char stream[32];

	*w = (struct worker){.bench = b, .number = number};
	w->values = malloc(b->n * sizeof(*w->values));
	w->decoded = b->k ? NULL : malloc(b->n * sizeof(*w->decoded));
	w->scratch = malloc(scratch_bytes(b));
	w->chosen.indices = malloc((b->k + 1) * sizeof(*w->chosen.indices));
	w->chosen.values = malloc((b->k + 1) * sizeof(*w->chosen.values));
	if (!w->values || (!b->k && !w->decoded) || !w->scratch || !w->chosen.indices ||
	    !w->chosen.values)
		return -1;
	snprintf(stream, sizeof(stream), "compress-speed/%d", number);
	lh_rng_init(&w->rng, 1, stream);
	return pthread_create(&w->thread, NULL, work, w) ? -1 : 0;
}

static void finish(struct worker *w)
{
	pthread_join(w->thread, NULL);
	free(w->values);
	free(w->decoded);
	free(w->scratch);
	free(w->chosen.indices);
	free(w->chosen.values);
}

static int run(struct bench *b)
{
	struct worker workers[THREADS_MAX];

	b->workers = workers;
	pthread_barrier_init(&b->turn, NULL, (unsigned)b->n_threads + 1);
	for (int t = 0; t < b->n_threads; t++)
		if (start(b, &workers[t], t)) {
			fprintf(stderr, "compress-speed: not enough memory or threads\n");
			return 1; /* ends the threads that wait */
		}
	for (int i = 0; i < b->n_methods * (b->n_rounds + 1); i++) {
		for (int step = 0; step < 3; step++) /* begin, rotated, done */
			pthread_barrier_wait(&b->turn);
		if (i >= b->n_methods)
			report(b, &b->methods[i % b->n_methods]);
	}
	for (int t = 0; t < b->n_threads; t++)
		finish(&workers[t]);
	return 0;
}

int main(int argc, char **argv)
{
	int is_select = argc == 7 && strcmp(argv[1], "select") == 0;
	static struct bench b;

	if (!is_select && !(argc == 5 && strcmp(argv[1], "codecs") == 0)) {
		fprintf(stderr, "usage: compress-speed select ELEMENTS normal|heavy DENSITY "
				"THREADS ROUNDS\n"
				"       compress-speed codecs ELEMENTS THREADS ROUNDS\n");
		return 2;
	}
	b.n = (uint32_t)strtoul(argv[2], NULL, 10);
	b.n_threads = atoi(argv[argc - 2]);
	b.n_rounds = atoi(argv[argc - 1]);
	if (is_select) {
		b.is_heavy = strcmp(argv[3], "heavy") == 0;
		b.k = (uint32_t)round(atof(argv[4]) * b.n);
		add_choices(&b);
	} else {
		add_codecs(&b);
	}
	if (!b.n || b.k > b.n || (is_select && !b.k) || b.n_threads < 1 ||
	    b.n_threads > THREADS_MAX || b.n_rounds < 1) {
		fprintf(stderr, "compress-speed: numbers out of their range\n");
		return 2;
	}
	return run(&b);
}
