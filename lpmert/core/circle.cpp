// Circles of weights: the exact critical directions of the plane, for lists with two features; the loss on great
// circles cos(t) w + sin(t) v; and hit and run on the sphere of weights.
//
// In the plane, the choice of a list changes only at the outward normals of the edges of its convex hull (lemma K6 of
// proofs/cones.md). Exact predicates (turn.hpp) find these edges and their order.
//
// Sources: Galley and Quirk, EMNLP 2011 (the plane); Smith, Efficient Monte Carlo procedures for generating points
// uniformly distributed over bounded regions, Operations Research 1984 (hit and run); Gelfand and Smith, Sampling-based
// approaches to calculating marginal densities, JASA 1990 (the mean given all but the angle, instead of the point that
// was drawn).
#include "binding.hpp"
#include "line_search.hpp"
#include "turn.hpp"

namespace lpmert::lines {

namespace {

// The points of a list, compared exactly; see `RoundedPoints`.
struct ExactPoints {
    const double* xs;
    const double* ys;

    double y(Index i) const { return ys[i]; }
    Vertex vertex(Index i) const { return {xs[i], ys[i]}; }
    bool beyond(Index a, Index b, Index i) const { return turn(vertex(a), vertex(b), vertex(a), vertex(i)) < 0; }
    // On ties, the first one along the hull is a corner: those between the first and the last lie inside an edge.
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

// An edge of a convex hull: the rows that are chosen before and after its normal.
struct Edge {
    Index leaving, entering;
};

// Collect the edges of every list's convex hull, counter-clockwise from the positive x axis. Points inside an edge are
// no corners; of equal points, the first row counts.
std::tuple<Indices, Indices, Indices, Indices> critical_directions(Span<const double> x, Span<const double> y,
                                                                   Span<const Index> offsets) {
    check_size(y.size(), x.size(), "y");
    check_offsets(offsets, x.size(), "offsets");
    const auto vertex = [&](Index row) { return Vertex{x[row], y[row]}; };
    // Whether an edge belongs to the second half of the directions.
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

// Pieces of a circle narrower than this, in radians, are skipped: floating point cannot resolve them.
constexpr double LEAST_WIDTH = 1e-11;

// A piece whose loss is this many temperatures above the least one of its circle has no weight.
constexpr double NEGLIGIBLE = 40.0;

// Where circles may go; see `SphereRegion` in the stub.
struct Region {
    Rows<const double> limits, basis;
    Span<const double> unit;
    double cosine;

    using Fields = std::tuple<Rows<const double>, Rows<const double>, Span<const double>, double>;

    void check(Index dimension) const {
        if (limits.rows() > 0) check_size(limits.columns(), dimension, "the rows of limits");
        if (unit.size() == 0) return;
        check_size(basis.rows(), unit.size(), "basis");
        check_size(basis.columns(), dimension, "the rows of basis");
    }
};

// The ends, around t = 0, of the arc of the circle cos(t) w + sin(t) v within a region; 0 is an end if w breaks a
// limit.
std::tuple<double, double> arc_within(const Region& region, Span<const double> w, Span<const double> v) {
    double low = -PI, high = PI;
    for (Index k = 0; k < region.limits.rows(); ++k) {
        const double along = dot(region.limits[k], w), across = dot(region.limits[k], v);
        if (along == 0.0 && across == 0.0) continue;
        const double middle = std::atan2(across, along);
        low = std::max(low, middle - PI / 2);
        high = std::min(high, middle + PI / 2);
    }
    if (region.unit.size() > 0) {
        // (unit . x)^2 - cosine^2 |x|^2 = mean + even cos 2t + odd sin 2t, which is positive around its top.
        double a = 0.0, b = 0.0, aa = 0.0, bb = 0.0, ab = 0.0;
        for (Index j = 0; j < region.unit.size(); ++j) {
            const double x = dot(region.basis[j], w), y = dot(region.basis[j], v);
            a += region.unit[j] * x;
            b += region.unit[j] * y;
            aa += x * x;
            bb += y * y;
            ab += x * y;
        }
        const double square = region.cosine * region.cosine;
        const double at_w = a * a - square * aa, at_v = b * b - square * bb, odd = a * b - square * ab;
        const double mean = (at_w + at_v) / 2, even = (at_w - at_v) / 2, reach = std::hypot(even, odd);
        const double top = std::atan2(odd, even) / 2;
        const double width = reach > 0.0 ? std::acos(std::clamp(-mean / reach, -1.0, 1.0)) / 2 : 0.0;
        low = std::max(low, top - width);
        high = std::min(high, top + width);
    }
    return {std::min(low, 0.0), std::max(high, 0.0)};
}

// Make a direction [d] orthogonal to weights [d] of length 1, at length 1; return false if nothing is left of it.
bool make_orthogonal(Span<const double> weights, Span<double> direction) {
    for (int round = 0; round < 2; ++round) {  // the second time because of rounding
        const double product = dot(weights, direction);
        for (Index k = 0; k < weights.size(); ++k) direction[k] -= product * weights[k];
        const double length = norm(direction);
        if (!(length > 1e-9)) return false;
        for (double& entry : direction) entry /= length;
    }
    return true;
}

// The state of a chain: weights [d] of length 1, the sum [d] of the means of the counted circles, their number [1].
struct Chain {
    Span<double> weights, total, circles;

    using Fields = std::tuple<Span<double>, Span<double>, Span<double>>;
};

template <class Loss>
void walk(LineSearch<Loss>& search, const Region& region, double temperature, const Chain& chain,
          Rows<const double> directions, Span<const double> draws, bool counted, Rows<double> path) {
    const Span<double> weights = chain.weights;
    const Index dimension = search.dimension();
    region.check(dimension);
    check_size(weights.size(), dimension, "weights");
    check_size(chain.total.size(), dimension, "total");
    check_size(chain.circles.size(), 1, "circles");
    check_size(directions.columns(), dimension, "the rows of directions");
    check_size(draws.size(), directions.rows(), "draws");
    check_size(path.rows(), directions.rows(), "path");
    check_size(path.columns(), dimension, "the rows of path");
    std::vector<Piece> pieces;
    Reals shares;  // densities of the pieces, relative to that of the least level
    Reals direction(dimension);
    search.score(weights);
    for (Index step = 0; step < directions.rows(); ++step) {
        std::copy(weights.begin(), weights.end(), path[step].begin());
        std::copy(directions[step].begin(), directions[step].end(), direction.begin());
        if (!make_orthogonal(weights, direction)) continue;
        const auto [low, high] = arc_within(region, weights, direction);
        search.turn_to(direction);
        search.pieces(low, high, pieces);
        double least = INF;
        for (const Piece& piece : pieces)
            if (piece.end - piece.begin >= LEAST_WIDTH) least = std::min(least, piece.level);
        shares.clear();
        double total = 0.0, along = 0.0, across = 0.0, last = 0.0, sin_last = 0.0, cos_last = 1.0;
        for (const Piece& piece : pieces) {
            const double above = (piece.level - least) / temperature;
            const bool negligible = above >= NEGLIGIBLE || piece.end - piece.begin < LEAST_WIDTH;
            const double share = negligible ? 0.0 : std::exp(-above);
            shares.push_back(share);
            if (!(share > 0.0)) continue;
            if (piece.begin != last) sin_last = std::sin(piece.begin), cos_last = std::cos(piece.begin);
            const double sin_begin = sin_last, cos_begin = cos_last;
            last = piece.end, sin_last = std::sin(last), cos_last = std::cos(last);
            total += share * (piece.end - piece.begin);
            along += share * (sin_last - sin_begin);
            across += share * (cos_begin - cos_last);
        }
        if (total == 0.0) continue;  // the region has no interior in this direction
        if (counted) {
            chain.circles[0] += 1.0;
            for (Index k = 0; k < dimension; ++k)
                chain.total[k] += (along * weights[k] + across * direction[k]) / total;
        }
        double wanted = draws[step] * total, angle = 0.0;
        for (std::size_t k = 0; k < pieces.size(); ++k) {
            if (!(shares[k] > 0.0)) continue;
            const double width = pieces[k].end - pieces[k].begin;
            angle = pieces[k].begin + std::min(std::max(wanted / shares[k], 0.0), width);
            wanted -= shares[k] * width;
            if (wanted < 0.0) break;
        }
        const double cosine = std::cos(angle), sine = std::sin(angle);
        for (Index k = 0; k < dimension; ++k) weights[k] = cosine * weights[k] + sine * direction[k];
        const double length = norm(weights);
        for (double& entry : weights) entry /= length;
        std::copy(weights.begin(), weights.end(), path[step].begin());
        search.move(cosine / length, sine / length);
    }
}

template <class Loss>
void bind_circles_of(nb::module_& module) {
    module.def("walk", &walk<Loss>, "search"_a, "region"_a, "temperature"_a, "chain"_a, "directions"_a, "draws"_a,
               "counted"_a, "path"_a, unlocked);
}

}  // namespace

void bind_circle(nb::module_& module) {
    module.def("critical_directions", &critical_directions, "x"_a, "y"_a, "offsets"_a, unlocked);
    bind_circles_of<SumOfCosts>(module);
    bind_circles_of<LossOfSums>(module);
}

}  // namespace lpmert::lines
