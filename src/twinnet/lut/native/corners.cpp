// Rows that hold several corners of a cell: which stages run on them, how they lie in memory, and how a strip reads
// them. They take four or sixteen times the memory, so this is for tables that then still stay in the second cache.
#include <algorithm>
#include <cstring>

#include "strip.hpp"

namespace twl {
namespace {

constexpr int64_t TABLE_BYTES = 3 << 19;    // that are read
constexpr int64_t SPREAD_BYTES = 8 << 20;  // with the gaps between them

bool power_of_two(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

int log2_of(int64_t v) {
    int bits = 0;
    while (int64_t(1) << (bits + 1) <= v) bits++;
    return bits;
}

int lanes_index(int lanes) { return lanes == 1 ? 0 : lanes == 4 ? 1 : 2; }

// How many rows the values of every node lie apart along each axis, in the fine and in the coarse grid alike. In a band
// the other axes stay close to the first, so steps can be smaller than the grid is wide and nodes in band still never
// meet; what lies between them is never read.
struct Grid {
    int64_t stride[AXES];
    int64_t coarse = 0;  // bins of the first axis before the coarse grid begins
    int64_t rows = 0;    // all
    int64_t used = 0;    // those with values

    explicit Grid(const Table& t) {
        const int64_t nodes = t.nodes, wide = 2 * t.width + 1;
        int64_t next = 1;
        for (int k = AXES - 1; k >= 0; k--) {
            stride[k] = next;
            next *= t.banded() && k <= t.near ? std::max<int64_t>(wide, t.coarse_nodes()) : nodes;
        }
        int64_t all = 0;
        for (int64_t s : stride) all += s;
        rows = (nodes - 1) * all + 1;
        used = rows;
        if (!t.banded()) return;
        coarse = (rows + stride[0] - 1) / stride[0];
        rows = coarse * stride[0] + (t.coarse_nodes() - 1) * all + 1;
        used = static_cast<int64_t>(t.values.size() + t.coarse.size()) / t.payload;
    }
};

// The grid the way the kernels multiply it out, if it fits that.
bool multiplied(const Table& table, int corners, int lanes, CornerJob& job) {
    const Grid grid(table);
    const int64_t a = grid.stride[0], b = grid.stride[1], c = grid.stride[2];
    const int64_t bytes = corners * lanes, first = a / b, second = b * bytes, most = grid.coarse + table.nodes;
    if (grid.used * bytes > TABLE_BYTES || grid.rows * bytes > SPREAD_BYTES) return false;
    if (first > 127 || c > 127 || second > 32767 || most > 255 || most * (first + 1) > 32767) return false;
    job.first = static_cast<int32_t>(first);
    job.second = static_cast<int32_t>(second);
    job.third = static_cast<int32_t>(c);
    job.row_bytes = static_cast<int32_t>(bytes);
    job.coarse = static_cast<int32_t>(grid.coarse);
    return true;
}

// Both of the first two axes up.
int64_t far_of(const Term& t) { return int64_t(t.corner.first + 1) * t.corner.second; }

bool term_fits(const twl_plan& plan, const Term& t, int corners, int lanes) {
    const Table& table = plan.tables[static_cast<size_t>(t.table)];
    const int step = log2_of(table.step);
    if (table.axes != AXES || t.multilinear || t.slip || !t.weights.empty() || !t.gains.empty()) return false;
    if ((step != 4 && step != 5) || table.step != 1 << step || (255 >> step) > table.nodes - 2) return false;
    if (table.banded() && (table.thin != 2 || (255 >> (step + 1)) > table.coarse_nodes() - 2)) return false;
    CornerJob job;
    return plan.kernels->corner_index[step - 4][corners == 4][table.banded()] != nullptr &&
           multiplied(table, corners, lanes, job);
}

}  // namespace

bool choose_corners(const twl_plan& plan, Stage& s) {
    if (s.scalar || s.payload > 16 || (s.upscale > 1 && s.turn == NONE)) return false;
    if (!power_of_two(s.denominator) || s.denominator > 128) return false;
    const int lanes = s.payload == 1 ? 1 : s.payload <= 4 ? 4 : 16, corners = lanes == 16 ? 4 : 16;
    if (plan.kernels->corner_blend[s.lanes != SHORT][lanes_index(lanes)][s.turn] == nullptr) return false;
    for (const Term& t : s.terms)
        if (!term_fits(plan, t, corners, lanes)) return false;
    s.corners = corners;
    s.width = lanes;
    return true;
}

std::shared_ptr<Layout> lay_out_corners(const Table& t, int corners, int lanes) {
    const Grid grid(t);
    const auto plain = lay_out(t, 1, 1, false);
    const int64_t payload = t.payload, bytes = int64_t(corners) * lanes;
    const int64_t origin = grid.coarse * grid.stride[0];  // of the coarse grid
    // First the values of every node in their place, then the corners from there.
    std::vector<int8_t> values(static_cast<size_t>(grid.rows * payload));
    auto place = [&](int nodes, const int64_t* from, int64_t source, int64_t target, bool band) {
        for (int64_t cell = 0, count = int64_t(nodes) * nodes * nodes * nodes; cell < count; cell++) {
            int64_t node[AXES], left = cell, at = source, to = target;
            bool inside = true;
            for (int k = 0; k < AXES; k++, left /= nodes) {
                node[k] = left % nodes;
                at += node[k] * from[k];
                to += node[k] * grid.stride[k];
                if (band && k >= 1 && k <= t.near) inside = inside && std::abs(node[k] - node[0]) <= t.width;
            }
            if (inside) std::memcpy(&values[static_cast<size_t>(to * payload)], plain->bytes.data() + at, static_cast<size_t>(payload));
        }
    };
    place(t.nodes, plain->stride, plain->origin, 0, t.banded());
    if (t.banded()) place(t.coarse_nodes(), plain->coarse_stride, plain->coarse_origin, origin, false);
    auto layout = std::make_shared<Layout>();
    layout->size = grid.used * bytes;
    layout->bytes = RowMemory(grid.rows * bytes);
    for (int64_t row = 0; row < grid.rows; row++)
        for (int corner = 0; corner < corners; corner++) {
            int64_t from = row;  // corner bits: the last two axes, then the second and the first
            if (corner & 1) from += grid.stride[2];
            if (corner & 2) from += grid.stride[3];
            if (corner & 4) from += grid.stride[1];
            if (corner & 8) from += grid.stride[0];
            if (from >= grid.rows) continue;  // no cell begins here
            for (int64_t p = 0; p < payload; p++)
                layout->bytes.data()[row * bytes + p * corners + corner] = values[static_cast<size_t>(from * payload + p)];
        }
    return layout;
}

void use_corners(const twl_plan& plan, const Stage& s, Term& t) {
    const Table& table = plan.tables[static_cast<size_t>(t.table)];
    multiplied(table, s.corners, s.width, t.corner);
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
        const Term& term = stage_.terms[static_cast<size_t>(pass.terms[t])];
        job.table[t] = term.layout->bytes.data();
        job.far[t] = far_of(term);
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
    job.far[0] = far_of(stage_.terms[static_cast<size_t>(number)]);
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
