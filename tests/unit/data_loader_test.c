/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: the same for one rank and many, resumed exactly, moved and mirrored as drawn. */
#include "trainer/data/loader.h"

#include "tests/unit/data_fixture.h"

enum { PIXELS = 24, BATCH_MAX = 64 };

struct batch {
	float images[BATCH_MAX][PIXELS];
	int32_t labels[BATCH_MAX];
};

static struct lh_loader *load(struct lh_dataset *ds, const struct lh_loader_spec *spec)
{
	struct lh_loader *l = NULL;
	struct lh_error err = {0};

	if (lh_loader_new(ds, spec, &l, &err) < 0)
		fail_msg("%s", err.message);
	return l;
}

static void take(struct lh_loader *l, uint32_t n, struct batch *ret)
{
	void *fields[] = {ret->images, ret->labels};
	struct lh_error err = {0};

	memset(ret, 0, sizeof(*ret));
	if (lh_loader_next(l, n, fields, &err) < 0)
		fail_msg("%s", err.message);
}

static void test_ranks_together_see_what_one_sees(void **state)
{
	struct lh_dataset *ds = data_open_images(50, 10);
	struct lh_loader_spec spec = {.seed = 9, .crop_padding = 1, .flip = true};
	struct lh_loader *one = load(ds, &spec), *ranks[4];

	(void)state;
	spec.n_ranks = 4;
	for (uint32_t r = 0; r < 4; r++) {
		spec.rank = r;
		ranks[r] = load(ds, &spec);
	}
	/* batches of 24 go over the ends of epochs of 50 */
	for (int step = 0; step < 10; step++) {
		struct batch whole, part;

		take(one, 24, &whole);
		for (uint32_t r = 0; r < 4; r++) {
			take(ranks[r], 6, &part);
			for (uint32_t i = 0; i < 6; i++) {
				assert_int_equal(part.labels[i], whole.labels[4 * i + r]);
				assert_memory_equal(part.images[i], whole.images[4 * i + r],
						    sizeof(part.images[i]));
			}
		}
	}
	assert_int_equal(lh_loader_epoch(one), 4);
	assert_int_equal(lh_loader_epoch(ranks[3]), 4);
	for (uint32_t r = 0; r < 4; r++)
		lh_loader_free(ranks[r]);
	lh_loader_free(one);
	lh_dataset_free(ds);
}

static void test_an_epoch_has_every_sample_once(void **state)
{
	struct lh_dataset *ds = data_open_images(60, 60); /* labels are the samples' numbers */
	const struct lh_loader_spec spec = {.seed = 2};
	struct lh_loader *l = load(ds, &spec);
	struct batch first, second;

	(void)state;
	for (int epoch = 0; epoch < 3; epoch++) {
		uint8_t seen[60] = {0};

		second = first;
		assert_int_equal(lh_loader_epoch(l), epoch);
		take(l, 60, &first);
		for (int i = 0; i < 60; i++)
			assert_int_equal(seen[first.labels[i]]++, 0);
		if (epoch)
			assert_memory_not_equal(first.labels, second.labels, 60 * 4);
	}
	lh_loader_free(l);
	lh_dataset_free(ds);
}

static void test_a_shards_loader_stays_in_it(void **state)
{
	static const uint32_t mine[] = {3, 30, 7, 59};
	struct lh_dataset *ds = data_open_images(60, 60);
	const struct lh_loader_spec spec = {.seed = 2, .indices = mine, .n_indices = 4};
	struct lh_loader *l = load(ds, &spec);
	int counts[60] = {0};
	struct batch b;

	(void)state;
	assert_int_equal(lh_loader_epoch_size(l), 4);
	take(l, 40, &b);
	for (int i = 0; i < 40; i++)
		counts[b.labels[i]]++;
	for (int i = 0; i < 4; i++)
		assert_int_equal(counts[mine[i]], 10);
	lh_loader_free(l);
	lh_dataset_free(ds);
}

