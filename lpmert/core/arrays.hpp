// Views of arrays, and checks of their sizes.
//
// binding.hpp checks dtype, dimensions and layout of every array that comes from Python. Inside the core, functions
// take spans, which own nothing and cost no more than pointers. A function checks sizes first; its error names the
// argument. Every file of the core includes this one, which also includes all that they need of the standard library.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lpmert {

using Index = std::int64_t;
using Row = std::int32_t;  // the row of a hypothesis, where many of them are stored

using Indices = std::vector<Index>;
using Reals = std::vector<double>;
using Bytes = std::vector<std::uint8_t>;

inline constexpr double INF = std::numeric_limits<double>::infinity();

#ifdef LPMERT_CHECKED
inline constexpr bool CHECKED = true;
#else
inline constexpr bool CHECKED = false;
#endif

template <class Items>
Index count(const Items& items) {
    return static_cast<Index>(items.size());
}

// A view of contiguous items. A checked build checks every index.
template <class T>
class Span {
    T* items = nullptr;
    Index count = 0;

  public:
    Span() = default;
    Span(T* items_, Index count_) : items(items_), count(count_) {}
    // A view of a vector, or a read-only view of a writable span.
    template <class Owner, class = decltype(std::declval<Owner&>().data())>
    Span(Owner&& owner) : items(owner.data()), count(static_cast<Index>(owner.size())) {}

    T* data() const { return items; }
    Index size() const { return count; }
    T* begin() const { return items; }
    T* end() const { return items + count; }
    T& operator[](Index i) const {
        if (CHECKED && (i < 0 || i >= count)) throw std::out_of_range("index " + std::to_string(i));
        return items[i];
    }
    // The items first .. last - 1.
    Span part(Index first, Index last) const {
        if (CHECKED && (first < 0 || last < first || last > count)) throw std::out_of_range("part of a span");
        return {items + first, last - first};
    }
};

// A view of a matrix in row-major order.
template <class T>
class Rows {
    T* first = nullptr;
    Index n_rows = 0, n_columns = 0;

  public:
    Rows() = default;
    Rows(T* first_, Index rows_, Index columns_) : first(first_), n_rows(rows_), n_columns(columns_) {}

    Index rows() const { return n_rows; }
    Index columns() const { return n_columns; }
    Span<T> items() const { return {first, n_rows * n_columns}; }
    Span<T> operator[](Index row) const {
        if (CHECKED && (row < 0 || row >= n_rows)) throw std::out_of_range("row " + std::to_string(row));
        return {first + row * n_columns, n_columns};
    }
};

// Raise ValueError unless the argument of this name has the wanted number of items.
inline void check_size(Index size, Index wanted, const char* name) {
    if (size != wanted)
        throw std::invalid_argument(std::string(name) + " must have " + std::to_string(wanted) + " items, not " +
                                    std::to_string(size));
}

// Raise ValueError unless offsets [S + 1] divide this many rows into lists; `empty` allows empty lists.
inline void check_offsets(Span<const Index> offsets, Index rows, const char* name, bool empty = false) {
    bool right = offsets.size() > 0 && offsets[0] == 0 && offsets[offsets.size() - 1] == rows;
    for (Index s = 1; right && s < offsets.size(); ++s)
        right = offsets[s] > offsets[s - 1] || (empty && offsets[s] == offsets[s - 1]);
    if (!right)
        throw std::invalid_argument(std::string(name) + " must increase from 0 to the number of rows, " +
                                    std::to_string(rows));
}

// Raise ValueError unless 0 <= number < end for all numbers.
template <class Numbers>
void check_within(const Numbers& numbers, Index end, const char* name) {
    if (!std::all_of(numbers.begin(), numbers.end(), [=](Index number) { return number >= 0 && number < end; }))
        throw std::invalid_argument(std::string(name) + " must be from 0 to below " + std::to_string(end));
}

}  // namespace lpmert
