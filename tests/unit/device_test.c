/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a device by its name, and what is said where that fails. */
#include <string.h>

#include "tests/unit/test.h"
#include "trainer/device/device.h"

static void test_a_device_is_opened_by_name(void **state)
{
	const struct lh_device_options options = {.compute = LH_F32};
	struct lh_error err = {0};
	struct lh_device *device;

	(void)state;
	assert_int_equal(lh_device_open("reference", &options, &device, &err), 0);
	assert_string_equal(device->ops->name, "reference");
	device->ops->close(device);
}

static void test_an_unknown_name_is_told_with_those_that_there_are(void **state)
{
	const struct lh_device_options options = {.compute = LH_F32};
	struct lh_error err = {0};
	struct lh_device *device;

	(void)state;
	assert_int_equal(lh_device_open("gpu", &options, &device, &err), LH_EUSAGE);
	assert_non_null(strstr(err.message, "device gpu: expected one of "));
	assert_non_null(strstr(err.message, "reference, reference64"));
}

static void test_a_type_that_a_device_lacks_is_refused(void **state)
{
	const struct lh_device_options options = {.compute = LH_BF16};
	struct lh_error err = {0};
	struct lh_device *device;

	(void)state;
	assert_int_equal(lh_device_open("reference", &options, &device, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "bf16"));
}

/* Where there is a GPU, nothing is wrong; tests/gpu uses it. */
static void test_cuda_says_what_it_lacks(void **state)
{
	const struct lh_device_options options = {.compute = LH_F32};
	struct lh_error err = {0};
	struct lh_device *device;
	int rc = lh_device_open("cuda", &options, &device, &err);

	(void)state;
	if (rc == 0) {
		device->ops->close(device);
		skip();
	}
	assert_int_equal(rc, LH_EENV);
	assert_int_equal(lh_error_exit_status(&err), 4);
#ifdef LH_HAVE_CUDA
	assert_non_null(strstr(err.message, "no GPU"));
#else
	assert_non_null(strstr(err.message, "built without CUDA; install"));
#endif
}

static void test_cuda_does_not_compute_in_double(void **state)
{
#ifdef LH_HAVE_CUDA
	const struct lh_device_options options = {.compute = LH_F64};
	struct lh_error err = {0};
	struct lh_device *device;

	(void)state;
	assert_int_equal(lh_device_open("cuda", &options, &device, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "fp32, fp16 or bf16"));
#else
	(void)state;
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_device_is_opened_by_name),
		cmocka_unit_test(test_an_unknown_name_is_told_with_those_that_there_are),
		cmocka_unit_test(test_a_type_that_a_device_lacks_is_refused),
		cmocka_unit_test(test_cuda_says_what_it_lacks),
		cmocka_unit_test(test_cuda_does_not_compute_in_double),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
