// Bindings of the searches over selections (choices.hpp) and over the weight space (cells.hpp), of the linear programs
// and the minorants that they use, and of functions by which tests check their lemmas.
#include "cells.hpp"

namespace lpmert {

namespace {

using cells::Boxes;
using cells::Cones;

Index checked_separate(LeastNorm& self, Span<const Index> decided, Span<const Index> chosen, Index start,
                       Corral& corral) {
    const Lists& lists = self.lists;
    check_size(chosen.size(), lists.n_lists(), "chosen");
    check_size(corral.n_features(), lists.n_features(), "the point of the corral");
    if (decided.size() > 0 && (start < 0 || start >= decided.size()))
        throw std::invalid_argument("start must be in decided");
    check_within(decided, lists.n_lists(), "decided");
    for (const Index s : decided) check_within(chosen.part(s, s + 1), lists.length(s), "chosen, in decided lists,");
    return static_cast<Index>(self.separate(decided, chosen.data(), start, corral));
}

Reals losses_of_totals(Index kind, Span<const double> parameters, Rows<const double> totals) {
    check_kind(kind, parameters.size(), totals.columns());
    Reals losses;
    for (Index i = 0; i < totals.rows(); ++i) losses.push_back(loss_of_total(kind, parameters, totals[i]));
    return losses;
}

std::tuple<double, Reals> lay_minorant(Index kind, Span<const double> parameters, Span<const double> low,
                                       Span<const double> high, Span<const double> at) {
    check_kind(kind, parameters.size(), at.size());
    check_size(low.size(), at.size(), "low");
    check_size(high.size(), at.size(), "high");
    Minorant minorant(at.size());
    minorant.low.assign(low.begin(), low.end());
    minorant.high.assign(high.begin(), high.end());
    minorant.at.assign(at.begin(), at.end());
    const double constant = minorant.lay(kind, parameters);
    return {constant, std::move(minorant.slopes)};
}

std::tuple<Index, Reals, Reals, Reals, Indices> best_height(Ratio ratio, Span<const Index> offsets,
                                                            Span<const double> at, Index tangents) {
    ratio.check(ratio.statistics.rows());
    check_offsets(offsets, ratio.statistics.rows(), "offsets");
    check_size(at.size(), ratio.n_columns(), "at");
    const Index n_lists = offsets.size() - 1, n_columns = ratio.n_columns();
    Minorant minorant(n_columns);
    minorant.at.assign(at.begin(), at.end());
    minorant.begin(ratio.constant);
    for (Index s = 0; s < n_lists; ++s)
        minorant.widen(ratio, offsets[s + 1] - offsets[s], [&](Index i) { return offsets[s] + i; });
    Reals sums(minorant.at), best = sums;
    Indices costs, laid(offsets[n_lists]);
    Index most = std::numeric_limits<Index>::min();
    for (Index trial = 0; trial < tangents; ++trial) {
        Index height = minorant.lay_in_units(ratio, ratio.constant, n_lists).first;
        if (height < INFINITE_COST) {
            sums.assign(ratio.constant.begin(), ratio.constant.end());
            for (Index s = 0; s < n_lists; ++s) {
                const auto begin = laid.begin() + offsets[s], end = laid.begin() + offsets[s + 1];
                for (Index i = offsets[s]; i < offsets[s + 1]; ++i) laid[i] = ratio.cost(minorant.slopes, i);
                const auto first = std::min_element(begin, end);
                const Index least = *first;
                ratio.add(first - laid.begin(), sums);
                for (auto cost = begin; cost != end; ++cost) *cost -= least;
                height += least;
            }
        }
        if (height > most) {
            most = height;
            best = minorant.at;
            costs = laid;
        }
        if (height >= INFINITE_COST) break;
        // A step of the method of Frank and Wolfe towards the sums of the cheapest rows.
        const double stride = 2.0 / (static_cast<double>(trial) + 2.0);
        for (Index k = 0; k < n_columns; ++k) minorant.at[k] += stride * (sums[k] - minorant.at[k]);
    }
    return {most, std::move(minorant.low), std::move(minorant.high), std::move(best), std::move(costs)};
}

void bind_choices(nb::module_& module) {
    using Search = ChoicesSearch;
    nb::class_<Search> search(module, "ChoicesSearch");
    define_init<const Lists&, const std::optional<Ratio>&, Index, Span<const double>, Index>(
        search, "lists", "ratio", "n_fixed", "weights", "granularity");
    search.def(
        "search", [](Search& self, Index budget) { return static_cast<Index>(self.search(budget)); }, "budget"_a,
        unlocked);
    search.def("aim", &Search::aim, "cost"_a, "loss"_a, unlocked);
    search.def("answer", &Search::answer, "weights"_a, "core"_a, unlocked);
    search.def("open_nodes", &Search::open_nodes, unlocked);
    search.def("go_on_with", &Search::go_on_with, "node"_a, unlocked);
    search.def_prop_ro("found",
                       [](const Search& self) { return std::make_tuple(self.upper, self.loss, self.best_weights()); });
    search.def_ro("work", &Search::work);
    search.def_ro("nodes", &Search::nodes);
    search.def_ro("depth", &Search::depth);
    search.def_ro("core_programs", &Search::core_programs);
    search.def_prop_ro("programs", [](const Search& self) { return self.programs().programs; });
    search.def_prop_ro("rounds", [](const Search& self) { return self.programs().rounds; });
    search.def_prop_ro("between_nodes", &Search::between_nodes);
    search.def_prop_ro("least_open", &Search::least_open);
    search.def_prop_ro("question", [](const Search& self) {
        Matrix<Index> pairs{{}, 2};
        for (const auto& [list, position] : self.question()) pairs.append({list, position});
        return pairs;
    });
    search.def_prop_ro("trial", &Search::trial);
}

template <class Shape>
void bind_cells(nb::module_& module, const char* name) {
    using Search = cells::Search<Shape>;
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
    search.def("pop", [](Search& self) { self.take(); });
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
    // Fields that the dictionary lacks stay as they are.
    search.def(
        "push",
        [](Search& self, const nb::dict& fields) {
            typename Shape::Node node;
            const auto read = [&](const char* field_name, auto& field) {
                using Field = std::decay_t<decltype(field)>;
                if (!fields.contains(field_name)) return;
                if constexpr (std::is_class_v<Field>) {
                    Span<const typename Field::value_type> array;
                    if (!nb::try_cast(fields[field_name], array))
                        throw nb::type_error((field_name + std::string(" is another array")).c_str());
                    field.assign(array.begin(), array.end());
                } else {
                    field = nb::cast<Field>(fields[field_name]);
                }
            };
            Shape::Node::each_field(node, read);
            self.push_checked(std::move(node));
        },
        "fields"_a);
    search.def("top", [](Search& self) {
        nb::dict fields;
        const auto write = [&](const char* field_name, const auto& field) {
            if constexpr (std::is_class_v<std::decay_t<decltype(field)>>)
                fields[field_name] = std::vector(field.begin(), field.end());
            else
                fields[field_name] = field;
        };
        Shape::Node::each_field(self.top(), write);
        return fields;
    });
}

nb::object cell_search(const Lists& lists, const std::optional<Ratio>& ratio,
                       const std::optional<cells::Precision>& precision, const cells::Settings& settings) {
    const auto search = [&](const auto& shape) {
        using Search = cells::Search<std::decay_t<decltype(shape)>>;
        const cells::Loss loss(lists, ratio, settings.granularity);
        return nb::cast(std::make_unique<Search>(lists, settings, shape, loss));
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
    nb::class_<Corral> corral(module, "Corral");
    define_init<Index>(corral, "n_features");
    corral.def_ro("size", &Corral::size);
    corral.def_prop_ro("point", [](Corral& self) { return Reals(self.point(), self.point() + self.n_features()); });
    corral.def_prop_ro("multipliers",
                       [](Corral& self) { return Reals(self.multipliers(), self.multipliers() + self.size); });
    corral.def_prop_ro("lists", [](Corral& self) { return Indices(self.lists(), self.lists() + self.size); });
    corral.def_prop_ro("others", [](Corral& self) { return Indices(self.others(), self.others() + self.size); });
    corral.def(
        "restart",
        [](Corral& self, Span<const double> weights) {
            check_size(weights.size(), self.n_features(), "weights");
            self.restart(weights.data());
        },
        "weights"_a, unlocked);
    nb::class_<LeastNorm> least_norm(module, "LeastNorm");
    define_init<const Lists&>(least_norm, "lists");
    least_norm.def("separate", &checked_separate, "decided"_a, "chosen"_a, "start"_a, "corral"_a, unlocked);
    module.def("losses_of_totals", &losses_of_totals, "kind"_a, "parameters"_a, "totals"_a, unlocked);
    module.def("loss_of_height", &loss_of_height, "kind"_a, "height"_a, unlocked);
    module.def("height_limit", &height_limit, "kind"_a, "loss"_a, unlocked);
    module.def("lay_minorant", &lay_minorant, "kind"_a, "parameters"_a, "low"_a, "high"_a, "at"_a, unlocked);
    module.def("best_height", &best_height, "ratio"_a, "offsets"_a, "at"_a, "tangents"_a, unlocked);
    bind_choices(module);
    bind_cells<Boxes>(module, "BoxSearch");
    bind_cells<Cones>(module, "ConeSearch");
    module.def("cell_search", &cell_search, "lists"_a, "ratio"_a.none(), "precision"_a.none(), "settings"_a,
               nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
    module.def("box_normals", &cells::box_normals, "centre"_a, "radius"_a, unlocked);
    module.def("outer_normals", &cells::outer_normals, "rays"_a, unlocked);
    module.def("box_charges", &box_charges, "gains"_a, "steps"_a, "centre"_a, "radius"_a, "rounding"_a, "off"_a,
               "needed"_a, "most_pairs"_a, unlocked);
}

}  // namespace lpmert
