// Which compiled variant of the kernels this machine runs.
#include "../../native/variants.hpp"

#include "kernels.hpp"

namespace twl {
namespace {

const twinnet::Variants<Kernels>& variants() {
#ifdef TWINNET_X86_VARIANTS
    static const twinnet::Processor has = twinnet::processor();
#endif
    static const twinnet::Variants<Kernels> all = {
#ifdef TWINNET_X86_VARIANTS
        {"avx512vnni", has.vnni, fill_vnni},
        {"avx512", has.avx512, fill_avx512},
        {"avx2", has.avx2, fill_avx2},
#endif
        {"baseline", true, fill_baseline},
    };
    return all;
}

}  // namespace

const Kernels* find_kernels(const char* name) { return variants().find(name); }

const char* kernel_names() { return variants().names(); }

}  // namespace twl
