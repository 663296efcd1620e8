// Where choices change among the directions of the plane, for lists with two features; all comparisons are exact.
//
// Lemma K6 of proofs/cones.md. Each list's choice changes only at the outward normals of the edges of its convex hull.
// Source: Galley and Quirk, EMNLP 2011.
#include "binding.hpp"
#include "envelope.hpp"
#include "turn.hpp"

namespace lpmert::lines {

namespace {

// Points of a list with exact predicates; see `RoundedPoints`.
struct ExactPoints {
    const double* xs;
    const double* ys;

    double y(Index i) const { return ys[i]; }
    Vertex vertex(Index i) const { return {xs[i], ys[i]}; }
    bool beyond(Index a, Index b, Index i) const { return turn(vertex(a), vertex(b), vertex(a), vertex(i)) < 0; }
    // Of candidates as far from the chord the first is a corner: those between the first and the last lie on an edge.
    Index farthest(Index a, Index b, Span<const Row> candidates) const {
        Index best = candidates[0];
        for (const Row i : candidates) {
            const int side = turn(vertex(a), vertex(b), vertex(best), vertex(i));
            if (side < 0 || (side == 0 && (ys[b] > ys[a] ? ys[i] < ys[best] : ys[i] > ys[best]))) best = i;
        }
        return best;
    }
    void mark(const Extremes& found, bool, Span<std::uint8_t> marks) const {
        for (Index i = 0; i < marks.size(); ++i) {
            const bool on_right = ys[i] < ys[found.right] ? beyond(found.bottom_right, found.right, i)
                                                          : beyond(found.right, found.top_right, i);
            const bool on_left = ys[i] > ys[found.left] ? beyond(found.top_left, found.left, i)
                                                        : beyond(found.left, found.bottom_left, i);
            const int right = on_right ? (ys[i] < ys[found.right] ? 1 : 2) : 0;
            const int left = on_left ? (ys[i] > ys[found.left] ? 4 : 8) : 0;
            marks[i] = static_cast<std::uint8_t>(right | left);
        }
    }
};

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
    std::vector<Edge> edges, left;
    Envelope envelope;
    Indices start, leaving, entering, ends;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        const Index begin = offsets[s], n = offsets[s + 1] - begin;
        const ExactPoints points{x.data() + begin, y.data() + begin};
        const Extremes found = find_extremes(points.xs, points.ys, n);
        const auto add = [&](Row a, Row b) { edges.push_back({begin + a, begin + b}); };
        start.push_back(begin + found.bottom_left);
        left.clear();
        if (found.bottom_left != found.bottom_right) add(found.bottom_left, found.bottom_right);
        envelope.corners(points, n, found, true, add, [&](Row a, Row b) { left.push_back({begin + a, begin + b}); });
        if (found.top_right != found.top_left) add(found.top_right, found.top_left);
        edges.insert(edges.end(), left.begin(), left.end());
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
    module.def("critical_directions", &critical_directions, "x"_a, "y"_a, "offsets"_a, unlocked);
}

}  // namespace lpmert::lines
