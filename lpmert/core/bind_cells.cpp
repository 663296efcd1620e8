#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bound.hpp"
#include "cells.hpp"

namespace lpmert {

namespace {

using cells::Box;
using cells::Boxes;
using cells::Cone;
using cells::Cones;

// The face of a search to Python, whatever its nodes and its loss.
class CellSearch {
  public:
    virtual ~CellSearch() = default;
    virtual void renew(const Array& weights) = 0;
    virtual void aim(Index cost, double loss) = 0;
    virtual void propagate_root(Index limit) = 0;
    virtual void begin(Index budget, Index step) = 0;
    virtual int explore(Index room) = 0;
    virtual void push(const nb::tuple& node) = 0;
    virtual void pop() = 0;
    virtual void clear() = 0;
    virtual nb::tuple node(Index i) const = 0;
    virtual nb::tuple survivors() const = 0;
    virtual Index conflicts(Index needed) = 0;
    virtual std::vector<Index> bounds() const = 0;
    virtual std::vector<Index> counts() const = 0;
    virtual nb::tuple found() const = 0;
    virtual Index nbytes() const = 0;
};

template <class T, class Item>
std::vector<T> copied(const nb::handle& given, const char* name, Index size) {
    const Array array = nb::cast<Array>(given);
    const Span<const Item> items = vector<Item>(array, name);
    if (size >= 0) check_size(items.size(), size, name);
    return {items.begin(), items.end()};
}

template <class T>
void fill(cells::Buffer<T>& target, const nb::handle& given, const char* name, Index size = -1) {
    const Array array = nb::cast<Array>(given);
    const Span<const T> items = vector<T>(array, name);
    if (size >= 0) check_size(items.size(), size, name);
    target.assign(items.begin(), items.end());
}

template <class T>
nb::ndarray<nb::numpy, T> array_of(const cells::Buffer<T>& items) {
    return owned(std::vector<T>(items.begin(), items.end()));
}

void check_rows(const cells::Buffer<Row>& ids, const Lists& lists, const char* name) {
    for (const Row id : ids)
        if (id < 0 || id >= lists.n_rows())
            throw std::invalid_argument(std::string(name) + " must be rows of the lists");
}

std::vector<Index> ends_of(const nb::handle& given, Index n_rows) {
    const std::vector<Index> ends = copied<Index, Index>(given, "ends", -1);
    bool right = !ends.empty() && ends.front() == 0 && ends.back() == n_rows;
    for (std::size_t s = 1; right && s < ends.size(); ++s) right = ends[s] > ends[s - 1];
    if (!right) throw std::invalid_argument("ends must increase from 0 to the number of ids");
    return ends;
}

// What every node has, in the order own, bound, stalled, total, age.
void take_common(cells::Node& node, const nb::tuple& given, std::size_t at, Index n_columns) {
    node.own = nb::cast<Index>(given[at]);
    node.bound = nb::cast<Index>(given[at + 1]);
    node.stalled = nb::cast<Index>(given[at + 2]);
    node.total = copied<double, double>(given[at + 3], "total", n_columns);
    node.age = nb::cast<Index>(given[at + 4]);
}

nb::tuple fields(const Cone& cone) {
    const auto n = static_cast<std::size_t>(cone.n_features());
    return nb::make_tuple(owned(std::vector<double>(cone.scores.begin(), cone.scores.end()), {cone.ids.size(), n}),
                          array_of(cone.ids), array_of(cone.costs), owned(cone.ends), cone.own, cone.bound,
                          cone.stalled, owned(cone.total), cone.age, owned(cone.rays, {n, n}), owned(cone.errors));
}

void take(Cone& cone, const nb::tuple& given, const Lists& lists, const Boxes*, Index n_columns) {
    if (given.size() != 11) throw std::invalid_argument("a cone has 11 fields");
    const Index n = lists.n_features();
    fill(cone.ids, given[1], "ids");
    check_rows(cone.ids, lists, "ids");
    fill(cone.costs, given[2], "costs", cone.n_rows());
    cone.ends = ends_of(given[3], cone.n_rows());
    take_common(cone, given, 4, n_columns);
    const Array scores = nb::cast<Array>(given[0]), rays = nb::cast<Array>(given[9]);
    const Rows<const double> table = matrix<double>(scores, "scores"), corners = matrix<double>(rays, "rays");
    check_size(table.rows(), cone.n_rows(), "scores");
    check_size(table.columns(), n, "scores of a hypothesis");
    check_size(corners.rows(), n, "rays");
    check_size(corners.columns(), n, "a ray");
    if (table.rows() > 0) cone.scores.assign(table[0].begin(), table[0].begin() + table.rows() * n);
    if (n > 0) cone.rays.assign(corners[0].begin(), corners[0].begin() + n * n);
    cone.errors = copied<double, double>(given[10], "errors", n);
}

// The hypotheses of pairs and of other lists in order; prices: what the rows cost, and the steps of the pairs, where
// they are not those of the lists.
nb::tuple fields(const Box& box) {
    std::vector<Index> prices;
    if (!box.total.empty()) {
        prices.assign(box.costs.begin(), box.costs.end());
        prices.insert(prices.end(), box.steps.begin(), box.steps.end());
    }
    return nb::make_tuple(array_of(box.cheap), array_of(box.dear), array_of(box.ids), owned(box.ends),
                          owned(std::move(prices)), box.own, box.bound, box.stalled, owned(box.total), box.age,
                          owned(box.centre), owned(box.radius));
}

void take(Box& box, const nb::tuple& given, const Lists& lists, const Boxes* boxes, Index n_columns) {
    if (given.size() != 12) throw std::invalid_argument("a box has 12 fields");
    const Index n = lists.n_features();
    cells::Buffer<Row> cheap, dear, ids;
    fill(cheap, given[0], "cheap");
    fill(dear, given[1], "dear", cells::count(cheap));
    fill(ids, given[2], "ids");
    check_rows(cheap, lists, "cheap");
    check_rows(dear, lists, "dear");
    check_rows(ids, lists, "ids");
    box.resize_pairs(n, cells::count(cheap));
    box.resize_rows(n, cells::count(ids));
    box.cheap = cheap;
    box.dear = dear;
    box.ids = ids;
    box.ends = ends_of(given[3], box.n_rows());
    take_common(box, given, 5, n_columns);
    box.centre = copied<double, double>(given[10], "centre", n);
    box.radius = copied<double, double>(given[11], "radius", n);
    box.look_up(lists, boxes->precision().off);
    const std::vector<Index> prices = copied<Index, Index>(given[4], "prices", -1);
    if (prices.empty()) return;
    check_size(cells::count(prices), box.n_rows() + box.n_pairs(), "prices");
    std::copy(prices.begin(), prices.begin() + box.n_rows(), box.costs.begin());
    std::copy(prices.begin() + box.n_rows(), prices.end(), box.steps.begin());
}

const Boxes* boxes_of(const Boxes& shape) { return &shape; }
const Boxes* boxes_of(const Cones&) { return nullptr; }

template <class Shape, class Loss>
class SearchOf : public CellSearch {
  public:
    SearchOf(const BoundLists& lists, const cells::Settings& settings, const Shape& shape, const Loss& loss,
             Index n_columns, double largest)
        : lists_(lists.lists), n_columns_(n_columns), start_(loss), search_(lists_, settings, shape, loss, largest) {}

