// C interface of the native table engine. Every function is safe to call from any thread; a plan may be run by
// several threads at once after twl_finish. Functions that can fail return a negative number (or NULL) and leave a
// message for twl_error(), which is kept per thread.
#pragma once
#include <cstdint>

extern "C" {

struct twl_plan;

// Version of this interface; the loader refuses a library that was built from other sources.
int twl_abi(void);
const char* twl_error(void);

// Instruction sets this library carries and this machine can run, best first, separated by spaces.
const char* twl_instruction_sets(void);

twl_plan* twl_new(void);
void twl_free(twl_plan*);

// Adds a table and returns its number. Banded tables pass near > 0, the index and the coarse rows.
int twl_table(twl_plan*, const int8_t* values, int64_t rows, int64_t payload, int axes, int nodes, int step,
              int near, int width, int thin, const int64_t* index, int64_t index_count, const int8_t* coarse,
              int64_t coarse_rows);

// Adds a stage and returns its number. Register 0 is the image; stage k writes register k + 1.
// thresholds[v - 1] is the smallest numerator that requantises to at least v (v = 1..255).
// divisor and offset are a guess of the form round_half_even(N / divisor) + offset, 0 for none; it is checked.
int twl_stage(twl_plan*, int channels, int upscale, int cell, int64_t denominator, const int64_t* thresholds,
              int64_t divisor, int64_t offset);

// Adds a term to the last stage. planes: (register, channel) per offset; weights: axes x offsets, or NULL;
// blend_planes like planes, or NULL. padding: 0 edge, 1 reflect. interpolation: 0 simplex, 1 multilinear.
// compat: 1 for the 2021 slip.
int twl_term(twl_plan*, int table, int padding, int offset_count, const int32_t* planes, const int32_t* offsets,
             int axes, const int32_t* weights, int weight_bits, int value_bits, const int32_t* blend_planes,
             const int32_t* gains, int gain_bits, int interpolation, int compat, int rotation_count,
             const int32_t* rotations);

// Checks the whole plan and lays out its tables. instruction_set: a name of twl_instruction_sets, or NULL for the best.
int twl_finish(twl_plan*, const char* instruction_set);
const char* twl_instruction_set(const twl_plan*);
// What was chosen for a stage, for people: "int16 x3 terms, divide".
const char* twl_describe(const twl_plan*, int stage);

// Runs the plan on `count` planes of rows x columns pixels. Strides are in bytes: plane, row, column. Output planes
// are count * channels, image plane first.
int twl_run(const twl_plan*, const uint8_t* image, const int64_t* image_strides, int64_t count, int64_t rows,
            int64_t columns, uint8_t* out, const int64_t* out_strides, int threads);

// The same, and notes when each stage began and ended: spent[2 * stage] and spent[2 * stage + 1], in nanoseconds since
// the run began; NULL notes nothing.
int twl_run_timed(const twl_plan*, const uint8_t* image, const int64_t* image_strides, int64_t count, int64_t rows,
                  int64_t columns, uint8_t* out, const int64_t* out_strides, int threads, int64_t* spent);

// Runs one stage. registers[i] holds register i as contiguous [channel, rows * scale, columns * scale], or NULL if it
// is not read; rows and columns are those of the image.
int twl_run_stage(const twl_plan*, int stage, const uint8_t* const* registers, int64_t rows, int64_t columns,
                  uint8_t* out, int threads);

// The exact numerators of one term in one of its rotations: [payload, site rows, site columns].
int twl_lookup(const twl_plan*, int stage, int term, int rotation, const uint8_t* const* registers, int64_t rows,
               int64_t columns, int64_t* out);

}  // extern "C"
