/* SPDX-License-Identifier: Apache-2.0 */
/* What every unit test includes: cmocka with the headers that it needs before it. */
#ifndef LH_TESTS_UNIT_TEST_H
#define LH_TESTS_UNIT_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* Fails unless value is within tolerance of expected; doubles, unlike assert_float_equal. */
#define assert_near(value, expected, tolerance) \
	assert_near_at(value, expected, tolerance, __FILE__, __LINE__)

static inline void assert_near_at(double value, double expected, double tolerance, const char *file,
				  int line)
{
	if (fabs(value - expected) <= tolerance)
		return;
	print_error("%.17g is not within %g of %.17g\n", value, tolerance, expected);
	_fail(file, line);
}

#endif