static void test_a_resumed_loader_goes_on_exactly(void **state)
{
	struct lh_dataset *ds = data_open_images(37, 37);
	const struct lh_loader_spec spec = {.seed = 6, .crop_padding = 2, .flip = true};
	struct lh_loader *a = load(ds, &spec), *b = load(ds, &spec);
	struct batch x, y;

	(void)state;
	for (int step = 0; step < 11; step++)
		take(a, 10, &x);
	assert_int_equal(lh_loader_position(a), 110);
	lh_loader_seek(b, lh_loader_position(a));
	for (int step = 0; step < 11; step++) {
		take(a, 10, &x);
		take(b, 10, &y);
		assert_memory_equal(&x, &y, sizeof(x));
	}
	lh_loader_free(a);
	lh_loader_free(b);
	lh_dataset_free(ds);
}

static void test_evaluation_is_in_order(void **state)
{
	struct lh_dataset *ds = data_open_images(20, 20);
	const struct lh_loader_spec spec = {.seed = 6, .in_order = true};
	struct lh_loader *l = load(ds, &spec);
	struct batch b;

	(void)state;
	take(l, 20, &b);
	for (int i = 0; i < 20; i++)
		assert_int_equal(b.labels[i], i);
	lh_loader_free(l);
	lh_dataset_free(ds);
}

/* Whether `moved` is `image` shifted by (down, right), mirrored first where asked. */
static bool is_moved(const float *moved, const float *image, int down, int right, bool is_mirrored)
{
	for (int y = 0; y < 4; y++)
		for (int x = 0; x < 6; x++) {
			int from_y = y - down, from_x = (is_mirrored ? 5 - x : x) - right;
			bool is_in = from_y >= 0 && from_y < 4 && from_x >= 0 && from_x < 6;

			if (moved[y * 6 + x] != (is_in ? image[from_y * 6 + from_x] : 0))
				return false;
		}
	return true;
}

static void test_images_are_moved_and_mirrored(void **state)
{
	struct lh_dataset *ds = data_open_images(1, 1);
	const struct lh_loader_spec plain_spec = {.seed = 1};
	const struct lh_loader_spec moved_spec = {.seed = 1, .crop_padding = 1, .flip = true};
	struct lh_loader *plain = load(ds, &plain_spec), *moved = load(ds, &moved_spec);
	int ways[2][3][3] = {{{0}}}, n_found;
	struct batch a, b;

	(void)state;
	take(plain, 1, &a);
	for (int i = 0; i < 600; i++) {
		take(moved, 1, &b);
		n_found = 0;
		for (int m = 0; m < 2; m++)
			for (int d = 0; d < 3; d++)
				for (int r = 0; r < 3; r++)
					if (is_moved(b.images[0], a.images[0], d - 1, r - 1, m)) {
						ways[m][d][r]++;
						n_found++;
					}
		assert_int_equal(n_found, 1);
	}
	for (int w = 0; w < 18; w++) /* 33 expected, deviation 5.6 */
		assert_in_range(ways[w / 9][w / 3 % 3][w % 3], 10, 60);
	lh_loader_free(plain);
	lh_loader_free(moved);
	lh_dataset_free(ds);
}

enum { FRAMES = 48, MELS = 32, SHIFT_T = FRAMES / 16, SHIFT_P = MELS / 16 };

/* Whether every number of `b` is that of `a` moved by (t, p) or silence, and how many are silent.
 */
static bool is_disguised(const float *a, const float *b, int t, int p, float silence,
			 int *ret_silent)
{
	*ret_silent = 0;
	for (int y = 0; y < FRAMES; y++)
		for (int x = 0; x < MELS; x++) {
			int from_y = y - t, from_x = x - p;
			bool is_in = from_y >= 0 && from_y < FRAMES && from_x >= 0 && from_x < MELS;

			if (is_in && b[y * MELS + x] == a[from_y * MELS + from_x])
				continue;
			if (b[y * MELS + x] != silence)
				return false;
			(*ret_silent)++;
		}
	return true;
}

