// The passes for any processor.
#include <cstdint>
#include <utility>

#include "passes.hpp"

namespace twf {
namespace baseline {
namespace {
constexpr int WIDE = 4;
#include "index.inc"
#include "order.inc"
#include "blocks.inc"
#include "passes.inc"
}  // namespace
}  // namespace baseline
void fill_baseline(Passes& passes) { baseline::make(passes); }
}  // namespace twf
