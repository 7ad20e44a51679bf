/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: every seed, then mutations of the seeds, the same
 * ones each time. Writes TAP. Usage: fuzz_NAME [FILE...]; with files, those alone are run.
 * An input that ends the program is left in the file fuzz-NAME.input.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/rng.h"
#include "tests/fuzz/fuzz.h"

enum {
	SEEDS_MAX = 64,
	INPUT_MAX_BYTES = 16384,
	ROUNDS = 50000,
	CHANGES_MAX = 4,
	CHUNK_MAX_BYTES = 64,
	INPUT_LIMIT_S = 20, /* for one input */
	ALL_LIMIT_S = 60,   /* then no new one is begun */
};

struct input {
	size_t size;
	uint8_t bytes[INPUT_MAX_BYTES];
};

static struct input current; /* also what the signal handler leaves behind */
static struct input seeds[SEEDS_MAX];
static size_t n_seeds;

/* Leaves the input that is being run in a file; then the signal does what it does. */
static void leave_input(int number)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "fuzz-%s.input", lh_fuzz_name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd >= 0)
		(void)!write(fd, current.bytes, current.size);
	signal(number, SIG_DFL);
	raise(number);
}

static void run(const struct input *in)
{
	/* on the heap, exactly as long, so that memory checkers see a step too far */
	lh_cleanup_free uint8_t *exact = malloc(in->size + !in->size);

	if (!exact)
		return;
	memcpy(exact, in->bytes, in->size);
	alarm(INPUT_LIMIT_S);
	LLVMFuzzerTestOneInput(exact, in->size);
	alarm(0);
}

static int load(const char *path, struct input *ret)
{
	lh_cleanup_free char *text = NULL;
	struct lh_error err = {0};

	if (lh_file_read(path, INPUT_MAX_BYTES, &text, &ret->size, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return -1;
	}
	memcpy(ret->bytes, text, ret->size);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Reads all files of a folder in the order of their names. */
static int load_seeds(const char *folder)
{
	lh_cleanup_closedir DIR *dir = opendir(folder);
	char *names[SEEDS_MAX];
	size_t n = 0;
	struct dirent *e;
	int r = 0;

	while (dir && n < SEEDS_MAX && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			names[n++] = lh_path_join(folder, e->d_name);
	qsort(names, n, sizeof(names[0]), compare_names);
	for (size_t i = 0; i < n; i++) {
		r = r < 0 ? r : load(names[i], &seeds[n_seeds]);
		n_seeds += r == 0;
		free(names[i]);
	}
	return n ? r : -1;
}

/* Puts size bytes in place of the `removed` at `at`; what does not fit is left out. */
static void replace(struct input *in, size_t at, size_t removed, const void *bytes, size_t size)
{
	if (in->size - removed + size > INPUT_MAX_BYTES)
		return;
	memmove(in->bytes + at + size, in->bytes + at + removed, in->size - at - removed);
	memcpy(in->bytes + at, bytes, size);
	in->size = in->size - removed + size;
}

static void change(struct input *in, struct lh_rng *rng, size_t n_words)
{
	const struct input *other = &seeds[lh_rng_below(rng, n_seeds)];
	size_t at = lh_rng_below(rng, in->size + 1);
	size_t left = in->size - at;
	size_t chunk = lh_rng_below(rng, (left < CHUNK_MAX_BYTES ? left : CHUNK_MAX_BYTES) + 1);
	const char *word = lh_fuzz_words[lh_rng_below(rng, n_words)];
	uint8_t copy[CHUNK_MAX_BYTES];
	size_t from;

	switch (lh_rng_below(rng, 6)) {
	case 0:
		if (left)
			in->bytes[at] ^= (uint8_t)(1u << lh_rng_below(rng, 8));
		break;
	case 1:
		replace(in, at, chunk, "", 0);
		break;
	case 2:
		replace(in, at, 0, word, strlen(word));
		break;
	case 3:
		replace(in, at, chunk, word, strlen(word));
		break;
	case 4:
		memcpy(copy, in->bytes + at, chunk);
		replace(in, at, 0, copy, chunk);
		break;
	default:
		from = lh_rng_below(rng, other->size + 1);
		chunk = other->size - from < CHUNK_MAX_BYTES ? other->size - from : CHUNK_MAX_BYTES;
		replace(in, at, 0, other->bytes + from, chunk);
		break;
	}
}

static int run_mutations(void)
{
	struct lh_rng rng;
	time_t begin = time(NULL);
	size_t n_words = 0;
	int i;

	while (lh_fuzz_words[n_words])
		n_words++;
	lh_rng_init(&rng, 1, lh_fuzz_name);
	for (i = 0; i < ROUNDS && time(NULL) - begin < ALL_LIMIT_S; i++) {
		uint64_t changes = 1 + lh_rng_below(&rng, CHANGES_MAX);

		current = seeds[lh_rng_below(&rng, n_seeds)];
		while (changes--)
			change(&current, &rng, n_words);
		run(&current);
	}
	return i;
}

int main(int argc, char **argv)
{
	static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM};
	const char *srcdir = getenv("srcdir");
	lh_cleanup_free char *folder =
		lh_strf("%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", lh_fuzz_name);

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], leave_input);
	for (int i = 1; i < argc; i++) {
		if (load(argv[i], &current) < 0)
			return 1;
		run(&current);
	}
	if (argc > 1)
		return 0;
	printf("1..2\n");
	if (load_seeds(folder) < 0) {
		printf("Bail out! no seeds in %s\n", folder);
		return 1;
	}
	for (size_t i = 0; i < n_seeds; i++) {
		current = seeds[i];
		run(&current);
	}
	printf("ok 1 - %zu seeds\n", n_seeds);
	fflush(stdout);
	printf("ok 2 - %d mutations of them\n", run_mutations());
	return 0;
}
