// The passes for AVX512. Only run after the processor has been asked; see api.cpp.
#include <cstdint>
#include <utility>

#include "passes.hpp"

#ifdef TWINNET_X86_VARIANTS
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt,fma,avx512f,avx512bw,avx512vl,avx512dq")
namespace twf {
namespace avx512 {
namespace {
constexpr int WIDE = 16;
#include "index.inc"
#include "order.inc"
#include "blocks.inc"
#include "passes.inc"
}  // namespace
}  // namespace avx512
void fill_avx512(Passes& passes) { avx512::make(passes); }
}  // namespace twf
#pragma GCC pop_options
#endif
