/* SPDX-License-Identifier: Apache-2.0 */
/* Synthetic datasets: functions of the seed, and with something in them to be learnt. */
#include "tests/unit/data_fixture.h"

static void test_samples_are_functions_of_the_seed(void **state)
{
	static const char *const kinds[] = {"synthetic-images", "synthetic-text", "synthetic-ctr",
					    "synthetic-speech"};
	static struct data_sample a, b;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
		struct lh_data_request spec = {.kind = kinds[i], .seed = 1};
		struct lh_dataset *x = data_open(&spec), *y = data_open(&spec);

		assert_int_equal(lh_dataset_size(x), 10000);
		data_read(x, 5, 0, &b);
		data_read(x, 7, 0, &a);
		data_read(y, 7, 3, &b); /* another epoch, causal: the same */
		assert_memory_equal(&a, &b, sizeof(a));
		data_read(y, 17, 0, &b);
		assert_memory_not_equal(&a, &b, sizeof(a));
		lh_dataset_free(y);
		spec.seed = 2;
		y = data_open(&spec);
		data_read(y, 7, 0, &b);
		assert_memory_not_equal(&a, &b, sizeof(a));
		lh_dataset_free(y);
		spec.seed = 1;
		spec.split = LH_DATA_TEST;
		y = data_open(&spec);
		assert_int_equal(lh_dataset_size(y), 1000);
		data_read(y, 7, 0, &b);
		assert_memory_not_equal(&a, &b, sizeof(a));
		lh_dataset_free(x);
		lh_dataset_free(y);
	}
}

/* Of the test split, how many are nearest to the mean of their class in the training split. */
static double nearest_mean_ratio(const char *kind, int label_field)
{
	enum { TRAIN = 1500, TEST = 500, CLASSES = 10 };
	static struct data_sample s;
	static double means[CLASSES][8192];
	struct lh_data_request spec = {.kind = kind, .n_classes = CLASSES, .seed = 3};
	struct lh_dataset *train = data_open(&spec), *test;
	uint32_t n_fields;
	size_t n = lh_data_field_elements(lh_dataset_fields(train, &n_fields));
	int n_right = 0;

	memset(means, 0, sizeof(means));
	for (uint64_t i = 0; i < TRAIN; i++) {
		data_read(train, i, 0, &s);
		if (label_field)
			assert_int_equal(s.fields[label_field].i[0], lh_dataset_label(train, i));
		for (size_t k = 0; k < n; k++)
			means[lh_dataset_label(train, i)][k] +=
				(double)s.fields[0].f[k] / (TRAIN / CLASSES);
	}
	spec.split = LH_DATA_TEST;
	test = data_open(&spec);
	for (uint64_t i = 0; i < TEST; i++) {
		double best = INFINITY;
		int nearest = -1;

		data_read(test, i, 0, &s);
		for (int c = 0; c < CLASSES; c++) {
			double distance = 0;

			for (size_t k = 0; k < n; k++)
				distance += pow((double)s.fields[0].f[k] - means[c][k], 2);
			if (distance < best) {
				best = distance;
				nearest = c;
			}
		}
		n_right += nearest == lh_dataset_label(test, i);
	}
	lh_dataset_free(train);
	lh_dataset_free(test);
	return (double)n_right / TEST;
}

static void test_classes_can_be_told_apart(void **state)
{
	double images = nearest_mean_ratio("synthetic-images", 1);
	double speech = nearest_mean_ratio("synthetic-speech", 0);

	(void)state;
	/* one in ten by chance; a better learner than nearest means has something left to learn */
	assert_true(images > 0.6 && images < 1);
	assert_true(speech > 0.3 && speech < 1);
}

static void test_words_are_spelt_once_each(void **state)
{
	const struct lh_data_request spec = {.kind = "synthetic-speech", .n_classes = 1000};
	struct lh_dataset *ds = data_open(&spec);
	static char words[1000][4];
	static struct data_sample s;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		data_read(ds, (uint64_t)i, 0, &s);
		assert_int_equal(s.fields[1].i[0], LH_SPEECH_START);
		assert_int_equal(s.fields[2].i[4], LH_SPEECH_END);
		for (int k = 0; k < 4; k++)
			words[i][k] = (char)s.fields[2].i[k];
		for (int j = 0; j < i; j++)
			assert_memory_not_equal(words[i], words[j], 4);
	}
	lh_dataset_free(ds);
}

