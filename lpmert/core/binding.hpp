// How functions on spans become functions of Python: `define` checks each array where it comes in, lets other threads
// run meanwhile, and hands vectors over as arrays. What keeps spans is made by `define_init`, and keeps the arrays.
#pragma once

#include <variant>

#include "arrays.hpp"

namespace lpmert {

// Rows of equal length, which are returned.
template <class T>
struct Matrix {
    std::vector<T> items;
    Index columns = 0;

    Index rows() const { return columns == 0 ? 0 : count(items) / columns; }
    void append(std::initializer_list<T> row) { items.insert(items.end(), row); }
};

namespace border {

// What Python passes for a parameter of this type, and what the function sees of it.
template <class T, class = void>
struct Parameter {
    using Held = T;
    using Given = T;
    static T take(Given given, const char*) { return static_cast<T>(given); }
};
template <class T>
struct Parameter<Span<T>> {
    using Held = std::conditional_t<std::is_const_v<T>, Array, Writable>;
    using Given = const Held&;
    static Span<T> take(Given given, const char* name) { return vector<T>(given, name); }
};
template <class T>
struct Parameter<Rows<T>> {
    using Held = std::conditional_t<std::is_const_v<T>, Array, Writable>;
    using Given = const Held&;
    static Rows<T> take(Given given, const char* name) { return matrix<T>(given, name); }
};

// A struct with `members`, what these are called, which Python passes as a tuple, such as a NamedTuple.
template <class T>
struct Parameter<T, std::void_t<decltype(T::members)>> {
    using Held = nb::tuple;
    using Given = const Held&;
    static T take(Given given, const char* name) {
        check_size(static_cast<Index>(given.size()), count(T::members), name);
        try {
            return take_all(given, std::make_index_sequence<T::members.size()>());
        } catch (const nb::cast_error&) {
            throw nb::type_error((std::string("a member of ") + name + " is of another type").c_str());
        }
    }

  private:
    struct Item {
        nb::object given;
        const char* name;
        template <class Own>
        operator Own() const {
            return Parameter<Own>::take(nb::cast<typename Parameter<Own>::Held>(given), name);
        }
    };
    template <std::size_t... I>
    static T take_all(Given given, std::index_sequence<I...>) {
        return {Item{given[I], T::members[I]}...};
    }
};

// What Python gets for what a function returns.
template <class T>
auto give(T value) {
    if constexpr (std::is_enum_v<T>)
        return static_cast<Index>(value);
    else
        return value;
}
template <class T>
Owned<T> give(std::vector<T> items) {
    return owned(std::move(items));
}
template <class T>
Owned<T> give(Matrix<T> matrix) {
    const auto columns = static_cast<std::size_t>(matrix.columns);
    const auto rows = static_cast<std::size_t>(matrix.rows());
    return owned(std::move(matrix.items), {rows, columns});
}
template <class... T>
nb::object give(std::variant<T...> value) {
    return std::visit([](auto own) { return nb::cast(own); }, value);
}
template <class... T>
nb::tuple give(std::tuple<T...> values) {
    return std::apply([](auto&... value) { return nb::make_tuple(give(std::move(value))...); }, values);
}

template <class... T>
nb::list give(std::vector<std::tuple<T...>> rows) {
    nb::list found;
    for (auto& row : rows) found.append(give(std::move(row)));
    return found;
}

template <class R, class Function, class... Taken>
auto call(Function& function, Taken&&... taken) {
    if constexpr (std::is_void_v<R>)
        unlocked([&] { function(std::forward<Taken>(taken)...); });
    else
        return give(unlocked([&] { return function(std::forward<Taken>(taken)...); }));
}

template <class R, class... Args, std::size_t... I, std::size_t... J, class Scope, class Function>
void define(Scope& scope, const char* name, Function function, std::array<const char*, sizeof...(Args)> names,
            std::index_sequence<I...>, std::index_sequence<J...>) {
    constexpr std::size_t first = sizeof...(I) - sizeof...(J);  // 1 where the first parameter is self
    scope.def(
        name,
        [function, names](typename Parameter<Args>::Given... given) {
            return call<R>(function, Parameter<Args>::take(given, names[I])...);
        },
        nb::arg(names[J + first])...);
}

template <class... Args, class T, std::size_t... I>
void define_init(nb::class_<T>& scope, std::array<const char*, sizeof...(Args)> names, std::index_sequence<I...>) {
    scope.def(
        "__init__",
        [names](T* self, typename Parameter<Args>::Given... given) {
            new (self) T{Parameter<Args>::take(given, names[I])...};
        },
        nb::arg(names[I])..., nb::keep_alive<1, I + 2>()...);
}

}  // namespace border

// Define a function of a module, or of a class whose object is its first parameter; the others have these names.
template <class Scope, class R, class... Args, class... Names>
void define(Scope& scope, const char* name, R (*function)(Args...), Names... names) {
    constexpr std::size_t n = sizeof...(Args), named = sizeof...(Names);
    std::array<const char*, n> all{};
    if constexpr (n == named)
        all = {names...};
    else
        all = {"self", names...};
    border::define<R, Args...>(scope, name, function, all, std::make_index_sequence<n>(),
                               std::make_index_sequence<named>());
}
template <class T, class R, class... Args, class Method, class... Names>
void define_method(nb::class_<T>& scope, const char* name, Method method, Names... names) {
    const auto function = [method](T& self, Args... given) -> R { return (self.*method)(given...); };
    border::define<R, T&, Args...>(scope, name, function, {"self", names...},
                                   std::make_index_sequence<sizeof...(Args) + 1>(),
                                   std::make_index_sequence<sizeof...(Args)>());
}
template <class T, class Base, class R, class... Args, class... Names>
void define(nb::class_<T>& scope, const char* name, R (Base::*method)(Args...), Names... names) {
    define_method<T, R, Args...>(scope, name, method, names...);
}
template <class T, class Base, class R, class... Args, class... Names>
void define(nb::class_<T>& scope, const char* name, R (Base::*method)(Args...) const, Names... names) {
    define_method<T, R, Args...>(scope, name, method, names...);
}

// Define how objects of a class are made: by a constructor with parameters of these types. An object keeps what it is
// made of.
template <class... Args, class T, class... Names>
void define_init(nb::class_<T>& scope, Names... names) {
    border::define_init<Args...>(scope, std::array<const char*, sizeof...(Args)>{names...},
                                 std::index_sequence_for<Args...>());
}

// Define an attribute for reading: a member, or what a function of the object returns.
template <class T, class Function>
void define_attribute(nb::class_<T>& scope, const char* name, Function function) {
    scope.def_prop_ro(
        name, [function](const T& self) { return border::give(std::invoke(function, self)); },
        nb::rv_policy::automatic);
}

}  // namespace lpmert