/* Each time it is the sample itself, moved by no more than was said, with no more made silent. */
static void test_voices_are_disguised(void **state)
{
	const struct lh_data_request request = {.kind = "synthetic-speech",
						.n_samples = 3,
						.seed = 4,
						.n_mels = MELS,
						.n_frames = FRAMES};
	struct lh_dataset *ds = data_open(&request);
	const struct lh_loader_spec plain_spec = {.in_order = true};
	const struct lh_loader_spec spec = {.seed = 8, .in_order = true, .disguises_voices = true};
	struct lh_loader *plain = load(ds, &plain_spec), *l = load(ds, &spec);
	static float a[FRAMES * MELS], b[FRAMES * MELS];
	int32_t tokens[2][64], targets[2][64];
	int seen[2 * SHIFT_T + 1][2 * SHIFT_P + 1] = {{0}}, n_masked = 0;
	float silence;

	(void)state;
	for (int i = 0; i < 300; i++) {
		bool is_found = false;
		int n_silent = 0;

		assert_int_equal(
			lh_loader_next(plain, 1, (void *[]){a, tokens[0], targets[0]}, NULL), 0);
		assert_int_equal(lh_loader_next(l, 1, (void *[]){b, tokens[1], targets[1]}, NULL),
				 0);
		silence = a[0];
		for (int k = 1; k < FRAMES * MELS; k++)
			silence = a[k] < silence ? a[k] : silence;
		for (int t = -SHIFT_T; !is_found && t <= SHIFT_T; t++)
			for (int p = -SHIFT_P; !is_found && p <= SHIFT_P; p++)
				if (is_disguised(a, b, t, p, silence, &n_silent)) {
					is_found = true;
					seen[t + SHIFT_T][p + SHIFT_P]++;
				}
		assert_true(is_found);
		assert_true(n_silent <=
			    (SHIFT_T + FRAMES / 8) * MELS + (SHIFT_P + MELS / 8) * FRAMES);
		n_masked += n_silent > 0;
		assert_int_equal(tokens[0][0], tokens[1][0]);
	}
	assert_true(n_masked > 250);
	for (int w = 0; w < (2 * SHIFT_T + 1) * (2 * SHIFT_P + 1); w++) /* 8.6 expected */
		assert_in_range(seen[w / (2 * SHIFT_P + 1)][w % (2 * SHIFT_P + 1)], 1, 25);
	lh_loader_free(plain);
	lh_loader_free(l);
	lh_dataset_free(ds);
}

static void test_loaders_that_cannot_be_are_refused(void **state)
{
	const struct lh_data_request text = {.kind = "synthetic-text"};
	struct lh_dataset *tokens = data_open(&text);
	struct lh_loader_spec spec = {.flip = true};
	struct lh_loader *l = NULL;
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_loader_new(tokens, &spec, &l, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "synthetic-text has no images"));
	spec = (struct lh_loader_spec){.disguises_voices = true};
	assert_int_equal(lh_loader_new(tokens, &spec, &l, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "synthetic-text has no voices"));
	spec = (struct lh_loader_spec){.rank = 2, .n_ranks = 2};
	assert_int_equal(lh_loader_new(tokens, &spec, &l, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "rank 2 of 2"));
	lh_dataset_free(tokens);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks_together_see_what_one_sees),
		cmocka_unit_test(test_an_epoch_has_every_sample_once),
		cmocka_unit_test(test_a_shards_loader_stays_in_it),
		cmocka_unit_test(test_a_resumed_loader_goes_on_exactly),
		cmocka_unit_test(test_evaluation_is_in_order),
		cmocka_unit_test(test_images_are_moved_and_mirrored),
		cmocka_unit_test(test_voices_are_disguised),
		cmocka_unit_test(test_loaders_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
