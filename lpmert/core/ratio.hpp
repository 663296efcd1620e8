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
    explicit Minorant(Index n_columns) : low(static_cast<std::size_t>(n_columns)), high(low), at(low), slopes(low) {}

    std::vector<double> low, high, at, slopes;

    // Fill the slopes and return a constant so that height(x) >= constant + slopes . x for all whole x in the box.
    //
    // The constant is rounded down by what its computation may be off. It is infinite where every x in the box has a
    // loss of 1; the slopes are 0 where no bound but 0 is known, as for a fraction.
    double lay(Index kind, Span<const double> parameters);

    // Lay it; return (units of the settled sums [K] and the constant, whether any slope is not 0). n_open other lists
    // add, in units, their `row_cost` each.
    std::pair<Index, bool> lay_in_units(const Ratio& ratio, const double* settled, Index n_open);
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

// A height in units that no selection undercuts, by the minorant laid at `at`; costs [M]: what each row costs more
// under it than the cheapest of its list.
Index height_of_all(Span<const Index> offsets, const Ratio& ratio, Minorant& minorant, Index* costs);

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
