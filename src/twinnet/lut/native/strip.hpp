// Runs a stage on a strip of site rows, from registers to registers. One per thread; holds the thread's buffers.
#pragma once
#include <vector>

#include "plan.hpp"

namespace twl {

class Strip {
   public:
    // rows and columns are those of the image.
    Strip(const twl_plan& plan, const Stage& stage, const std::vector<View>& registers, int64_t rows, int64_t columns);

    // Site rows first .. last - 1 of some image planes, together. `out` points at the first of them, column stride 1;
    // its row 0 is the first row that site row `out_first` writes.
    void run(int64_t image_first, int64_t image_last, int64_t first, int64_t last, const Target& out, int64_t out_first);

    // For whoever runs strips: not used here.
    Aligned& woven() { return (*scratch_).woven; }

    // Numerators of one term and rotation over the term's own denominator: [payload][rows][columns].
    void lookup(int term, int rotation, int64_t first, int64_t last, int64_t* out);

   private:
    struct Tile {
        int64_t image, y, x;  // image counted from the first of the run
        int n;
    };
    struct Prepared {
        uint8_t *raw, *bin, *frac, *coarse_bin, *coarse_frac;
        float* floats;
    };
    const Stage& stage_;
    const std::vector<Table>& tables_;
    const Kernels& kernels_;
    const std::vector<View>& registers_;
    int64_t source_rows_, source_columns_, site_rows_, site_columns_;
    int64_t pitch_ = 0, first_ = 0, tile_bytes_ = 0;
    std::vector<Tile> tiles_;
    std::vector<Prepared> prepared_;  // [image][source]
    const Prepared* active_ = nullptr;
    std::vector<int64_t> column_map_[2];  // edge, reflect: source column of every padded column, -1 for slack
    Borrowed<Scratch> scratch_;
    Aligned &planes_, &blocks_, &linear_blocks_, &corner_blocks_, &sums_, &bytes_, &row_;
    std::vector<const float*> rows_;
    std::vector<int64_t> reach_;  // [term][rotation][axis]: at() of a tap for the first site, where rows hold corners

    void prepare(int64_t image_first, int64_t image_last, int64_t first, int64_t last);
    void activate(int64_t image) { active_ = &prepared_[static_cast<size_t>(image) * stage_.sources.size()]; }
    void fill_row(const Source& source, const View& view, int64_t image, int64_t row, uint8_t* to) const;
    int64_t at(const Tap& tap, int64_t site_row, int64_t x) const {
        const int64_t row = (site_row - first_) * stage_.cell + tap.dy + stage_.top;
        return (row * stage_.cell + tap.phase) * pitch_ + stage_.left + tap.column + x;
    }
    void values(const Term& term, int rotation, int64_t y, int64_t x, int32_t (&out)[AXES][TILE]);
    void scalar_values(const Term& term, int rotation, int64_t y, int64_t x, int64_t (&out)[MAX_AXES]) const;
    IndexRows pixels(const Term& term, int rotation, int64_t y, int64_t x) const;
    void linear(const Term& term, const IndexJob* jobs, const int (&slots)[SLOTS], const Tile& tile, Turn turn, bool first,
                uint8_t* sums);
    void index(const Term& term, const IndexJob& job, int rotation, int64_t y, int64_t x, WeightKind weights,
               IndexBlock& block);
    void scalar_lookup(const Term& term, int rotation, int64_t y, int64_t x, int64_t denominator, bool copies, int64_t* sums);
    void pass(const Pass& pass, const std::vector<Tile>& tiles);
    void corner_index(int term, int rotation, const Tile& tile, CornerBlock& block) const;
    void corner_pass(const Pass& pass, const std::vector<Tile>& tiles);
    void corner_lookup(int term, int rotation, const Tile& tile, int64_t denominator, int64_t plane, int64_t* to);
    void scalar_tile(int64_t y, int64_t x, int n);
    void round(const uint8_t* sums, int n);
    void place(const Tile& tile, const Target& out, int64_t out_first) const;
};

}  // namespace twl
