// A plan inside the engine: as it was described (Table, Term, Stage) and as it is run (Layout, Pass).
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.hpp"
#include "scratch.hpp"

namespace twl {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

constexpr int MAX_AXES = 8;
constexpr int64_t MAX_PIXELS = int64_t(1) << 40;

struct Table {
    std::vector<int8_t> values, coarse;
    std::vector<int64_t> index;
    int64_t payload = 0;
    int axes = 0, nodes = 0, step = 0, near = 0, width = 0, thin = 1;
    int largest = 0;  // of |entry|
    bool banded() const { return near > 0; }
    int coarse_nodes() const { return (nodes - 1) / thin + 1; }
};

// Zeroed memory for rows that are read in no order at all: in large pages where the system has them, since otherwise
// finding the page costs more than reading the row.
class RowMemory {
   public:
    RowMemory() = default;
    explicit RowMemory(int64_t bytes);
    int8_t* data() { return data_.get(); }
    const int8_t* data() const { return data_.get(); }

   private:
    struct Free {
        void operator()(int8_t*) const;
    };
    std::unique_ptr<int8_t, Free> data_;
};

// A table as it lies in memory. The band is stored along its diagonal, [b0][b1 - b0 + width]..[rest], so that every
// vertex is again a fixed step from the first one, and steps are positive: vertices without weight stay inside too.
struct Layout {
    RowMemory bytes;
    int64_t size = 0;        // of the rows
    int64_t copy_bytes = 0;  // distance between the copies for rotations 0..3; 0 if there is only one copy
    int64_t stride[MAX_AXES] = {}, coarse_stride[MAX_AXES] = {};
    int64_t origin = 0, coarse_origin = 0;
    std::vector<int32_t> steps;    // [CODES][AXES]
    std::vector<int32_t> corners;  // [1 << AXES]
};

struct PlaneRef {
    int reg, channel;
    bool operator==(const PlaneRef& o) const { return reg == o.reg && channel == o.channel; }
};

// A padded copy of one plane, in the form a term wants: bins and fractions, or floats, or plain pixels.
struct Source {
    PlaneRef plane;
    bool reflect = false, floats = false, banded = false;
    bool bytes = false;  // the pixels as they are
    int step = 0, nodes = 0, thin = 1;
    int shift = -1;  // step = 1 << shift and no bin is clamped
    bool operator==(const Source& o) const {
        return plane == o.plane && reflect == o.reflect && floats == o.floats && bytes == o.bytes && banded == o.banded &&
               step == o.step && nodes == o.nodes && thin == o.thin;
    }
};

struct Tap {
    int source, dy, phase, column;  // column in units of sites
};

struct Term {
    int table = 0;
    bool reflect = false, multilinear = false, slip = false;
    std::vector<PlaneRef> planes, blend_planes;
    std::vector<int32_t> offsets, weights, gains, rotations;
    int weight_bits = 0, value_bits = 0, gain_bits = 0;

    // filled in by finish()
    bool valued = false;  // values are computed per lookup, not prepared per pixel
    bool scalar = false;  // no vector kernel fits
    bool wide_key = false;
    std::shared_ptr<Layout> layout;
    std::vector<Tap> taps[4], blend_taps[4];  // per rotation 0..3; per offset
    std::vector<float> window;                // [offset][AXES]
    int64_t units = 0;
    IndexJob jobs[4] = {};  // per rotation
    CornerJob corner = {};  // the same where rows hold corners
    CornerIndexFn corner_index = nullptr;
    int offset_count() const { return static_cast<int>(offsets.size() / 2); }
};

// Up to MAX_TERMS terms (CORNER_TERMS where rows hold corners), each with up to SLOTS rotations (-1: none), blended together.
struct Pass {
    int terms[CORNER_TERMS] = {};
    int slots[CORNER_TERMS][SLOTS] = {};
    int count = 0;
    Lanes lanes = SHORT;
    bool linear = false;  // one multilinear term
};

enum class Rounding { divide, divide_wide, table, search };

struct Stage {
    int channels = 1, upscale = 1, cell = 1;
    int64_t denominator = 1, divisor = 0, offset = 0;
    int64_t thresholds[255];
    std::vector<Term> terms;

    // filled in by finish()
    int64_t payload = 0, bound = 0;
    int source_scale = 1, site_scale = 1, scale = 1;  // pixels per image pixel
    Lanes lanes = SHORT;
    bool scalar = false;  // 64-bit sums, no vector kernels
    int corners = 0;      // of a cell in one row: 4, 16, or 0 for plain rows
    int width = 16;       // lanes of a row vector; 1: rows of one or two bytes
    int slices = 1;       // vectors per row
    Turn turn = NONE;
    std::vector<Pass> passes;
    std::vector<Source> sources;
    int top = 0, bottom = 0, left = 0, right = 0;  // padding; left and right in sites
    Rounding rounding = Rounding::search;
    std::vector<uint8_t> levels;  // Rounding::table: for N = -bound .. bound
    std::string about;
};

}  // namespace twl

struct twl_plan {
    std::vector<twl::Table> tables;
    std::vector<twl::Stage> stages;
    const twl::Kernels* kernels = nullptr;
    bool finished = false;
    mutable twl::Pool<twl::Scratch> scratch;  // of threads
    mutable twl::Pool<twl::Aligned> planes;   // registers
};

namespace twl {

// layout.cpp: with `copies`, one copy of the rows per rotation, blocks turned back. Both throw Error.
void check_table(const Table&, const std::string& name);
std::shared_ptr<Layout> lay_out(const Table&, int channels, int upscale, bool copies);

// corners.cpp: whether a stage can run on rows of corners, its width and corners if so; then a term's layout and job.
bool choose_corners(const twl_plan&, Stage&);
std::shared_ptr<Layout> lay_out_corners(const Table&, int corners, int lanes);
void use_corners(const twl_plan&, const Stage&, Term&);

// finish.cpp: check everything and lay it out. Throws Error.
void finish(twl_plan&, const Kernels*);

// run.cpp: one plane stack per register.
struct View {
    const uint8_t* data = nullptr;
    int64_t image = 0, channel = 0, row = 0, column = 1;  // strides in bytes
};
struct Target {
    uint8_t* data = nullptr;
    int64_t image = 0, channel = 0, row = 0, column = 1;
};
// With `spent`, it also notes the nanoseconds from the start to the beginning and to the end of each stage.
void run_plan(const twl_plan&, const View& image, int64_t count, int64_t rows, int64_t columns, const Target&, int threads,
              int64_t* spent = nullptr);
void run_stage(const twl_plan&, const Stage&, const std::vector<View>&, int64_t count, int64_t rows, int64_t columns,
               const Target&, int threads);
void run_lookup(const twl_plan&, const Stage&, int term, int rotation, const std::vector<View>&, int64_t rows,
                int64_t columns, int64_t* out);

}  // namespace twl
