// Where choices change among the directions of the plane, for lists with two features; all comparisons are exact.
//
// Lemma K6 of proofs/cones.md. Each list's choice changes only at the outward normals of the edges of its convex hull.
// Sources: Galley and Quirk, EMNLP 2011; Andrew, Another efficient algorithm for convex hulls in two dimensions,
// Information Processing Letters 1979.
#include "binding.hpp"
#include "turn.hpp"

namespace lpmert::lines {

namespace {

// An edge of a convex hull: the row chosen on one side of its normal, and on the other.
struct Edge {
    Index leaving, entering;
};

// Each list's convex hull has its edges counter-clockwise from the positive x axis on; points inside an edge are no
// corners, and of equal points the first row stands.
std::tuple<Indices, Indices, Indices, Indices> critical_directions(Span<const double> x, Span<const double> y,
                                                                   Span<const Index> offsets) {
    check_size(y.size(), x.size(), "y");
    check_offsets(offsets, x.size(), "offsets");
    const auto vertex = [&](Index row) { return Vertex{x[row], y[row]}; };
    // Whether an edge comes in the second half of the directions.
    const auto late = [&](const Edge& edge) {
        const Vertex a = vertex(edge.leaving), b = vertex(edge.entering);
        return b.y < a.y || (b.y == a.y && b.x < a.x);
    };
    const auto before = [&](const Edge& a, const Edge& b) {
        if (late(a) != late(b)) return late(b);
        return turn(vertex(a.leaving), vertex(a.entering), vertex(b.leaving), vertex(b.entering)) > 0;
    };
    std::vector<Edge> edges;
    Indices order, chain, start, leaving, entering, ends;
    // Add the edges of the hull between the first and the last of sorted points, which are on the right of others.
    const auto add_side = [&](auto first, auto last) {
        chain.clear();
        for (auto row = first; row != last; ++row) {
            const auto inside = [&](Index a, Index b) {
                return turn(vertex(a), vertex(b), vertex(b), vertex(*row)) <= 0;
            };
            while (chain.size() > 1 && inside(chain.end()[-2], chain.back())) chain.pop_back();
            chain.push_back(*row);
        }
        for (std::size_t k = 1; k < chain.size(); ++k) edges.push_back({chain[k - 1], chain[k]});
    };
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        order.resize(offsets[s + 1] - offsets[s]);
        std::iota(order.begin(), order.end(), offsets[s]);
        std::sort(order.begin(), order.end(),
                  [&](Index a, Index b) { return std::tie(y[a], x[a], a) < std::tie(y[b], x[b], b); });
        const auto equal = [&](Index a, Index b) { return x[a] == x[b] && y[a] == y[b]; };
        order.erase(std::unique(order.begin(), order.end(), equal), order.end());
        start.push_back(order[0]);
        add_side(order.begin(), order.end());
        add_side(order.rbegin(), order.rend());
    }
    std::stable_sort(edges.begin(), edges.end(), before);
    for (std::size_t e = 0; e < edges.size(); ++e) {
        leaving.push_back(edges[e].leaving);
        entering.push_back(edges[e].entering);
        if (e + 1 == edges.size() || before(edges[e], edges[e + 1])) ends.push_back(static_cast<Index>(e + 1));
    }
    return {std::move(start), std::move(leaving), std::move(entering), std::move(ends)};
}

}  // namespace

void bind_plane(nb::module_& module) {
    define(module, "critical_directions", &critical_directions, "x", "y", "offsets");
}

}  // namespace lpmert::lines
