// The C interface: checks, threads, sums over threads.
#include <algorithm>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../../native/variants.hpp"
#include "passes.hpp"

namespace twf {

namespace {

const twinnet::Variants<Passes>& variants() {
#ifdef TWINNET_X86_VARIANTS
    static const twinnet::Processor has = twinnet::processor();
#endif
    static const twinnet::Variants<Passes> all = {
#ifdef TWINNET_X86_VARIANTS
        {"avx512", has.avx512, fill_avx512},
        {"avx2", has.avx2, fill_avx2},
#endif
        {"baseline", true, fill_baseline},
    };
    return all;
}

}  // namespace

const Passes* find_passes(const char* name) { return variants().find(name); }

const char* pass_names() { return variants().names(); }

int64_t scratch_bytes(const twf_problem& p) {
    return int64_t(p.lookup_count) * int64_t(AXES + 1) * TILE * int64_t(sizeof(int32_t) + sizeof(float));
}

namespace {

constexpr int ABI = 1;
constexpr int64_t STRIP = 16;  // rows of sites handed to a thread at once
thread_local std::string last_error;

template <class F>
int guarded(F body) {
    try {
        body();
        return 0;
    } catch (const std::bad_alloc&) {
        last_error = "not enough memory";
    } catch (const std::exception& e) {
        last_error = e.what();
    }
    return -1;
}

[[noreturn]] void refuse(const char* why) { throw std::runtime_error(why); }

const Passes& checked(const twf_problem* p, const char* set) {
    const Passes* passes = find_passes(set);
    if (passes == nullptr) refuse("this machine or build has no such instruction set");
    if (p == nullptr || p->terms == nullptr || p->lookups == nullptr || p->images == nullptr) refuse("no problem");
    if (p->term_count < 1 || p->lookup_count < 1 || p->image_count < 1) refuse("an empty problem");
    if (p->upscale < 1 || p->upscale > 4 || p->channels < 1) refuse("a block of 1 to 4 pixels a side is needed");
    const int64_t outputs = int64_t(p->upscale) * p->upscale * p->channels;
    for (int t = 0; t < p->term_count; t++) {
        const twf_term& term = p->terms[t];
        if (term.axes < 1 || term.axes > AXES || term.nodes < 2 || term.units < 1) refuse("a table of 1 to 4 axes is needed");
        int64_t cells = 1;
        for (int k = 0; k < term.axes; k++) cells *= term.nodes;
        int64_t rows = cells, thin = 1;
        if (term.near > 0) {
            if (term.near >= term.axes || term.thin < 2 || term.map == nullptr || (term.nodes - 1) % term.thin)
                refuse("an impossible band");
            for (int k = 0; k < term.axes; k++) thin *= (term.nodes - 1) / term.thin + 1;
            rows = term.band_rows + thin;
            for (int64_t c = 0; c < cells; c++)
                if (term.map[c] < 0 || term.map[c] >= term.band_rows) refuse("a band map that leaves its table");
        }
        if (cells / term.nodes > (1 << 17) - 1 || int64_t(term.units) * std::max(term.thin, 1) > (1 << 14))
            refuse("a grid that is too fine for the native passes");
        if (term.start < 0 || term.start + rows * outputs > p->parameter_count) refuse("a table that leaves the parameters");
    }
    if (p->parameter_count > INT32_MAX) refuse("too many parameters");
    for (int l = 0; l < p->lookup_count; l++)
        if (p->lookups[l].term < 0 || p->lookups[l].term >= p->term_count || p->lookups[l].rotation < 0 || p->lookups[l].rotation > 3)
            refuse("a lookup in no table");
    return *passes;
}

// Calls body(thread, strip) for all strips. Which thread gets which strip does not depend on timing, so that sums
// come out the same in every run with the same number of threads.
template <class F>
void each_strip(const twf_problem& p, bool whole_images, F body) {
    std::vector<Strip> strips;
    for (int64_t i = 0; i < p.image_count; i++) {
        const twf_image& image = p.images[i];
        const int64_t step = whole_images ? std::max<int64_t>(image.rows, 1) : STRIP;
        for (int64_t row = 0; row < image.rows; row += step)
            strips.push_back({&p, &image, row, std::min(row + step, image.rows)});
    }
    const int threads = std::max(1, p.threads);
    auto work = [&](int thread) {
        // Aligned by hand: slots hold vectors of a tile.
        std::unique_ptr<char[]> memory(new char[static_cast<size_t>(scratch_bytes(p)) + 64]);
        char* scratch = memory.get() + (64 - reinterpret_cast<uintptr_t>(memory.get()) % 64) % 64;
        for (size_t s = static_cast<size_t>(thread); s < strips.size(); s += static_cast<size_t>(threads))
            body(thread, strips[s], scratch);
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; t++) others.emplace_back(work, t);
    work(0);
    for (std::thread& other : others) other.join();
}

// One buffer per thread beyond the first, added up at the end.
struct Buffers {
    float* first;
    std::vector<std::unique_ptr<float[]>> rest;
    int64_t size;
    Buffers(float* target, int64_t count, int threads) : first(target), size(count) {
        for (int t = 1; target != nullptr && t < threads; t++)
            rest.emplace_back(new float[static_cast<size_t>(count)]());
    }
    float* of(int thread) { return thread == 0 || first == nullptr ? first : rest[static_cast<size_t>(thread) - 1].get(); }
    void reduce() {
        for (auto& part : rest)
            for (int64_t i = 0; i < size; i++) first[i] += part[static_cast<size_t>(i)];
    }
};

}  // namespace
}  // namespace twf

