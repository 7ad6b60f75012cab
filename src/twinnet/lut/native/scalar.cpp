// Lookups of any kind, one site at a time with 64-bit sums: for what no vector kernel fits.
#include <algorithm>
#include <cstdlib>

#include "strip.hpp"

namespace twl {

void Strip::scalar_values(const Term& term, int rotation, int64_t y, int64_t x, int64_t (&out)[MAX_AXES]) const {
    const int axes = tables_[term.table].axes, count = term.offset_count();
    auto sample = [&](const std::vector<Tap>& taps, int64_t (&to)[MAX_AXES]) {
        const int shift = term.weight_bits - term.value_bits;
        for (int k = 0; k < axes; k++) {
            auto pixel = [&](int p) { return static_cast<int64_t>(active_[taps[p].source].floats[at(taps[p], y, x)]); };
            if (term.weights.empty()) {
                to[k] = pixel(k) << term.value_bits;
                continue;
            }
            int64_t sum = shift > 0 ? int64_t(1) << (shift - 1) : 0;
            for (int p = 0; p < count; p++) sum += term.weights[k * count + p] * pixel(p);
            to[k] = sum >> shift;
        }
    };
    sample(term.taps[rotation], out);
    if (term.gains.empty()) return;
    int64_t other[MAX_AXES];
    sample(term.blend_taps[rotation], other);
    const int64_t one = int64_t(1) << term.gain_bits;
    for (int k = 0; k < axes; k++)
        out[k] = (term.gains[k] * other[k] + (one - term.gains[k]) * out[k] + one / 2) >> term.gain_bits;
}

// Any number of axes, either interpolation, 64-bit sums.
void Strip::scalar_lookup(const Term& term, int rotation, int64_t y, int64_t x, int64_t denominator, bool copies,
                          int64_t* sums) {
    const Table& table = tables_[term.table];
    const Layout& layout = *term.layout;
    const int axes = table.axes;
    int64_t value[MAX_AXES], frac[MAX_AXES] = {};
    scalar_values(term, rotation, y, x, value);
    int64_t units = int64_t(table.step) << term.value_bits;
    bool in = true;
    for (int k = 1; k <= table.near; k++) in = in && std::abs(value[k] - value[0]) <= table.width * units;
    if (!in) units *= table.thin;
    const int64_t* stride = in ? layout.stride : layout.coarse_stride;
    int64_t base = (in ? layout.origin : layout.coarse_origin) + (copies ? layout.copy_bytes * rotation : 0);
    for (int k = 0; k < axes; k++) {
        const int64_t bin = std::min<int64_t>(value[k] / units, (in ? table.nodes : table.coarse_nodes()) - 2);
        frac[k] = value[k] - bin * units;
        base += bin * stride[k];
    }
    auto add = [&](int64_t at, int64_t weight) {
        const int8_t* row = layout.bytes.data() + at;
        for (int64_t p = 0; p < stage_.payload; p++) sums[p] += weight * row[p];
    };
    if (term.multilinear) {
        int64_t scale = denominator;
        for (int k = 0; k < axes; k++) scale /= units;
        for (int corner = 0; corner < 1 << axes; corner++) {
            int64_t at = base, weight = scale;
            for (int k = 0; k < axes; k++) {
                const bool up = corner >> k & 1;
                at += up ? stride[k] : 0;
                weight *= up ? frac[k] : units - frac[k];
            }
            if (weight) add(at, weight);
        }
        return;
    }
    const int64_t scale = denominator / units;
    if (term.slip && frac[2] >= frac[0] && frac[0] > frac[1] && frac[2] > frac[3] && frac[3] > frac[0]) {
        const int64_t a = frac[0], b = frac[1], c = frac[2], d = frac[3];
        add(base, (units - c) * scale);
        add(base += stride[2], (c - a) * scale);
        add(base += stride[0], (a - d) * scale);
        add(base += stride[3], (d - b) * scale);
        add(base += stride[1], b * scale);
        return;
    }
    int order[MAX_AXES];
    for (int k = 0; k < axes; k++) {  // insertion sort, largest fraction first
        int place = k;
        for (; place > 0 && frac[order[place - 1]] < frac[k]; place--) order[place] = order[place - 1];
        order[place] = k;
    }
    int64_t before = units;
    for (int k = 0; k < axes; k++) {
        add(base, (before - frac[order[k]]) * scale);
        before = frac[order[k]];
        base += stride[order[k]];
    }
    add(base, before * scale);
}

void Strip::scalar_tile(int64_t y, int64_t x, int n) {
    const int64_t payload = stage_.payload;
    int64_t* sums = reinterpret_cast<int64_t*>(sums_.get(payload * TILE * 8));
    uint8_t* bytes = bytes_.get(int64_t(TILE) * 16 * ((payload + 15) / 16));
    std::vector<int64_t> unturned(static_cast<size_t>(payload));
    const int up = stage_.upscale;
    for (int i = 0; i < n; i++) {
        int64_t* sum = sums + i * payload;
        std::fill(sum, sum + payload, 0);
        for (const Term& term : stage_.terms)
            for (int r : term.rotations) {
                if (stage_.turn == NONE) {
                    scalar_lookup(term, r, y, x + i, stage_.denominator, true, sum);
                    continue;
                }
                std::fill(unturned.begin(), unturned.end(), 0);
                scalar_lookup(term, r, y, x + i, stage_.denominator, false, unturned.data());
                for (int row = 0; row < up; row++)
                    for (int col = 0; col < up; col++) {
                        const int from[4] = {row * up + col, (up - 1 - col) * up + row,
                                             (up - 1 - row) * up + up - 1 - col, col * up + up - 1 - row};
                        sum[row * up + col] += unturned[static_cast<size_t>(from[r])];
                    }
            }
        for (int64_t p = 0; p < payload; p++) {
            const int64_t* end = stage_.thresholds + 255;
            const uint8_t level = static_cast<uint8_t>(std::upper_bound(stage_.thresholds, end, sum[p]) - stage_.thresholds);
            if (stage_.width == 1) bytes[p * TILE + i] = level;
            else bytes[(p / 16) * TILE * stage_.width + i * stage_.width + p % 16] = level;
        }
    }
}

}  // namespace twl
