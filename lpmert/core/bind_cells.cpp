#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bound.hpp"
#include "cells.hpp"
#include "packing.hpp"

namespace lpmert {

namespace {

using cells::Box;
using cells::Boxes;
using cells::Cone;
using cells::Cones;
using cells::count;

void check_rows(const cells::Buffer<Row>& ids, const Lists& lists, const char* name) {
    for (const Row id : ids)
        if (id < 0 || id >= lists.n_rows())
            throw std::invalid_argument(std::string(name) + " must be rows of the lists");
}

// Check what a node from outside tells of hypotheses; longest: list; statistics have so many columns.
void check(const cells::Node& node, const Lists& lists, Index longest, Index n_columns) {
    check_rows(node.cheap, lists, "cheap");
    check_rows(node.dear, lists, "dear");
    check_rows(node.ids, lists, "ids");
    check_size(count(node.dear), node.n_pairs(), "dear");
    check_size(count(node.total), n_columns, "total");
    bool right = !node.ends.empty() && node.ends.front() == 0 && node.ends.back() == node.n_rows();
    for (std::size_t s = 1; right && s < node.ends.size(); ++s) right = node.ends[s] > node.ends[s - 1];
    if (!right) throw std::invalid_argument("ends must increase from 0 to the number of ids");
    bool fits = node.n_lists() <= lists.n_lists() && 2 * node.n_pairs() + node.n_rows() <= lists.n_rows();
    for (std::size_t s = 1; fits && s < node.ends.size(); ++s) fits = node.ends[s] - node.ends[s - 1] <= longest;
    if (!fits) throw std::invalid_argument("a node has more lists or hypotheses than there are");
    if (!node.costs.empty()) check_size(count(node.costs), node.n_rows(), "costs");
    if (!node.steps.empty()) check_size(count(node.steps), node.n_pairs(), "steps");
}

// Complete a checked node by what the lists tell, but for prices that it has.
void complete(Box& box, const Lists& lists, const Boxes& boxes) {
    check_size(count(box.centre), lists.n_features(), "centre");
    check_size(count(box.radius), lists.n_features(), "radius");
    cells::Buffer<Index> costs = std::move(box.costs), steps = std::move(box.steps);
    box.look_up(lists, boxes.precision().off);
    if (!costs.empty()) box.costs = std::move(costs);
    if (!steps.empty()) box.steps = std::move(steps);
}

void complete(Cone& cone, const Lists& lists, const Cones&) {
    const Index n = lists.n_features();
    check_size(cone.n_pairs(), 0, "cheap");
    check_size(count(cone.errors), n, "errors");
    check_size(count(cone.rays), n * n, "rays");
    check_size(count(cone.values.items), n * cone.n_rows(), "scores");
    cone.values.n = cone.n_rows();
    if (!cone.costs.empty()) return;
    for (const Row id : cone.ids) cone.costs.push_back(lists.costs[id]);
}

// A search with what it is told anew from time to time; n_columns: of statistics.
template <class Shape, class Loss>
struct CellSearch {
    using Node = typename Shape::Node;

    CellSearch(const Lists& lists_, const cells::Settings& settings, const Shape& shape, const Loss& loss, Index n)
        : lists(lists_), longest(lists.longest()), n_columns(n), start(loss), search(lists, settings, shape, loss) {}

    // The search, which must have a node, and the one on top.
    cells::Search<Shape, Loss>& open() {
        if (search.nodes.empty()) throw std::invalid_argument("there is no node");
        return search;
    }
    Node& top() { return open().nodes.back(); }
    void push(Node node) {
        check(node, lists, longest, n_columns);
        complete(node, lists, search.shape());
        search.push(std::move(node));
    }
    template <class Each>
    void each_node(Each each) const {
        for (const Node& node : search.aside) each(node);
        for (const Node& node : search.nodes) each(node);
    }

