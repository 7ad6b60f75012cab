// Which compiled variant of the kernels this machine runs.
#include <cstring>
#include <string>
#include <vector>

#include "kernels.hpp"

namespace twl {
namespace {

const std::vector<Kernels>& variants() {
    static const std::vector<Kernels> all = [] {
        std::vector<Kernels> found;
        auto add = [&](const char* name, void (*fill)(Kernels&)) {
            Kernels k = {};
            k.name = name;
            fill(k);
            found.push_back(k);
        };
#ifdef TWINNET_X86_VARIANTS
        const twinnet::Processor has = twinnet::processor();
        if (has.vnni) add("avx512vnni", fill_vnni);
        if (has.avx512) add("avx512", fill_avx512);
        if (has.avx2) add("avx2", fill_avx2);
#endif
        add("baseline", fill_baseline);
        return found;
    }();
    return all;
}

}  // namespace

const Kernels* find_kernels(const char* name) {
    if (name == nullptr || *name == 0) return &variants().front();
    for (const Kernels& k : variants())
        if (std::strcmp(k.name, name) == 0) return &k;
    return nullptr;
}

const char* kernel_names() {
    static const std::string names = [] {
        std::string all;
        for (const Kernels& k : variants()) all += (all.empty() ? "" : " ") + std::string(k.name);
        return all;
    }();
    return names.c_str();
}

}  // namespace twl
