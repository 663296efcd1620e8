// Line searches, and descents by them.
//
// Sources: Och, ACL 2003 (line search); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured
// Prediction, NIPS 2010 (directions from the chosen hypotheses towards cheaper ones).
#include "line_search.hpp"

namespace lpmert::lines {

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
    Lists{columns, {}}.score(weights, scores);
}

std::tuple<Cost, Index> decode_cost(Span<const double> scores, Span<const Index> offsets, Span<const Cost> costs,
                                    double error) {
    check_size(costs.size(), scores.size(), "costs");
    check_offsets(offsets, scores.size(), "offsets");
    Cost total = 0;
    Index doubtful = 0;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        const Span<const double> own = scores.part(offsets[s], offsets[s + 1]);
        const Index best = largest(own.data(), own.size());
        bool clear = true;
        dearest_within(error, own.data(), best, costs.part(offsets[s], offsets[s + 1]), clear);
        total += costs[offsets[s] + best];
        doubtful += !clear;
    }
    return {total, doubtful};
}

// Descents: line searches one after the other, on all lists or near given weights.

struct Draws {
    Rows<const double> directions;
    Span<const double> rates;
    Rows<const bool> taking_part;

    using Fields = std::tuple<Rows<const double>, Span<const double>, Rows<const bool>>;
};

struct Neighbourhood {
    Span<const double> centre;
    double reach;

    using Fields = std::tuple<Span<const double>, double>;

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
            const Index chosen = lists.best(scores, s);
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
        const double along = dot(direction, near.centre);
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
    lists.score(centre, scores);
    for (Index s = 0; s < lists.count(); ++s) {
        const Index best = lists.best(scores, s);
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
    module.def("combine", &combine_into, "columns"_a, "weights"_a, "scores"_a, unlocked);
    module.def("decode_cost", &decode_cost, "scores"_a, "offsets"_a, "costs"_a, "error"_a, unlocked);
    nb::class_<AnyLineSearch> search(module, "LineSearch");
    define_init<Rows<const double>, Span<const Index>, Losses>(search, "columns", "offsets", "losses");
    search.def("at", &at, "weights"_a, unlocked);
    search.def("along", &along, "weights"_a, "direction"_a, "low"_a, "high"_a, "scale"_a, unlocked);
    search.def("best_coordinate", &best_coordinate, "weights"_a, "coordinates"_a, "ranges"_a, "scale"_a, unlocked);
    search.def("events", &events, "weights"_a, "direction"_a, unlocked);
    module.def("descend", &descend, "search"_a, "weights"_a, "near"_a, "draws"_a, "turns"_a, "patience"_a, "searches"_a,
               unlocked);
    module.def("find_reaches", &find_reaches, "search"_a, "centre"_a, unlocked);
}

}  // namespace lpmert::lines
