// C interface of the native passes over sites: what fitting and fine-tuning of tables spend their time in.
// Functions that can fail return a negative number and leave a message for twf_error(), which is kept per thread.
#pragma once
#include <cstdint>

extern "C" {

// One table. Its rows start at `start` (in floats) of the parameter vector, `outputs` floats each; a banded table has
// its band rows first, then its off-band rows.
struct twf_term {
    int32_t axes;
    int32_t nodes;
    int32_t units;        // fixed-point units between two nodes
    int32_t near;         // 0: dense
    int32_t width;
    int32_t thin;
    int32_t denominator;  // of the numerators: units * thin
    float weight;         // weights are whole numbers times this
    int64_t start;
    int64_t band_rows;
    const int32_t* map;   // banded: dense cell -> band row (any row where there is none); NULL for dense tables
};

// One table looked up in one rotation. Values are read at (row + dy, column + dx) of a plane of the image.
struct twf_lookup {
    int32_t term;
    int32_t rotation;
    int32_t group;
    int32_t plane[4];
    int32_t dy[4];
    int32_t dx[4];
};

// One image: `rows` x `columns` sites. `planes` points to plane 0 at site (0, 0), with a border around it that is wide
// enough for every offset; values are uint8 or float (whole numbers).
struct twf_image {
    const void* planes;
    int64_t plane_stride;
    int64_t row_stride;
    int64_t rows;
    int64_t columns;
    const uint8_t* target;   // fitting: [rows, columns, outputs]
    float* out;              // forward: [rows * upscale, columns * upscale] of every channel, contiguous
    const float* out_grad;   // backward: same shape as out
    float* plane_grad;       // backward: same geometry as planes, or NULL
};

struct twf_problem {
    const twf_term* terms;
    const twf_lookup* lookups;  // grouped by rotation for fitting, in order of summation for fine-tuning
    const twf_image* images;
    int32_t term_count;
    int32_t lookup_count;
    int64_t image_count;
    int64_t parameter_count;
    int32_t channels;
    int32_t upscale;
    int32_t floats;  // values are float instead of uint8
    int32_t threads;
};

int twf_abi(void);
const char* twf_error(void);
const char* twf_instruction_sets(void);

// Fitting. prediction = gain * sum + offset; loss = sum of squared residuals against the targets, or of squared
// predictions (offset left out) where `with_target` is 0. gradient (NULL: not wanted) = half the derivative of loss.
int twf_fit_pass(const twf_problem*, const char* set, const float* parameters, double gain, double offset,
                 int with_target, double* loss, float* gradient);

// Sum of squared weights of every row (one number per row, at start / outputs + row), for preconditioning.
int twf_squares(const twf_problem*, const char* set, double gain, float* squares);

// Fine-tuning. Sums of all lookups into out. rounding 0: weights as they are, no rounding; 1: each lookup divided by
// its denominator and rounded; 2: the running sum of its group rounded after every lookup.
int twf_forward(const twf_problem*, const char* set, const float* parameters, int rounding);

// gradient (of the parameters, may be NULL) and plane_grad of every image from out_grad times scale; both are added to.
int twf_backward(const twf_problem*, const char* set, const float* parameters, int divide, double scale, float* gradient);

// Parameters (entry / 127) to entries: rounded half to even, clipped to -127..127.
void twf_entries(const float* parameters, int64_t count, float* entries);

// Gradient of entries to that of parameters, in place: times 127, zero where the entry was clipped.
void twf_entries_grad(const float* parameters, int64_t count, float* gradient);

}  // extern "C"