/* Bits per token of the test split by counts of n-grams of the training split. */
static double bits_by_counts(int order)
{
	enum { V = 12, CONTEXTS = V * V };
	struct lh_data_request spec = {
		.kind = "synthetic-text", .vocab_size = V + 1, .seed = 5, .n_samples = 2000};
	struct lh_dataset *ds = data_open(&spec);
	static double counts[CONTEXTS][V];
	static struct data_sample s;
	double bits = 0;
	int n = 0;

	memset(counts, 0, sizeof(counts));
	for (int is_test = 0; is_test < 2; is_test++) {
		for (uint64_t i = 0; i < 500; i++) {
			data_read(ds, i + 1000 * (uint64_t)is_test, 0, &s);
			for (int t = 1; t < 128; t++) {
				int32_t last = s.fields[0].i[t], before = s.fields[0].i[t - 1];
				int32_t next = s.fields[1].i[t];
				int context = order == 2 ? last * V + before : last;
				double sum = 0;

				assert_in_range(next, 0, V - 1);
				if (!is_test) {
					counts[context][next]++;
					continue;
				}
				for (int v = 0; v < V; v++)
					sum += counts[context][v] + 0.01;
				bits -= log2((counts[context][next] + 0.01) / sum);
				n++;
			}
		}
	}
	lh_dataset_free(ds);
	return bits / n;
}

static void test_text_has_the_stated_entropy(void **state)
{
	/* of 0.5, 0.25, 0.15, 0.1, less where successors coincide */
	double one = bits_by_counts(1), two = bits_by_counts(2);

	(void)state;
	assert_true(two < 1.76 && two > 1.3);
	/* the last token alone does not say all */
	assert_true(one > two + 0.3);
}

static void test_masked_text_is_masked_anew_each_epoch(void **state)
{
	const struct lh_data_request spec = {.kind = "synthetic-text", .objective = LH_DATA_MASKED};
	struct lh_dataset *ds = data_open(&spec);
	static struct data_sample a, b;
	int n_targets = 0;

	(void)state;
	data_read(ds, 3, 0, &a);
	data_read(ds, 3, 1, &b);
	assert_memory_not_equal(&a, &b, sizeof(a));
	for (int i = 0; i < 128; i++) {
		int32_t was_a = a.fields[1].i[i] < 0 ? a.fields[0].i[i] : a.fields[1].i[i];
		int32_t was_b = b.fields[1].i[i] < 0 ? b.fields[0].i[i] : b.fields[1].i[i];

		assert_int_equal(was_a, was_b);
		n_targets += a.fields[1].i[i] >= 0;
	}
	assert_in_range(n_targets, 19, 20);
	lh_dataset_free(ds);
}

/* The log-loss of plain logistic regression, trained on the numbers alone or on all, against
 * that of always the same guess. */
static void test_clicks_can_be_foretold(void **state)
{
	enum { TRAIN = 8000, TEST = 2000, BUCKETS = 20, SPARSE = 4, DENSE = 5 };
	const struct lh_data_request spec = {.kind = "synthetic-ctr",
					     .n_dense = DENSE,
					     .n_sparse = SPARSE,
					     .n_buckets = BUCKETS,
					     .seed = 2};
	struct lh_dataset *ds = data_open(&spec);
	double dense[DENSE] = {0}, sparse[SPARSE * BUCKETS] = {0}, bias = 0, loss = 0, clicks = 0;
	double entropy;
	static struct data_sample s;

	(void)state;
	for (int i = 0; i < 3 * TRAIN + TEST; i++) {
		bool is_test = i >= 3 * TRAIN;
		double z = bias, p, step = is_test ? 0 : 0.03;

		data_read(ds, (uint64_t)(is_test ? i - 2 * TRAIN : i % TRAIN), 0, &s);
		for (int k = 0; k < DENSE; k++)
			z += dense[k] * (double)s.fields[0].f[k];
		for (int k = 0; k < SPARSE; k++) {
			assert_in_range(s.fields[1].i[k], 0, BUCKETS - 1);
			z += sparse[k * BUCKETS + s.fields[1].i[k]];
		}
		p = 1 / (1 + exp(-z));
		step *= s.fields[2].i[0] - p;
		bias += step;
		for (int k = 0; k < DENSE; k++)
			dense[k] += step * (double)s.fields[0].f[k];
		for (int k = 0; k < SPARSE; k++)
			sparse[k * BUCKETS + s.fields[1].i[k]] += step;
		if (!is_test)
			continue;
		assert_int_equal(lh_dataset_label(ds, (uint64_t)(i - 2 * TRAIN)), s.fields[2].i[0]);
		clicks += s.fields[2].i[0];
		loss -= log(s.fields[2].f[0] > 0.5f ? p : 1 - p) / TEST;
	}
	clicks /= TEST;
	entropy = -clicks * log(clicks) - (1 - clicks) * log(1 - clicks);
	assert_true(clicks > 0.1 && clicks < 0.6);
	assert_true(loss < 0.9 * entropy);
	lh_dataset_free(ds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples_are_functions_of_the_seed),
		cmocka_unit_test(test_classes_can_be_told_apart),
		cmocka_unit_test(test_words_are_spelt_once_each),
		cmocka_unit_test(test_text_has_the_stated_entropy),
		cmocka_unit_test(test_masked_text_is_masked_anew_each_epoch),
		cmocka_unit_test(test_clicks_can_be_foretold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
