// Where choices change among the directions of the plane, for lists with two features; all comparisons are exact.
//
// Lemma K6 of proofs/cones.md. Each list's choice changes only at the outward normals of the edges of its convex hull.
// Sources: Galley and Quirk, EMNLP 2011; for the sign of a cross product Shewchuk, Adaptive Precision Floating-Point
// Arithmetic and Fast Robust Geometric Predicates, 1997 (the filter of ORIENT2D, and expansions without error where it
// does not decide), and Dekker, A floating-point technique for extending the available precision, 1971 (products).
#include <cfloat>
#include <cmath>

#include "binding.hpp"
#include "envelope.hpp"

namespace lpmert::lines {

static_assert(FLT_EVAL_METHOD == 0, "sums and products must be rounded to double one by one");

namespace {

// A point of the plane; its coordinates are at most 1, and 0 or at least 2^-440.
struct Vertex {
    double x, y;
};

constexpr double HALF_ULP = 0x1p-53;
constexpr double FILTER = (3 + 16 * HALF_ULP) * HALF_ULP;
constexpr double UNDERFLOW_BOUND = 1e-300;
constexpr double SPLITTER = 0x1p27 + 1;

// A rounded sum or product, and its error.
struct Exact {
    double rounded, error;
};

Exact two_sum(double a, double b) {
    const double total = a + b, part = total - a;
    return {total, (a - (total - part)) + (b - part)};
}

Exact two_product(double a, double b) {
    const double product = a * b;
    const double wide_a = SPLITTER * a, wide_b = SPLITTER * b;
    const double a_high = wide_a - (wide_a - a), b_high = wide_b - (wide_b - b);
    const double a_low = a - a_high, b_low = b - b_high;
    return {product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)};
}

// A sum without rounding: terms of increasing magnitude that do not overlap, none of them 0.
class Expansion {
    double terms[20];
    int size = 0;

  public:
    void add(double term) {
        int kept = 0;
        for (int k = 0; k < size; ++k) {
            const Exact sum = two_sum(term, terms[k]);
            term = sum.rounded;
            if (sum.error != 0.0) terms[kept++] = sum.error;
        }
        if (term != 0.0) terms[kept++] = term;
        size = kept;
    }
    void add_product(double a, double b) {
        const Exact product = two_product(a, b);
        add(product.error);
        add(product.rounded);
    }
    int sign() const { return size == 0 ? 0 : terms[size - 1] > 0.0 ? 1 : -1; }
};

int sign(double value) { return (value > 0.0) - (value < 0.0); }

int exact_turn(Vertex p, Vertex q, Vertex r, Vertex s) {
    const Exact ax = two_sum(q.x, -p.x), ay = two_sum(q.y, -p.y), bx = two_sum(s.x, -r.x), by = two_sum(s.y, -r.y);
    Expansion sum;
    for (const double a : {ax.error, ax.rounded})
        for (const double b : {by.error, by.rounded}) sum.add_product(a, b);
    for (const double a : {-ay.error, -ay.rounded})
        for (const double b : {bx.error, bx.rounded}) sum.add_product(a, b);
    return sum.sign();
}

// The sign of the cross product (q - p) x (s - r).
int turn(Vertex p, Vertex q, Vertex r, Vertex s) {
    const double ax = q.x - p.x, ay = q.y - p.y, bx = s.x - r.x, by = s.y - r.y;
    const double left = ax * by, right = ay * bx, difference = left - right;
    if (std::abs(difference) > FILTER * (std::abs(left) + std::abs(right)) + UNDERFLOW_BOUND)
        return difference > 0.0 ? 1 : -1;
    const int left_sign = sign(ax) * sign(by), right_sign = sign(ay) * sign(bx);
    if (left_sign != right_sign) return left_sign > right_sign ? 1 : -1;
    return left_sign == 0 ? 0 : exact_turn(p, q, r, s);
}

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

class Plane {
    const double* xs;
    const double* ys;

    Vertex vertex(Index row) const { return {xs[row], ys[row]}; }
    // Whether an edge comes in the second half of the directions, counted from the positive x axis.
    bool late(const Edge& edge) const {
        const Vertex a = vertex(edge.leaving), b = vertex(edge.entering);
        return b.y < a.y || (b.y == a.y && b.x < a.x);
    }

  public:
    Plane(Span<const double> x, Span<const double> y) : xs(x.data()), ys(y.data()) {}

    // Whether the direction of one edge comes before that of another.
    bool before(const Edge& a, const Edge& b) const {
        if (late(a) != late(b)) return late(b);
        return turn(vertex(a.leaving), vertex(a.entering), vertex(b.leaving), vertex(b.entering)) > 0;
    }

    // Add the edges of a list's convex hull, counter-clockwise from the positive x axis on; points inside an edge are
    // no corners, and of equal points the first row stands. Returns the row that is chosen before the first of them.
    Index add_hull(Envelope& envelope, Index begin, Index end, std::vector<Edge>& edges) const {
        const ExactPoints points{xs + begin, ys + begin};
        const Extremes found = find_extremes(points.xs, points.ys, end - begin);
        std::vector<Edge> left;
        if (found.bottom_left != found.bottom_right)
            edges.push_back({begin + found.bottom_left, begin + found.bottom_right});
        envelope.corners(
            points, end - begin, found, true, [&](Row a, Row b) { edges.push_back({begin + a, begin + b}); },
            [&](Row a, Row b) { left.push_back({begin + a, begin + b}); });
        if (found.top_right != found.top_left) edges.push_back({begin + found.top_right, begin + found.top_left});
        edges.insert(edges.end(), left.begin(), left.end());
        return begin + found.bottom_left;
    }
};

std::tuple<Indices, Indices, Indices, Indices> critical_directions(Span<const double> x, Span<const double> y,
                                                                   Span<const Index> offsets) {
    check_size(y.size(), x.size(), "y");
    check_offsets(offsets, x.size(), "offsets");
    const Plane plane(x, y);
    std::vector<Edge> edges;
    Envelope envelope;
    Indices start, leaving, entering, ends;
    envelope.reserve(x.size());
    for (Index s = 0; s + 1 < offsets.size(); ++s)
        start.push_back(plane.add_hull(envelope, offsets[s], offsets[s + 1], edges));
    std::stable_sort(edges.begin(), edges.end(), [&](const Edge& a, const Edge& b) { return plane.before(a, b); });
    for (std::size_t e = 0; e < edges.size(); ++e) {
        leaving.push_back(edges[e].leaving);
        entering.push_back(edges[e].entering);
        if (e + 1 == edges.size() || plane.before(edges[e], edges[e + 1])) ends.push_back(static_cast<Index>(e + 1));
    }
    return {std::move(start), std::move(leaving), std::move(entering), std::move(ends)};
}

int turn_of(Rows<const double> points) {
    check_size(points.rows(), 4, "points");
    check_size(points.columns(), 2, "the rows of points");
    const auto vertex = [&](Index k) { return Vertex{points[k][0], points[k][1]}; };
    return turn(vertex(0), vertex(1), vertex(2), vertex(3));
}

}  // namespace

void bind_plane(nb::module_& module) {
    define(module, "critical_directions", &critical_directions, "x", "y", "offsets");
    define(module, "turn", &turn_of, "points");
}

}  // namespace lpmert::lines
