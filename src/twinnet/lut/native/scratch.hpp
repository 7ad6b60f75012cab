// Memory that runs use, kept by the plan from one run to the next: to be given fresh pages costs as much as a table.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace twl {

struct Aligned {  // 64-byte aligned; zeroed when it grows, else as it was left
    std::vector<uint8_t> store;
    uint8_t* get(int64_t bytes) {
        if (static_cast<int64_t>(store.size()) < bytes + 64) store.assign(static_cast<size_t>(bytes + 64), 0);
        const uintptr_t at = reinterpret_cast<uintptr_t>(store.data());
        return store.data() + (64 - at % 64) % 64;
    }
};

// The buffers of one thread.
struct Scratch {
    Aligned planes, blocks, linear_blocks, corner_blocks, sums, bytes, row, woven;
};

// Things that were used before and can be used again, by any thread.
template <class T>
class Pool {
   public:
    std::unique_ptr<T> take() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (free_.empty()) return std::make_unique<T>();
        std::unique_ptr<T> last = std::move(free_.back());
        free_.pop_back();
        return last;
    }
    void give(std::unique_ptr<T> used) {
        std::lock_guard<std::mutex> lock(mutex_);
        free_.push_back(std::move(used));
    }

   private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<T>> free_;
};

// Taken from a pool for as long as this lives.
template <class T>
class Borrowed {
   public:
    explicit Borrowed(Pool<T>& pool) : pool_(pool), mine_(pool.take()) {}
    ~Borrowed() {
        try {
            pool_.give(std::move(mine_));
        } catch (...) {  // no memory for the list: then it is not kept
        }
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    T& operator*() { return *mine_; }

   private:
    Pool<T>& pool_;
    std::unique_ptr<T> mine_;
};

}  // namespace twl
