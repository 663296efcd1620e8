// Line searches as Python calls them, and descents: line searches one after the other.
//
// A descent alternates between random directions and directions from the chosen hypotheses towards cheaper ones.
//
// Sources: Och, ACL 2003 (line search); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured
// Prediction, NIPS 2010 (directions from the chosen hypotheses towards cheaper ones).
#include "line_search.hpp"

namespace lpmert {

namespace {

// Scores in a block, which stays in the first-level cache while the features are added up.
constexpr Index BLOCK = 1024;

}  // namespace

LPMERT_CLONES void combine(Rows<const double> columns, Span<const double> weights, Span<double> scores) {
    const Index dimension = weights.size();
    for (Index begin = 0; begin < scores.size(); begin += BLOCK) {
        const Index n = std::min(BLOCK, scores.size() - begin);
        double* __restrict sums = scores.data() + begin;
        const auto column = [&](Index d) { return columns[d].data() + begin; };
        std::fill_n(sums, n, 0.0);
        // Two features in one pass, each added in its turn: the sums are those of one at a time.
        Index d = 0;
        for (; d + 1 < dimension; d += 2) {
            const double first = weights[d], second = weights[d + 1];
            const double* __restrict values = column(d);
            const double* __restrict next = column(d + 1);
            for (Index i = 0; i < n; ++i) sums[i] = (sums[i] + first * values[i]) + second * next[i];
        }
        if (d < dimension) {
            const double weight = weights[d];
            const double* __restrict values = column(d);
            for (Index i = 0; i < n; ++i) sums[i] += weight * values[i];
        }
    }
}

namespace {

Reals scores_of(Rows<const double> columns, Span<const double> weights) {
    check_size(weights.size(), columns.rows(), "weights");
    Reals scores(columns.columns());
    combine(columns, weights, scores);
    return scores;
}

// See `descend` in the stub.
Index descend(LineSearch<SumOfCosts>& search, Span<double> weights, Span<const double> centre, double reach,
              Rows<const double> directions, Span<const double> rates, Rows<const bool> taking_part, Span<Index> turns,
              Index patience, Index searches) {
    const Index n = search.dimension(), n_draws = directions.rows();
    check_size(weights.size(), n, "weights");
    check_size(centre.size(), n, "centre");
    check_size(directions.columns(), n, "the rows of directions");
    check_size(rates.size(), n_draws, "rates");
    check_size(taking_part.rows(), n_draws, "taking_part");
    check_size(taking_part.columns(), search.n_lists(), "the rows of taking_part");
    check_size(turns.size(), 2, "turns");
    if (n_draws == 0 || turns[0] < 0) throw std::invalid_argument("directions must not be empty");
    const bool bounded = reach < INF;
    Reals direction(n), trial(n);
    // Set the direction to the sum of the steps from each list's choice to its best hypothesis by score - rate * cost.
    const auto head_for_cheaper = [&](double rate, Span<const bool> takes_part) {
        const Reals& scores = search.intercepts;
        const auto merit = [&](Index i) { return scores[i] - rate * static_cast<double>(search.loss.costs[i]); };
        std::fill(direction.begin(), direction.end(), 0.0);
        for (Index s = 0; s < search.n_lists(); ++s) {
            if (!takes_part[s]) continue;
            const Index chosen = search.best(scores, s);
            Index wanted = search.offsets[s];
            double best = merit(wanted);
            for (Index i = wanted + 1; i < search.offsets[s + 1]; ++i) {
                const double candidate = merit(i);
                if (candidate > best) wanted = i, best = candidate;
            }
            if (wanted == chosen) continue;
            for (Index d = 0; d < n; ++d) direction[d] += search.columns[d][wanted] - search.columns[d][chosen];
        }
    };
    // Make the direction orthogonal to the centre, at length 1; return the range of t that keeps weights within reach.
    const auto range_across = [&]() -> std::pair<double, double> {
        const double along = dot(direction, centre);
        for (Index d = 0; d < n; ++d) direction[d] -= along * centre[d];
        const double length = norm(direction);
        if (length == 0.0) return {0.0, 0.0};
        double slope = 0.0, inside = reach * reach;
        for (Index d = 0; d < n; ++d) {
            direction[d] /= length;
            const double step = weights[d] - centre[d];
            slope += step * direction[d];
            inside -= step * step;
        }
        const double root = std::sqrt(slope * slope + std::max(inside, 0.0));
        return {-slope - root, root - slope};
    };
    Index cost = search.at(weights);
    while (turns[1] < patience && searches > 0) {
        const Index row = turns[0] % n_draws;
        ++turns[0], ++turns[1], --searches;
        search.score(weights);
        double length = norm(weights);
        const Span<const double> drawn = directions[row];
        if (row % 2) head_for_cheaper(rates[row] * length, taking_part[row]);
        if (row % 2 == 0 || norm(direction) == 0.0) std::copy(drawn.begin(), drawn.end(), direction.begin());
        const auto [low, high] = bounded ? range_across() : std::pair(-INF, INF);
        if (!(low < high)) continue;
        search.turn_to(direction);
        const auto [promised, at] = search.step(low, high, length / norm(direction), true);
        if (promised > cost) continue;
        for (Index d = 0; d < n; ++d) trial[d] = weights[d] + at * direction[d];
        length = bounded ? 1.0 : norm(trial);
        if (length == 0.0) continue;
        for (double& entry : trial) entry /= length;
        const Index reached = search.at(trial);
        if (reached > cost) continue;
        if (reached < cost) turns[1] = 0;
        cost = reached;
        std::copy(trial.begin(), trial.end(), weights.begin());
    }
    return searches;
}

// Let g be the features of a hypothesis less those of the winner at c, and h by how much its score is behind. It wins
// at c + x only if g . x >= h, and g . x is at most |x| times the length of the part of g orthogonal to c.
Reals find_reaches(const Lines& lists, Span<const double> centre) {
    check_size(centre.size(), lists.dimension(), "centre");
    Reals scores(lists.n_rows()), reaches(lists.n_rows());
    combine(lists.columns, centre, scores);
    for (Index s = 0; s < lists.n_lists(); ++s) {
        const Index best = lists.best(scores, s), begin = lists.offsets[s], end = lists.offsets[s + 1];
        for (Index d = 0; d < lists.dimension(); ++d) {
            const Span<const double> column = lists.columns[d];
            for (Index i = begin; i < end; ++i) {
                const double step = column[i] - column[best];
                reaches[i] += step * step;
            }
        }
        for (Index i = begin; i < end; ++i) {
            const double behind = scores[best] - scores[i], square = reaches[i] - behind * behind;
            reaches[i] = behind == 0.0 ? 0.0 : square > 0.0 ? behind / std::sqrt(square) : INF;
        }
    }
    return reaches;
}

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
    std::vector<Edge> edges;
    Envelope envelope;
    Indices start, leaving, entering, ends;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        const Index begin = offsets[s], n = offsets[s + 1] - begin;
        const ExactPoints points{x.data() + begin, y.data() + begin};
        const Extremes found = find_extremes(points.xs, points.ys, n);
        const auto add = [&](Row a, Row b) { edges.push_back({begin + a, begin + b}); };
        start.push_back(begin + found.bottom_left);
        if (found.bottom_left != found.bottom_right) add(found.bottom_left, found.bottom_right);
        if (found.top_right != found.top_left) add(found.top_right, found.top_left);
        envelope.corners(points, n, found, true, add, add);
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

template <class Loss>
void walk(LineSearch<Loss>& search, const Region& region, double temperature, Span<double> weights,
          Span<double> total_of_means, Span<double> circles, Rows<const double> directions, Span<const double> draws,
          bool counted, Rows<double> path) {
    const Index dimension = search.dimension();
    region.check(dimension);
    check_size(weights.size(), dimension, "weights");
    check_size(total_of_means.size(), dimension, "total");
    check_size(circles.size(), 1, "circles");
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
            circles[0] += 1.0;
            for (Index k = 0; k < dimension; ++k)
                total_of_means[k] += (along * weights[k] + across * direction[k]) / total;
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
void bind_search(nb::module_& module, const char* name) {
    using Search = LineSearch<Loss>;
    nb::class_<Search, Lines> search(module, name);
    search.def("at", &Search::at, "weights"_a, unlocked);
    search.def("along", &Search::along, "weights"_a, "direction"_a, "low"_a, "high"_a, "scale"_a, unlocked);
    search.def("best_coordinate", &Search::best_coordinate, "weights"_a, "coordinates"_a, "ranges"_a, "scale"_a,
               unlocked);
    module.def("walk", &walk<Loss>, "search"_a, "region"_a, "temperature"_a, "weights"_a, "total"_a, "circles"_a,
               "directions"_a, "draws"_a, "counted"_a, "path"_a, unlocked);
    const auto make = [](Rows<const double> columns, Span<const Index> offsets, const typename Loss::Given& losses) {
        return std::make_unique<Search>(columns, offsets, losses);
    };
    module.def("line_search", make, "columns"_a, "offsets"_a, "losses"_a, nb::keep_alive<0, 1>(),
               nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
}

}  // namespace

void bind_line_search(nb::module_& module) {
    module.def("scores_of", &scores_of, "columns"_a, "weights"_a, unlocked);
    nb::class_<Lines>(module, "LineSearch");
    bind_search<SumOfCosts>(module, "SumLines");
    bind_search<LossOfSums>(module, "RatioLines");
    module.def("descend", &descend, "search"_a, "weights"_a, "centre"_a, "reach"_a, "directions"_a, "rates"_a,
               "taking_part"_a, "turns"_a, "patience"_a, "searches"_a, unlocked);
    module.def("find_reaches", &find_reaches, "search"_a, "centre"_a, unlocked);
    module.def("critical_directions", &critical_directions, "x"_a, "y"_a, "offsets"_a, unlocked);
}

}  // namespace lpmert
