// Tables as they lie in memory, and the checks that every row a lookup can reach exists.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "plan.hpp"

namespace twl {

RowMemory::RowMemory(int64_t bytes) {
    const size_t page = bytes >= 1 << 18 ? size_t(1) << 21 : 64;
    const size_t size = (static_cast<size_t>(bytes) + page - 1) / page * page;
    data_.reset(static_cast<int8_t*>(std::aligned_alloc(page, size)));
    if (!data_) throw std::bad_alloc();
#ifdef __linux__
    if (page > 64) madvise(data_.get(), size, MADV_HUGEPAGE);  // a wish; without it all works the same
#endif
    std::memset(data_.get(), 0, size);
}

void RowMemory::Free::operator()(int8_t* p) const { std::free(p); }

namespace {

constexpr int64_t LARGEST = 2147483647 - 4096;  // bytes that 32-bit offsets can reach

int64_t power(int64_t base, int exponent) {
    int64_t value = 1;
    for (int i = 0; i < exponent; i++) {
        value *= base;
        if (value > (int64_t(1) << 40)) throw Error("a table of this many nodes and axes does not fit in memory");
    }
    return value;
}

// Where element p of a row comes from when the block is turned back by rotation r.
std::vector<int64_t> turned(int channels, int n, int r) {
    std::vector<int64_t> from;
    for (int c = 0; c < channels; c++)
        for (int row = 0; row < n; row++)
            for (int col = 0; col < n; col++) {
                const int uv[4][2] = {{row, col}, {n - 1 - col, row}, {n - 1 - row, n - 1 - col}, {col, n - 1 - row}};
                from.push_back((int64_t(c) * n + uv[r][0]) * n + uv[r][1]);
            }
    return from;
}

// Steps from the first vertex, for every order of up to four axes.
void fill_steps(Layout& layout, int axes, bool banded) {
    layout.steps.assign(CODES * AXES, 0);
    layout.corners.assign(1 << AXES, 0);
    if (axes > AXES) return;
    for (int corner = 0; corner < 1 << axes; corner++)
        for (int k = 0; k < axes; k++)
            if (corner >> k & 1) layout.corners[corner] += static_cast<int32_t>(layout.stride[k]);
    for (int code = 0; code < CODES; code++) {
        const int64_t* stride = code >= 64 ? layout.coarse_stride : layout.stride;
        if (code >= 64 && !banded) continue;
        int used = 0;
        int64_t at = 0, all = 0;
        bool real = true;
        int32_t* step = &layout.steps[code * AXES];
        for (int k = 0; k < axes; k++) all += stride[k];
        for (int k = 0; k + 1 < axes; k++) {
            const int axis = (code >> (2 * k)) & 3;
            real = real && axis < axes && !(used >> axis & 1);
            if (!real) break;
            used |= 1 << axis;
            at += stride[axis];
            step[k] = static_cast<int32_t>(at);
        }
        if (real) step[axes - 1] = static_cast<int32_t>(all);
        else std::fill(step, step + AXES, 0);
    }
    if (axes == 4) {
        const int64_t* s = layout.stride;
        const int64_t slip[4] = {s[2], s[0] + s[2], s[0] + s[2] + s[3], s[0] + s[1] + s[2] + s[3]};
        for (int k = 0; k < 4; k++) layout.steps[SLIP_CODE * AXES + k] = static_cast<int32_t>(slip[k]);
    }
}

}  // namespace

void check_table(const Table& t, const std::string& name) {
    if (t.axes < 1 || t.axes > MAX_AXES) throw Error(name + ": the engine knows 1 to 8 axes");
    if (t.nodes < 2 || t.nodes > 65536 || t.step < 1 || t.step > 4096 || int64_t(t.nodes - 1) * t.step < 255)
        throw Error(name + ": its nodes do not cover the pixel values 0..255");
    if (t.payload < 1 || t.payload > 65536) throw Error(name + ": bad number of values per row");
    const int64_t rows = static_cast<int64_t>(t.values.size()) / t.payload;
    if (!t.banded()) {
        if (rows != power(t.nodes, t.axes)) throw Error(name + ": its rows do not fill its grid");
        return;
    }
    if (t.near >= t.axes || t.width < 1 || t.width > t.nodes || t.thin < 2 || (t.nodes - 1) % t.thin)
        throw Error(name + ": impossible band");
    const int64_t rest = power(t.nodes, t.axes - 1 - t.near), band = t.nodes * power(2 * t.width + 1, t.near);
    if (static_cast<int64_t>(t.index.size()) != band) throw Error(name + ": the band index has the wrong size");
    for (int64_t entry : t.index)
        if (entry < -1 || entry >= rows / rest) throw Error(name + ": the band index points outside the rows");
    if (rows % rest || static_cast<int64_t>(t.coarse.size()) != power(t.coarse_nodes(), t.axes) * t.payload)
        throw Error(name + ": the off-band rows do not fill their grid");
}

std::shared_ptr<Layout> lay_out(const Table& t, int channels, int upscale, bool copies) {
    auto layout = std::make_shared<Layout>();
    const int64_t payload = t.payload;
    std::vector<int8_t> one;
    if (!t.banded()) {
        int64_t stride = payload;
        for (int k = t.axes - 1; k >= 0; k--) {
            layout->stride[k] = stride;
            stride *= t.nodes;
        }
        one = t.values;
    } else {
        const int64_t rest = power(t.nodes, t.axes - 1 - t.near) * payload, wide = 2 * t.width + 1;
        int64_t stride = payload;
        for (int k = t.axes - 1; k > t.near; k--) {
            layout->stride[k] = stride;
            stride *= t.nodes;
        }
        int64_t near_sum = 0;
        for (int k = t.near; k >= 1; k--) {
            layout->stride[k] = stride;
            near_sum += stride;
            stride *= wide;
        }
        layout->stride[0] = stride - near_sum;
        layout->origin = t.width * near_sum;
        one.assign(static_cast<size_t>(t.nodes * stride), 0);
        std::vector<int64_t> digits(t.near);
        const int64_t per_node = stride / rest;
        for (int64_t b = 0; b < t.nodes; b++)
            for (int64_t cell = 0; cell < per_node; cell++) {
                int64_t left = cell, from = 0, scale = 1;
                for (int k = t.near - 1; k >= 0; k--) {
                    digits[k] = left % wide;
                    left /= wide;
                }
                for (int k = t.near - 1; k >= 0; k--) {
                    from += ((digits[k] - t.width + wide) % wide) * scale;
                    scale *= wide;
                }
                const int64_t row = t.index[b * scale + from];
                if (row >= 0) std::memcpy(&one[(b * per_node + cell) * rest], &t.values[row * rest], rest);
            }
        layout->coarse_origin = static_cast<int64_t>(one.size());
        one.insert(one.end(), t.coarse.begin(), t.coarse.end());
        stride = payload;
        for (int k = t.axes - 1; k >= 0; k--) {
            layout->coarse_stride[k] = stride;
            stride *= t.coarse_nodes();
        }
    }
    const int64_t size = static_cast<int64_t>(one.size()), count = copies ? 4 : 1;
    if (size * count > LARGEST) throw Error("a table is larger than 2 GB");
    layout->bytes = RowMemory(size * count + 64);  // vectors may read past the last row
    layout->copy_bytes = copies ? size : 0;
    layout->size = size * count;
    for (int r = 0; r < count; r++) {
        const std::vector<int64_t> from = turned(channels, upscale, r);
        int8_t* to = layout->bytes.data() + r * size;
        if (r == 0) {
            std::memcpy(to, one.data(), one.size());
            continue;
        }
        for (int64_t row = 0; row < size; row += payload)
            for (int64_t p = 0; p < payload; p++) to[row + p] = one[row + from[p]];
    }
    fill_steps(*layout, t.axes, t.banded());
    return layout;
}

}  // namespace twl
