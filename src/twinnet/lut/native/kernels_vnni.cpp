// The AVX512 kernels, but those that multiply bytes use the instruction that adds up four products at once.
// Only run after the processor has been asked; see variants.cpp.
#include <cstdint>

#include "kernels.hpp"

#ifdef TWINNET_X86_VARIANTS
#include <immintrin.h>

#define TWL_AVX2
#define TWL_AVX512
#define TWL_VNNI
#define TWL_INLINE inline __attribute__((always_inline))
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512vnni,avx2,bmi,bmi2,popcnt,fma,prefer-vector-width=512")
namespace twl {
namespace vnni {
namespace {
#include "kernels_turn.inc"
#include "kernels_bytes.inc"
#include "kernels_corners.inc"
}  // namespace
}  // namespace vnni
void fill_vnni(Kernels& kernels) {
    fill_avx512(kernels);
    vnni::fill_corners(kernels);
}
}  // namespace twl
#pragma GCC pop_options
#endif
