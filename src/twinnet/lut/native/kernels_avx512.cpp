// The kernels for AVX512. Only run after the processor has been asked; see variants.cpp.
#include <cstdint>
#include <type_traits>

#include "kernels.hpp"

#ifdef TWINNET_X86_VARIANTS
#include <immintrin.h>

// GCC 12 does not tell the preprocessor about a target set by pragma, so say it here.
#define TWL_AVX2
#define TWL_AVX512
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx2,bmi,bmi2,popcnt,fma,prefer-vector-width=512")
namespace twl {
namespace avx512 {
namespace {
#include "kernels.inc"
}  // namespace
}  // namespace avx512
void fill_avx512(Kernels& kernels) { avx512::make(kernels); }
}  // namespace twl
#pragma GCC pop_options
#endif
