// Descents: line searches one after the other, on all lists or near given weights.
//
// Sources: Och 2003 (line search); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured Prediction,
// NIPS 2010 (directions from the chosen hypotheses towards cheaper ones).
#include "line_search.hpp"

namespace lpmert::lines {

namespace {

// What one descent draws: directions [T, D], costs of a unit of score [T], lists that take part [T, S]; a longer
// descent goes through them again.
struct Draws {
    Rows<const double> directions;
    Span<const double> rates;
    Rows<const bool> taking_part;
};

// Weights stay within reach of the centre [D], at right angles to it; where that is infinite, they go anywhere.
struct Neighbourhood {
    Span<const double> centre;
    double reach;

    bool bounded() const { return reach < INF; }
};

struct Ends {
    double low, high;
};

class Descent {
    LineSearch<SumOfCosts>& search;
    Span<const Cost> costs;
    Neighbourhood near;
    std::vector<double> direction, trial;

    // Write the sum of the steps from chosen hypotheses to those with the best score minus rate times cost.
    void towards_cheaper(double rate, Span<const bool> taking_part) {
        const Lists& lists = search.lists;
        const std::vector<double>& scores = search.intercepts;
        const auto merit = [&](Index i) {
            return scores[static_cast<std::size_t>(i)] - rate * static_cast<double>(costs[i]);
        };
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
                const Span<const double> column = lists.columns[static_cast<Index>(d)];
                direction[d] += column[wanted] - column[chosen];
            }
        }
    }

    // Turn the direction to right angles to the centre, at length 1; return the t that keep weights within reach.
    Ends across(Span<const double> weights) {
        double along = 0.0;
        for (std::size_t d = 0; d < direction.size(); ++d) along += direction[d] * near.centre[static_cast<Index>(d)];
        for (std::size_t d = 0; d < direction.size(); ++d) direction[d] -= along * near.centre[static_cast<Index>(d)];
        const double length = norm(direction);
        if (length == 0.0) return {0.0, 0.0};
        double slope = 0.0, inside = near.reach * near.reach;
        for (std::size_t d = 0; d < direction.size(); ++d) {
            direction[d] /= length;
            const double step = weights[static_cast<Index>(d)] - near.centre[static_cast<Index>(d)];
            slope += step * direction[d];
            inside -= step * step;
        }
        const double root = std::sqrt(slope * slope + std::max(inside, 0.0));
        return {-slope - root, root - slope};
    }

  public:
    Descent(LineSearch<SumOfCosts>& search_, Span<const Cost> costs_, Neighbourhood near_)
        : search(search_),
          costs(costs_),
          near(near_),
          direction(static_cast<std::size_t>(search_.lists.dimension())),
          trial(direction.size()) {}

    // Search from weights [D], which are replaced, until `patience` directions in a row do not lower the cost. Drawn
    // directions and directions towards cheaper hypotheses alternate; at equal cost too the weights move to the middle
    // of the best interval. turns [2], the directions gone through and how many of the last ones failed, let a search
    // that used up its searches go on as if it had not ended. Returns the searches left.
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
            const Ends ends = near.bounded() ? across(weights) : Ends{-INF, INF};
            if (!(ends.low < ends.high)) continue;
            search.turn_to(direction);
            const auto promised = search.step(ends.low, ends.high, length / norm(direction), {Interval::WIDEST, 0.0});
            if (promised.level > cost) continue;
            for (std::size_t d = 0; d < trial.size(); ++d)
                trial[d] = weights[static_cast<Index>(d)] + promised.at * direction[d];
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

Index descend(BoundLineSearch& self, const Writable& weights, const Array& centre, double reach,
              const Array& directions, const Array& rates, const Array& taking_part, const Writable& turns,
              Index patience, Index searches) {
    auto* const search = std::get_if<LineSearch<SumOfCosts>>(&self.search);
    if (!search) throw std::invalid_argument("descents are for sums of costs");
    const Span<double> own = self.vector_of(weights, "weights");
    const Draws draws{matrix<double>(directions, "directions"), vector<double>(rates, "rates"),
                      matrix<bool>(taking_part, "taking_part")};
    const Span<Index> taken = vector<Index>(turns, "turns");
    check_size(draws.directions.columns(), own.size(), "the rows of directions");
    check_size(draws.rates.size(), draws.directions.rows(), "rates");
    check_size(draws.taking_part.rows(), draws.directions.rows(), "taking_part");
    check_size(draws.taking_part.columns(), self.lists().count(), "the rows of taking_part");
    check_size(taken.size(), 2, "turns");
    if (draws.directions.rows() == 0 || taken[0] < 0) throw std::invalid_argument("directions must not be empty");
    return Descent(*search, self.costs, {self.vector_of(centre, "centre"), reach})
        .run(own, draws, taken, patience, searches);
}

// Write how far from weights c of length 1, at right angles to them, each hypothesis wins first; 0 if at c. With g the
// step from the winner's features to its own, and h how far it is behind, a hypothesis wins at c + x if g . x >= h, and
// g . x is at most |x| times the length of g across c.
void find_reaches(BoundLineSearch& self, const Array& centre, const Writable& reaches) {
    const Span<const double> own = self.vector_of(centre, "centre");
    const Span<double> found = vector<double>(reaches, "reaches");
    const Lists& lists = self.lists();
    check_size(found.size(), lists.rows(), "reaches");
    std::vector<double> scores(static_cast<std::size_t>(lists.rows()));
    combine(lists.columns, own, scores);
    std::fill(found.begin(), found.end(), 0.0);
    for (Index s = 0; s < lists.count(); ++s) {
        const Index best = best_row(scores, lists.begin(s), lists.end(s));
        for (Index d = 0; d < lists.dimension(); ++d) {
            const Span<const double> column = lists.columns[d];
            const double winner = column[best];
            for (Index i = lists.begin(s); i < lists.end(s); ++i) {
                const double step = column[i] - winner;
                found[i] += step * step;
            }
        }
        for (Index i = lists.begin(s); i < lists.end(s); ++i) {
            const double behind = scores[static_cast<std::size_t>(best)] - scores[static_cast<std::size_t>(i)];
            const double square = found[i] - behind * behind;
            found[i] = behind == 0.0 ? 0.0 : square > 0.0 ? behind / std::sqrt(square) : INF;
        }
    }
}

}  // namespace

}  // namespace lpmert::lines

namespace lpmert {

using namespace lines;

void bind_descent(nb::module_& module) {
    using nb::literals::operator""_a;
    const auto free = nb::call_guard<nb::gil_scoped_release>();
    module.def("descend", &descend, "search"_a, "weights"_a, "centre"_a, "reach"_a, "directions"_a, "rates"_a,
               "taking_part"_a, "turns"_a, "patience"_a, "searches"_a, free);
    module.def("find_reaches", &find_reaches, "search"_a, "centre"_a, "reaches"_a, free);
}

}  // namespace lpmert
