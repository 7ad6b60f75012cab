// The passes for AVX2. Only run after the processor has been asked; see api.cpp.
#include <cstdint>
#include <utility>

#include "passes.hpp"

#ifdef TWINNET_X86_VARIANTS
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt,fma")
namespace twf {
namespace avx2 {
namespace {
constexpr int WIDE = 8;
#include "index.inc"
#include "order.inc"
#include "blocks.inc"
#include "passes.inc"
}  // namespace
}  // namespace avx2
void fill_avx2(Passes& passes) { avx2::make(passes); }
}  // namespace twf
#pragma GCC pop_options
#endif
