// The C interface: copies what it is given, turns exceptions into messages.
#include <algorithm>
#include <cstdlib>
#include <new>

#include "engine.h"
#include "plan.hpp"

using namespace twl;

namespace {

constexpr int ABI = 1;
thread_local std::string last_error;

template <class F>
int guarded(F body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        last_error = "not enough memory";
    } catch (const std::exception& e) {
        last_error = e.what();
    } catch (...) {
        last_error = "unknown error";
    }
    return -1;
}

void open(const twl_plan* plan) {
    if (plan == nullptr) throw Error("no plan");
    if (plan->finished) throw Error("the plan is finished and cannot change");
}

const Stage& ready(const twl_plan* plan, int stage) {
    if (plan == nullptr || !plan->finished) throw Error("the plan is not finished");
    if (stage < 0 || stage >= static_cast<int>(plan->stages.size())) throw Error("no such stage");
    return plan->stages[static_cast<size_t>(stage)];
}

void check_size(const twl_plan* plan, int64_t count, int64_t rows, int64_t columns) {
    if (count < 1 || rows < 1 || columns < 1) throw Error("the image is empty");
    int64_t most = 1;
    for (const Stage& s : plan->stages) most = std::max<int64_t>(most, int64_t(s.scale) * s.scale * s.channels);
    if (rows > MAX_PIXELS || columns > MAX_PIXELS || rows > MAX_PIXELS / columns / count / most)
        throw Error("the image is too large");
}

std::vector<View> views(const twl_plan* plan, const uint8_t* const* registers, int64_t rows, int64_t columns) {
    std::vector<View> all(plan->stages.size() + 1);
    for (size_t i = 0; i < all.size(); i++) {
        const int64_t scale = i == 0 ? 1 : plan->stages[i - 1].scale, row = columns * scale;
        all[i] = View{registers[i], 0, row * rows * scale, row, 1};
    }
    return all;
}

void check_registers(const Stage& stage, const std::vector<View>& all) {
    for (const Source& s : stage.sources)
        if (all[static_cast<size_t>(s.plane.reg)].data == nullptr) throw Error("a register this stage reads is missing");
}

std::vector<PlaneRef> planes_of(const int32_t* pairs, int count) {
    std::vector<PlaneRef> all;
    for (int i = 0; pairs != nullptr && i < count; i++) all.push_back({pairs[2 * i], pairs[2 * i + 1]});
    return all;
}

}  // namespace

