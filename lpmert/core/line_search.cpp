// Line searches, and descents by them.
//
// Sources: Och, ACL 2003 (line search); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured
// Prediction, NIPS 2010 (directions from the chosen hypotheses towards cheaper ones).
#include "line_search.hpp"

#include "vectors.hpp"

namespace lpmert::lines {

namespace {

// Scores that stay in the first-level cache while the features are added up.
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
            const double* __restrict own = column(0);
            for (Index i = 0; i < n; ++i) sums[i] = weight * own[i];
            d = 1;
        }
        // two at a time, each added in its turn: the sums are those of one at a time
        for (; d + 1 < dimension; d += 2) {
            const double first = weights[d], second = weights[d + 1];
            const double* __restrict own = column(d);
            const double* __restrict next = column(d + 1);
            for (Index i = 0; i < n; ++i) sums[i] = (sums[i] + first * own[i]) + second * next[i];
        }
        if (d < dimension) {
            const double weight = weights[d];
            const double* __restrict own = column(d);
            for (Index i = 0; i < n; ++i) sums[i] += weight * own[i];
        }
    }
}

double norm(Span<const double> vector) {
    return std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0));
}

Index best_row(Span<const double> scores, Index begin, Index end) {
    Index best = begin;
    for (Index i = begin + 1; i < end; ++i)
        if (scores[i] > scores[best]) best = i;
    return best;
}

namespace {

std::variant<LineSearch<SumOfCosts>, LineSearch<LossOfSums>> new_search(Lists lists, const Losses& losses) {
    const auto& [kind, parameters, costs, statistics, constant] = losses;
    check_offsets(lists.offsets, lists.rows(), "offsets");
    if (lists.rows() > std::numeric_limits<Row>::max()) throw std::invalid_argument("columns has too many hypotheses");
    if (kind < 0) {
        check_size(costs.size(), lists.rows(), "costs");
        return LineSearch<SumOfCosts>(lists, SumOfCosts(costs));
    }
    check_size(statistics.rows(), lists.rows(), "the rows of statistics");
    check_size(constant.size(), statistics.columns(), "constant");
    check_kind(kind, parameters.size(), constant.size());
    return LineSearch<LossOfSums>(lists, LossOfSums(losses));
}

using Level = std::variant<Cost, double>;

Level at(AnyLineSearch& self, Span<const double> weights) {
    return self.with([&](auto& search) -> Level {
        search.score(weights);
        return search.level();
    });
}

std::tuple<Level, double> along(AnyLineSearch& self, Span<const double> weights, Span<const double> direction,
                                double low, double high, double scale) {
    return self.with([&](auto& search) -> std::tuple<Level, double> {
        search.score(weights);
        search.turn_to(direction);
        const auto found = search.step(low, high, scale);
        return {found.level, found.at};
    });
}

std::tuple<Index, Level, double> best_coordinate(AnyLineSearch& self, Span<const double> weights,
                                                 Span<const Index> coordinates, Rows<const double> ranges,
                                                 double scale) {
    check_size(ranges.rows(), self.lists.dimension(), "ranges");
    check_size(ranges.columns(), 2, "the rows of ranges");
    check_within(coordinates, ranges.rows(), "coordinates");
    if (coordinates.size() == 0) throw std::invalid_argument("coordinates must name one at least");
    return self.with([&](auto& search) -> std::tuple<Index, Level, double> {
        search.score(weights);
        search.prepare_coordinates();
        Index best = -1;
        decltype(search.step(0.0, 0.0, 0.0)) least{};
        for (const Index d : coordinates) {
            const auto step = search.coordinate_step(d, ranges[d][0], ranges[d][1], scale);
            if (best < 0 || step.level < least.level) best = d, least = step;
        }
        return {best, least.level, least.at};
    });
}

std::tuple<Indices, Reals, Indices, Indices> events(AnyLineSearch& self, Span<const double> weights,
                                                    Span<const double> direction) {
    Indices start, leaving, entering;
    Reals thresholds;
    self.with([&](auto& search) {
        search.score(weights);
        search.turn_to(direction);
        search.each_event([&](Index row) { start.push_back(row); },
                          [&](double at, Index from, Index to) {
                              thresholds.push_back(at);
                              leaving.push_back(from);
                              entering.push_back(to);
                          });
    });
    return {std::move(start), std::move(thresholds), std::move(leaving), std::move(entering)};
}

void combine_into(Rows<const double> columns, Span<const double> weights, Span<double> scores) {
    check_size(weights.size(), columns.rows(), "weights");
    check_size(scores.size(), columns.columns(), "scores");
    combine(columns, weights, scores);
}

std::tuple<Cost, Index> decode_cost(Span<const double> scores, Span<const Index> offsets, Span<const Cost> costs,
                                    double error) {
    check_size(costs.size(), scores.size(), "costs");
    check_offsets(offsets, scores.size(), "offsets");
    Cost total = 0;
    Index doubtful = 0;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        const Index best = best_row(scores, offsets[s], offsets[s + 1]);
        bool clear = true;
        dearest_within(error, scores.data() + offsets[s], best - offsets[s], costs.part(offsets[s], offsets[s + 1]),
                       clear);
        total += costs[best];
        doubtful += !clear;
    }
    return {total, doubtful};
}

