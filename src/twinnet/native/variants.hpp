// The compiled variants of a native part that this processor can run, best first.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "processor.hpp"

namespace twinnet {

// A table of functions (with its `name`), once per instruction set.
template <class Table>
class Variants {
public:
    struct Variant {
        const char* name;
        bool runs;  // on this processor
        void (*fill)(Table&);
    };

    Variants(std::initializer_list<Variant> all) {
        for (const Variant& variant : all) {
            if (!variant.runs) continue;
            Table table = {};
            table.name = variant.name;
            variant.fill(table);
            tables_.push_back(table);
            names_ += (names_.empty() ? "" : " ") + std::string(variant.name);
        }
    }

    // The variant of that name, the best without one; null if there is none.
    const Table* find(const char* name) const {
        if (name == nullptr || *name == 0) return &tables_.front();
        for (const Table& table : tables_)
            if (std::strcmp(table.name, name) == 0) return &table;
        return nullptr;
    }

    const char* names() const { return names_.c_str(); }

private:
    std::vector<Table> tables_;
    std::string names_;
};

}  // namespace twinnet
