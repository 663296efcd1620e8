// Views of arrays. Python's arrays are checked once, at the border: dtype, dimensions and layout; an error names the
// argument. Inside, code sees spans, which own nothing and are as cheap as pointers. All chapters include this one, and
// with it what they need of the standard library.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

namespace nb = nanobind;

using Index = std::int64_t;
using Cost = std::int64_t;
using Row = std::int32_t;  // a hypothesis as a row of the lists, where many are kept

using Indices = std::vector<Index>;
using Reals = std::vector<double>;
using Bytes = std::vector<std::uint8_t>;

#ifdef LPMERT_CHECKED
inline constexpr bool CHECKED = true;
#else
inline constexpr bool CHECKED = false;
#endif

template <class Items>
Index count(const Items& items) {
    return static_cast<Index>(items.size());
}

// So many items in a row; a checked build looks at every index.
template <class T>
class Span {
    T* items = nullptr;
    Index count = 0;

  public:
    Span() = default;
    Span(T* items_, Index count_) : items(items_), count(count_) {}
    // Those of a vector, or of a span that may write them.
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
    // The items from first to before last.
    Span part(Index first, Index last) const {
        if (CHECKED && (first < 0 || last < first || last > count)) throw std::out_of_range("part of a span");
        return {items + first, last - first};
    }
};

// Rows of equal length, one after the other.
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

// What a bound function takes: any array, which `vector` and `matrix` check. A function that writes into an array of
// the caller takes `Writable`.
using Array = nb::ndarray<nb::ro>;
using Writable = nb::ndarray<>;

namespace detail {

template <class T>
std::string dtype_name() {
    const std::string kind = std::is_floating_point_v<T> ? "float" : std::is_signed_v<T> ? "int" : "uint";
    return kind + std::to_string(8 * sizeof(T));
}

// The items of an array that is as it must be; what is wrong is put into words only then.
template <class T, class Given>
T* checked(const Given& array, const char* name, std::size_t dimensions) {
    using Plain = std::remove_const_t<T>;
    const auto refuse = [&](const std::string& what) {
        throw std::invalid_argument(std::string(name) + " must be a C-contiguous array of " + dtype_name<Plain>() +
                                    " with " + std::to_string(dimensions) +
                                    (dimensions == 1 ? " dimension" : " dimensions") + what);
    };
    if (array.device_type() != nb::device::cpu::value) refuse(" in main memory");
    if (array.dtype() != nb::dtype<Plain>()) refuse(", not of another type");
    if (array.ndim() != dimensions) refuse(", not " + std::to_string(array.ndim()));
    std::int64_t step = 1;
    for (std::size_t k = array.size() == 0 ? 0 : dimensions; k-- > 0;) {
        if (array.shape(k) > 1 && array.stride(k) != step) refuse("; use numpy.ascontiguousarray");
        step *= static_cast<std::int64_t>(array.shape(k));
    }
    return static_cast<T*>(array.data());
}

}  // namespace detail

// Return the items of an array of one dimension, constant ones of an `Array`; raises ValueError, which names the
// argument.
template <class T, class Given>
Span<T> vector(const Given& array, const char* name) {
    return {detail::checked<T>(array, name, 1), static_cast<Index>(array.shape(0))};
}

// The same for the rows of an array of two dimensions.
template <class T, class Given>
Rows<T> matrix(const Given& array, const char* name) {
    T* const items = detail::checked<T>(array, name, 2);
    return {items, static_cast<Index>(array.shape(0)), static_cast<Index>(array.shape(1))};
}

// Raise ValueError unless an argument has as many items as it must.
inline void check_size(Index size, Index wanted, const char* name) {
    if (size != wanted)
        throw std::invalid_argument(std::string(name) + " must have " + std::to_string(wanted) + " items, not " +
                                    std::to_string(size));
}

// Call a function that does not use Python, with the interpreter's lock released.
template <class Work>
auto unlocked(Work&& work) {
    const nb::gil_scoped_release release;
    return work();
}

template <class T>
using Owned = nb::ndarray<nb::numpy, T>;

// Return an array of Python's that takes over a vector.
template <class T>
Owned<T> owned(std::vector<T> items, std::initializer_list<std::size_t> shape) {
    auto kept = std::make_unique<std::vector<T>>(std::move(items));
    T* const data = kept->data();
    const nb::capsule owner(kept.get(), [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
    kept.release();
    return Owned<T>(data, shape, owner);
}

template <class T>
Owned<T> owned(std::vector<T> items) {
    const std::size_t size = items.size();
    return owned(std::move(items), {size});
}

// Raise ValueError unless offsets [S + 1] divide so many rows into lists that are not empty.
inline void check_offsets(Span<const Index> offsets, Index rows, const char* name) {
    bool right = offsets.size() > 0 && offsets[0] == 0 && offsets[offsets.size() - 1] == rows;
    for (Index s = 1; right && s < offsets.size(); ++s) right = offsets[s] > offsets[s - 1];
    if (!right)
        throw std::invalid_argument(std::string(name) + " must increase from 0 to the number of rows, " +
                                    std::to_string(rows));
}

// Raise ValueError unless all numbers are from 0 to below an end.
template <class Numbers>
void check_within(const Numbers& numbers, Index end, const char* name) {
    if (!std::all_of(numbers.begin(), numbers.end(), [=](Index number) { return number >= 0 && number < end; }))
        throw std::invalid_argument(std::string(name) + " must be from 0 to below " + std::to_string(end));
}

// The length of the longest list.
inline Index longest_list(Span<const Index> offsets) {
    Index longest = 0;
    for (Index s = 1; s < offsets.size(); ++s) longest = std::max(longest, offsets[s] - offsets[s - 1]);
    return longest;
}

}  // namespace lpmert