// Descents: line searches one after the other, on all lists or near given weights.

struct Draws {
    Rows<const double> directions;
    Span<const double> rates;
    Rows<const bool> taking_part;

    static constexpr std::array members{"directions", "rates", "taking_part"};
};

struct Neighbourhood {
    Span<const double> centre;
    double reach;

    static constexpr std::array members{"centre", "reach"};

    bool bounded() const { return reach < INF; }
};

class Descent {
    LineSearch<SumOfCosts>& search;
    Span<const Cost> costs;
    Neighbourhood near;
    Reals direction, trial;

    // Write the sum of the steps from chosen hypotheses to those with the best score minus rate times cost.
    void towards_cheaper(double rate, Span<const bool> taking_part) {
        const Lists& lists = search.lists;
        const Reals& scores = search.intercepts;
        const auto merit = [&](Index i) { return scores[i] - rate * static_cast<double>(costs[i]); };
        std::fill(direction.begin(), direction.end(), 0.0);
        for (Index s = 0; s < lists.count(); ++s) {
            if (!taking_part[s]) continue;
            const Index chosen = best_row(scores, lists.begin(s), lists.end(s));
            Index wanted = lists.begin(s);
            double best = merit(wanted);
            for (Index i = wanted + 1; i < lists.end(s); ++i) {
                const double own = merit(i);
                if (own > best) wanted = i, best = own;
            }
            if (wanted == chosen) continue;
            for (std::size_t d = 0; d < direction.size(); ++d) {
                const Span<const double> column = lists.columns[d];
                direction[d] += column[wanted] - column[chosen];
            }
        }
    }

    // Turn the direction to right angles to the centre, at length 1; return the t that keep weights within reach.
    std::pair<double, double> across(Span<const double> weights) {
        double along = 0.0;
        for (std::size_t d = 0; d < direction.size(); ++d) along += direction[d] * near.centre[d];
        for (std::size_t d = 0; d < direction.size(); ++d) direction[d] -= along * near.centre[d];
        const double length = norm(direction);
        if (length == 0.0) return {0.0, 0.0};
        double slope = 0.0, inside = near.reach * near.reach;
        for (std::size_t d = 0; d < direction.size(); ++d) {
            direction[d] /= length;
            const double step = weights[d] - near.centre[d];
            slope += step * direction[d];
            inside -= step * step;
        }
        const double root = std::sqrt(slope * slope + std::max(inside, 0.0));
        return {-slope - root, root - slope};
    }

  public:
    Descent(LineSearch<SumOfCosts>& search_, Span<const Cost> costs_, Neighbourhood near_)
        : search(search_), costs(costs_), near(near_), direction(search_.lists.dimension()), trial(direction.size()) {}

