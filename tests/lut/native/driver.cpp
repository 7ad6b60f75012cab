// Runs many random plans through the C interface, for sanitizers to watch: sizes down to 1 x 1, offsets beyond the
// image, every interpolation, bands, samplers, strides, threads, and descriptions that must be refused. What the
// results should be is checked elsewhere, against the reference interpreter.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine.h"

namespace {

std::mt19937 engine;
int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); }
template <class T>
T pick(std::initializer_list<T> all) { return *(all.begin() + draw(0, static_cast<int>(all.size()) - 1)); }

[[noreturn]] void die(const std::string& what) {
    std::fprintf(stderr, "%s: %s\n", what.c_str(), twl_error());
    std::exit(1);
}
int must(int status, const char* what) {
    if (status < 0) die(what);
    return status;
}

int64_t power(int64_t b, int e) {
    int64_t v = 1;
    while (e-- > 0) v *= b;
    return v;
}

struct Grid { int nodes, step; };
struct TableInfo { int number, axes, nodes, step, thin; };

std::vector<int8_t> rows(int64_t count, int payload) {
    std::vector<int8_t> all(static_cast<size_t>(count * payload));
    uint32_t state = engine();
    for (auto& v : all) v = static_cast<int8_t>((state = state * 1664525u + 1013904223u) >> 24);
    return all;
}

TableInfo add_table(twl_plan* plan, int axes, int payload) {
    Grid g = axes >= 4 ? pick<Grid>({{17, 16}, {9, 32}, {5, 64}, {2, 256}, {16, 17}})
                       : pick<Grid>({{17, 16}, {9, 32}, {33, 8}, {16, 17}, {2, 300}, {7, 43}});
    const bool banded = axes >= 2 && axes <= 4 && g.step != 17 && g.nodes % 2 == 1 && g.nodes >= 5 && draw(0, 2) == 0;
    if (!banded) {
        const auto values = rows(power(g.nodes, axes), payload);
        return {must(twl_table(plan, values.data(), power(g.nodes, axes), payload, axes, g.nodes, g.step, 0, 0, 1, nullptr,
                               0, nullptr, 0), "table"), axes, g.nodes, g.step, 1};
    }
    const int near = draw(1, axes - 1), width = draw(1, 3), wide = 2 * width + 1, thin = (g.nodes - 1) % 4 == 0 ? pick({2, 4}) : 2;
    std::vector<int64_t> index(static_cast<size_t>(g.nodes * power(wide, near)), -1);
    int64_t count = 0;
    for (int64_t cell = 0; cell < power(g.nodes, near + 1); cell++) {
        std::vector<int> b(near + 1);
        int64_t left = cell;
        for (int k = near; k >= 0; k--, left /= g.nodes) b[k] = static_cast<int>(left % g.nodes);
        int64_t at = b[0];
        bool in = true;
        for (int k = 1; k <= near; k++) {
            in = in && std::abs(b[k] - b[0]) <= width;
            at = at * wide + ((b[k] - b[0]) % wide + wide) % wide;
        }
        if (in) index[static_cast<size_t>(at)] = count++;
    }
    const int64_t rest = power(g.nodes, axes - 1 - near), coarse_rows = power((g.nodes - 1) / thin + 1, axes);
    const auto values = rows(count * rest, payload), coarse = rows(coarse_rows, payload);
    return {must(twl_table(plan, values.data(), count * rest, payload, axes, g.nodes, g.step, near, width, thin, index.data(),
                           static_cast<int64_t>(index.size()), coarse.data(), coarse_rows), "banded table"),
            axes, g.nodes, g.step, thin};
}