    Lists lists;
    Index longest, n_columns;
    Loss start;
    cells::Search<Shape, Loss> search;
};

template <class Shape, class Loss>
void bind_search(nb::module_& module, const char* name) {
    using Self = CellSearch<Shape, Loss>;
    using Node = typename Shape::Node;
    nb::class_<Self>(module, name)
        .def(
            "renew",
            [](Self& self, const Array& weights) {
                const double* const given = weights_of(weights, self.lists.n_features());
                self.search.clear();
                self.search.counts = {};
                self.search.loss = self.start;
                self.search.loss.weights.assign(given, given + self.lists.n_features());
            },
            nb::arg("weights"))
        .def(
            "aim", [](Self& self, Index cost, double loss) { self.search.loss.aim(cost, loss); }, nb::arg("cost"),
            nb::arg("loss"))
        .def(
            "propagate_root", [](Self& self, Index limit) { self.open().propagate_root(limit); }, nb::arg("limit"),
            nb::call_guard<nb::gil_scoped_release>())
        .def(
            "begin", [](Self& self, Index budget, Index step) { self.search.begin(budget, step); }, nb::arg("budget"),
            nb::arg("step"))
        .def(
            "explore", [](Self& self, Index room) { return static_cast<int>(self.search.explore(room)); },
            nb::arg("room"), nb::call_guard<nb::gil_scoped_release>())
        .def(
            "push",
            [](Self& self, const nb::dict& fields) {
                Node node;
                Taker taker(fields);
                Node::each_field(node, taker);
                self.push(std::move(node));
            },
            nb::arg("fields"))
        .def(
            "load",
            [](Self& self, const Array& bytes) {
                Node node;
                unpack(bytes, node);
                self.push(std::move(node));
            },
            nb::arg("node"))
        .def("nodes",
             [](const Self& self) {
                 nb::list found;
                 self.each_node(
                     [&](const Node& node) { found.append(nb::make_tuple(node.bound, owned(packed(node)))); });
                 return found;
             })
        .def("top",
             [](Self& self) {
                 Describer describer;
                 Node::each_field(self.top(), describer);
                 return describer.fields;
             })
        .def("pop", [](Self& self) { self.open().take(); })
        .def("clear", [](Self& self) { self.search.clear(); })
        .def("survivors",
             [](Self& self) {
                 cells::Survivors part(self.top(), self.lists);
                 return nb::make_tuple(owned(std::move(part.ids)), owned(std::move(part.costs)),
                                       owned(std::move(part.ends)), part.fixed, owned(self.top().total));
             })
        .def(
            "conflicts", [](Self& self, Index needed) { return self.open().conflicts(needed); }, nb::arg("needed"))
        .def_prop_ro("bounds",
                     [](const Self& self) {
                         std::vector<Index> found;
                         self.each_node([&](const Node& node) { found.push_back(node.bound); });
                         return found;
                     })
        .def_prop_ro("counts",
                     [](const Self& self) {
                         const cells::Counts& c = self.search.counts;
                         return std::vector<Index>{c.nodes,       c.leaves,    c.leaf_programs,
                                                   c.conflicting, c.looked_at, c.work};
                     })
        .def_prop_ro("found",
                     [](const Self& self) {
                         const Loss& loss = self.search.loss;
                         return nb::make_tuple(loss.upper, loss.loss, owned(loss.weights));
                     })
        .def_prop_ro("nbytes", [](const Self& self) { return self.search.bytes(); });
}

template <class Shape>
nb::object search_over(const Shape& shape, const BoundLists& lists, const BoundRatio* ratio, const Settings& selections,
                       const cells::Settings& settings) {
    const auto search = [&](const auto& loss, Index n_columns) {
        using Search = CellSearch<Shape, std::decay_t<decltype(loss)>>;
        return nb::cast(new Search(lists.lists, settings, shape, loss, n_columns), nb::rv_policy::take_ownership);
    };
    if (ratio == nullptr) return search(cells::SumLoss(lists.lists, selections), 0);
    check_size(ratio->ratio.classes.size(), lists.lists.n_rows(), "classes");
    return search(cells::RatioLoss(lists.lists, ratio->ratio), ratio->ratio.n_columns());
}

using GivenPrecision = std::optional<std::tuple<Index, double, double>>;

nb::object cell_search(const BoundLists& lists, const BoundRatio* ratio, const Settings& selections,
                       const GivenPrecision& precision, Index granularity, Index leaf_lists, Index leaf_rows,
                       Index conflict_lists, Index most_stalled, Index hopeless, Index row_work, Index levels) {
    const cells::Settings settings{granularity,  leaf_lists, leaf_rows, conflict_lists,
                                   most_stalled, hopeless,   row_work,  levels};
    if (!precision) return search_over(Cones(lists.lists, settings), lists, ratio, selections, settings);
    const auto [places, off, least] = *precision;
    return search_over(Boxes(lists.lists, settings, {places, off, least}), lists, ratio, selections, settings);
}

Box box_of(const Array& centre, const Array& radius) {
    const Span<const double> middle = vector<double>(centre, "centre");
    const Span<const double> side = vector<double>(radius, "radius", middle.size());
    if (middle.size() == 0) throw std::invalid_argument("centre must have an item");
    Box box;
    box.centre.assign(middle.begin(), middle.end());
    box.radius.assign(side.begin(), side.end());
    return box;
}

// Charge conflicts between items of a box with these gains [n, D] and steps [n]; return (their sum, pairs of the
// items).
nb::tuple box_charges(const Array& gains, const Array& steps, const Array& centre, const Array& radius, double rounding,
                      double off, Index needed, Index most_pairs) {
    const Box box = box_of(centre, radius);
    const Rows<const double> rows = matrix<double>(gains, "gains");
    const Span<const Index> costs = vector<Index>(steps, "steps", rows.rows());
    check_size(rows.columns(), box.n_features(), "a gain");
    cells::Conflicts<Boxes> items(box.n_features(), rows.rows(), most_pairs);
    items.begin(box.centre, box.radius, rounding, off);
    std::vector<Index> used, pairs;
    for (Index k = 0; k < rows.rows(); ++k) {
        std::copy(rows[k].begin(), rows[k].end(), items.next_gain());
        if (items.add(costs[k])) used.push_back(k);
    }
    Index compared = 0;
    const Index total = items.charge_items(needed, compared);
    for (const auto& [first, second] : items.pairs()) pairs.insert(pairs.end(), {used[first], used[second]});
    const std::size_t n_pairs = pairs.size() / 2;
    return nb::make_tuple(total, owned(std::move(pairs), {n_pairs, 2}));
}

bool beats_in_box(const Array& columns, Index winner, Index loser, const Array& centre, const Array& radius,
                  double rounding, double off) {
    const Box box = box_of(centre, radius);
    const Rows<const double> rows = matrix<double>(columns, "columns");
    check_size(rows.rows(), box.n_features(), "columns");
    if (std::min(winner, loser) < 0 || std::max(winner, loser) >= rows.columns())
        throw std::invalid_argument("winner and loser must be columns");
    cells::View values;
    for (Index d = 0; d < rows.rows(); ++d) values.push_back(rows[d].data());
    return cells::beats_in_box(values, winner, loser, box, rounding, off);
}

bool one_pays(const Array& first, const Array& second, double share, double other, const Array& errors) {
    const Span<const double> off = vector<double>(errors, "errors");
    return cells::one_pays(vector<double>(first, "first", off.size()).data(),
                           vector<double>(second, "second", off.size()).data(), share, other, off);
}

bool one_pays_in_box(const Array& first, const Array& second, double share, double other, const Array& centre,
                     const Array& radius, double rounding, double off) {
    const Box box = box_of(centre, radius);
    const Index n = box.n_features();
    return cells::one_pays_in_box(vector<double>(first, "first", n).data(), vector<double>(second, "second", n).data(),
                                  share, other, box.centre.data(), box.radius.data(), n, rounding, off);
}

Owned<double> box_normals(const Array& centre, const Array& radius) {
    const Box box = box_of(centre, radius);
    const auto n = static_cast<std::size_t>(box.n_features());
    return owned(Boxes::normals(box), {2 * n - 1, n});
}

std::pair<Owned<double>, bool> outer_normals(const Array& rays) {
    const Rows<const double> given = matrix<double>(rays, "rays");
    check_size(given.columns(), given.rows(), "a ray");
    const auto n = static_cast<std::size_t>(given.rows());
    std::vector<double> normals(n * n);
    const bool certain = n > 0 && cells::outer_normals(given[0].begin(), given.rows(), normals.data());
    return {owned(std::move(normals), {n, n}), certain};
}

}  // namespace

void bind_cells(nb::module_& module) {
    bind_search<Boxes, cells::SumLoss>(module, "SumBoxes");
    bind_search<Boxes, cells::RatioLoss>(module, "RatioBoxes");
    bind_search<Cones, cells::SumLoss>(module, "SumCones");
    bind_search<Cones, cells::RatioLoss>(module, "RatioCones");
    module.def("cell_search", &cell_search, nb::arg("lists"), nb::arg("ratio").none(), nb::arg("selections"),
               nb::arg("precision").none(), nb::arg("granularity"), nb::arg("leaf_lists"), nb::arg("leaf_rows"),
               nb::arg("conflict_lists"), nb::arg("most_stalled"), nb::arg("hopeless"), nb::arg("row_work"),
               nb::arg("levels") = 4, nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
    module.def("box_normals", &box_normals, nb::arg("centre"), nb::arg("radius"));
    module.def("outer_normals", &outer_normals, nb::arg("rays"));
    module.def("box_charges", &box_charges, nb::arg("gains"), nb::arg("steps"), nb::arg("centre"), nb::arg("radius"),
               nb::arg("rounding"), nb::arg("off"), nb::arg("needed"), nb::arg("most_pairs"));
    module.def("beats_in_box", &beats_in_box, nb::arg("columns"), nb::arg("winner"), nb::arg("loser"),
               nb::arg("centre"), nb::arg("radius"), nb::arg("rounding"), nb::arg("off"));
    module.def("one_pays", &one_pays, nb::arg("first"), nb::arg("second"), nb::arg("share"), nb::arg("other"),
               nb::arg("errors"));
    module.def("one_pays_in_box", &one_pays_in_box, nb::arg("first"), nb::arg("second"), nb::arg("share"),
               nb::arg("other"), nb::arg("centre"), nb::arg("radius"), nb::arg("rounding"), nb::arg("off"));
}

}  // namespace lpmert