extern "C" {

int twl_abi(void) { return ABI; }
const char* twl_error(void) { return last_error.c_str(); }
const char* twl_instruction_sets(void) { return kernel_names(); }
twl_plan* twl_new(void) { return new (std::nothrow) twl_plan; }
void twl_free(twl_plan* plan) { delete plan; }

int twl_table(twl_plan* plan, const int8_t* values, int64_t rows, int64_t payload, int axes, int nodes, int step,
              int near, int width, int thin, const int64_t* index, int64_t index_count, const int8_t* coarse,
              int64_t coarse_rows) {
    return guarded([&] {
        open(plan);
        if (values == nullptr || rows < 1 || payload < 1 || rows > (int64_t(1) << 40) / payload) throw Error("an empty table");
        Table t;
        t.values.assign(values, values + rows * payload);
        t.payload = payload;
        t.axes = axes;
        t.nodes = nodes;
        t.step = step;
        t.near = near;
        if (near < 0) throw Error("impossible band");
        if (near > 0) {
            if (index == nullptr || coarse == nullptr || index_count < 1 || coarse_rows < 1)
                throw Error("a banded table needs its index and its off-band rows");
            t.width = width;
            t.thin = thin;
            t.index.assign(index, index + index_count);
            t.coarse.assign(coarse, coarse + coarse_rows * payload);
        }
        for (int8_t v : t.values) t.largest = std::max(t.largest, std::abs(int(v)));
        for (int8_t v : t.coarse) t.largest = std::max(t.largest, std::abs(int(v)));
        plan->tables.push_back(std::move(t));
        return static_cast<int>(plan->tables.size()) - 1;
    });
}

int twl_stage(twl_plan* plan, int channels, int upscale, int cell, int64_t denominator, const int64_t* thresholds,
              int64_t divisor, int64_t offset) {
    return guarded([&] {
        open(plan);
        if (thresholds == nullptr) throw Error("a stage needs its requantisation levels");
        Stage s;
        s.channels = channels;
        s.upscale = upscale;
        s.cell = cell;
        s.denominator = denominator;
        s.divisor = divisor;
        s.offset = offset;
        std::copy(thresholds, thresholds + 255, s.thresholds);
        plan->stages.push_back(std::move(s));
        return static_cast<int>(plan->stages.size()) - 1;
    });
}

int twl_term(twl_plan* plan, int table, int padding, int offset_count, const int32_t* planes, const int32_t* offsets,
             int axes, const int32_t* weights, int weight_bits, int value_bits, const int32_t* blend_planes,
             const int32_t* gains, int gain_bits, int interpolation, int compat, int rotation_count,
             const int32_t* rotations) {
    return guarded([&] {
        open(plan);
        if (plan->stages.empty()) throw Error("a term needs a stage");
        if (offset_count < 1 || offset_count > 65536 || axes < 1 || axes > MAX_AXES || planes == nullptr ||
            offsets == nullptr || rotation_count < 1 || rotations == nullptr || (blend_planes == nullptr) != (gains == nullptr))
            throw Error("an incomplete term");
        if (table < 0 || table >= static_cast<int>(plan->tables.size()) || plan->tables[static_cast<size_t>(table)].axes != axes)
            throw Error("a term's values do not fit its table");
        Term t;
        t.table = table;
        t.reflect = padding == 1;
        t.multilinear = interpolation == 1;
        t.slip = compat == 1;
        t.planes = planes_of(planes, offset_count);
        t.blend_planes = planes_of(blend_planes, offset_count);
        t.offsets.assign(offsets, offsets + 2 * offset_count);
        if (weights != nullptr) t.weights.assign(weights, weights + axes * offset_count);
        if (gains != nullptr) t.gains.assign(gains, gains + axes);
        t.rotations.assign(rotations, rotations + rotation_count);
        t.weight_bits = weight_bits;
        t.value_bits = value_bits;
        t.gain_bits = gain_bits;
        std::vector<Term>& terms = plan->stages.back().terms;
        terms.push_back(std::move(t));
        return static_cast<int>(terms.size()) - 1;
    });
}

int twl_finish(twl_plan* plan, const char* instruction_set) {
    return guarded([&] {
        open(plan);
        const Kernels* kernels = find_kernels(instruction_set);
        if (kernels == nullptr) throw Error(std::string("this machine or build has no ") + instruction_set + " kernels");
        finish(*plan, kernels);
        return 0;
    });
}

const char* twl_instruction_set(const twl_plan* plan) {
    return plan != nullptr && plan->kernels != nullptr ? plan->kernels->name : "";
}

const char* twl_describe(const twl_plan* plan, int stage) {
    const bool known = plan != nullptr && stage >= 0 && stage < static_cast<int>(plan->stages.size());
    return known ? plan->stages[static_cast<size_t>(stage)].about.c_str() : "";
}

int twl_run(const twl_plan* plan, const uint8_t* image, const int64_t* image_strides, int64_t count, int64_t rows,
            int64_t columns, uint8_t* out, const int64_t* out_strides, int threads) {
    return twl_run_timed(plan, image, image_strides, count, rows, columns, out, out_strides, threads, nullptr);
}

int twl_run_timed(const twl_plan* plan, const uint8_t* image, const int64_t* image_strides, int64_t count, int64_t rows,
                  int64_t columns, uint8_t* out, const int64_t* out_strides, int threads, int64_t* spent) {
    return guarded([&] {
        ready(plan, 0);
        if (image == nullptr || out == nullptr || image_strides == nullptr || out_strides == nullptr) throw Error("no image");
        check_size(plan, count, rows, columns);
        const int channels = plan->stages.back().channels;
        const View from{image, image_strides[0], 0, image_strides[1], image_strides[2]};
        const Target to{out, out_strides[0] * channels, out_strides[0], out_strides[1], out_strides[2]};
        run_plan(*plan, from, count, rows, columns, to, std::max(threads, 1), spent);
        return 0;
    });
}

int twl_run_stage(const twl_plan* plan, int stage, const uint8_t* const* registers, int64_t rows, int64_t columns,
                  uint8_t* out, int threads) {
    return guarded([&] {
        const Stage& s = ready(plan, stage);
        if (registers == nullptr || out == nullptr) throw Error("no registers");
        check_size(plan, 1, rows, columns);
        const std::vector<View> all = views(plan, registers, rows, columns);
        check_registers(s, all);
        const int64_t row = columns * s.scale, plane = row * rows * s.scale;
        run_stage(*plan, s, all, 1, rows, columns, Target{out, plane * s.channels, plane, row, 1}, std::max(threads, 1));
        return 0;
    });
}

int twl_lookup(const twl_plan* plan, int stage, int term, int rotation, const uint8_t* const* registers, int64_t rows,
               int64_t columns, int64_t* out) {
    return guarded([&] {
        const Stage& s = ready(plan, stage);
        if (registers == nullptr || out == nullptr || term < 0 || term >= static_cast<int>(s.terms.size()) || rotation < 0 ||
            rotation > 3)
            throw Error("no such lookup");
        check_size(plan, 1, rows, columns);
        const std::vector<View> all = views(plan, registers, rows, columns);
        check_registers(s, all);
        run_lookup(*plan, s, term, rotation, all, rows, columns, out);
        return 0;
    });
}

}  // extern "C"
