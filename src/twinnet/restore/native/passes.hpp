// What one thread does with one strip of sites, per compiled variant.
#pragma once
#include <cstdint>

#include "../../native/processor.hpp"
#include "fit.h"

namespace twf {

constexpr int TILE = 32;  // sites handled together: rows and weights of all lookups then stay in the first cache
constexpr int AXES = 4;

struct Strip {
    const twf_problem* problem;
    const twf_image* image;
    int64_t first, last;  // rows of sites
};

struct FitJob {
    const float* parameters;
    float* gradient;  // NULL: loss only
    float gain, offset;
    bool with_target;
};

struct Passes {
    const char* name;
    double (*fit)(const Strip&, const FitJob&, void* scratch);
    void (*squares)(const Strip&, float gain, float* squares, void* scratch);
    void (*forward)(const Strip&, const float* parameters, int rounding, void* scratch);
    void (*entries)(const float* parameters, int64_t count, float* entries);
    void (*entries_grad)(const float* parameters, int64_t count, float* gradient);
    void (*backward)(const Strip&, const float* parameters, bool divide, float scale, float* gradient, void* scratch);
};

// Bytes of scratch one thread needs.
int64_t scratch_bytes(const twf_problem&);
const Passes* find_passes(const char* name);
const char* pass_names();

void fill_baseline(Passes&);
#ifdef TWINNET_X86_VARIANTS
void fill_avx2(Passes&);
void fill_avx512(Passes&);
#endif

}  // namespace twf
