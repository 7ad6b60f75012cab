// Rows that hold several corners of a cell: which stages run on them, how they lie in memory, and how a strip reads
// them. They take four or eight times the memory, so this is for tables that then still stay in the second cache.
#include <algorithm>
#include <cstring>

#include "strip.hpp"

namespace twl {
namespace {

constexpr int64_t TABLE_BYTES = 1 << 20;

bool power_of_two(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

int log2_of(int64_t v) {
    int bits = 0;
    while (int64_t(1) << (bits + 1) <= v) bits++;
    return bits;
}

int lanes_index(int lanes) { return lanes == 1 ? 0 : lanes == 4 ? 1 : 2; }

// How many rows the values of every node lie apart along each axis. Where rows hold eight corners, the first axis is
// the innermost. In a band the others count from it, so nodes of different bins of it never meet.
struct Grid {
    int64_t stride[AXES], coarse_stride[AXES];
    int64_t origin = 0, rows = 0, coarse_rows = 0;

    Grid(const Table& t, int corners) {
        const int64_t nodes = t.nodes, coarse = t.coarse_nodes(), wide = 2 * t.width + 1;
        if (corners == 4) {
            dense(nodes, {0, 1, 2, 3}, stride);
            dense(coarse, {0, 1, 2, 3}, coarse_stride);
        } else {
            dense(nodes, {1, 2, 3, 0}, stride);
            dense(coarse, {1, 2, 3, 0}, coarse_stride);
        }
        rows = nodes * nodes * nodes * nodes;
        if (!t.banded()) return;
        int64_t next = corners == 4 ? 1 : nodes, near_sum = 0;
        for (int k = AXES - 1; k >= 1; k--) {
            stride[k] = next;
            if (k <= t.near) near_sum += next;
            next *= k <= t.near ? wide : nodes;
        }
        // As far as the band reaches, and a multiple of the next step.
        stride[0] = corners == 4 ? 2 * t.width * stride[1] : 1;
        origin = corners == 4 ? t.width * near_sum : 0;
        rows = origin + 1;
        for (int64_t s : stride) rows += (nodes - 1) * s;
        coarse_rows = coarse * coarse * coarse * coarse;
    }
    static void dense(int64_t nodes, const int (&order)[AXES], int64_t (&to)[AXES]) {
        int64_t next = 1;
        for (int i = AXES - 1; i >= 0; i--) {
            to[order[i]] = next;
            next *= nodes;
        }
    }
};

// A grid the way the kernels multiply it out, if it fits that.
bool fits(const int64_t (&stride)[AXES], int64_t origin, int corners, int64_t row_bytes, CornerGrid& grid) {
    const int shift = corners == 4 ? 0 : 1;
    const int64_t a = stride[shift], b = stride[shift + 1], c = stride[shift + 2], d = stride[(shift + 3) % AXES];
    const int64_t first = a / b, second = b * row_bytes;
    if (d != 1 || a % b || first > 127 || c > 127 || second > 32767) return false;
    if (origin + 255 * (c + 1) > 32767 || 255 * (first + 1) > 32767) return false;
    grid = {static_cast<int32_t>(first), static_cast<int32_t>(second), static_cast<int32_t>(c), static_cast<int32_t>(origin)};
    return true;
}

bool grids(const Table& table, int corners, int lanes, CornerJob& job) {
    const Grid grid(table, corners);
    job.row_bytes = corners * lanes;
    if ((grid.rows + grid.coarse_rows) * job.row_bytes > TABLE_BYTES) return false;
    if (!fits(grid.stride, grid.origin, corners, job.row_bytes, job.fine)) return false;
    return !table.banded() || fits(grid.coarse_stride, grid.rows, corners, job.row_bytes, job.coarse);
}

bool term_fits(const twl_plan& plan, const Term& t, int corners, int lanes) {
    const Table& table = plan.tables[static_cast<size_t>(t.table)];
    const int step = log2_of(table.step);
    if (table.axes != AXES || t.multilinear || t.slip || !t.weights.empty() || !t.gains.empty()) return false;
    if ((step != 4 && step != 5) || table.step != 1 << step || (255 >> step) > table.nodes - 2) return false;
    if (table.banded() && (table.thin != 2 || (255 >> (step + 1)) > table.coarse_nodes() - 2)) return false;
    CornerJob job;
    return plan.kernels->corner_index[step - 4][corners == 4][table.banded()] != nullptr && grids(table, corners, lanes, job);
}

}  // namespace

bool choose_corners(const twl_plan& plan, Stage& s) {
    if (s.scalar || s.payload > 16 || (s.upscale > 1 && s.turn == NONE)) return false;
    if (!power_of_two(s.denominator) || s.denominator > 128) return false;
    const int lanes = s.payload == 1 ? 1 : s.payload <= 4 ? 4 : 16, corners = lanes == 16 ? 4 : 8;
    if (plan.kernels->corner_blend[s.lanes != SHORT][lanes_index(lanes)][s.turn] == nullptr) return false;
    for (const Term& t : s.terms)
        if (!term_fits(plan, t, corners, lanes)) return false;
    s.corners = corners;
    s.width = lanes;
    return true;
}

std::shared_ptr<Layout> lay_out_corners(const Table& t, int corners, int lanes) {
    const Grid grid(t, corners);
    const auto plain = lay_out(t, 1, 1, false);
    const int64_t payload = t.payload, rows = grid.rows + grid.coarse_rows, bytes = int64_t(corners) * lanes;
    // First the values of every node in their place, then the corners from there.
    std::vector<int8_t> values(static_cast<size_t>(rows * payload));
    auto place = [&](int nodes, const int64_t* from, int64_t from_origin, const int64_t* to, int64_t to_origin, bool band) {
        for (int64_t cell = 0, count = int64_t(nodes) * nodes * nodes * nodes; cell < count; cell++) {
            int64_t node[AXES], left = cell, source = from_origin, target = to_origin;
            for (int k = 0; k < AXES; k++, left /= nodes) node[k] = left % nodes;
            bool inside = true;
            for (int k = 0; k < AXES; k++) {
                if (band && k >= 1 && k <= t.near) inside = inside && std::abs(node[k] - node[0]) <= t.width;
                source += node[k] * from[k];
                target += node[k] * to[k] * payload;
            }
            if (inside) std::memcpy(&values[static_cast<size_t>(target)], plain->bytes.data() + source, static_cast<size_t>(payload));
        }
    };
    place(t.nodes, plain->stride, plain->origin, grid.stride, grid.origin * payload, t.banded());
    if (t.banded())
        place(t.coarse_nodes(), plain->coarse_stride, plain->coarse_origin, grid.coarse_stride, grid.rows * payload, false);
    auto layout = std::make_shared<Layout>();
    layout->size = rows * bytes;
    layout->bytes = RowMemory(layout->size + bytes);  // of octs, the row after the last is read, too
    for (int64_t row = 0; row < rows; row++) {
        const bool coarse = row >= grid.rows;
        const int64_t* stride = coarse ? grid.coarse_stride : grid.stride;
        for (int corner = 0; corner < corners; corner++) {
            int64_t from = row;  // corner bits: the last two axes, then the second
            if (corner & 1) from += stride[2];
            if (corner & 2) from += stride[3];
            if (corner & 4) from += stride[1];
            if (from >= (coarse ? rows : grid.rows)) continue;  // no cell begins here
            for (int64_t p = 0; p < payload; p++)
                layout->bytes.data()[row * bytes + p * corners + corner] = values[static_cast<size_t>(from * payload + p)];
        }
    }
    return layout;
}

void use_corners(const twl_plan& plan, const Stage& s, Term& t) {
    const Table& table = plan.tables[static_cast<size_t>(t.table)];
    grids(table, s.corners, s.width, t.corner);
    t.corner.units = static_cast<int32_t>(s.denominator);
    t.corner.shift = log2_of(s.denominator) - log2_of(table.step) - (table.banded() ? 1 : 0);
    t.corner.near = table.near;
    t.corner.limit = std::min(table.width * table.step, 255);
    t.corner_index = plan.kernels->corner_index[log2_of(table.step) - 4][s.corners == 4][table.banded()];
}

void Strip::corner_index(int number, int rotation, const Tile& tile, CornerBlock& block) const {
    const Term& term = stage_.terms[static_cast<size_t>(number)];
    const int64_t* reach = &reach_[static_cast<size_t>((number * 4 + rotation) * AXES)];
    const int64_t from = (tile.y - first_) * stage_.cell * stage_.cell * pitch_ + tile.x;
    const uint8_t* pixels[AXES];
    for (int k = 0; k < AXES; k++)
        pixels[k] = active_[term.taps[rotation][static_cast<size_t>(k)].source].raw + reach[k] + from;
    term.corner_index(term.corner, pixels, block);
}

void Strip::corner_pass(const Pass& pass, const std::vector<Tile>& tiles) {
    CornerBlock* blocks = reinterpret_cast<CornerBlock*>(corner_blocks_.get(sizeof(CornerBlock) * SLOTS * CORNER_TERMS));
    const CornerBlendFn blend = kernels_.corner_blend[stage_.lanes != SHORT][lanes_index(stage_.width)][stage_.turn];
    CornerBlendJob job = {};
    job.blocks = blocks;
    job.terms = pass.count;
    job.first = &pass == &stage_.passes.front();
    for (int t = 0; t < pass.count; t++) {
        job.table[t] = stage_.terms[static_cast<size_t>(pass.terms[t])].layout->bytes.data();
        for (int slot = 0; slot < SLOTS; slot++)  // row 0, no weight
            if (pass.slots[t][slot] < 0) std::memset(static_cast<void*>(&blocks[t * SLOTS + slot]), 0, sizeof(CornerBlock));
    }
    for (size_t i = 0; i < tiles.size(); i++) {
        activate(tiles[i].image);
        for (int t = 0; t < pass.count; t++)
            for (int slot = 0; slot < SLOTS; slot++)
                if (pass.slots[t][slot] >= 0)
                    corner_index(pass.terms[t], pass.slots[t][slot], tiles[i], blocks[t * SLOTS + slot]);
        job.sums = sums_.get(0) + static_cast<int64_t>(i) * tile_bytes_;
        job.n = tiles[i].n;
        blend(job);
    }
}

// One lookup of a tile, over the term's own denominator: [payload][plane].
void Strip::corner_lookup(int number, int rotation, const Tile& tile, int64_t denominator, int64_t plane, int64_t* to) {
    CornerBlock* blocks = reinterpret_cast<CornerBlock*>(corner_blocks_.get(sizeof(CornerBlock) * SLOTS * CORNER_TERMS));
    std::memset(static_cast<void*>(blocks), 0, sizeof(CornerBlock) * SLOTS);
    corner_index(number, rotation, tile, blocks[0]);
    int32_t* sums = reinterpret_cast<int32_t*>(sums_.get(int64_t(TILE) * stage_.width * 4));
    CornerBlendJob job = {};
    job.blocks = blocks;
    job.table[0] = stage_.terms[static_cast<size_t>(number)].layout->bytes.data();
    job.sums = sums;
    job.n = tile.n;
    job.terms = 1;
    job.first = true;
    kernels_.corner_blend[1][lanes_index(stage_.width)][NONE](job);
    const int64_t scale = stage_.denominator / denominator;  // weights add up to the stage's
    for (int64_t p = 0; p < stage_.payload; p++)
        for (int i = 0; i < tile.n; i++) to[p * plane + i] = sums[i * stage_.width + p] / scale;
}

}  // namespace twl
