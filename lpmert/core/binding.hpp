// Views of arrays, checks of their sizes, and how they cross the border to Python.
//
// Functions take spans, which own nothing and cost no more than pointers, and check their sizes first; an error names
// the argument. nanobind checks each array argument and converts none: it must have the dtype and the number of
// dimensions of the span, be C-contiguous and in main memory, and be writable where the span is. A returned vector
// becomes an array that owns it. Classes that store spans are bound by `define_init`, which keeps the arrays alive as
// long as the object. Every file includes this one, which also includes all that they need of the standard library.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

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

namespace nb = nanobind;
using nb::literals::operator""_a;

// Releases the GIL while a function runs; such a function must not use Python.
inline constexpr nb::call_guard<nb::gil_scoped_release> unlocked{};

// A matrix to return.
template <class T>
struct Matrix {
    std::vector<T> items;
    Index columns = 0;

    Index rows() const { return columns == 0 ? 0 : count(items) / columns; }
    void append(std::initializer_list<T> row) { items.insert(items.end(), row); }
};

template <class... Args, class T, std::size_t... I, class... Names>
void define_keeping(nb::class_<T>& scope, std::index_sequence<I...>, Names... names) {
    scope.def(nb::init<Args...>(), nb::arg(names)..., nb::keep_alive<1, I + 2>()...);
}

// Bind a constructor whose parameters have these types and names; the object keeps its arguments alive.
template <class... Args, class T, class... Names>
void define_init(nb::class_<T>& scope, Names... names) {
    define_keeping<Args...>(scope, std::index_sequence_for<Args...>(), names...);
}

}  // namespace lpmert

namespace nanobind::detail {

template <class View, class T, std::size_t dimensions>
struct view_caster {
    using Array = ndarray<T, ndim<dimensions>, c_contig, device::cpu>;
    NB_TYPE_CASTER(View, make_caster<Array>::Name)

    bool from_python(handle source, std::uint32_t, cleanup_list* cleanup) noexcept {
        make_caster<Array> array;
        if (!array.from_python(source, 0, cleanup)) return false;
        const auto size = [&](std::size_t k) { return static_cast<lpmert::Index>(array.value.shape(k)); };
        if constexpr (dimensions == 1)
            value = {array.value.data(), size(0)};
        else
            value = {array.value.data(), size(0), size(1)};
        return true;
    }
};
template <class T>
struct type_caster<lpmert::Span<T>> : view_caster<lpmert::Span<T>, T, 1> {};
template <class T>
struct type_caster<lpmert::Rows<T>> : view_caster<lpmert::Rows<T>, T, 2> {};

// A struct that lists the types of its members as `Fields` is passed as a tuple, for instance a NamedTuple.
template <class T>
struct type_caster<T, enable_if_t<(std::tuple_size_v<typename T::Fields> > 0)>> : make_caster<typename T::Fields> {
    using Tuple = make_caster<typename T::Fields>;
    template <class>
    using Cast = T;

    explicit operator T() {
        return std::apply([](auto... member) { return T{member...}; }, Tuple::cast_impl(typename Tuple::Indices()));
    }
};

// Return a numpy array that owns a vector.
template <class T>
handle owned(std::vector<T> items, std::initializer_list<std::size_t> shape, cleanup_list* cleanup) {
    auto holder = std::make_unique<std::vector<T>>(std::move(items));
    T* const data = holder->data();
    const capsule owner(holder.get(), [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
    holder.release();
    const ndarray<numpy, T> array(data, shape, owner);
    return make_caster<ndarray<numpy, T>>::from_cpp(array, rv_policy::automatic, cleanup);
}

template <class T>
struct vector_caster {
    NB_TYPE_CASTER(std::vector<T>, const_name("numpy.ndarray"))

    static handle from_cpp(std::vector<T> items, rv_policy, cleanup_list* cleanup) {
        const std::size_t size = items.size();
        return owned(std::move(items), {size}, cleanup);
    }
};
template <>
struct type_caster<lpmert::Reals> : vector_caster<double> {};
template <>
struct type_caster<lpmert::Indices> : vector_caster<lpmert::Index> {};
template <>
struct type_caster<std::vector<lpmert::Row>> : vector_caster<lpmert::Row> {};
template <>
struct type_caster<lpmert::Bytes> : vector_caster<std::uint8_t> {};

template <class T>
struct type_caster<lpmert::Matrix<T>> {
    NB_TYPE_CASTER(lpmert::Matrix<T>, const_name("numpy.ndarray"))

    static handle from_cpp(lpmert::Matrix<T> matrix, rv_policy, cleanup_list* cleanup) {
        const auto rows = static_cast<std::size_t>(matrix.rows()), columns = static_cast<std::size_t>(matrix.columns);
        return owned(std::move(matrix.items), {rows, columns}, cleanup);
    }
};

}  // namespace nanobind::detail