    void renew(const Array& weights) override {
        const double* const given = weights_of(weights, lists_.n_features());
        search_.clear();
        search_.counts = {};
        search_.loss = start_;
        search_.loss.weights.assign(given, given + lists_.n_features());
    }
    void aim(Index cost, double loss) override { search_.loss.aim(cost, loss); }
    void propagate_root(Index limit) override {
        if (search_.nodes.empty()) throw std::invalid_argument("there is no node");
        search_.propagate_root(limit);
    }
    void begin(Index budget, Index step) override { search_.begin(budget, step); }
    int explore(Index room) override { return static_cast<int>(search_.explore(room)); }
    void clear() override { search_.clear(); }
    void push(const nb::tuple& given) override {
        typename Shape::Node node;
        take(node, given, lists_, boxes_of(search_.shape()), n_columns_);
        search_.push(std::move(node));
    }
    void pop() override {
        if (search_.nodes.empty()) throw std::invalid_argument("there is no node");
        search_.take();
    }
    nb::tuple node(Index i) const override {
        const auto n_aside = static_cast<Index>(search_.aside.size());
        if (i < 0 || i >= n_aside + static_cast<Index>(search_.nodes.size()))
            throw std::invalid_argument("there is no such node");
        return fields(i < n_aside ? search_.aside[i] : search_.nodes[i - n_aside]);
    }
    nb::tuple survivors() const override {
        if (search_.nodes.empty()) throw std::invalid_argument("there is no node");
        const auto& top = search_.nodes.back();
        cells::Survivors part = Shape::survivors(top, lists_);
        return nb::make_tuple(owned(std::move(part.ids)), owned(std::move(part.costs)), owned(std::move(part.ends)),
                              part.fixed, owned(top.total));
    }
    Index conflicts(Index needed) override {
        if (search_.nodes.empty()) throw std::invalid_argument("there is no node");
        return search_.conflicts(needed);
    }
    std::vector<Index> bounds() const override {
        std::vector<Index> found;
        for (const auto& node : search_.aside) found.push_back(node.bound);
        for (const auto& node : search_.nodes) found.push_back(node.bound);
        return found;
    }
    std::vector<Index> counts() const override {
        const cells::Counts& c = search_.counts;
        return {c.nodes, c.leaves, c.leaf_programs, c.conflicting, c.looked_at, c.work};
    }
    nb::tuple found() const override {
        return nb::make_tuple(search_.loss.upper, search_.loss.loss, owned(search_.loss.weights));
    }
    Index nbytes() const override { return search_.bytes(); }