using namespace twf;

extern "C" {

int twf_abi(void) { return ABI; }
const char* twf_error(void) { return last_error.c_str(); }
const char* twf_instruction_sets(void) { return pass_names(); }

int twf_fit_pass(const twf_problem* p, const char* set, const float* parameters, double gain, double offset,
                 int with_target, double* loss, float* gradient) {
    return guarded([&] {
        const Passes& passes = checked(p, set);
        if (p->channels != 1) refuse("fitting takes one channel");
        const int threads = std::max(1, p->threads);
        if (gradient != nullptr) std::fill(gradient, gradient + p->parameter_count, 0.0f);
        Buffers buffers(gradient, p->parameter_count, threads);
        std::vector<double> losses(static_cast<size_t>(threads), 0.0);
        each_strip(*p, false, [&](int thread, const Strip& strip, void* scratch) {
            const FitJob job{parameters, buffers.of(thread), float(gain), float(offset), with_target != 0};
            losses[static_cast<size_t>(thread)] += passes.fit(strip, job, scratch);
        });
        buffers.reduce();
        *loss = 0;
        for (double part : losses) *loss += part;
    });
}

int twf_squares(const twf_problem* p, const char* set, double gain, float* squares) {
    return guarded([&] {
        const Passes& passes = checked(p, set);
        const int64_t rows = p->parameter_count / (int64_t(p->upscale) * p->upscale * p->channels);
        std::fill(squares, squares + rows, 0.0f);
        Buffers buffers(squares, rows, std::max(1, p->threads));
        each_strip(*p, false, [&](int thread, const Strip& strip, void* scratch) {
            passes.squares(strip, float(gain), buffers.of(thread), scratch);
        });
        buffers.reduce();
    });
}

int twf_forward(const twf_problem* p, const char* set, const float* parameters, int rounding) {
    return guarded([&] {
        const Passes& passes = checked(p, set);
        each_strip(*p, false, [&](int, const Strip& strip, void* scratch) {
            passes.forward(strip, parameters, rounding, scratch);
        });
    });
}

int twf_backward(const twf_problem* p, const char* set, const float* parameters, int divide, double scale,
                 float* gradient) {
    return guarded([&] {
        const Passes& passes = checked(p, set);
        Buffers buffers(gradient, p->parameter_count, std::max(1, p->threads));
        // Neighbouring strips of an image would add to the same pixels.
        each_strip(*p, true, [&](int thread, const Strip& strip, void* scratch) {
            passes.backward(strip, parameters, divide != 0, float(scale), buffers.of(thread), scratch);
        });
        buffers.reduce();
    });
}

void twf_entries(const float* parameters, int64_t count, float* entries) {
    find_passes(nullptr)->entries(parameters, count, entries);
}

void twf_entries_grad(const float* parameters, int64_t count, float* gradient) {
    find_passes(nullptr)->entries_grad(parameters, count, gradient);
}

}  // extern "C"
