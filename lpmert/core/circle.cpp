// The loss on great circles cos(t) w + sin(t) v, and hit and run on the sphere of weights.
//
// Sources: Smith, Efficient Monte Carlo procedures for generating points uniformly distributed over bounded regions,
// Operations Research 1984 (hit and run); Gelfand and Smith, Sampling-based approaches to calculating marginal
// densities, JASA 1990 (the mean given all but the angle, instead of the point that was drawn).
#include "line_search.hpp"

namespace lpmert::lines {

namespace {

constexpr double PI = 3.14159265358979323846;

// Pieces of a circle that are narrower, in radians, are skipped: floating point cannot hold them.
constexpr double LEAST_WIDTH = 1e-11;

// Temperatures above the least loss of a circle from which on a piece has no weight.
constexpr double NEGLIGIBLE = 40.0;

double dot(Span<const double> a, Span<const double> b) {
    double total = 0.0;
    for (Index k = 0; k < a.size(); ++k) total += a[k] * b[k];
    return total;
}

// Where circles may go: limits [k, d] in their own coordinates, and a cap of this cosine around the unit vector [D], in
// coordinates to which the basis [D, d] leads; there is no cap where it is empty.
struct Region {
    Rows<const double> limits, basis;
    Span<const double> unit;
    double cosine;
};

struct Arc {
    double low, high;
};

// Return the ends, around t = 0, of the part of a circle that lies within a region; w, v [d] at right angles span it.
// Where w itself breaks a limit, 0 is an end.
Arc arc_within(const Region& region, Span<const double> w, Span<const double> v) {
    double low = -PI, high = PI;
    for (Index k = 0; k < region.limits.rows(); ++k) {
        const double along = dot(region.limits[k], w), across = dot(region.limits[k], v);
        if (along == 0.0 && across == 0.0) continue;
        const double middle = std::atan2(across, along);
        low = std::max(low, middle - PI / 2);
        high = std::min(high, middle + PI / 2);
    }
    if (region.unit.size() > 0) {
        // (unit . x)^2 - cosine^2 |x|^2 = mean + even cos 2t + odd sin 2t, positive around its top
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

// A density in proportion to exp(-level / temperature) where the level is at most `highest`, and 0 elsewhere. A circle
// all of which is higher counts where it is least.
struct Law {
    double temperature, highest;

    // The density of a piece, 1 where the loss is least.
    double share(const Piece& piece, double least) const {
        const double above = (piece.level - least) / temperature;
        const bool narrow = piece.end - piece.begin < LEAST_WIDTH;
        return above >= NEGLIGIBLE || narrow || piece.level > std::max(highest, least) ? 0.0 : std::exp(-above);
    }
};

// Take the part along weights [d], of length 1, out of a direction [d]; return whether something is left.
bool make_orthogonal(Span<const double> weights, Span<double> direction) {
    for (int round = 0; round < 2; ++round) {  // the second time for rounding
        const double product = dot(weights, direction);
        for (Index k = 0; k < weights.size(); ++k) direction[k] -= product * weights[k];
        const double length = norm(direction);
        if (!(length > 1e-9)) return false;
        for (double& entry : direction) entry /= length;
    }
    return true;
}

// A chain: its weights [d], of length 1, the sum of the means [d] of its circles, and how many these are [1].
struct State {
    Span<double> weights, total, circles;
};

// Go one step along each of directions [n, d], drawn at random, and write the weights into path [n, d]. draws [n]
// between 0 and 1 choose the point on each circle; counted: whether the circles count for the mean.
template <class Loss>
void walk(LineSearch<Loss>& search, const Region& region, const Law& law, const State& state,
          Rows<const double> directions, Span<const double> draws, bool counted, Rows<double> path) {
    const Span<double> weights = state.weights;
    const Index dimension = weights.size();
    std::vector<Piece> pieces;
    std::vector<double> shares;
    std::vector<double> direction(static_cast<std::size_t>(dimension));
    search.score(weights);
    for (Index step = 0; step < directions.rows(); ++step) {
        std::copy(weights.begin(), weights.end(), path[step].begin());
        std::copy(directions[step].begin(), directions[step].end(), direction.begin());
        if (!make_orthogonal(weights, direction)) continue;
        const Arc arc = arc_within(region, weights, direction);
        search.turn_to(direction);
        search.pieces(arc.low, arc.high, pieces);
        double least = INF;
        for (const Piece& piece : pieces)
            if (piece.end - piece.begin >= LEAST_WIDTH) least = std::min(least, piece.level);
        shares.clear();
        double total = 0.0, along = 0.0, across = 0.0, last = 0.0, sin_last = 0.0, cos_last = 1.0;
        for (const Piece& piece : pieces) {
            const double share = law.share(piece, least);
            shares.push_back(share);
            if (!(share > 0.0)) continue;
            if (piece.begin != last) sin_last = std::sin(piece.begin), cos_last = std::cos(piece.begin);
            const double sin_begin = sin_last, cos_begin = cos_last;
            last = piece.end, sin_last = std::sin(last), cos_last = std::cos(last);
            total += share * (piece.end - piece.begin);
            along += share * (sin_last - sin_begin);
            across += share * (cos_begin - cos_last);
        }
        if (total == 0.0) continue;  // the region leaves no room in this direction
        if (counted) {
            state.circles[0] += 1.0;
            for (Index k = 0; k < dimension; ++k)
                state.total[k] += (along * weights[k] + across * direction[static_cast<std::size_t>(k)]) / total;
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
        for (Index k = 0; k < dimension; ++k)
            weights[k] = cosine * weights[k] + sine * direction[static_cast<std::size_t>(k)];
        const double length = norm(weights);
        for (double& entry : weights) entry /= length;
        std::copy(weights.begin(), weights.end(), path[step].begin());
        search.move(cosine / length, sine / length);
    }
}

Region region_of(const Array& limits, const Array& basis, const Array& unit, double cosine, Index dimension) {
    const Region region{matrix<double>(limits, "limits"), matrix<double>(basis, "basis"), vector<double>(unit, "unit"),
                        cosine};
    if (region.limits.rows() > 0) check_size(region.limits.columns(), dimension, "the rows of limits");
    if (region.unit.size() > 0) {
        check_size(region.basis.rows(), region.unit.size(), "basis");
        check_size(region.basis.columns(), dimension, "the rows of basis");
    }
    return region;
}

}  // namespace

}  // namespace lpmert::lines

namespace lpmert {

using namespace lines;

void bind_circle(nb::module_& module) {
    using nb::literals::operator""_a;
    module.def(
        "arc_within",
        [](const Array& limits, const Array& basis, const Array& unit, double cosine, const Array& w, const Array& v) {
            const Span<const double> first = vector<double>(w, "w"), second = vector<double>(v, "v");
            check_size(second.size(), first.size(), "v");
            const Arc arc = arc_within(region_of(limits, basis, unit, cosine, first.size()), first, second);
            return nb::make_tuple(arc.low, arc.high);
        },
        "limits"_a, "basis"_a, "unit"_a, "cosine"_a, "w"_a, "v"_a);
    module.def(
        "find_pieces",
        [](BoundLineSearch& self, const Array& weights, const Array& direction, double low, double high) {
            const Span<const double> w = self.vector_of(weights, "weights"), v = self.vector_of(direction, "direction");
            std::vector<double> begins, ends, levels;
            unlocked([&] {
                std::vector<Piece> pieces;
                std::visit(
                    [&](auto& search) {
                        search.score(w);
                        search.turn_to(v);
                        search.pieces(low, high, pieces);
                    },
                    self.search);
                for (const Piece& piece : pieces) {
                    begins.push_back(piece.begin);
                    ends.push_back(piece.end);
                    levels.push_back(piece.level);
                }
            });
            return nb::make_tuple(owned(std::move(begins)), owned(std::move(ends)), owned(std::move(levels)));
        },
        "search"_a, "weights"_a, "direction"_a, "low"_a, "high"_a);
    module.def(
        "walk",
        [](BoundLineSearch& self, const Array& limits, const Array& basis, const Array& unit, double cosine,
           double temperature, double highest, const Writable& weights, const Writable& total, const Writable& circles,
           const Array& directions, const Array& draws, bool counted, const Writable& path) {
            const State state{self.vector_of(weights, "weights"), self.vector_of(total, "total"),
                              vector<double>(circles, "circles")};
            const Index dimension = state.weights.size();
            const Rows<const double> drawn = matrix<double>(directions, "directions");
            const Span<const double> chances = vector<double>(draws, "draws");
            const Rows<double> written = matrix<double>(path, "path");
            check_size(state.circles.size(), 1, "circles");
            check_size(drawn.columns(), dimension, "the rows of directions");
            check_size(chances.size(), drawn.rows(), "draws");
            check_size(written.rows(), drawn.rows(), "path");
            check_size(written.columns(), dimension, "the rows of path");
            const Region region = region_of(limits, basis, unit, cosine, dimension);
            std::visit(
                [&](auto& search) {
                    walk(search, region, {temperature, highest}, state, drawn, chances, counted, written);
                },
                self.search);
        },
        "search"_a, "limits"_a, "basis"_a, "unit"_a, "cosine"_a, "temperature"_a, "highest"_a, "weights"_a, "total"_a,
        "circles"_a, "directions"_a, "draws"_a, "counted"_a, "path"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace lpmert
