// The padded rows of a strip, in the form its terms want them.
#include <algorithm>
#include <cstring>

#include "strip.hpp"

namespace twl {
namespace {

constexpr int64_t up64(int64_t n) { return (n + 63) / 64 * 64; }

int64_t inside(int64_t i, int64_t n, bool reflect) {
    if (i >= 0 && i < n) return i;
    if (!reflect) return i < 0 ? 0 : n - 1;
    if (n == 1) return 0;
    const int64_t period = 2 * (n - 1);
    int64_t folded = i % period;
    if (folded < 0) folded += period;
    return folded < n ? folded : period - folded;
}

}  // namespace

Strip::Strip(const twl_plan& plan, const Stage& stage, const std::vector<View>& registers, int64_t rows, int64_t columns)
    : stage_(stage),
      tables_(plan.tables),
      kernels_(*plan.kernels),
      registers_(registers),
      source_rows_(rows * stage.source_scale),
      source_columns_(columns * stage.source_scale),
      site_rows_(rows * stage.site_scale),
      site_columns_(columns * stage.site_scale),
      scratch_(plan.scratch),
      planes_((*scratch_).planes),
      blocks_((*scratch_).blocks),
      linear_blocks_((*scratch_).linear_blocks),
      corner_blocks_((*scratch_).corner_blocks),
      sums_((*scratch_).sums),
      bytes_((*scratch_).bytes),
      row_((*scratch_).row) {
    // Tiles are always read whole, so every row has a tile of slack to its right.
    pitch_ = up64(stage.left + site_columns_ + stage.right + TILE);
    tile_bytes_ = int64_t(TILE) * (stage.width == 1 ? stage.payload : stage.width) * stage.slices * (stage.lanes == SHORT ? 2 : 4);
    if (stage.corners)
        for (const Term& term : stage.terms)
            for (const std::vector<Tap>& taps : term.taps)
                for (const Tap& tap : taps) reach_.push_back(at(tap, 0, 0));
    for (int mode = 0; mode < 2; mode++) {
        bool used = false;
        for (const Source& s : stage.sources) used = used || s.reflect == (mode == 1);
        if (!used) continue;
        column_map_[mode].assign(static_cast<size_t>(pitch_ * stage.cell), -1);
        for (int phase = 0; phase < stage.cell; phase++)
            for (int64_t q = 0; q < stage.left + site_columns_ + stage.right; q++)
                column_map_[mode][phase * pitch_ + q] =
                    inside((q - stage.left) * stage.cell + phase, source_columns_, mode == 1);
    }
}

// One padded row, all its phases.
void Strip::fill_row(const Source& source, const View& view, int64_t image, int64_t row, uint8_t* to) const {
    const uint8_t* from = view.data + image * view.image + source.plane.channel * view.channel +
                          inside(row, source_rows_, source.reflect) * view.row;
    const std::vector<int64_t>& map = column_map_[source.reflect ? 1 : 0];
    const int64_t inner_first = stage_.left, inner_last = stage_.left + site_columns_;
    const bool pairs = stage_.cell == 2 && view.column == 1;
    if (pairs) kernels_.split_pairs(from, to + inner_first, to + pitch_ + inner_first, site_columns_);
    for (int phase = 0; phase < stage_.cell; phase++, to += pitch_) {
        const int64_t* columns = &map[static_cast<size_t>(phase * pitch_)];
        for (int64_t q = 0; q < inner_first; q++) to[q] = from[columns[q] * view.column];
        if (stage_.cell == 1 && view.column == 1) {
            std::memcpy(to + inner_first, from, static_cast<size_t>(site_columns_));
        } else if (!pairs) {
            const int64_t step = stage_.cell * view.column;
            const uint8_t* p = from + phase * view.column;
            if (step == 3) kernels_.every_third(p, to + inner_first, site_columns_);
            else for (int64_t q = 0; q < site_columns_; q++) to[inner_first + q] = p[q * step];
        }
        const int64_t end = inner_last + stage_.right;
        for (int64_t q = inner_last; q < end; q++) to[q] = from[columns[q] * view.column];
        std::memset(to + end, 0, static_cast<size_t>(pitch_ - end));  // slack
    }
}

void Strip::prepare(int64_t image_first, int64_t image_last, int64_t first, int64_t last) {
    const int64_t rows = (last - first - 1) * stage_.cell + 1 + stage_.top + stage_.bottom;
    const int64_t row_bytes = pitch_ * stage_.cell, plane = rows * row_bytes;
    int64_t bytes = 0;
    for (const Source& s : stage_.sources) bytes += s.floats ? 4 * plane : s.bytes ? plane : s.banded ? 5 * plane : 2 * plane;
    uint8_t* free = planes_.get(bytes * (image_last - image_first));
    uint8_t* line = row_.get(row_bytes);
    prepared_.clear();
    first_ = first;
    for (int64_t number = 0; number < (image_last - image_first) * int64_t(stage_.sources.size()); number++) {
        const Source& s = stage_.sources[static_cast<size_t>(number) % stage_.sources.size()];
        const int64_t image = image_first + number / int64_t(stage_.sources.size());
        Prepared p = {};
        auto take = [&](int64_t size) {
            uint8_t* at = free;
            free += size;
            return at;
        };
        if (s.floats) {
            p.floats = reinterpret_cast<float*>(take(4 * plane));
        } else if (s.bytes) {
            p.raw = take(plane);
        } else {
            p.bin = take(plane);
            p.frac = take(plane);
            if (s.banded) {
                p.raw = take(plane);
                p.coarse_bin = take(plane);
                p.coarse_frac = take(plane);
            }
        }
        uint8_t bins[2][256], fracs[2][256];
        for (int coarse = 0; coarse < 2 && !s.floats && !s.bytes; coarse++)
            for (int v = 0; v < 256; v++) {
                const int step = s.step * (coarse ? s.thin : 1), nodes = coarse ? (s.nodes - 1) / s.thin + 1 : s.nodes;
                const int bin = std::min(v / step, nodes - 2);
                bins[coarse][v] = static_cast<uint8_t>(bin);
                fracs[coarse][v] = static_cast<uint8_t>(v - bin * step);
            }
        for (int64_t i = 0; i < rows; i++) {
            const int64_t at = i * row_bytes;
            fill_row(s, registers_[s.plane.reg], image, first * stage_.cell - stage_.top + i, s.bytes ? p.raw + at : line);
            if (s.bytes) continue;
            if (s.floats) {
                for (int64_t x = 0; x < row_bytes; x++) p.floats[at + x] = line[x];
                continue;
            }
            if (s.shift >= 0) {
                kernels_.split_row(line, p.bin + at, p.frac + at, row_bytes, s.shift);
            } else {
                for (int64_t x = 0; x < row_bytes; x++) {
                    p.bin[at + x] = bins[0][line[x]];
                    p.frac[at + x] = fracs[0][line[x]];
                }
            }
            if (s.banded) {
                std::memcpy(p.raw + at, line, static_cast<size_t>(row_bytes));
                for (int64_t x = 0; x < row_bytes; x++) {
                    p.coarse_bin[at + x] = bins[1][line[x]];
                    p.coarse_frac[at + x] = fracs[1][line[x]];
                }
            }
        }
        prepared_.push_back(p);
    }
}

}  // namespace twl
