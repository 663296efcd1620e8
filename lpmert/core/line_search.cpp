// Line searches as Python calls them, and descents: line searches one after the other.
//
// A descent alternates between random directions and directions from the chosen hypotheses towards cheaper ones.
//
// Sources: Och, ACL 2003 (line search); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured
// Prediction, NIPS 2010 (directions from the chosen hypotheses towards cheaper ones).
#include "line_search.hpp"

namespace lpmert::lines {

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
        Index d = 0;
        if (dimension == 0) std::fill_n(sums, n, 0.0);
        if (dimension > 0) {
            const double weight = weights[0];
            const double* __restrict values = column(0);
            for (Index i = 0; i < n; ++i) sums[i] = weight * values[i];
            d = 1;
        }
        // Two features in one pass, each added in its turn: the sums are those of one at a time.
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

nb::object line_search(Rows<const double> columns, Span<const Index> offsets, const Losses& losses) {
    const auto& [kind, parameters, costs, statistics, constant] = losses;
    const Index n_rows = columns.columns();
    check_offsets(offsets, n_rows, "offsets");
    if (n_rows > std::numeric_limits<Row>::max()) throw std::invalid_argument("columns has too many hypotheses");
    if (kind < 0) {
        check_size(costs.size(), n_rows, "costs");
        return nb::cast(std::make_unique<LineSearch<SumOfCosts>>(columns, offsets, SumOfCosts(costs)));
    }
    check_size(statistics.rows(), n_rows, "the rows of statistics");
    check_size(constant.size(), statistics.columns(), "constant");
    check_kind(kind, parameters.size(), constant.size());
    return nb::cast(std::make_unique<LineSearch<LossOfSums>>(columns, offsets, LossOfSums(losses)));
}

template <class Loss>
void bind_search(nb::module_& module, const char* name) {
    using Search = LineSearch<Loss>;
    nb::class_<Search, Lines> search(module, name);
    search.def("at", &Search::at, "weights"_a, unlocked);
    search.def("along", &Search::along, "weights"_a, "direction"_a, "low"_a, "high"_a, "scale"_a, unlocked);
    search.def("best_coordinate", &Search::best_coordinate, "weights"_a, "coordinates"_a, "ranges"_a, "scale"_a,
               unlocked);
    search.def("events", &Search::events, "weights"_a, "direction"_a, unlocked);
}

void combine_into(Rows<const double> columns, Span<const double> weights, Span<double> scores) {
    check_size(weights.size(), columns.rows(), "weights");
    check_size(scores.size(), columns.columns(), "scores");
    combine(columns, weights, scores);
}

std::tuple<Index, Index> decode_cost(Span<const double> scores, Span<const Index> offsets, Span<const Index> costs,
                                     double error) {
    check_size(costs.size(), scores.size(), "costs");
    check_offsets(offsets, scores.size(), "offsets");
    Index total = 0;
    Index doubtful = 0;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        const Span<const double> of_list = scores.part(offsets[s], offsets[s + 1]);
        const Index best = largest(of_list.data(), of_list.size());
        bool clear = true;
        dearest_within(error, of_list.data(), best, costs.part(offsets[s], offsets[s + 1]), clear);
        total += costs[offsets[s] + best];
        doubtful += !clear;
    }
    return {total, doubtful};
}

// What a descent draws at random, used again and again. directions [T, D]; rates [T]: score that a unit of cost is
// worth; taking_part [T, S]: lists that count in a direction towards cheaper hypotheses.
struct Draws {
    Rows<const double> directions;
    Span<const double> rates;
    Rows<const bool> taking_part;

    using Fields = std::tuple<Rows<const double>, Span<const double>, Rows<const bool>>;
};

// Where a descent may go: within `reach` of a centre [D] of length 1, orthogonal to it; anywhere if it is infinite.
struct Neighbourhood {
    Span<const double> centre;
    double reach;

    using Fields = std::tuple<Span<const double>, double>;
};

// See `descend` in the stub.
Index descend(LineSearch<SumOfCosts>& search, Span<double> weights, Neighbourhood near, Draws draws, Span<Index> turns,
              Index patience, Index searches) {
    const Index n = search.dimension(), n_draws = draws.directions.rows();
    check_size(weights.size(), n, "weights");
    check_size(near.centre.size(), n, "centre");
    check_size(draws.directions.columns(), n, "the rows of directions");
    check_size(draws.rates.size(), n_draws, "rates");
    check_size(draws.taking_part.rows(), n_draws, "taking_part");
    check_size(draws.taking_part.columns(), search.n_lists(), "the rows of taking_part");
    check_size(turns.size(), 2, "turns");
    if (n_draws == 0 || turns[0] < 0) throw std::invalid_argument("directions must not be empty");
    const bool bounded = near.reach < INF;
    Reals direction(n), trial(n);
    // Set the direction to the sum of the steps from each list's choice to its best hypothesis by score - rate * cost.
    const auto head_for_cheaper = [&](double rate, Span<const bool> taking_part) {
        const Reals& scores = search.intercepts;
        const auto merit = [&](Index i) { return scores[i] - rate * static_cast<double>(search.loss.costs[i]); };
        std::fill(direction.begin(), direction.end(), 0.0);
        for (Index s = 0; s < search.n_lists(); ++s) {
            if (!taking_part[s]) continue;
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
        const double along = dot(direction, near.centre);
        for (Index d = 0; d < n; ++d) direction[d] -= along * near.centre[d];
        const double length = norm(direction);
        if (length == 0.0) return {0.0, 0.0};
        double slope = 0.0, inside = near.reach * near.reach;
        for (Index d = 0; d < n; ++d) {
            direction[d] /= length;
            const double step = weights[d] - near.centre[d];
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
        const Span<const double> drawn = draws.directions[row];
        if (row % 2) head_for_cheaper(draws.rates[row] * length, draws.taking_part[row]);
        if (row % 2 == 0 || norm(direction) == 0.0) std::copy(drawn.begin(), drawn.end(), direction.begin());
        const auto [low, high] = bounded ? range_across() : std::pair(-INF, INF);
        if (!(low < high)) continue;
        search.turn_to(direction);
        const auto promised = search.step(low, high, length / norm(direction), true);
        if (promised.level > cost) continue;
        for (Index d = 0; d < n; ++d) trial[d] = weights[d] + promised.at * direction[d];
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

}  // namespace

void bind_line_search(nb::module_& module) {
    module.def("combine", &combine_into, "columns"_a, "weights"_a, "scores"_a, unlocked);
    module.def("decode_cost", &decode_cost, "scores"_a, "offsets"_a, "costs"_a, "error"_a, unlocked);
    nb::class_<Lines>(module, "LineSearch");
    bind_search<SumOfCosts>(module, "SumLines");
    bind_search<LossOfSums>(module, "RatioLines");
    module.def("line_search", &line_search, "columns"_a, "offsets"_a, "losses"_a, nb::keep_alive<0, 1>(),
               nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
    module.def("descend", &descend, "search"_a, "weights"_a, "near"_a, "draws"_a, "turns"_a, "patience"_a, "searches"_a,
               unlocked);
    module.def("find_reaches", &find_reaches, "search"_a, "centre"_a, unlocked);
}

}  // namespace lpmert::lines
