// Which compiled variants of their kernels the native parts carry, and which of them this processor can run.
#pragma once

// Variants need a compiler that can switch its target inside a file; others get the baseline only.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TWINNET_X86_VARIANTS
#endif

namespace twinnet {

struct Processor {
    bool avx2 = false, avx512 = false;
    bool vnni = false;  // AVX512 that adds up four products of bytes
};

inline Processor processor() {
    Processor found;
#ifdef TWINNET_X86_VARIANTS
    __builtin_cpu_init();
    found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                 __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    found.avx512 = found.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512cd");
    found.vnni = found.avx512 && __builtin_cpu_supports("avx512vnni");
#endif
    return found;
}

}  // namespace twinnet
