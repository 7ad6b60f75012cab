// The kernels for AVX2. Only run after the processor has been asked; see variants.cpp.
#include <cstdint>
#include <type_traits>

#include "kernels.hpp"

#ifdef TWINNET_X86_VARIANTS
#include <immintrin.h>

// GCC 12 does not tell the preprocessor about a target set by pragma, so say it here.
#define TWL_AVX2
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt,fma")
namespace twl {
namespace avx2 {
namespace {
#include "kernels.inc"
}  // namespace
}  // namespace avx2
void fill_avx2(Kernels& kernels) { avx2::make(kernels); }
}  // namespace twl
#pragma GCC pop_options
#endif
