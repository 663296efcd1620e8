#include <nanobind/stl/pair.h>

#include "bound.hpp"
#include "least_norm.hpp"

namespace lpmert {

namespace {

std::pair<Index, bool> decoded(const BoundLists& self, const Array& weights, const Writable& selection) {
    const Span<Index> positions = vector<Index>(selection, "selection", self.lists.n_lists());
    std::vector<double> scores(static_cast<std::size_t>(self.lists.longest()));
    const double* const given = weights_of(weights, self.lists.n_features());
    const auto [cost, clear] = decode_clearly(self.lists, given, positions.begin(), scores.data());
    return {cost, clear};
}

std::pair<double, bool> decode_ratio(const BoundLists& self, const BoundRatio& ratio, const Array& weights,
                                     const Writable& total) {
    const Span<double> sums = vector<double>(total, "total", ratio.ratio.n_columns());
    check_rows(self.lists, ratio.ratio);
    std::vector<double> scores(static_cast<std::size_t>(self.lists.longest()));
    std::vector<Index> selection(static_cast<std::size_t>(self.lists.n_lists()));
    const double* const given = weights_of(weights, self.lists.n_features());
    const auto [loss, clear] =
        decode_total(self.lists, ratio.ratio, given, selection.data(), scores.data(), sums.begin());
    return {loss, clear};
}

RowLists row_lists(const Array& features, const Array& offsets) {
    const RowLists lists{matrix<double>(features, "features"), vector<Index>(offsets, "offsets")};
    check_offsets(lists.offsets, lists.rows.rows(), "offsets");
    return lists;
}

Owned<Index> decode_rows(const Array& features, const Array& offsets, const Array& weights) {
    const RowLists lists = row_lists(features, offsets);
    const Index n_features = lists.rows.columns();
    const Span<const double> given(weights_of(weights, n_features), n_features);
    std::vector<Index> selection(static_cast<std::size_t>(lists.n_lists()));
    unlocked([&] { decode(lists, given, selection); });
    return owned(std::move(selection));
}

std::pair<Index, bool> worst(const Array& features, const Array& offsets, const Array& costs, const Array& weights,
                             double bound) {
    const RowLists lists = row_lists(features, offsets);
    const Index n_features = lists.rows.columns();
    const Span<const Index> own = vector<Index>(costs, "costs", lists.rows.rows());
    const auto [cost, clear] = worst_cost(lists, own, {weights_of(weights, n_features), n_features}, bound);
    return {cost, clear};
}

template <class T>
Owned<T> copied(const T* items, Index size) {
    return owned(std::vector<T>(items, items + size));
}

int separate(LeastNorm& self, const Array& decided, const Array& chosen, Index start, Corral& corral) {
    const Lists& lists = self.lists;
    const Span<const Index> asked = vector<Index>(decided, "decided");
    const Span<const Index> positions = vector<Index>(chosen, "chosen", lists.n_lists());
    check_size(corral.n_features(), lists.n_features(), "the point of the corral");
    if (asked.size() > 0 && (start < 0 || start >= asked.size()))
        throw std::invalid_argument("start must be in decided");
    for (const Index s : asked) {
        if (s < 0 || s >= lists.n_lists()) throw std::invalid_argument("decided must name lists");
        if (positions[s] < 0 || positions[s] >= lists.length(s))
            throw std::invalid_argument("chosen must be positions in the decided lists");
    }
    return static_cast<int>(self.separate(asked, positions.begin(), start, corral));
}

}  // namespace

void bind_least_norm(nb::module_& module) {
    nb::class_<BoundLists>(module, "Lists")
        .def(nb::init<Array, Array, Array, Array, Array, Array>(), nb::arg("rows"), nb::arg("offsets"),
             nb::arg("costs"), nb::arg("reach"), nb::arg("spread"), nb::arg("cap"))
        .def("decode_clearly", &decoded, nb::arg("weights"), nb::arg("selection"))
        .def("decode_total", &decode_ratio, nb::arg("ratio"), nb::arg("weights"), nb::arg("total"));
    module.def("decode", &decode_rows, nb::arg("features"), nb::arg("offsets"), nb::arg("weights"));
    module.def("worst_cost", &worst, nb::arg("features"), nb::arg("offsets"), nb::arg("costs"), nb::arg("weights"),
               nb::arg("bound"), nb::call_guard<nb::gil_scoped_release>());
    nb::class_<Corral>(module, "Corral")
        .def(nb::init<Index>(), nb::arg("n_features"))
        .def_ro("size", &Corral::size)
        .def_prop_ro("nbytes", &Corral::bytes)
        .def_prop_ro(
            "point", [](const Corral& self) { return copied(self.point(), self.n_features()); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "multipliers", [](const Corral& self) { return copied(self.multipliers(), self.size); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "lists", [](const Corral& self) { return copied(self.lists(), self.size); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "others", [](const Corral& self) { return copied(self.others(), self.size); }, nb::rv_policy::automatic)
        .def(
            "restart", [](Corral& self, const Array& weights) { self.restart(weights_of(weights, self.n_features())); },
            nb::arg("weights"))
        .def(
            "take",
            [](Corral& self, const Corral& other) {
                check_size(other.n_features(), self.n_features(), "the point of the corral");
                self = other;
            },
            nb::arg("other"));
    nb::class_<LeastNorm>(module, "LeastNorm")
        .def(
            "__init__", [](LeastNorm* self, const BoundLists& lists) { new (self) LeastNorm(lists.lists); },
            nb::arg("lists"), nb::keep_alive<1, 2>())
        .def_ro("programs", &LeastNorm::programs)
        .def_ro("rounds", &LeastNorm::rounds)
        .def("separate", &separate, nb::arg("decided"), nb::arg("chosen"), nb::arg("start"), nb::arg("corral"));
}

}  // namespace lpmert
