// Checks a plan and decides how each stage runs: padding, passes, lane widths, rounding.
#include <algorithm>
#include <map>
#include <tuple>

#include "plan.hpp"

namespace twl {
namespace {

constexpr int MAX_OFFSET = 4096;
constexpr int64_t SHORT_MAX = 32767, INT_MAX_ = 2147483647;
constexpr int64_t PASS_BYTES = 1 << 20, CORNER_PASS_BYTES = 1 << 21;
constexpr int64_t LEVELS_MAX = int64_t(1) << 20;

[[noreturn]] void fail(const std::string& where, const std::string& what) { throw Error(where + ": " + what); }

int64_t linear_scale(int64_t denominator, int64_t units, int axes) {
    for (int k = 0; k < axes; k++) denominator /= units;
    return denominator;
}

int floor_div(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

struct Builder {
    twl_plan& plan;
    std::vector<int> scales{1}, channels{1};
    std::map<std::tuple<int, int, int>, std::shared_ptr<Layout>> layouts;

    void plane(const PlaneRef& p, const std::string& where, int& scale) {
        if (p.reg < 0 || p.reg >= static_cast<int>(scales.size()) || p.channel < 0 || p.channel >= channels[p.reg])
            fail(where, "reads a plane that does not exist yet");
        if (scale != 0 && scale != scales[p.reg]) fail(where, "mixes planes of different scales");
        scale = scales[p.reg];
    }

    void check_term(const Stage& s, const Term& t, const std::string& where, int& scale) {
        if (t.table < 0 || t.table >= static_cast<int>(plan.tables.size())) fail(where, "no such table");
        const Table& table = plan.tables[t.table];
        if (table.payload != s.payload) fail(where, "the table's rows do not fit the stage's output");
        for (const PlaneRef& p : t.planes) plane(p, where, scale);
        for (const PlaneRef& p : t.blend_planes) plane(p, where, scale);
        for (int32_t o : t.offsets)
            if (o < -MAX_OFFSET || o > MAX_OFFSET) fail(where, "an offset is further than 4096 pixels away");
        if (t.value_bits < 0 || t.value_bits > 12) fail(where, "value_bits is not in 0..12");
        if (t.rotations.empty()) fail(where, "needs a rotation");
        for (int32_t r : t.rotations)
            if (r < 0 || r > 3) fail(where, "rotations are 0 to 3");
        if (t.weights.empty()) {
            if (t.offset_count() != table.axes) fail(where, "needs one offset per axis");
        } else {
            if (t.weight_bits < t.value_bits || t.weight_bits > 20) fail(where, "weight_bits is not in value_bits..20");
            for (int k = 0; k < table.axes; k++) {
                int64_t sum = 0;
                for (int p = 0; p < t.offset_count(); p++) {
                    const int32_t w = t.weights[k * t.offset_count() + p];
                    if (w < 0) fail(where, "a sampler weight is negative");
                    sum += w;
                }
                if (sum != int64_t(1) << t.weight_bits) fail(where, "sampler weights do not add up");
            }
        }
        if (!t.gains.empty()) {
            if (t.gain_bits < 1 || t.gain_bits > 20) fail(where, "gain_bits is not in 1..20");
            for (int32_t g : t.gains)
                if (g < 0 || g > 1 << t.gain_bits) fail(where, "a gain is outside 0..1");
        }
        if (t.slip && (table.axes != 4 || table.banded() || t.multilinear)) fail(where, "the 2021 slip does not apply here");
        if (t.multilinear && table.banded()) fail(where, "a banded table has no multilinear interpolation");
        int64_t own = int64_t(table.step) << t.value_bits;
        if (table.banded()) own *= table.thin;
        int64_t full = own;
        for (int k = 1; t.multilinear && k < table.axes; k++) {
            full *= own;
            if (full > s.denominator) break;
        }
        if (full > s.denominator || s.denominator % full) fail(where, "the stage's denominator does not fit the table");
    }

    int source(Stage& s, const Source& wanted) {
        for (size_t i = 0; i < s.sources.size(); i++)
            if (s.sources[i] == wanted) return static_cast<int>(i);
        s.sources.push_back(wanted);
        return static_cast<int>(s.sources.size()) - 1;
    }

    std::vector<Tap> taps(Stage& s, const Term& t, const std::vector<PlaneRef>& planes, int r) {
        const Table& table = plan.tables[t.table];
        const int e = s.cell - 1;
        std::vector<Tap> found;
        for (int p = 0; p < t.offset_count(); p++) {
            const int dy = t.offsets[2 * p], dx = t.offsets[2 * p + 1];
            const int turned[4][2] = {{dy, dx}, {dx, e - dy}, {e - dy, e - dx}, {e - dx, dy}};
            Source wanted;
            wanted.plane = planes.size() == 1 ? planes[0] : planes[p];
            wanted.reflect = t.reflect;
            wanted.floats = t.valued || t.scalar;
            wanted.bytes = s.corners > 0;
            if (!wanted.floats && !wanted.bytes) {
                wanted.step = table.step;
                wanted.nodes = table.nodes;
                wanted.banded = table.banded();
                wanted.thin = table.thin;
                for (int b = 0; b < 8; b++)
                    if (1 << b == table.step && (255 >> b) <= table.nodes - 2) wanted.shift = b;
            }
            Tap tap;
            tap.source = source(s, wanted);
            tap.dy = turned[r][0];
            tap.column = floor_div(turned[r][1], s.cell);
            tap.phase = turned[r][1] - tap.column * s.cell;
            s.top = std::max(s.top, -tap.dy);
            s.bottom = std::max(s.bottom, tap.dy);
            s.left = std::max(s.left, -tap.column);
            s.right = std::max(s.right, tap.column);
            found.push_back(tap);
        }
        return found;
    }

    void compile_term(Stage& s, Term& t) {
        const Table& table = plan.tables[t.table];
        t.valued = !t.weights.empty() || !t.gains.empty();
        // Pixels shifted by value_bits have shifted fractions: the same weights over a larger denominator.
        t.units = int64_t(table.step) << (t.valued ? t.value_bits : 0);
        t.scalar = s.scalar;
        const bool copies = s.upscale > 1 && s.turn == NONE;
        auto& layout = layouts[{t.table, s.corners ? -s.width : copies ? s.upscale : 0, copies ? s.channels : 0}];
        if (!layout)
            layout = s.corners ? lay_out_corners(table, s.corners, s.width) : lay_out(table, s.channels, s.upscale, copies);
        t.layout = layout;
        if (s.corners) use_corners(plan, s, t);
        IndexJob job = {};
        for (int k = 0; k < std::min(table.axes, AXES); k++) {
            job.stride[k] = static_cast<uint32_t>(layout->stride[k]);
            job.coarse_stride[k] = static_cast<uint32_t>(layout->coarse_stride[k]);
        }
        job.origin = static_cast<uint32_t>(layout->origin);
        job.coarse_origin = static_cast<uint32_t>(layout->coarse_origin);
        job.units = static_cast<int32_t>(t.units);
        job.coarse_units = static_cast<int32_t>(t.units * table.thin);
        job.last_bin = table.nodes - 2;
        job.coarse_last_bin = table.coarse_nodes() - 2;
        job.near = table.near;
        job.limit = static_cast<int32_t>(std::min<int64_t>(t.units * table.width, INT_MAX_));
        job.scale = static_cast<int32_t>(s.denominator / t.units);
        job.coarse_scale = static_cast<int32_t>(s.denominator / (t.units * table.thin));
        if (t.multilinear) job.scale = static_cast<int32_t>(linear_scale(s.denominator, t.units, table.axes));
        for (int r = 0; r < 4; r++) {
            t.jobs[r] = job;
            t.jobs[r].origin += static_cast<uint32_t>(layout->copy_bytes * r);
            t.jobs[r].coarse_origin += static_cast<uint32_t>(layout->copy_bytes * r);
        }
        for (int v = 0; v < 256; v++) {
            const int fine = v - std::min(v / table.step, table.nodes - 2) * table.step;
            const int coarse_step = table.step * table.thin;
            const int coarse = v - std::min(v / coarse_step, table.coarse_nodes() - 2) * coarse_step;
            if (fine > 63 || (table.banded() && coarse > 63)) t.wide_key = true;
        }
        if (t.valued && !s.scalar) {
            t.window.assign(static_cast<size_t>(t.offset_count()) * AXES, 0.0f);
            for (int p = 0; p < t.offset_count(); p++)
                for (int k = 0; k < table.axes; k++)
                    t.window[p * AXES + k] = t.weights.empty() ? (p == k ? float(1 << t.value_bits) : 0.0f)
                                                               : float(t.weights[k * t.offset_count() + p]);
        }
        for (int r = 0; r < 4; r++) {
            t.taps[r] = taps(s, t, t.planes, r);
            if (!t.gains.empty()) t.blend_taps[r] = taps(s, t, t.blend_planes, r);
        }
    }

    int64_t lookup_bound(const Stage& s, const Term& t) const {
        return int64_t(std::max(plan.tables[t.table].largest, 1)) * s.denominator * (t.slip ? 3 : 1);
    }

    void choose_lanes(Stage& s) {
        bool valued = false, fits = true, linear = false;
        for (const Term& t : s.terms) {
            const Table& table = plan.tables[t.table];
            if (s.denominator > INT_MAX_) fits = false;
            else s.bound += lookup_bound(s, t) * static_cast<int64_t>(t.rotations.size());
            const bool weighted = !t.weights.empty() || !t.gains.empty();
            valued = valued || weighted;
            // 255 << 16 is still exact in a float
            if (table.axes > AXES || (weighted && (t.slip || t.multilinear || t.weight_bits > 16))) s.scalar = true;
            linear = linear || t.multilinear;
        }
        if (!fits || s.bound > INT_MAX_) {
            s.scalar = true;
            s.bound = 0;
            for (const Term& t : s.terms) {
                const int64_t most = INT64_MAX / 2 / s.denominator;
                const int64_t times = std::max(plan.tables[t.table].largest, 1) * (t.slip ? 3 : 1) *
                                      static_cast<int64_t>(t.rotations.size());
                if (times > most) throw Error("the exact sum does not fit 64 bits");
                s.bound += times * s.denominator;
                if (s.bound > INT64_MAX / 2) throw Error("the exact sum does not fit 64 bits");
            }
        }
        s.lanes = s.bound <= SHORT_MAX && !valued && !linear ? SHORT : INT;
        if (s.upscale > 1 && s.channels == 1 && s.upscale <= 4)
            s.turn = s.upscale == 2 ? TURN2 : s.upscale == 3 ? TURN3 : TURN4;
        if (s.payload <= 2 && s.upscale == 1 && !linear) {
            s.width = 1;
        } else {
            s.width = s.payload <= 8 ? 8 : 16;
            s.slices = static_cast<int>((s.payload + 15) / 16);
        }
        choose_corners(plan, s);
    }

    void add_pass(Stage& s, int term, const int (&slots)[SLOTS]) {
        const Term& t = s.terms[term];
        const int64_t quad = SLOTS * lookup_bound(s, t);
        Lanes lanes = s.lanes;
        int most = MAX_TERMS;
        if (s.lanes != SHORT && !t.valued && !t.multilinear && quad <= SHORT_MAX) {
            lanes = SHORT_TO_INT;
            most = static_cast<int>(std::min<int64_t>(2, SHORT_MAX / quad));
        }
        if (lanes == INT || t.multilinear || s.width == 1 || plan.tables[t.table].axes < AXES) most = 1;
        if (s.corners) {  // parts add up in 16 bits in some variants
            lanes = s.lanes;
            most = static_cast<int>(std::min<int64_t>(CORNER_TERMS, SHORT_MAX / (s.denominator * 128)));
        }
        // Tables of one pass are read in turn for every site: together they should fit the second cache.
        int64_t bytes = t.layout->size;
        if (!s.passes.empty()) {
            Pass& last = s.passes.back();
            const Term& first = s.terms[last.terms[0]];
            // same lanes and axes; `quad` may differ between the two, so both must be small enough
            const bool fits = SLOTS * lookup_bound(s, first) * (last.count + 1) <= SHORT_MAX || lanes == SHORT;
            for (int i = 0; i < last.count; i++) bytes += s.terms[last.terms[i]].layout->size;
            if (last.lanes == lanes && last.count < most && (fits || s.corners) && bytes <= (s.corners ? CORNER_PASS_BYTES : PASS_BYTES) &&
                plan.tables[first.table].axes == plan.tables[t.table].axes) {
                last.terms[last.count] = term;
                std::copy(slots, slots + SLOTS, last.slots[last.count]);
                last.count++;
                return;
            }
        }
        Pass pass;
        pass.terms[0] = term;
        std::copy(slots, slots + SLOTS, pass.slots[0]);
        pass.count = 1;
        pass.lanes = lanes;
        pass.linear = t.multilinear;
        s.passes.push_back(pass);
    }

    void make_passes(Stage& s) {
        for (size_t i = 0; i < s.terms.size(); i++) {
            std::vector<int> left(s.terms[i].rotations.begin(), s.terms[i].rotations.end());
            while (!left.empty()) {
                int slots[SLOTS] = {-1, -1, -1, -1};
                std::vector<int> later;
                int next = 0;
                for (int r : left) {
                    const int slot = s.turn == NONE ? next : r;
                    if (slot < SLOTS && slots[slot] < 0) {
                        slots[slot] = r;
                        next++;
                    } else {
                        later.push_back(r);
                    }
                }
                add_pass(s, static_cast<int>(i), slots);
                left = later;
            }
        }
    }

    int divided(const Stage& s, int64_t n, bool wide) const {
        uint8_t out = 0;
        if (s.lanes == SHORT) {
            const int16_t in = static_cast<int16_t>(n);
            plan.kernels->divide16(&in, &out, 1, static_cast<int>(s.divisor), static_cast<int>(s.offset));
        } else {
            const int32_t in = static_cast<int32_t>(n);
            const auto divide = wide ? plan.kernels->divide32_wide
                                : s.divisor <= SMALL_DIVISOR ? plan.kernels->divide32_small : plan.kernels->divide32;
            divide(&in, &out, 1, static_cast<int>(s.divisor), static_cast<int>(s.offset));
        }
        return out;
    }

    // Requantisation is monotone, so it equals the division iff both cross every level at the same numerator.
    bool division_fits(const Stage& s, bool wide) const {
        if (s.scalar || s.divisor < 2 || s.divisor % 2 || s.divisor > 1 << 22 || s.offset < -256 || s.offset > 256) return false;
        if (s.lanes == SHORT) {
            int64_t odd = s.divisor, shift = 0;
            while (odd % 2 == 0 && shift < 8) odd /= 2, shift++;
            if (s.divisor > 255 || s.offset < 0 || s.offset * s.divisor > SHORT_MAX) return false;
            if (s.bound + s.offset * s.divisor + s.divisor / 2 > 65535) return false;
            if (odd != 1 && (65535 >> shift) * ((65536 / odd + 1) * odd - 65536) >= 65536) return false;
        } else if (s.bound + (std::abs(s.offset) + 257) * s.divisor >= int64_t(1) << (wide ? 31 : 24)) {
            return false;
        }
        for (int v = 1; v < 256; v++) {
            const int64_t from = s.thresholds[v - 1];
            if (from <= s.bound && divided(s, std::max(from, -s.bound), wide) < v) return false;
            if (from > -s.bound && divided(s, std::min(from - 1, s.bound), wide) >= v) return false;
        }
        return true;
    }

    void choose_rounding(Stage& s) {
        for (int v = 1; v < 255; v++)
            if (s.thresholds[v] < s.thresholds[v - 1]) throw Error("requantisation levels are out of order");
        if (division_fits(s, false)) {
            s.rounding = Rounding::divide;
        } else if (s.lanes != SHORT && division_fits(s, true)) {
            s.rounding = Rounding::divide_wide;
        } else if (!s.scalar && s.bound <= LEVELS_MAX) {
            s.rounding = Rounding::table;
            s.levels.resize(static_cast<size_t>(2 * s.bound + 1));
            int level = 0;
            for (int64_t n = -s.bound; n <= s.bound; n++) {
                while (level < 255 && s.thresholds[level] <= n) level++;
                s.levels[static_cast<size_t>(n + s.bound)] = static_cast<uint8_t>(level);
            }
        }
    }

    void stage(Stage& s, const std::string& name) {
        if (s.terms.empty()) fail(name, "has no terms");
        if (s.channels < 1 || s.channels > 1024 || s.upscale < 1 || s.upscale > 64 || s.cell < 1 || s.cell > 64 ||
            s.denominator < 1)
            fail(name, "channels, upscale, cell or denominator out of range");
        s.payload = int64_t(s.channels) * s.upscale * s.upscale;
        int scale = 0;
        for (size_t i = 0; i < s.terms.size(); i++)
            check_term(s, s.terms[i], name + ", term " + std::to_string(i), scale);
        if (scale % s.cell) fail(name, "its cell does not divide the scale of its source");
        s.source_scale = scale;
        s.site_scale = scale / s.cell;
        s.scale = s.site_scale * s.upscale;
        if (s.scale > 4096) fail(name, "the output is more than 4096 times larger than the image");
        choose_lanes(s);
        for (Term& t : s.terms) compile_term(s, t);
        make_passes(s);
        choose_rounding(s);
        const char* rounding[] = {"divide", "divide wide", "table", "search"};
        s.about = s.scalar ? "scalar" : s.corners == 4 ? "quads" : s.corners ? "cells" : s.lanes == SHORT ? "int16" : s.passes[0].lanes == SHORT_TO_INT ? "int16+32" : "int32";
        s.about += ", " + std::to_string(s.passes.size()) + " passes, " + rounding[static_cast<int>(s.rounding)];
        scales.push_back(s.scale);
        channels.push_back(s.channels);
    }
};

}  // namespace

void finish(twl_plan& plan, const Kernels* kernels) {
    if (plan.finished) throw Error("the plan is finished already");
    if (plan.stages.empty()) throw Error("a plan needs at least one stage");
    plan.kernels = kernels;
    for (size_t i = 0; i < plan.tables.size(); i++) check_table(plan.tables[i], "table " + std::to_string(i));
    Builder builder{plan, {1}, {1}, {}};
    for (size_t i = 0; i < plan.stages.size(); i++) builder.stage(plan.stages[i], "stage " + std::to_string(i));
    for (Table& t : plan.tables) {  // the layouts hold what is needed
        std::vector<int8_t>().swap(t.values);
        std::vector<int8_t>().swap(t.coarse);
        std::vector<int64_t>().swap(t.index);
    }
    plan.finished = true;
}

}  // namespace twl
