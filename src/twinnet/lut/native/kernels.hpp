// What the engine asks of an instruction set: plain function tables, filled once per compiled variant.
#pragma once
#include <cstdint>

#include "../../native/processor.hpp"

namespace twl {

constexpr int TILE = 64;      // sites handled together; index buffers of a whole stage then stay in the first cache
constexpr int AXES = 4;       // axes the vector kernels know; more go the scalar way
constexpr int MAX_TERMS = 3;  // terms blended in one pass
constexpr int SLOTS = 4;      // lookups per term and pass: its rotations
constexpr int CODES = 128;    // orders of four axes (two bits each for the first three), in band and off band
constexpr int SMALL_DIVISOR = 2048;  // of divide32_small
constexpr int SLIP_CODE = 63; // no order of axes has this code, so it can stand for the 2021 slip

// Where one lookup reads, and how much each vertex weighs, for a tile of sites.
struct alignas(64) IndexBlock {
    uint32_t base[TILE];
    union {
        int16_t w16[AXES + 1][TILE];
        int32_t w32[AXES + 1][TILE];
    };
    uint8_t code[TILE];
};

// The pixels of a tile along each axis. Off-band rows are used by banded tables only; values, or the rest.
struct IndexRows {
    const uint8_t* bin[AXES];
    const uint8_t* frac[AXES];
    const uint8_t* raw[AXES];
    const uint8_t* coarse_bin[AXES];
    const uint8_t* coarse_frac[AXES];
    const int32_t* value[AXES];
};

// What a lookup in one table needs to know: everything but the pixels.
struct IndexJob {
    uint32_t stride[AXES], coarse_stride[AXES];  // bytes
    uint32_t origin, coarse_origin;              // bytes
    int32_t units, coarse_units, last_bin, coarse_last_bin;
    int32_t scale, coarse_scale;
    int32_t near, limit;
};

// The same for multilinear interpolation, where all corners of a cell count. Corner bit k: up along axis k.
struct alignas(64) LinearBlock {
    uint32_t base[TILE];
    int32_t w[1 << AXES][TILE];
};

struct LinearJob {
    const LinearBlock* blocks;  // SLOTS
    const int8_t* table;
    const int32_t* corners;  // bytes from the first vertex
    int32_t* sums;           // [n][lanes]
    int n;
    bool first;        // store instead of adding up
    bool used[SLOTS];  // slots without a rotation are left out
};

struct BlendJob {
    const IndexBlock* blocks;  // SLOTS per term
    const int8_t* table[MAX_TERMS];
    const int32_t* offsets[MAX_TERMS];  // [CODES][AXES] bytes from the first vertex
    void* sums;                         // [n][lanes]
    int n;
    bool first;  // store instead of adding up
};

struct NarrowJob {
    const IndexBlock* block;
    const int8_t* table;
    const int32_t* offsets;
    void* sums;  // [payload][TILE]
    int n;
};

// Lookups in rows that hold several corners of a cell: see kernels_corners.inc. Weights have a byte per corner, sites
// are in an order that only the kernels know.
constexpr int QUAD_ROWS = 3;     // read per lookup
constexpr int CORNER_TERMS = 8;  // blended in one pass

struct alignas(64) QuadBlock {
    uint64_t at[TILE];  // of the first row, and in the upper half of the second
    uint32_t weight[QUAD_ROWS][TILE];
};
struct alignas(64) CellBlock {
    uint32_t at[TILE];
    uint8_t weight[TILE][16];
};
union CornerBlock {
    QuadBlock quad;
    CellBlock cell;
};

// Row of a cell of bins a, b, c, d: (a * first + b) * second + c * third + d; `second` in bytes, the rest in rows. Coarse
// cells have the same steps, but their a begins at `coarse`.
struct CornerJob {
    int32_t first, second, third, row_bytes, coarse;
    int32_t units, shift;  // fractions << shift are weights, which add up to units
    int32_t near, limit;
};

struct CornerBlendJob {
    const CornerBlock* blocks;  // SLOTS per term
    const int8_t* table[CORNER_TERMS];
    int64_t far[CORNER_TERMS];  // bytes from the first row to the last
    void* sums;                 // [n][lanes]
    int n, terms;
    bool first;  // store instead of adding up
};

// Weighted sums of pixels, all axes at once.
struct WindowJob {
    const float* const* rows;  // one per pixel of the window
    const float* weights;      // [count][AXES]
    int count, axes, shift;
    int32_t half;
    int32_t (*out)[TILE];
};

enum Flavour { PLAIN, BAND, SLIP, FLAVOURS };
enum WeightKind { ROWS, SHORTS, INTS, WEIGHT_KINDS };  // for blend with 16-bit lanes, for narrow with 16, for 32-bit lanes
enum Lanes { SHORT, SHORT_TO_INT, INT, LANE_KINDS };  // sums in registers and in memory: 16/16, 16/32, 32/32
enum Turn { NONE, TURN2, TURN3, TURN4, TURNS };       // output blocks turned in registers, by upscale

using IndexFn = void (*)(const IndexJob&, const IndexRows&, IndexBlock&);
using LinearIndexFn = void (*)(const IndexJob&, const IndexRows&, LinearBlock&);
using LinearFn = void (*)(const LinearJob&);
using BlendFn = void (*)(const BlendJob&);
using NarrowFn = void (*)(const NarrowJob&);
using CornerIndexFn = void (*)(const CornerJob&, const uint8_t* const* pixels, CornerBlock&);
using CornerBlendFn = void (*)(const CornerBlendJob&);

struct Kernels {
    const char* name;
    IndexFn split[2][WEIGHT_KINDS][AXES][FLAVOURS];             // [wide key][weights][axes - 1][flavour]
    IndexFn value[AXES][2];                                     // [axes - 1][plain or band]
    BlendFn blend[AXES][LANE_KINDS][TURNS][2][MAX_TERMS];       // [axes - 1][..][..][8 or 16 lanes][terms - 1], or null
    NarrowFn narrow[AXES][LANE_KINDS][2];                       // [axes - 1][..][payload - 1]
    LinearIndexFn linear_index[AXES];                           // [axes - 1]
    LinearFn linear[AXES][TURNS][2];                            // [axes - 1][..][8 or 16 lanes]
    CornerIndexFn corner_index[2][2][2];                        // [steps of 16 or 32][16 corners or 4][plain or band], or null
    CornerBlendFn corner_blend[2][3][TURNS];                    // [16 or 32-bit sums][1, 4 or 16 lanes][..], or null
    void (*window)(const WindowJob&);
    void (*mix)(int32_t* value, const int32_t* other, int32_t gain, int bits, bool small);
    // sums -> 8 bit as round_half_even(N / divisor) + offset, clipped
    void (*divide16)(const int16_t*, uint8_t*, int count, int divisor, int offset);
    void (*divide32)(const int32_t*, uint8_t*, int count, int divisor, int offset);
    void (*divide32_small)(const int32_t*, uint8_t*, int count, int divisor, int offset);
    void (*divide32_wide)(const int32_t*, uint8_t*, int count, int divisor, int offset);
    void (*place4)(const uint8_t* blocks, uint8_t* to, int64_t row, int n);
    void (*place2)(const uint8_t* blocks, uint8_t* to, int64_t row, int n);
    void (*place2_narrow)(const uint8_t* blocks, uint8_t* to, int64_t row, int n);
    void (*split_pairs)(const uint8_t* row, uint8_t* even, uint8_t* odd, int64_t count);
    void (*every_third)(const uint8_t* row, uint8_t* to, int64_t count);
    void (*split_row)(const uint8_t*, uint8_t* bin, uint8_t* frac, int64_t count, int shift);
    void (*interleave3)(const uint8_t* r, const uint8_t* g, const uint8_t* b, uint8_t* out, int64_t count);
};

// Fill in the kernels of one variant. Even this code may use the variant's instructions: ask the processor first.
void fill_baseline(Kernels&);
#ifdef TWINNET_X86_VARIANTS
void fill_avx2(Kernels&);
void fill_avx512(Kernels&);
void fill_vnni(Kernels&);
#endif

// The variants this machine can run, best first; `name` NULL or empty: the best. NULL if there is none of that name.
const Kernels* find_kernels(const char* name);
const char* kernel_names();

}  // namespace twl
