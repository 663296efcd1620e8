// What choices cost while a line is swept: whole costs that add up, or the ratio of summed statistics.
#pragma once

#include <vector>

#include "ratio.hpp"

namespace lpmert::lines {

// A sum of costs [M]: a level is a whole number.
class SumOfCosts {
    Span<const Cost> costs;
    Cost sum = 0;

  public:
    using Level = Cost;
    using Change = Cost;

    explicit SumOfCosts(Span<const Cost> costs_) : costs(costs_) {}

    void clear() { sum = 0; }
    void choose(Index row) { sum += costs[row]; }
    Change change(Index leaving, Index entering) const { return costs[entering] - costs[leaving]; }
    static bool matters(Change change) { return change != 0; }
    static void prefetch(Change) {}
    void replace(Change change) { sum += change; }
    Level level() const { return sum; }
};

// A ratio metric of the sum of statistics [M, K] and a constant [K].
class LossOfSums {
    Index kind;
    Span<const double> parameters;
    Rows<const double> statistics;
    Span<const double> constant;
    std::vector<double> total;

  public:
    using Level = double;
    struct Change {
        Row leaving, entering;
    };

    LossOfSums(Index kind_, Span<const double> parameters_, Rows<const double> statistics_,
               Span<const double> constant_)
        : kind(kind_), parameters(parameters_), statistics(statistics_), constant(constant_) {
        clear();
    }

    void clear() { total.assign(constant.begin(), constant.end()); }
    void choose(Index row) {
        const double* const own = statistics[row].data();
        for (std::size_t k = 0; k < total.size(); ++k) total[k] += own[k];
    }
    Change change(Index leaving, Index entering) const {
        return {static_cast<Row>(leaving), static_cast<Row>(entering)};
    }
    static bool matters(Change) { return true; }
    void prefetch(Change change) const {
        lpmert::prefetch(statistics[change.leaving].data());
        lpmert::prefetch(statistics[change.entering].data());
    }
    void replace(Change change) {
        const double* const old = statistics[change.leaving].data();
        const double* const own = statistics[change.entering].data();
        for (std::size_t k = 0; k < total.size(); ++k) total[k] += own[k] - old[k];
    }
    Level level() const { return loss_of_total(kind, parameters, total.data(), constant.size()); }
};

}  // namespace lpmert::lines
