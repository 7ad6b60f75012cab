// Threads over strips of rows. Strips need nothing from each other, stages do.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "strip.hpp"

namespace twl {
namespace {

// Sites of a strip, over the planes that go together. Large, because a strip goes through its tables one after the
// other and each of them has to be fetched again; but what it reads and writes should stay in the second cache.
constexpr int64_t STRIP_SITES = 1 << 14;
constexpr size_t KEPT_BYTES = 1 << 24;  // of a register: larger ones go back at once
constexpr int64_t GROUP = 4;  // planes that go together: the colours of an image

// Runs task(0) .. task(count - 1) on up to `threads` threads, each with its own worker object.
template <class Make>
void share_out(int64_t count, int threads, Make make_worker) {
    std::atomic<int64_t> next{0};
    std::atomic<bool> stop{false};
    std::exception_ptr error;
    std::mutex mutex;
    auto work = [&] {
        try {
            auto worker = make_worker();
            for (int64_t i = next++; i < count && !stop; i = next++) worker(i);
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex);
            if (!error) error = std::current_exception();
            stop = true;
        }
    };
    std::vector<std::thread> helpers;
    const int64_t wanted = std::min<int64_t>(threads, count);
    for (int64_t i = 1; i < wanted; i++) {
        try {
            helpers.emplace_back(work);
        } catch (const std::system_error&) {
            break;  // no more threads to be had: the others do the work
        }
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (error) std::rethrow_exception(error);
}

// Rows of a strip: neither so many that threads idle nor so few that padding dominates. `groups` strips cover the same
// rows, each of `planes` planes.
int64_t strip_rows(const Stage& stage, int64_t rows, int64_t columns, int64_t planes, int64_t groups, int threads) {
    const int64_t halo = (stage.top + stage.bottom) / stage.cell;
    const int64_t best = std::max(STRIP_SITES / columns / planes, std::max<int64_t>(8, 2 * halo));
    const int64_t fair = threads > 1 ? std::max<int64_t>(rows * groups / (4 * threads), std::max<int64_t>(4, halo)) : rows;
    const int64_t height = std::max<int64_t>(1, std::min(std::min(best, fair), rows));
    // As many strips as the threads can share evenly, all about equally high.
    const int64_t strips = ((rows + height - 1) / height + threads - 1) / threads * threads;
    return (rows + strips - 1) / strips;
}

}  // namespace

void run_stage(const twl_plan& plan, const Stage& stage, const std::vector<View>& registers, int64_t count, int64_t rows,
               int64_t columns, const Target& out, int threads) {
    const int64_t site_rows = rows * stage.site_scale, out_columns = columns * stage.scale;
    const bool woven = out.column != 1;
    const int64_t group = std::min(count, GROUP), groups = woven ? 1 : (count + group - 1) / group;
    const int64_t height = strip_rows(stage, site_rows, columns * stage.site_scale, group, groups, threads);
    const int64_t strips = (site_rows + height - 1) / height;
    if (!woven) {
        share_out(strips * groups, threads, [&] {
            auto strip = std::make_shared<Strip>(plan, stage, registers, rows, columns);
            return [&, strip](int64_t task) {
                const int64_t image = task / strips * group, first = task % strips * height;
                Target planes = out;
                planes.data += image * out.image;
                strip->run(image, std::min(image + group, count), first, std::min(first + height, site_rows), planes, 0);
            };
        });
        return;
    }
    // Interleaved output: all planes of a strip, then one pass that weaves them together.
    share_out(strips, threads, [&] {
        auto strip = std::make_shared<Strip>(plan, stage, registers, rows, columns);
        return [&, strip](int64_t task) {
            const int64_t first = task * height, last = std::min(first + height, site_rows);
            const int64_t out_rows = (last - first) * stage.upscale, planes = count * stage.channels;
            const int64_t plane = out_rows * out_columns;
            uint8_t* buffer = strip->woven().get(plane * planes);
            for (int64_t image = 0; image < count; image += group) {
                const Target to{buffer + image * stage.channels * plane, stage.channels * plane, plane, out_columns, 1};
                strip->run(image, std::min(image + group, count), first, last, to, first);
            }
            for (int64_t y = 0; y < out_rows; y++) {
                uint8_t* row = out.data + (first * stage.upscale + y) * out.row;
                const uint8_t* from = buffer + y * out_columns;
                if (planes == 3 && out.column == 3 && stage.channels == 1 && out.image == 1) {
                    plan.kernels->interleave3(from, from + plane, from + 2 * plane, row, out_columns);
                    continue;
                }
                for (int64_t p = 0; p < planes; p++) {
                    uint8_t* pixel = row + p / stage.channels * out.image + p % stage.channels * out.channel;
                    for (int64_t x = 0; x < out_columns; x++) pixel[x * out.column] = from[p * plane + x];
                }
            }
        };
    });
}

void run_plan(const twl_plan& plan, const View& image, int64_t count, int64_t rows, int64_t columns, const Target& out,
              int threads, int64_t* spent) {
    const auto began = std::chrono::steady_clock::now();
    const auto note = [&](size_t place) {
        if (spent == nullptr) return;
        const auto passed = std::chrono::steady_clock::now() - began;
        spent[place] = std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count();
    };
    std::vector<View> registers(plan.stages.size() + 1);
    std::vector<std::unique_ptr<Aligned>> store(plan.stages.size());
    std::vector<size_t> last_use(plan.stages.size() + 1, 0);
    for (size_t i = 0; i < plan.stages.size(); i++)
        for (const Source& s : plan.stages[i].sources) last_use[s.plane.reg] = i;
    registers[0] = image;
    for (size_t i = 0; i < plan.stages.size(); i++) {
        const Stage& stage = plan.stages[i];
        note(2 * i);
        Target to = out;
        if (i + 1 < plan.stages.size()) {
            const int64_t row = columns * stage.scale, plane = row * rows * stage.scale;
            store[i] = plan.planes.take();
            uint8_t* data = store[i]->get(plane * stage.channels * count);
            to = Target{data, plane * stage.channels, plane, row, 1};
            registers[i + 1] = View{data, plane * stage.channels, plane, row, 1};
        }
        run_stage(plan, stage, registers, count, rows, columns, to, threads);
        for (size_t k = 0; k < i; k++) {
            if (last_use[k + 1] != i || !store[k]) continue;
            if (store[k]->store.size() <= KEPT_BYTES) plan.planes.give(std::move(store[k]));
            store[k].reset();
        }
        note(2 * i + 1);
    }
}

void run_lookup(const twl_plan& plan, const Stage& stage, int term, int rotation, const std::vector<View>& registers,
                int64_t rows, int64_t columns, int64_t* out) {
    Strip strip(plan, stage, registers, rows, columns);
    const int64_t site_rows = rows * stage.site_scale;
    const int64_t height = strip_rows(stage, site_rows, columns * stage.site_scale, 1, 1, 1);
    for (int64_t y = 0; y < site_rows; y += height) strip.lookup(term, rotation, y, std::min(y + height, site_rows), out);
}

}  // namespace twl