  private:
    Lists lists_;
    Index n_columns_;
    Loss start_;
    cells::Search<Shape, Loss> search_;
};

template <class Shape>
std::unique_ptr<CellSearch> search_over(const Shape& shape, const BoundLists& lists, const BoundRatio* ratio,
                                        const Settings& selections, const cells::Settings& settings, double largest) {
    if (ratio == nullptr)
        return std::make_unique<SearchOf<Shape, cells::SumLoss>>(lists, settings, shape,
                                                                 cells::SumLoss(lists.lists, selections), 0, largest);
    check_size(ratio->ratio.classes.size(), lists.lists.n_rows(), "classes");
    return std::make_unique<SearchOf<Shape, cells::RatioLoss>>(
        lists, settings, shape, cells::RatioLoss(lists.lists, ratio->ratio), ratio->ratio.n_columns(), largest);
}

std::tuple<const double*, const double*, Index> box_of(const Array& centre, const Array& radius) {
    const Span<const double> middle = vector<double>(centre, "centre"), side = vector<double>(radius, "radius");
    check_size(side.size(), middle.size(), "radius");
    if (middle.size() == 0) throw std::invalid_argument("centre must have an item");
    return {middle.begin(), side.begin(), middle.size()};
}

// Charge conflicts between items of a box with these gains [n, D] and steps [n]; return (their sum, pairs of the
// items).
nb::tuple box_charges(const Array& gains, const Array& steps, const Array& centre, const Array& radius, double rounding,
                      double off, Index needed, Index most_pairs) {
    const Rows<const double> rows = matrix<double>(gains, "gains");
    const Span<const Index> costs = vector<Index>(steps, "steps");
    const auto [middle, side, n] = box_of(centre, radius);
    check_size(rows.columns(), n, "a gain");
    check_size(costs.size(), rows.rows(), "steps");
    cells::Conflicts<Boxes> items(n, rows.rows(), most_pairs);
    items.begin({middle, n}, {side, n}, rounding, off);
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
    const Rows<const double> rows = matrix<double>(columns, "columns");
    const auto [middle, side, n] = box_of(centre, radius);
    check_size(rows.rows(), n, "columns");
    if (std::min(winner, loser) < 0 || std::max(winner, loser) >= rows.columns())
        throw std::invalid_argument("winner and loser must be columns");
    cells::Columns features;
    features.resize(n, rows.columns());
    for (Index d = 0; d < n; ++d) std::copy(rows[d].begin(), rows[d].end(), features[d]);
    Box box;
    box.centre.assign(middle, middle + n);
    box.radius.assign(side, side + n);
    return cells::beats_in_box(features, winner, loser, box, rounding, off);
}

bool one_pays(const Array& first, const Array& second, double share, double other, const Array& errors) {
    const Span<const double> one = vector<double>(first, "first"), two = vector<double>(second, "second");
    const Span<const double> off = vector<double>(errors, "errors");
    check_size(one.size(), off.size(), "first");
    check_size(two.size(), off.size(), "second");
    return cells::one_pays(one.begin(), two.begin(), share, other, off);
}

bool one_pays_in_box(const Array& first, const Array& second, double share, double other, const Array& centre,
                     const Array& radius, double rounding, double off) {
    const Span<const double> one = vector<double>(first, "first"), two = vector<double>(second, "second");
    const auto [middle, side, n] = box_of(centre, radius);
    check_size(one.size(), n, "first");
    check_size(two.size(), n, "second");
    return cells::one_pays_in_box(one.begin(), two.begin(), share, other, middle, side, n, rounding, off);
}

double box_rounding(Index places, const Array& centre, const Array& radius) {
    const auto [middle, side, n] = box_of(centre, radius);
    return cells::rounding_of(places, middle, side, n);
}

std::unique_ptr<CellSearch> cell_search(const BoundLists& lists, const BoundRatio* ratio, const Settings& selections,
                                        bool boxed, const std::tuple<Index, double, double>& precision, double largest,
                                        Index granularity, Index leaf_lists, Index leaf_rows, Index conflict_lists,
                                        Index most_stalled, Index hopeless, Index row_work, Index levels) {
    const cells::Settings settings{granularity,  leaf_lists, leaf_rows, conflict_lists,
                                   most_stalled, hopeless,   row_work,  levels};
    const auto [places, off, least] = precision;
    if (boxed)
        return search_over(Boxes(lists.lists, settings, {places, off, least}), lists, ratio, selections, settings,
                           largest);
    return search_over(Cones(lists.lists, settings), lists, ratio, selections, settings, largest);
}

}  // namespace

void bind_cells(nb::module_& module) {
    nb::class_<CellSearch>(module, "CellSearch")
        .def(nb::new_(&cell_search), nb::arg("lists"), nb::arg("ratio").none(), nb::arg("selections"), nb::arg("boxed"),
             nb::arg("precision"), nb::arg("largest"), nb::arg("granularity"), nb::arg("leaf_lists"),
             nb::arg("leaf_rows"), nb::arg("conflict_lists"), nb::arg("most_stalled"), nb::arg("hopeless"),
             nb::arg("row_work"), nb::arg("levels") = 4, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("renew", &CellSearch::renew, nb::arg("weights"))
        .def("aim", &CellSearch::aim, nb::arg("cost"), nb::arg("loss"))
        .def("propagate_root", &CellSearch::propagate_root, nb::arg("limit"), nb::call_guard<nb::gil_scoped_release>())
        .def("begin", &CellSearch::begin, nb::arg("budget"), nb::arg("step"))
        .def("explore", &CellSearch::explore, nb::arg("room"), nb::call_guard<nb::gil_scoped_release>())
        .def("push", &CellSearch::push, nb::arg("node"))
        .def("pop", &CellSearch::pop)
        .def("clear", &CellSearch::clear)
        .def("node", &CellSearch::node, nb::arg("i"))
        .def("survivors", &CellSearch::survivors)
        .def("conflicts", &CellSearch::conflicts, nb::arg("needed"))
        .def_prop_ro("bounds", &CellSearch::bounds)
        .def_prop_ro("counts", &CellSearch::counts)
        .def_prop_ro("found", &CellSearch::found)
        .def_prop_ro("nbytes", &CellSearch::nbytes);
    module.def(
        "box_normals",
        [](const Array& centre, const Array& radius) {
            const auto [middle, side, n] = box_of(centre, radius);
            return owned(cells::box_normals(middle, side, n),
                         {static_cast<std::size_t>(2 * n - 1), static_cast<std::size_t>(n)});
        },
        nb::arg("centre"), nb::arg("radius"));
    module.def(
        "outer_normals",
        [](const Array& rays) {
            const Rows<const double> given = matrix<double>(rays, "rays");
            check_size(given.columns(), given.rows(), "a ray");
            const auto n = static_cast<std::size_t>(given.rows());
            std::vector<double> normals(n * n);
            const bool certain = n > 0 && cells::outer_normals(given[0].begin(), given.rows(), normals.data());
            return nb::make_tuple(owned(std::move(normals), {n, n}), certain);
        },
        nb::arg("rays"));
    module.def("box_charges", &box_charges, nb::arg("gains"), nb::arg("steps"), nb::arg("centre"), nb::arg("radius"),
               nb::arg("rounding"), nb::arg("off"), nb::arg("needed"), nb::arg("most_pairs"));
    module.def("beats_in_box", &beats_in_box, nb::arg("columns"), nb::arg("winner"), nb::arg("loser"),
               nb::arg("centre"), nb::arg("radius"), nb::arg("rounding"), nb::arg("off"));
    module.def("one_pays", &one_pays, nb::arg("first"), nb::arg("second"), nb::arg("share"), nb::arg("other"),
               nb::arg("errors"));
    module.def("one_pays_in_box", &one_pays_in_box, nb::arg("first"), nb::arg("second"), nb::arg("share"),
               nb::arg("other"), nb::arg("centre"), nb::arg("radius"), nb::arg("rounding"), nb::arg("off"));
    module.def("box_rounding", &box_rounding, nb::arg("places"), nb::arg("centre"), nb::arg("radius"));
}

}  // namespace lpmert
