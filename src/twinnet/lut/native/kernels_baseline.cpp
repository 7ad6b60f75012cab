// The kernels for whatever the compiler targets by default: SSE2 on x86-64, NEON on AArch64.
#include <cstdint>
#include <type_traits>

#include "kernels.hpp"

namespace twl {
namespace baseline {
namespace {
#include "kernels.inc"
}  // namespace
}  // namespace baseline
void fill_baseline(Kernels& kernels) { baseline::make(kernels); }
}  // namespace twl
