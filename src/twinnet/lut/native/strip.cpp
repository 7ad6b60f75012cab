// A strip with vector kernels: passes over blocks of tiles, rounding, placing.
#include "strip.hpp"

#include <algorithm>
#include <cstring>

namespace twl {
namespace {

constexpr int64_t BLOCK_BYTES = 1 << 19;  // of sums: with one table they fit the second cache

}  // namespace

// Fixed-point values of a tile: weighted windows, then the residual.
void Strip::values(const Term& term, int rotation, int64_t y, int64_t x, int32_t (&out)[AXES][TILE]) {
    alignas(64) int32_t other[AXES][TILE];
    const int axes = tables_[term.table].axes;
    auto sample = [&](const std::vector<Tap>& taps, int32_t (*to)[TILE]) {
        rows_.clear();
        for (const Tap& tap : taps) rows_.push_back(active_[tap.source].floats + at(tap, y, x));
        WindowJob job;
        job.rows = rows_.data();
        job.weights = term.window.data();
        job.count = static_cast<int>(taps.size());
        job.axes = axes;
        job.shift = term.weights.empty() ? 0 : term.weight_bits - term.value_bits;
        job.half = job.shift > 0 ? 1 << (job.shift - 1) : 0;
        job.out = to;
        kernels_.window(job);
    };
    sample(term.taps[rotation], out);
    if (term.gains.empty()) return;
    sample(term.blend_taps[rotation], other);
    for (int k = 0; k < axes; k++) 
        kernels_.mix(out[k], other[k], term.gains[k], term.gain_bits, 8 + term.value_bits + term.gain_bits <= 30);
}

IndexRows Strip::pixels(const Term& term, int rotation, int64_t y, int64_t x) const {
    const Table& table = tables_[term.table];
    IndexRows rows = {};
    for (int k = 0; k < table.axes; k++) {
        const Tap& tap = term.taps[rotation][k];
        const Prepared& p = active_[tap.source];
        const int64_t from = at(tap, y, x);
        rows.bin[k] = p.bin + from;
        rows.frac[k] = p.frac + from;
        if (table.banded()) {
            rows.raw[k] = p.raw + from;
            rows.coarse_bin[k] = p.coarse_bin + from;
            rows.coarse_frac[k] = p.coarse_frac + from;
        }
    }
    return rows;
}

void Strip::index(const Term& term, const IndexJob& job, int rotation, int64_t y, int64_t x, WeightKind weights,
                  IndexBlock& block) {
    const Table& table = tables_[term.table];
    const Flavour flavour = term.slip ? SLIP : table.banded() ? BAND : PLAIN;
    if (!term.valued) {
        kernels_.split[term.wide_key][weights][table.axes - 1][flavour](job, pixels(term, rotation, y, x), block);
        return;
    }
    alignas(64) int32_t value[AXES][TILE];
    values(term, rotation, y, x, value);
    IndexRows rows = {};
    for (int k = 0; k < table.axes; k++) rows.value[k] = value[k];
    kernels_.value[table.axes - 1][flavour](job, rows, block);
}

// All corners of the cells of one tile, for up to SLOTS rotations.
void Strip::linear(const Term& term, const IndexJob* jobs, const int (&slots)[SLOTS], const Tile& tile, Turn turn, bool first,
                   uint8_t* sums) {
    LinearBlock* blocks = reinterpret_cast<LinearBlock*>(linear_blocks_.get(sizeof(LinearBlock) * SLOTS));
    const int axes = tables_[term.table].axes;
    LinearJob job = {};
    job.blocks = blocks;
    job.corners = term.layout->corners.data();
    job.n = tile.n;
    job.first = first;
    for (int slot = 0; slot < SLOTS; slot++) {
        job.used[slot] = slots[slot] >= 0;
        if (!job.used[slot]) continue;
        kernels_.linear_index[axes - 1](jobs[slots[slot]], pixels(term, slots[slot], tile.y, tile.x), blocks[slot]);
    }
    for (int slice = 0; slice < stage_.slices; slice++) {
        job.sums = reinterpret_cast<int32_t*>(sums + tile_bytes_ / stage_.slices * slice);
        job.table = term.layout->bytes.data() + 16 * slice;
        kernels_.linear[axes - 1][turn][stage_.width == 16](job);
    }
}

// One pass over a block of tiles, so that the tables of the pass stay in the cache while the block lasts.
void Strip::pass(const Pass& pass, const std::vector<Tile>& tiles) {
    IndexBlock* blocks = reinterpret_cast<IndexBlock*>(blocks_.get(sizeof(IndexBlock) * SLOTS * MAX_TERMS));
    const WeightKind weights = pass.lanes == INT ? INTS : stage_.width == 1 ? SHORTS : ROWS;
    const int axes = tables_[stage_.terms[pass.terms[0]].table].axes;
    const bool first = &pass == &stage_.passes.front();
    for (size_t i = 0; i < tiles.size(); i++) {
        const Tile& tile = tiles[i];
        activate(tile.image);
        uint8_t* sums = sums_.get(0) + static_cast<int64_t>(i) * tile_bytes_;
        if (pass.linear) {
            const Term& term = stage_.terms[pass.terms[0]];
            linear(term, term.jobs, pass.slots[0], tile, stage_.turn, first, sums);
            continue;
        }
        for (int t = 0; t < pass.count; t++) {
            const Term& term = stage_.terms[pass.terms[t]];
            for (int slot = 0; slot < SLOTS; slot++) {
                IndexBlock& block = blocks[t * SLOTS + slot];
                const int rotation = pass.slots[t][slot];
                if (rotation >= 0) index(term, term.jobs[rotation], rotation, tile.y, tile.x, weights, block);
                else if (stage_.width != 1) std::memset(static_cast<void*>(&block), 0, sizeof block);  // row 0, no weight
            }
        }
        if (stage_.width == 1) {
            if (first) std::memset(sums, 0, static_cast<size_t>(tile_bytes_));
            for (int k = 0; k < pass.count * SLOTS; k++) {
                const Term& term = stage_.terms[pass.terms[k / SLOTS]];
                if (pass.slots[k / SLOTS][k % SLOTS] < 0) continue;
                NarrowJob job{&blocks[k], term.layout->bytes.data(), term.layout->steps.data(), sums, tile.n};
                kernels_.narrow[axes - 1][pass.lanes][stage_.payload - 1](job);
            }
            continue;
        }
        BlendJob job = {};
        job.blocks = blocks;
        job.n = tile.n;
        job.first = first;
        for (int slice = 0; slice < stage_.slices; slice++) {
            job.sums = sums + tile_bytes_ / stage_.slices * slice;
            for (int t = 0; t < pass.count; t++) {
                const Layout& layout = *stage_.terms[pass.terms[t]].layout;
                job.table[t] = layout.bytes.data() + 16 * slice;
                job.offsets[t] = layout.steps.data();
            }
            kernels_.blend[axes - 1][pass.lanes][stage_.turn][stage_.width == 16][pass.count - 1](job);
        }
    }
}

void Strip::round(const uint8_t* all_sums, int n) {
    const int64_t per_slice = int64_t(TILE) * (stage_.width == 1 ? stage_.payload : stage_.width);
    uint8_t* out = bytes_.get(per_slice * stage_.slices);
    // Narrow sums lie [payload][TILE], so all of it; else only the sites that exist.
    const int count = static_cast<int>(stage_.width == 1 ? per_slice : int64_t(n) * stage_.width);
    for (int slice = 0; slice < stage_.slices; slice++) {
        uint8_t* to = out + slice * per_slice;
        auto each = [&](const auto* sums, auto divide) {
            if (stage_.rounding == Rounding::divide || stage_.rounding == Rounding::divide_wide) {
                divide(sums, to, count, static_cast<int>(stage_.divisor), static_cast<int>(stage_.offset));
            } else if (stage_.rounding == Rounding::table) {
                const int64_t bound = stage_.bound;
                for (int i = 0; i < count; i++)
                    to[i] = stage_.levels[static_cast<size_t>(std::min<int64_t>(std::max<int64_t>(sums[i], -bound), bound) + bound)];
            } else {
                const int64_t* levels = stage_.thresholds;
                for (int i = 0; i < count; i++)
                    to[i] = static_cast<uint8_t>(std::upper_bound(levels, levels + 255, int64_t(sums[i])) - levels);
            }
        };
        if (stage_.lanes == SHORT)
            each(reinterpret_cast<const int16_t*>(all_sums) + slice * per_slice, kernels_.divide16);
        else
            each(reinterpret_cast<const int32_t*>(all_sums) + slice * per_slice,
                 stage_.rounding == Rounding::divide_wide ? kernels_.divide32_wide
                 : stage_.divisor <= SMALL_DIVISOR               ? kernels_.divide32_small
                                                                 : kernels_.divide32);
    }
}

void Strip::place(const Tile& tile, const Target& out, int64_t out_first) const {
    const int up = stage_.upscale;
    const uint8_t* bytes = bytes_.get(0);
    const int n = tile.n;
    uint8_t* corner = out.data + tile.image * out.image + (tile.y - out_first) * up * out.row + tile.x * up;
    if (stage_.width == 1) {
        for (int64_t p = 0; p < stage_.payload; p++) std::memcpy(corner + p * out.channel, bytes + p * TILE, static_cast<size_t>(n));
        return;
    }
    const int lanes = stage_.width;
    if (stage_.channels == 1 && up == 4) return kernels_.place4(bytes, corner, out.row, n);
    if (stage_.channels == 1 && up == 2)
        return (lanes == 4 ? kernels_.place2_narrow : kernels_.place2)(bytes, corner, out.row, n);
    for (int64_t p = 0; p < stage_.payload; p++) {
        const uint8_t* from = bytes + (p / 16) * TILE * lanes + p % 16;
        const int64_t c = p / (up * up), u = p / up % up, v = p % up;
        uint8_t* to = corner + c * out.channel + u * out.row + v;
        for (int i = 0; i < n; i++) to[i * up] = from[i * lanes];
    }
}

void Strip::run(int64_t image_first, int64_t image_last, int64_t first, int64_t last, const Target& out, int64_t out_first) {
    prepare(image_first, image_last, first, last);
    const size_t most = static_cast<size_t>(std::max<int64_t>(1, BLOCK_BYTES / tile_bytes_));
    sums_.get(tile_bytes_ * static_cast<int64_t>(most));
    auto flush = [&] {
        for (const Pass& p : stage_.passes) stage_.corners ? corner_pass(p, tiles_) : pass(p, tiles_);
        for (size_t i = 0; i < tiles_.size(); i++) {
            round(sums_.get(0) + static_cast<int64_t>(i) * tile_bytes_, tiles_[i].n);
            place(tiles_[i], out, out_first);
        }
        tiles_.clear();
    };
    for (int64_t image = 0; image < image_last - image_first; image++)
        for (int64_t y = first; y < last; y++)
            for (int64_t x = 0; x < site_columns_; x += TILE) {
                const Tile tile{image, y, x, static_cast<int>(std::min<int64_t>(TILE, site_columns_ - x))};
                if (stage_.scalar) {
                    activate(image);
                    scalar_tile(y, x, tile.n);
                    place(tile, out, out_first);
                    continue;
                }
                tiles_.push_back(tile);
                if (tiles_.size() == most) flush();
            }
    flush();
}

void Strip::lookup(int number, int rotation, int64_t first, int64_t last, int64_t* out) {
    const Term& term = stage_.terms[number];
    const Table& table = tables_[term.table];
    prepare(0, 1, first, last);
    activate(0);
    int64_t denominator = int64_t(table.step) << term.value_bits;
    if (table.banded()) denominator *= table.thin;
    const int64_t base = denominator;
    for (int k = 1; term.multilinear && k < table.axes; k++) denominator *= base;
    const int64_t payload = stage_.payload, plane = site_rows_ * site_columns_;
    std::vector<int64_t> sum(static_cast<size_t>(payload));
    IndexBlock* blocks = reinterpret_cast<IndexBlock*>(blocks_.get(sizeof(IndexBlock) * SLOTS * MAX_TERMS));
    IndexJob own = term.jobs[0];
    own.scale = static_cast<int32_t>(denominator / term.units);
    own.coarse_scale = static_cast<int32_t>(denominator / (term.units * table.thin));
    if (term.multilinear) {
        int64_t scale = denominator;
        for (int k = 0; k < table.axes; k++) scale /= term.units;
        own.scale = static_cast<int32_t>(scale);
    }
    const IndexJob jobs[4] = {own, own, own, own};
    for (int64_t y = first; y < last; y++)
        for (int64_t x = 0; x < site_columns_; x += TILE) {
            const int n = static_cast<int>(std::min<int64_t>(TILE, site_columns_ - x));
            int64_t* to = out + y * site_columns_ + x;
            if (stage_.scalar) {
                for (int i = 0; i < n; i++) {
                    std::fill(sum.begin(), sum.end(), 0);
                    scalar_lookup(term, rotation, y, x + i, denominator, false, sum.data());
                    for (int64_t p = 0; p < payload; p++) to[p * plane + i] = sum[static_cast<size_t>(p)];
                }
                continue;
            }
            if (stage_.corners) {
                corner_lookup(number, rotation, {0, y, x, n}, denominator, plane, to);
                continue;
            }
            if (term.multilinear) {
                const int slots[SLOTS] = {rotation, -1, -1, -1};
                const int32_t* sums = reinterpret_cast<const int32_t*>(sums_.get(tile_bytes_));
                linear(term, jobs, slots, {0, y, x, n}, NONE, true, sums_.get(tile_bytes_));
                for (int64_t p = 0; p < payload; p++)
                    for (int i = 0; i < n; i++)
                        to[p * plane + i] = sums[(p / 16) * TILE * stage_.width + i * stage_.width + p % 16];
                continue;
            }
            std::memset(static_cast<void*>(blocks), 0, sizeof(IndexBlock) * SLOTS);
            index(term, own, rotation, y, x, INTS, blocks[0]);
            const int64_t width = stage_.width == 1 ? payload : stage_.width;
            for (int slice = 0; slice < stage_.slices; slice++) {
                int32_t* sums = reinterpret_cast<int32_t*>(sums_.get(width * TILE * stage_.slices * 4));
                std::memset(sums, 0, static_cast<size_t>(width * TILE * 4));
                if (stage_.width == 1) {
                    NarrowJob job{&blocks[0], term.layout->bytes.data(), term.layout->steps.data(), sums, n};
                    kernels_.narrow[table.axes - 1][INT][payload - 1](job);
                } else {
                    BlendJob job = {};
                    job.blocks = blocks;
                    job.table[0] = term.layout->bytes.data() + 16 * slice;
                    job.offsets[0] = term.layout->steps.data();
                    job.sums = sums;
                    job.n = n;
                    kernels_.blend[table.axes - 1][INT][NONE][stage_.width == 16][0](job);
                }
                for (int64_t p = 16 * slice; p < payload && (p < 16 * (slice + 1) || stage_.width == 1); p++)
                    for (int i = 0; i < n; i++)
                        to[p * plane + i] = stage_.width == 1 ? sums[p * TILE + i] : sums[i * width + p % 16];
            }
        }
}

}  // namespace twl
