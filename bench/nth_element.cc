// SPDX-License-Identifier: Apache-2.0
// The C++ library's selection, for bench/compress.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

extern "C" uint32_t lh_bench_nth_element(uint32_t *keys, size_t n, size_t k);

// The k-th largest of n keys; all larger ones are before the k-th place then.
extern "C" uint32_t lh_bench_nth_element(uint32_t *keys, size_t n, size_t k)
{
	std::nth_element(keys, keys + (k - 1), keys + n, std::greater<uint32_t>());
	return keys[k - 1];
}
