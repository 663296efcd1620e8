#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "bound.hpp"
#include "lattice_paths.hpp"

namespace lpmert {

namespace {

using lattices::Catalogued;
using lattices::Cone;
using lattices::Listing;
using lattices::Look;
using lattices::Narrowed;
using lattices::Node;
using lattices::PathFinder;
using lattices::Reader;

void check_within(Span<const Index> numbers, Index least, Index end, const char* name) {
    const bool right =
        std::all_of(numbers.begin(), numbers.end(), [=](Index number) { return number >= least && number < end; });
    if (!right)
        throw std::invalid_argument(std::string(name) + " must be from " + std::to_string(least) + " to below " +
                                    std::to_string(end));
}

// Numbers [L, D] of links, checked.
Rows<const double> rows_of(const BoundLinks& bound, const Array& given, const char* name) {
    const Rows<const double> rows = matrix<double>(given, name);
    check_size(rows.rows(), bound.links.size(), name);
    return rows;
}

Owned<double> largest_sums(const BoundLinks& bound, const Array& lengths) {
    const Rows<const double> rows = rows_of(bound, lengths, "lengths");
    return owned(unlocked([&] { return lattices::largest_sums(bound.links, rows); }));
}

Owned<double> best_through(const BoundLinks& bound, const Array& scores) {
    const Span<const double> own = vector<double>(scores, "scores");
    check_size(own.size(), bound.links.size(), "scores");
    return owned(unlocked([&] { return lattices::best_through(bound.links, own); }));
}

Owned<Index> near_best(const BoundLinks& bound, const Array& features, const Array& weights, double share) {
    const Rows<const double> rows = rows_of(bound, features, "features");
    const Span<const double> at = vector<double>(weights, "weights");
    check_size(at.size(), rows.columns(), "weights");
    return owned(unlocked([&] { return lattices::near_best(bound.links, rows, at, share); }));
}

Span<const Node> words_of(const BoundLinks& bound, const Array& words) {
    const Span<const Node> own = vector<Node>(words, "words");
    check_size(own.size(), bound.links.size(), "words");
    return own;
}

Index least_edits(const BoundLinks& bound, const Array& words, const Array& reference) {
    const Span<const Node> own = words_of(bound, words), said = vector<Node>(reference, "reference");
    return unlocked([&] { return lattices::least_edits(bound.links, own, said); });
}

Owned<Index> most_matches(const BoundLinks& bound, const Array& words, const Array& spelled, const Array& ends,
                          const Array& follow, const Array& depth, Index n_orders) {
    const Span<const Node> own = words_of(bound, words);
    const Reader reader{vector<Index>(spelled, "spelled"), vector<Index>(ends, "ends"), matrix<Index>(follow, "follow"),
                        vector<Index>(depth, "depth")};
    const Index n_states = reader.depth.size();
    check_size(reader.follow.rows(), n_states, "follow");
    if (n_states < 1 || n_orders < 1) throw std::invalid_argument("depth must have an item, and n_orders be positive");
    check_within(reader.depth, 0, n_orders + 1, "depth");
    for (Index state = 0; state < n_states; ++state) check_within(reader.follow[state], 0, n_states, "follow");
    check_within(reader.spelled, 0, reader.follow.columns(), "spelled");
    check_within(reader.ends, 0, reader.spelled.size() + 1, "ends");
    if (std::any_of(own.begin(), own.end(), [&](Node word) { return word >= reader.ends.size() - 1; }))
        throw std::invalid_argument("words must be below the number of words that are spelled");
    return owned(unlocked([&] { return lattices::most_matches(bound.links, own, reader, n_orders); }));
}

void mark_useful(const Array& sources, const Array& targets, Index start, Index end, const Writable& useful) {
    const Span<const Index> from = vector<Index>(sources, "sources"), to = vector<Index>(targets, "targets");
    const Span<bool> marks = vector<bool>(useful, "useful");
    check_size(from.size(), to.size(), "sources");
    check_within(from, 0, marks.size(), "sources");
    check_within(to, 0, marks.size(), "targets");
    if (std::min(start, end) < 0 || std::max(start, end) >= marks.size())
        throw std::invalid_argument("start and end must be nodes");
    unlocked([&] { lattices::mark_useful(from, to, start, end, marks); });
}

Cone cone_of(const Array& rays, const Array& reach) {
    const Cone cone{matrix<double>(rays, "rays"), vector<double>(reach, "reach")};
    check_size(cone.reach.size(), cone.rays.rows(), "reach");
    if (cone.rays.rows() < 1) throw std::invalid_argument("rays must have a row");
    return cone;
}

Owned<double> copied(Rows<const double> rows) {
    std::vector<double> items;
    if (rows.rows() > 0) items.assign(rows[0].begin(), rows[0].begin() + rows.rows() * rows.columns());
    return owned(std::move(items), {static_cast<std::size_t>(rows.rows()), static_cast<std::size_t>(rows.columns())});
}

Owned<double> lead(PathFinder& finder, const Array& rays, const Array& reach, const Array& known) {
    const Cone cone = cone_of(rays, reach);
    const Rows<const double> paths = matrix<double>(known, "known");
    check_size(paths.columns(), cone.rays.columns(), "a known path");
    unlocked([&] { finder.lead(cone, paths); });
    return copied(finder.leading());
}

nb::tuple look_through(PathFinder& finder, const BoundLinks& bound, const Array& features, Index most_links,
                       const Array& marks, const Array& rays, const Array& reach, const Array& mixes,
                       const Array& known) {
    const lattices::Lattice lattice{bound.links, rows_of(bound, features, "features"), most_links};
    const Cone cone = cone_of(rays, reach);
    const Rows<const double> mixed = matrix<double>(mixes, "mixes"), paths = matrix<double>(known, "known");
    const Span<const std::uint8_t> bits = vector<std::uint8_t>(marks, "marks");
    check_size(bits.size(), (bound.links.size() + 7) / 8, "marks");
    check_size(lattice.features.columns(), cone.rays.columns(), "features of a link");
    check_size(mixed.columns(), cone.rays.rows(), "a mix");
    check_size(paths.columns(), cone.rays.columns(), "a known path");
    if (bound.links.nodes < 2) throw std::invalid_argument("links must lead to a node");
    Look look = unlocked([&] { return finder.look_through(lattice, bits, cone, mixed, paths); });
    const Span<const Node> left = finder.left();
    return nb::make_tuple(
        look.before, owned(std::vector<Node>(left.begin(), left.end())), owned(std::move(look.middle)),
        owned(std::move(look.best),
              {static_cast<std::size_t>(mixed.rows()), static_cast<std::size_t>(cone.rays.columns())}),
        copied(finder.leading()));
}

std::tuple<bool, Index, Index> list(PathFinder& finder, Index most_work) {
    const Listing listing = unlocked([&] { return finder.list(most_work); });
    return {listing.whole, listing.work, listing.done};
}

nb::tuple listed(const PathFinder& finder) {
    const Rows<const double> rows = finder.listed();
    std::vector<Node> links;
    std::vector<Index> ends{0};
    for (Index i = 0; i < rows.rows(); ++i) {
        finder.append_way(i, links);
        ends.push_back(static_cast<Index>(links.size()));
    }
    return nb::make_tuple(copied(rows), owned(std::move(links)), owned(std::move(ends)));
}

nb::tuple narrow(const Array& features, const Array& numbers, const Array& ends, const Array& ids, const Array& rays,
                 const Array& reach) {
    const Catalogued lists{matrix<double>(features, "features"), vector<Index>(numbers, "numbers"),
                           vector<Index>(ends, "ends"), vector<Index>(ids, "ids")};
    const Rows<const double> corners = matrix<double>(rays, "rays"), bounds = matrix<double>(reach, "reach");
    check_offsets(lists.ends, lists.ids.size(), "ends");
    check_size(lists.ends.size() - 1, lists.numbers.size(), "ends, less one,");
    check_size(bounds.columns(), corners.rows(), "reach of a lattice");
    check_size(corners.columns(), lists.features.columns(), "a ray");
    if (corners.rows() < 1) throw std::invalid_argument("rays must have a row");
    check_within(lists.numbers, 0, bounds.rows(), "numbers");
    check_within(lists.ids, 0, lists.features.rows(), "ids");
    Narrowed kept = unlocked([&] { return lattices::narrow(lists, corners, bounds); });
    const std::size_t n = kept.ids.size();
    return nb::make_tuple(owned(std::move(kept.ends)), owned(std::move(kept.ids)),
                          owned(std::move(kept.scores), {n, static_cast<std::size_t>(corners.rows())}),
                          owned(std::move(kept.middle)));
}

}  // namespace

void bind_lattices(nb::module_& module) {
    using nb::literals::operator""_a;
    nb::class_<BoundLinks>(module, "Links")
        .def(nb::init<const Array&, const Array&, const Array&, Index>(), "sources"_a, "seconds"_a, "targets"_a,
             "nodes"_a)
        .def("largest_sums", &largest_sums, "lengths"_a)
        .def("best_through", &best_through, "scores"_a)
        .def("near_best", &near_best, "features"_a, "weights"_a, "share"_a)
        .def("log10_paths", [](const BoundLinks& bound) { return lattices::log10_paths(bound.links); })
        .def("least_edits", &least_edits, "words"_a, "reference"_a)
        .def("most_matches", &most_matches, "words"_a, "spelled"_a, "ends"_a, "follow"_a, "depth"_a, "n_orders"_a);
    module.def("mark_useful", &mark_useful, "sources"_a, "targets"_a, "start"_a, "end"_a, "useful"_a);
    nb::class_<PathFinder>(module, "PathFinder")
        .def(nb::init<Index>(), "labels"_a)
        .def("lead", &lead, "rays"_a, "reach"_a, "known"_a)
        .def("look_through", &look_through, "links"_a, "features"_a, "most_links"_a, "marks"_a, "rays"_a, "reach"_a,
             "mixes"_a, "known"_a)
        .def("list", &list, "most_work"_a)
        .def("listed", &listed);
    module.def("narrow", &narrow, "features"_a, "numbers"_a, "ends"_a, "ids"_a, "rays"_a, "reach"_a);
}

}  // namespace lpmert
