// The search over the weight space as Python has it, and what its lemmas are tested by.
#include "cells.hpp"

#include <optional>

namespace lpmert {

namespace {

using cells::Boxes;
using cells::Cones;

template <class Shape, class Loss>
void bind_search(nb::module_& module, const char* name) {
    using Search = cells::Search<Shape, Loss>;
    nb::class_<Search> search(module, name);
    define(search, "renew", &Search::renew, "weights");
    define(search, "aim", &Search::aim, "cost", "loss");
    define(search, "propagate_root", &Search::propagate_root, "limit");
    define(search, "begin", &Search::begin, "budget", "step");
    define(search, "explore", &Search::explore, "room");
    define(search, "load", &Search::load, "node");
    define(search, "nodes", &Search::packed_nodes);
    define(search, "pop", &Search::pop);
    define(search, "clear", &Search::clear);
    define(search, "survivors", &Search::survivors);
    define(search, "conflicts", &Search::conflicts, "needed");
    define_attribute(search, "bounds", &Search::bounds);
    define_attribute(search, "counts", [](const Search& self) {
        const auto& [nodes, leaves, leaf_programs, conflicting, looked_at, work] = self.counts;
        return std::make_tuple(nodes, leaves, leaf_programs, conflicting, looked_at, work);
    });
    define_attribute(search, "found", [](const Search& self) {
        return std::make_tuple(self.loss.upper, self.loss.loss, self.loss.weights);
    });
    search.def(
        "push",
        [](Search& self, const nb::dict& fields) {
            typename Shape::Node node;
            Taker taker(fields);
            Shape::Node::each_field(node, taker);
            self.push_checked(std::move(node));
        },
        nb::arg("fields"));
    search.def("top", [](Search& self) {
        Describer describer;
        Shape::Node::each_field(self.top(), describer);
        return describer.fields;
    });
}

template <class Shape, class... Given>
nb::object search_over(const Lists& lists, const std::optional<Ratio>& ratio, const Settings& selections,
                       const cells::Settings& settings, Given... given) {
    const auto search = [&](const auto& loss, Index n_columns) {
        using Search = cells::Search<Shape, std::decay_t<decltype(loss)>>;
        auto made = std::make_unique<Search>(lists, settings, Shape(lists, settings, given...), loss, n_columns);
        return nb::cast(made.release(), nb::rv_policy::take_ownership);
    };
    if (!ratio) return search(cells::SumLoss(lists, selections), 0);
    return search(cells::RatioLoss(lists, *ratio), ratio->n_columns());
}

std::tuple<Index, Matrix<Index>> box_charges(Rows<const double> gains, Span<const Index> steps,
                                             Span<const double> centre, Span<const double> radius, double rounding,
                                             double off, Index needed, Index most_pairs) {
    check_size(steps.size(), gains.rows(), "steps");
    check_size(gains.columns(), centre.size(), "a gain");
    check_size(radius.size(), centre.size(), "radius");
    cells::Conflicts<Boxes> items(centre.size(), gains.rows(), most_pairs);
    items.begin(centre, radius, rounding, off);
    Indices used;
    for (Index k = 0; k < gains.rows(); ++k) {
        std::copy(gains[k].begin(), gains[k].end(), items.next_gain().begin());
        if (items.add(steps[k])) used.push_back(k);
    }
    Index compared = 0;
    const Index total = items.charge_items(needed, compared);
    Matrix<Index> pairs{{}, 2};
    for (const auto& [first, second] : items.pairs()) pairs.append({used[first], used[second]});
    return {total, std::move(pairs)};
}

}  // namespace

void bind_cells(nb::module_& module) {
    bind_search<Boxes, cells::SumLoss>(module, "SumBoxes");
    bind_search<Boxes, cells::RatioLoss>(module, "RatioBoxes");
    bind_search<Cones, cells::SumLoss>(module, "SumCones");
    bind_search<Cones, cells::RatioLoss>(module, "RatioCones");
    module.def(
        "cell_search",
        [](const Lists& lists, const nb::object& ratio, const nb::tuple& selections, const nb::object& precision,
           const nb::tuple& settings) {
            const auto own = border::Parameter<cells::Settings>::take(settings, "settings");
            const auto leaves = border::Parameter<Settings>::take(selections, "selections");
            const auto part = [](const nb::object& given) { return nb::cast<nb::tuple>(given); };
            std::optional<Ratio> metric;
            if (!ratio.is_none()) metric = border::Parameter<Ratio>::take(part(ratio), "ratio");
            if (precision.is_none()) return search_over<Cones>(lists, metric, leaves, own);
            const auto places = border::Parameter<cells::Precision>::take(part(precision), "precision");
            return search_over<Boxes>(lists, metric, leaves, own, places);
        },
        nb::arg("lists"), nb::arg("ratio").none(), nb::arg("selections"), nb::arg("precision").none(),
        nb::arg("settings"), nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
    define(module, "box_normals", &cells::box_normals, "centre", "radius");
    define(module, "outer_normals", &cells::outer_normals, "rays");
    define(module, "box_charges", &box_charges, "gains", "steps", "centre", "radius", "rounding", "off", "needed",
           "most_pairs");
}

}  // namespace lpmert