// One plan of one or two stages; fills in channels and scale of the output.
twl_plan* make_plan(int& channels, int& scale, const char* kernels) {
    twl_plan* plan = twl_new();
    scale = 1;
    int source = 0, source_channels = 1;
    const int stages = draw(1, 2);
    for (int s = 0; s < stages; s++) {
        const int up = pick({1, 1, 2, 3, 4, 5}), cell = scale % 2 == 0 ? draw(1, 2) : 1;
        channels = pick({1, 1, 2, 3, up == 1 ? 17 : 1});
        struct Made { TableInfo table; bool linear; int bits; bool weighted; };
        std::vector<Made> made;
        int64_t denominator = 1;
        for (int t = draw(1, 4); t > 0; t--) {
            Made m;
            m.table = add_table(plan, pick({1, 2, 3, 4, 4, 4, 5}), channels * up * up);
            m.weighted = draw(0, 3) == 0;
            m.linear = m.table.thin == 1 && !m.weighted && m.table.axes <= 3 && draw(0, 4) == 0;
            m.bits = m.weighted ? draw(0, 8) : 0;
            int64_t own = (int64_t(m.table.step) << m.bits) * m.table.thin;
            own = m.linear ? power(own, m.table.axes) : own;
            int64_t a = denominator, b = own;
            while (b) { int64_t r = a % b; a = b; b = r; }
            if (denominator / a > (int64_t(1) << 40) / own) continue;
            denominator = denominator / a * own;
            made.push_back(m);
        }
        if (made.empty()) std::exit(0);
        int64_t levels[255];
        for (int v = 1; v < 256; v++) levels[v - 1] = (2 * v - 1) * denominator / 2 + (v % 2 ? 1 : 0);
        const bool even = denominator % 2 == 0;
        must(twl_stage(plan, channels, up, cell, denominator, levels, even ? denominator : 0, 0), "stage");
        for (const Made& m : made) {
            const int count = m.weighted ? draw(1, 9) : m.table.axes, reach = pick({1, 3, 40});
            std::vector<int32_t> planes, offsets, weights, gains, rotations;
            for (int p = 0; p < count; p++) {
                planes.insert(planes.end(), {source, draw(0, source_channels - 1)});
                offsets.insert(offsets.end(), {draw(-reach, reach), draw(-reach, reach)});
            }
            const int weight_bits = m.bits + draw(0, 8);
            for (int k = 0; m.weighted && k < m.table.axes; k++) {
                int left = 1 << weight_bits;
                for (int p = 0; p < count; p++) {
                    const int w = p + 1 < count ? draw(0, left) : left;
                    weights.push_back(w);
                    left -= w;
                }
            }
            const bool blend = draw(0, 4) == 0;
            for (int k = 0; blend && k < m.table.axes; k++) gains.push_back(draw(0, 1 << 14));
            for (int r = draw(1, 4); r > 0; r--) rotations.push_back(draw(0, 3));
            const bool slip = m.table.axes == 4 && m.table.thin == 1 && draw(0, 3) == 0;
            const auto p = [](const std::vector<int32_t>& v) { return v.empty() ? nullptr : v.data(); };
            must(twl_term(plan, m.table.number, draw(0, 1), count, planes.data(), offsets.data(), m.table.axes, p(weights),
                          weight_bits, m.bits, blend ? planes.data() : nullptr, p(gains), blend ? 14 : 0, m.linear, slip,
                          static_cast<int>(rotations.size()), rotations.data()), "term");
        }
        scale = scale / cell * up;
        source = s + 1;
        source_channels = channels;
    }
    must(twl_finish(plan, kernels), "finish");
    return plan;
}

