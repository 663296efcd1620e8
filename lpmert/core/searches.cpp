// Bindings of the searches over selections (choices.hpp) and over the weight space (cells.hpp), and of functions by
// which tests check their lemmas.
#include "cells.hpp"

namespace lpmert {

namespace {

using cells::Boxes;
using cells::Cones;

Matrix<Index> pairs_of(const std::vector<Choice>& choices) {
    Matrix<Index> pairs{{}, 2};
    for (const auto& [list, position] : choices) pairs.append({list, position});
    return pairs;
}

template <class Loss>
void bind_choices(nb::module_& module, const char* name) {
    using Search = ChoicesSearch<Loss>;
    nb::class_<Search> search(module, name);
    search.def(
        "search", [](Search& self, Index budget) { return static_cast<Index>(self.search(budget)); }, "budget"_a,
        unlocked);
    search.def("aim", &Search::aim, "cost"_a, "loss"_a, unlocked);
    search.def("answer", &Search::answer, "weights"_a, "core"_a, unlocked);
    search.def("open_nodes", &Search::open_nodes, unlocked);
    search.def("go_on_with", &Search::go_on_with, "node"_a, unlocked);
    search.def_prop_ro("found", [](const Search& self) {
        return std::make_tuple(self.tree.upper, self.loss.loss, self.tree.best_weights);
    });
    search.def_prop_ro("work", [](const Search& self) { return self.tree.work; });
    search.def_ro("nodes", &Search::nodes);
    search.def_prop_ro("depth", [](const Search& self) { return self.tree.depth; });
    search.def_prop_ro("programs", [](const Search& self) { return self.programs().programs; });
    search.def_prop_ro("rounds", [](const Search& self) { return self.programs().rounds; });
    search.def_ro("core_programs", &Search::core_programs);
    search.def_prop_ro("between_nodes", &Search::between_nodes);
    search.def_prop_ro("least_open", &Search::least_open);
    search.def_prop_ro("question", [](const Search& self) { return pairs_of(self.question()); });
    search.def_prop_ro("trial", &Search::trial);
}

nb::object choices_search(const Lists& lists, const std::optional<Ratio>& ratio, Index n_fixed,
                          Span<const double> weights, Index granularity) {
    const auto search = [&](auto loss) {
        using Search = ChoicesSearch<decltype(loss)>;
        return nb::cast(std::make_unique<Search>(lists, n_fixed, INFINITE_COST, weights, granularity, loss));
    };
    return ratio ? search(Ratios(*ratio, lists, weights)) : search(Sums());
}

template <class Shape, class Loss>
void bind_cells(nb::module_& module, const char* name) {
    using Search = cells::Search<Shape, Loss>;
    nb::class_<Search> search(module, name);
    search.def("renew", &Search::renew, "weights"_a, unlocked);
    search.def("aim", &Search::aim, "cost"_a, "loss"_a, unlocked);
    search.def("propagate_root", &Search::propagate_root, "limit"_a, unlocked);
    search.def("begin", &Search::begin, "budget"_a, "step"_a, unlocked);
    search.def(
        "explore", [](Search& self, Index memory) { return static_cast<Index>(self.explore(memory)); }, "memory"_a,
        unlocked);
    search.def("load", &Search::load, "node"_a, unlocked);
    search.def("nodes", &Search::packed_nodes, unlocked);
    search.def("pop", &Search::pop, unlocked);
    search.def("clear", &Search::clear, unlocked);
    search.def("survivors", &Search::survivors, unlocked);
    search.def("conflicts", &Search::conflicts, "needed"_a, unlocked);
    search.def_prop_ro("bounds", &Search::bounds);
    search.def_prop_ro("counts", [](const Search& self) {
        const auto& [nodes, leaves, leaf_programs, conflicting, looked_at, work] = self.counts;
        return std::make_tuple(nodes, leaves, leaf_programs, conflicting, looked_at, work);
    });
    search.def_prop_ro("found", [](const Search& self) {
        return std::make_tuple(self.loss.upper, self.loss.loss, self.loss.weights);
    });
    search.def(
        "push",
        [](Search& self, const nb::dict& fields) {
            typename Shape::Node node;
            DictReader reader(fields);
            Shape::Node::each_field(node, reader);
            self.push_checked(std::move(node));
        },
        "fields"_a);
    search.def("top", [](Search& self) {
        DictWriter writer;
        Shape::Node::each_field(self.top(), writer);
        return writer.fields;
    });
}

nb::object cell_search(const Lists& lists, const std::optional<Ratio>& ratio,
                       const std::optional<cells::Precision>& precision, const cells::Settings& settings) {
    const auto search_over = [&](const auto& shape, const auto& loss, Index n_columns) {
        using Search = cells::Search<std::decay_t<decltype(shape)>, std::decay_t<decltype(loss)>>;
        return nb::cast(std::make_unique<Search>(lists, settings, shape, loss, n_columns));
    };
    const auto search = [&](const auto& shape) {
        if (!ratio) return search_over(shape, cells::SumLoss(lists, settings.granularity), 0);
        return search_over(shape, cells::RatioLoss(lists, *ratio), ratio->n_columns());
    };
    return precision ? search(Boxes(lists, settings, *precision)) : search(Cones(lists, settings));
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

void bind_searches(nb::module_& module) {
    bind_choices<Sums>(module, "SumChoices");
    bind_choices<Ratios>(module, "RatioChoices");
    module.def("choices_search", &choices_search, "lists"_a, "ratio"_a.none(), "n_fixed"_a, "weights"_a,
               "granularity"_a, nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
    bind_cells<Boxes, cells::SumLoss>(module, "SumBoxes");
    bind_cells<Boxes, cells::RatioLoss>(module, "RatioBoxes");
    bind_cells<Cones, cells::SumLoss>(module, "SumCones");
    bind_cells<Cones, cells::RatioLoss>(module, "RatioCones");
    module.def("cell_search", &cell_search, "lists"_a, "ratio"_a.none(), "precision"_a.none(), "settings"_a,
               nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
    module.def("box_normals", &cells::box_normals, "centre"_a, "radius"_a, unlocked);
    module.def("outer_normals", &cells::outer_normals, "rays"_a, unlocked);
    module.def("box_charges", &box_charges, "gains"_a, "steps"_a, "centre"_a, "radius"_a, "rounding"_a, "off"_a,
               "needed"_a, "most_pairs"_a, unlocked);
}

}  // namespace lpmert
