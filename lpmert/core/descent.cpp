// Descents: line searches one after the other, on all lists or near given weights.
//
// Sources: Och 2003 (line search); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured Prediction,
// NIPS 2010 (directions from the chosen hypotheses towards cheaper ones).
#include "binding.hpp"
#include "line_search.hpp"

namespace lpmert::lines {

namespace {

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
            const auto promised = search.step(low, high, length / norm(direction), {WIDEST, 0.0});
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

void bind_descent(nb::module_& module) {
    define(module, "descend", &descend, "search", "weights", "near", "draws", "turns", "patience", "searches");
    define(module, "find_reaches", &find_reaches, "search", "centre");
}

}  // namespace lpmert::lines