void run(twl_plan* plan, int channels, int scale) {
    const int64_t count = draw(1, 3), h = pick({1, 2, 3, 17, 40}), w = pick({1, 2, 5, 63, 64, 65, 130});
    std::vector<uint8_t> image(static_cast<size_t>(count * h * w));
    for (auto& v : image) v = static_cast<uint8_t>(pick({0, 255, 254, 16, 15, draw(0, 255), draw(0, 255), draw(0, 255)}));
    const int64_t oh = h * scale, ow = w * scale, planes = count * channels;
    std::vector<uint8_t> planar(static_cast<size_t>(planes * oh * ow)), woven(planar.size());
    const int64_t in_planar[3] = {h * w, w, 1}, out_planar[3] = {oh * ow, ow, 1};
    must(twl_run(plan, image.data(), in_planar, count, h, w, planar.data(), out_planar, 1), "run");
    // The same pixels interleaved in and out, on two threads.
    std::vector<uint8_t> mixed(image.size());
    for (int64_t c = 0; c < count; c++)
        for (int64_t i = 0; i < h * w; i++) mixed[static_cast<size_t>(i * count + c)] = image[static_cast<size_t>(c * h * w + i)];
    const int64_t in_woven[3] = {1, w * count, count}, out_woven[3] = {1, ow * planes, planes};
    must(twl_run(plan, mixed.data(), in_woven, count, h, w, woven.data(), out_woven, 2), "run interleaved");
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = 0; i < oh * ow; i++)
            if (planar[static_cast<size_t>(p * oh * ow + i)] != woven[static_cast<size_t>(i * planes + p)]) {
                std::fprintf(stderr, "planar and interleaved runs differ\n");
                std::exit(1);
            }
    std::vector<const uint8_t*> registers(4, nullptr);
    registers[0] = image.data();
    std::vector<int64_t> sums(static_cast<size_t>(h * w * 1024));
    if (std::string(twl_describe(plan, 1)).empty()) {  // one stage: its first lookup can be shown directly
        for (int r = 0; r < 4; r++) must(twl_lookup(plan, 0, 0, r, registers.data(), h, w, sums.data()), "lookup");
        must(twl_run_stage(plan, 0, registers.data(), h, w, planar.data(), 2), "stage run");
    }
}

void refusals() {
    std::vector<int8_t> values(17 * 17, 1);
    const auto refused = [](int status, const char* what) {
        if (status >= 0) {
            std::fprintf(stderr, "accepted: %s\n", what);
            std::exit(1);
        }
    };
    int64_t levels[255] = {};
    const int32_t offsets[4] = {0, 0, 0, 1}, far[4] = {0, 0, 0, 1 << 20}, turns[1] = {0}, bad[1] = {4};
    const auto attempt = [&](int64_t count, int nodes, int step, int64_t denominator, const int32_t* where, const int32_t* r,
                             int reg) {
        twl_plan* plan = twl_new();
        const int32_t from[4] = {reg, 0, reg, 0};
        int status = twl_table(plan, values.data(), count, 1, 2, nodes, step, 0, 0, 1, nullptr, 0, nullptr, 0);
        if (status >= 0) status = twl_stage(plan, 1, 1, 1, denominator, levels, 0, 0);
        if (status >= 0)
            status = twl_term(plan, 0, 0, 2, from, where, 2, nullptr, 0, 0, nullptr, nullptr, 0, 0, 0, 1, r);
        if (status >= 0) status = twl_finish(plan, nullptr);
        twl_free(plan);
        return status;
    };
    must(attempt(289, 17, 16, 16, offsets, turns, 0), "the plain plan");
    refused(attempt(288, 17, 16, 16, offsets, turns, 0), "a table that is one row short");
    refused(attempt(289, 18, 16, 16, offsets, turns, 0), "a table with other nodes");
    refused(attempt(289, 17, 1, 1, offsets, turns, 0), "nodes that end before 255");
    refused(attempt(289, 17, 16, 24, offsets, turns, 0), "a denominator that does not fit");
    refused(attempt(289, 17, 16, 16, far, turns, 0), "an offset a million pixels away");
    refused(attempt(289, 17, 16, 16, offsets, bad, 0), "a fifth rotation");
    refused(attempt(289, 17, 16, 16, offsets, turns, 1), "a register that does not exist yet");
    refused(twl_finish(nullptr, nullptr), "no plan");
    twl_plan* empty = twl_new();
    refused(twl_finish(empty, nullptr), "an empty plan");
    twl_free(empty);
}

}  // namespace

int main(int argc, char** argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 60;
    refusals();
    std::string names = twl_instruction_sets();
    for (int i = 0; i < count; i++) {
        engine.seed(static_cast<unsigned>(i));
        std::vector<std::string> sets;
        for (size_t at = 0; at < names.size();) {
            const size_t end = names.find(' ', at);
            sets.push_back(names.substr(at, end == std::string::npos ? end : end - at));
            at = end == std::string::npos ? names.size() : end + 1;
        }
        int channels = 1, scale = 1;
        twl_plan* plan = make_plan(channels, scale, sets[static_cast<size_t>(i) % sets.size()].c_str());
        run(plan, channels, scale);
        twl_free(plan);
    }
    std::printf("%d plans\n", count);
    return 0;
}
