// Metrics that are ratios of summed statistics, and linear bounds of them: corpus BLEU, corpus chrF, PER.
//
// A height is a monotone function of the loss that linear functions of the sums bound from below (lemmas R1 to R4 of
// proofs/ratio.md, R7 for PER). Searches compare heights as whole numbers of units, rounded down for bounds and up for
// limits.
//
// BLEU: totals match_1, total_1, ..., match_4, total_4, reference length; no parameters.
// Fraction: (a.x + a0) / (b.x + b0); parameters a [K], a0, b [K], b0; 1 where the denominator is 0.
// chrF: totals hypothesis, reference and matching n-grams of each order; parameters [beta^2].
// PER: totals match, hypothesis and reference words; no parameters.
//
// `lpmert.metrics.ratio.check_kind` refuses every other kind, and statistics that a formula does not take: the loss of
// what it lets pass is at least 0, and at most 1 unless it is a fraction.
#pragma once

#include <algorithm>
#include <cmath>

#include "lists.hpp"

namespace lpmert {

namespace metric {
enum Kind : Index { BLEU, FRACTION, CHRF, PER };
}

inline constexpr double UNIT = 0x1p-48;  // height of one unit
inline constexpr Index FORBIDDEN = -1;   // class of a hypothesis that no weights in the region choose

// What the hypotheses of lists mean to a ratio metric. statistics [M, K]; constant [K]: of lists that are settled for
// good; reach [K]: the largest of each statistic; classes [M]: equal within a list where the statistics are.
struct Ratio {
    Index kind = 0;
    Span<const double> parameters;
    Rows<const double> statistics;
    Span<const double> constant, reach;
    Span<const Index> classes;

    Index n_columns() const { return constant.size(); }
};

// A linear minorant of the height: of the box low, high [K] of the sums, laid where it is good at `at` [K].
struct Minorant {
    explicit Minorant(Index n_columns)
        : low(static_cast<std::size_t>(n_columns)), high(low), at(low), slopes(low), least_(low), most_(low) {}

    std::vector<double> low, high, at, slopes;

    // Begin the box with sums [K] that are settled.
    void begin(const double* sums) {
        low.assign(sums, sums + low.size());
        high = low;
    }
    // Widen the box by what a list may add: the range of each statistic among row(0) .. row(size - 1), of which -1 is
    // none. Return whether there is any.
    template <class RowOf>
    bool widen(const Ratio& ratio, Index size, RowOf row) {
        bool any = false;
        for (Index i = 0; i < size; ++i) {
            const Index own = row(i);
            if (own < 0) continue;
            const double* const statistics = ratio.statistics[own].begin();
            for (std::size_t k = 0; k < low.size(); ++k) {
                least_[k] = any ? std::min(least_[k], statistics[k]) : statistics[k];
                most_[k] = any ? std::max(most_[k], statistics[k]) : statistics[k];
            }
            any = true;
        }
        for (std::size_t k = 0; any && k < low.size(); ++k) {
            low[k] += least_[k];
            high[k] += most_[k];
        }
        return any;
    }

    // Fill the slopes and return a constant so that height(x) >= constant + slopes . x for all whole x in the box.
    //
    // The constant is rounded down by what its computation may be off. It is infinite where every x in the box has a
    // loss of 1; the slopes are 0 where no bound but 0 is known, as for a fraction.
    double lay(Index kind, Span<const double> parameters);

    // Lay it; return (units of the settled sums [K] and the constant, whether any slope is not 0). n_open other lists
    // add, in units, their `row_cost` each.
    std::pair<Index, bool> lay_in_units(const Ratio& ratio, const double* settled, Index n_open);

  private:
    std::vector<double> least_, most_;  // [K] of a list
};

// Raise ValueError for a kind that there is not, or one that takes another number of parameters and statistics.
void check_kind(Index kind, Index n_parameters, Index n_columns);

// The loss of sums [K]; whatever is zero it is a number, NaN for an unknown kind only.
double loss_of_total(Index kind, Span<const double> parameters, const double* total, Index n_columns);

// The height of a loss, infinite for a BLEU of 0.
double height_of_loss(Index kind, double loss);

// A loss that is no more than any whose height is at least this one.
double loss_of_height(Index kind, double height);

// A height in units from which on no loss is lower than this one.
Index height_limit(Index kind, double loss);

// slopes . statistics of a hypothesis in units.
inline Index row_cost(const Ratio& ratio, const double* slopes, Index row) {
    const double* statistics = ratio.statistics[row].begin();
    double value = 0.0;
    for (Index k = 0; k < ratio.n_columns(); ++k) value += slopes[k] * statistics[k];
    return static_cast<Index>(std::floor(value / UNIT));
}

// The highest of the heights in units, which no selection undercuts, by some minorants: the first is laid at `at`, the
// others where the cheapest rows under those before are, as in the method of Frank and Wolfe. Leaves the box of all
// sums in the minorant, and where the best one is laid; costs [M]: what each row costs more under it than the cheapest
// of its list, 0 where no selection has a loss below 1.
Index best_height(Span<const Index> offsets, const Ratio& ratio, Minorant& minorant, Index tangents,
                  std::vector<Index>& costs);

// Fill rows [S] with the first row of each list of the least value - multiplier * length, costs [S] with that.
void cheapest_of_lists(Span<const double> values, Span<const double> lengths, double multiplier,
                       Span<const Index> offsets, Span<Index> rows, Span<double> costs);

struct DecodedTotal {
    double loss;
    // Whether the weights lie in the cap, every winner leads by more than rounding, or is within rounding of its equals
    // only, and none is forbidden.
    bool clear;
};

// Write each list's winner, counted within the list, and the summed statistics [K]; scores is work space.
DecodedTotal decode_total(const Lists& lists, const Ratio& ratio, const double* weights, Index* selection,
                          double* scores, double* total);

}  // namespace lpmert
