// Rows that hold the four corners of their last two axes: which stages run on them, how they lie in memory, and how a
// strip reads them. Four times the memory for fewer reads, so only tables that stay in the second cache.
#include <algorithm>
#include <cstring>

#include "strip.hpp"

namespace twl {
namespace {

constexpr int64_t TABLE_BYTES = 1 << 20;
constexpr int CORNERS = 4;

bool power_of_two(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

int log2_of(int64_t v) {
    int bits = 0;
    while (int64_t(1) << (bits + 1) <= v) bits++;
    return bits;
}

// Steps of a grid as the kernels multiply them out, if they fit; strides in rows.
bool fits(const int64_t* stride, int64_t origin, int64_t row_bytes, QuadGrid* grid) {
    const int64_t first = stride[0] / stride[1], second = stride[1] * row_bytes, third = stride[2];
    if (stride[3] != 1 || stride[0] % stride[1] || first > 127 || third > 127 || second > 32767) return false;
    if (origin + 255 * third > 32767 || 255 * first > 32767) return false;
    if (grid != nullptr) *grid = {int32_t(first), int32_t(second), int32_t(third), int32_t(origin)};
    return true;
}

bool term_fits(const twl_plan& plan, const Stage& s, const Term& t, int lanes) {
    const Table& table = plan.tables[static_cast<size_t>(t.table)];
    const int step = log2_of(table.step);
    if (table.axes != AXES || t.multilinear || t.slip || !t.weights.empty() || !t.gains.empty()) return false;
    if ((step != 4 && step != 5) || table.step != 1 << step || (255 >> step) > table.nodes - 2) return false;
    if (table.banded() && (table.thin != 2 || (255 >> (step + 1)) > table.coarse_nodes() - 2)) return false;
    if (plan.kernels->quad_index[step - 4][table.banded()] == nullptr) return false;
    // How large it will be, before laying it out.
    int64_t rows = 1;
    for (int k = 0; k < table.axes; k++) rows *= table.nodes;
    if (table.banded()) rows = static_cast<int64_t>(table.values.size() + table.coarse.size()) / table.payload;
    if (rows * lanes * CORNERS > TABLE_BYTES) return false;
    const auto plain = lay_out(table, 1, 1, false);
    int64_t stride[AXES], coarse[AXES];
    for (int k = 0; k < AXES; k++) {
        stride[k] = plain->stride[k] / table.payload;
        coarse[k] = plain->coarse_stride[k] / table.payload;
    }
    const int64_t bytes = int64_t(lanes) * CORNERS;
    if (!fits(stride, plain->origin / table.payload, bytes, nullptr)) return false;
    return !table.banded() || fits(coarse, plain->coarse_origin / table.payload, bytes, nullptr);
}

}  // namespace

int quad_lanes(const twl_plan& plan, const Stage& s) {
    if (s.scalar || s.payload < 2 || s.payload > 16 || (s.upscale > 1 && s.turn == NONE)) return 0;
    if (!power_of_two(s.denominator) || s.denominator > 128) return 0;
    const int lanes = s.payload <= 4 ? 4 : 16;
    if (plan.kernels->quad_blend[s.lanes != SHORT][lanes == 16][s.turn] == nullptr) return 0;
    for (const Term& t : s.terms)
        if (!term_fits(plan, s, t, lanes)) return 0;
    return lanes;
}

std::shared_ptr<Layout> lay_out_quads(const Table& t, int lanes) {
    const auto plain = lay_out(t, 1, 1, false);
    auto layout = std::make_shared<Layout>();
    const int64_t payload = t.payload, rows = plain->size / payload, bytes = int64_t(lanes) * CORNERS;
    for (int k = 0; k < AXES; k++) {
        layout->stride[k] = plain->stride[k] / payload;
        layout->coarse_stride[k] = plain->coarse_stride[k] / payload;
    }
    layout->origin = plain->origin / payload;
    layout->coarse_origin = plain->coarse_origin / payload;
    layout->size = rows * bytes;
    layout->bytes = RowMemory(layout->size);
    for (int64_t row = 0; row < rows; row++) {
        const bool coarse = t.banded() && row >= layout->coarse_origin;
        const int64_t* stride = coarse ? layout->coarse_stride : layout->stride;
        const int64_t end = t.banded() && !coarse ? layout->coarse_origin : rows;
        for (int corner = 0; corner < CORNERS; corner++) {
            const int64_t from = row + (corner & 1 ? stride[2] : 0) + (corner & 2 ? stride[3] : 0);
            if (from >= end) continue;  // never read: the last cell ends before
            for (int64_t p = 0; p < payload; p++)
                layout->bytes.data()[row * bytes + p * CORNERS + corner] = plain->bytes.data()[from * payload + p];
        }
    }
    return layout;
}

void use_quads(const twl_plan& plan, const Stage& s, Term& t) {
    const Table& table = plan.tables[static_cast<size_t>(t.table)];
    const Layout& layout = *t.layout;
    QuadIndexJob& job = t.quad;
    job.row_bytes = s.width * CORNERS;
    fits(layout.stride, layout.origin, job.row_bytes, &job.fine);
    if (table.banded()) fits(layout.coarse_stride, layout.coarse_origin, job.row_bytes, &job.coarse);
    job.units = static_cast<int32_t>(s.denominator);
    job.shift = log2_of(s.denominator) - log2_of(table.step) - (table.banded() ? 1 : 0);
    job.near = table.near;
    job.limit = std::min(table.width * table.step, 255);
    t.quad_index = plan.kernels->quad_index[log2_of(table.step) - 4][table.banded()];
}

void Strip::quad_index(const Term& term, int rotation, int64_t y, int64_t x, QuadBlock& block) const {
    QuadIndexJob job = term.quad;
    for (int k = 0; k < AXES; k++) {
        const Tap& tap = term.taps[rotation][static_cast<size_t>(k)];
        job.pixel[k] = active_[tap.source].raw + at(tap, y, x);
    }
    term.quad_index(job, block);
}

void Strip::quad_pass(const Pass& pass, const std::vector<Tile>& tiles) {
    QuadBlock* blocks = reinterpret_cast<QuadBlock*>(quad_blocks_.get(sizeof(QuadBlock) * SLOTS * QUAD_TERMS));
    const QuadBlendFn blend = kernels_.quad_blend[stage_.lanes != SHORT][stage_.width == 16][stage_.turn];
    QuadBlendJob job = {};
    job.blocks = blocks;
    job.terms = pass.count;
    job.first = &pass == &stage_.passes.front();
    for (int t = 0; t < pass.count; t++) {
        job.table[t] = stage_.terms[static_cast<size_t>(pass.terms[t])].layout->bytes.data();
        for (int slot = 0; slot < SLOTS; slot++)  // row 0, no weight
            if (pass.slots[t][slot] < 0) std::memset(static_cast<void*>(&blocks[t * SLOTS + slot]), 0, sizeof(QuadBlock));
    }
    for (size_t i = 0; i < tiles.size(); i++) {
        const Tile& tile = tiles[i];
        activate(tile.image);
        for (int t = 0; t < pass.count; t++)
            for (int slot = 0; slot < SLOTS; slot++)
                if (pass.slots[t][slot] >= 0)
                    quad_index(stage_.terms[static_cast<size_t>(pass.terms[t])], pass.slots[t][slot], tile.y, tile.x,
                               blocks[t * SLOTS + slot]);
        job.sums = sums_.get(0) + static_cast<int64_t>(i) * tile_bytes_;
        job.n = tile.n;
        blend(job);
    }
}

// One lookup of a tile, over the term's own denominator: [payload][plane].
void Strip::quad_lookup(const Term& term, int rotation, const Tile& tile, int64_t denominator, int64_t plane, int64_t* to) {
    QuadBlock* blocks = reinterpret_cast<QuadBlock*>(quad_blocks_.get(sizeof(QuadBlock) * SLOTS * QUAD_TERMS));
    std::memset(static_cast<void*>(blocks), 0, sizeof(QuadBlock) * SLOTS);
    quad_index(term, rotation, tile.y, tile.x, blocks[0]);
    int32_t* sums = reinterpret_cast<int32_t*>(sums_.get(int64_t(TILE) * stage_.width * 4));
    QuadBlendJob job = {};
    job.blocks = blocks;
    job.table[0] = term.layout->bytes.data();
    job.sums = sums;
    job.n = tile.n;
    job.terms = 1;
    job.first = true;
    kernels_.quad_blend[1][stage_.width == 16][NONE](job);
    const int64_t scale = stage_.denominator / denominator;  // weights add up to the stage's
    for (int64_t p = 0; p < stage_.payload; p++)
        for (int i = 0; i < tile.n; i++) to[p * plane + i] = sums[i * stage_.width + p] / scale;
}

}  // namespace twl