    Index run(Span<double> weights, const Draws& draws, Span<Index> turns, Index patience, Index searches) {
        search.score(weights);
        Cost cost = search.level();
        while (turns[1] < patience && searches > 0) {
            const Index row = turns[0] % draws.directions.rows();
            ++turns[0], ++turns[1], --searches;
            search.score(weights);
            double length = norm(weights);
            const Span<const double> drawn = draws.directions[row];
            if (row % 2) towards_cheaper(draws.rates[row] * length, draws.taking_part[row]);
            if (row % 2 == 0 || norm(direction) == 0.0) std::copy(drawn.begin(), drawn.end(), direction.begin());
            const auto [low, high] = near.bounded() ? across(weights) : std::pair(-INF, INF);
            if (!(low < high)) continue;
            search.turn_to(direction);
            const auto promised = search.step(low, high, length / norm(direction), true);
            if (promised.level > cost) continue;
            for (std::size_t d = 0; d < trial.size(); ++d) trial[d] = weights[d] + promised.at * direction[d];
            length = near.bounded() ? 1.0 : norm(trial);
            if (length == 0.0) continue;
            for (double& entry : trial) entry /= length;
            search.score(trial);
            const Cost reached = search.level();
            if (reached > cost) continue;
            if (reached < cost) turns[1] = 0;
            cost = reached;
            std::copy(trial.begin(), trial.end(), weights.begin());
        }
        return searches;
    }
};

Index descend(AnyLineSearch& self, Span<double> weights, Neighbourhood near, Draws draws, Span<Index> turns,
              Index patience, Index searches) {
    const Lists& lists = self.lists;
    check_size(weights.size(), lists.dimension(), "weights");
    check_size(near.centre.size(), lists.dimension(), "centre");
    check_size(draws.directions.columns(), lists.dimension(), "the rows of directions");
    check_size(draws.rates.size(), draws.directions.rows(), "rates");
    check_size(draws.taking_part.rows(), draws.directions.rows(), "taking_part");
    check_size(draws.taking_part.columns(), lists.count(), "the rows of taking_part");
    check_size(turns.size(), 2, "turns");
    if (draws.directions.rows() == 0 || turns[0] < 0) throw std::invalid_argument("directions must not be empty");
    return Descent(self.of_sums(), self.costs, near).run(weights, draws, turns, patience, searches);
}

// With g the step from the winner's features to its own, and h how far it is behind, a hypothesis wins at c + x if
// g . x >= h, and g . x is at most |x| times the length of g across the centre c.
Reals find_reaches(AnyLineSearch& self, Span<const double> centre) {
    const Lists& lists = self.lists;
    check_size(centre.size(), lists.dimension(), "centre");
    Reals scores(lists.rows()), reaches(lists.rows());
    combine(lists.columns, centre, scores);
    for (Index s = 0; s < lists.count(); ++s) {
        const Index best = best_row(scores, lists.begin(s), lists.end(s));
        for (Index d = 0; d < lists.dimension(); ++d) {
            const Span<const double> column = lists.columns[d];
            const double winner = column[best];
            for (Index i = lists.begin(s); i < lists.end(s); ++i) {
                const double step = column[i] - winner;
                reaches[i] += step * step;
            }
        }
        for (Index i = lists.begin(s); i < lists.end(s); ++i) {
            const double behind = scores[best] - scores[i], square = reaches[i] - behind * behind;
            reaches[i] = behind == 0.0 ? 0.0 : square > 0.0 ? behind / std::sqrt(square) : INF;
        }
    }
    return reaches;
}

}  // namespace

AnyLineSearch::AnyLineSearch(Rows<const double> columns, Span<const Index> offsets, const Losses& losses)
    : search(new_search({columns, offsets}, losses)), lists{columns, offsets}, costs(losses.costs) {}

void bind_line_search(nb::module_& module) {
    define(module, "combine", &combine_into, "columns", "weights", "scores");
    define(module, "decode_cost", &decode_cost, "scores", "offsets", "costs", "error");
    nb::class_<AnyLineSearch> search(module, "LineSearch");
    define_init<Rows<const double>, Span<const Index>, Losses>(search, "columns", "offsets", "losses");
    define(search, "at", &at, "weights");
    define(search, "along", &along, "weights", "direction", "low", "high", "scale");
    define(search, "best_coordinate", &best_coordinate, "weights", "coordinates", "ranges", "scale");
    define(search, "events", &events, "weights", "direction");
    define(module, "descend", &descend, "search", "weights", "near", "draws", "turns", "patience", "searches");
    define(module, "find_reaches", &find_reaches, "search", "centre");
}

}  // namespace lpmert::lines
