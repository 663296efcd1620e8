// Metrics that are functions of summed statistics, and linear bounds of them: corpus BLEU, corpus chrF, budgets.
//
// A height is a monotone function of the loss that linear functions of the sums bound from below (lemmas R1 to R4 of
// proofs/ratio.md, R7 for budgets). Searches compare heights as whole numbers of units, rounded down for bounds and up
// for limits.
//
// BLEU: totals match_1, total_1, ..., match_4, total_4, reference length; no parameters.
// Fraction: a.x / b.x; parameters a [K], b [K]; 1 where the denominator is 0.
// chrF: totals hypothesis, reference and matching n-grams of each order; parameters [beta^2].
// Budget: totals loss and second; parameters most, u, v. The loss is u * loss where second is at most `most`, and never
// above 1/2; beyond it is 1/2 + v * (second - most), and never above 1.
//
// The `check` of a metric in `lpmert.metrics.ratio` refuses statistics that its formula does not take: the loss of what
// it lets pass is at least 0, and at most 1 unless it is a fraction.
#pragma once

#include "binding.hpp"
#include "lists.hpp"

namespace lpmert {

namespace metric {
enum Kind : Index { BLEU, FRACTION, CHRF, BUDGET };
}

inline constexpr double UNIT = 0x1p-48;  // height of one unit
inline constexpr Index FORBIDDEN = -1;   // class of a hypothesis that no weights in the region choose

// Raise ValueError for a kind that there is not, or one that takes another number of parameters and statistics.
void check_kind(Index kind, Index n_parameters, Index n_columns);

// The loss of sums [K]; whatever is zero it is a number.
double loss_of_total(Index kind, Span<const double> parameters, Span<const double> total);

// A height in units from which on no loss is lower than this one.
Index height_limit(Index kind, double loss);

// What the hypotheses of lists mean to a ratio metric. statistics [M, K]; constant [K]: of lists that are settled for
// good; reach [K]: the largest of each statistic; classes [M]: equal within a list where the statistics are.
struct Ratio {
    Index kind;
    Span<const double> parameters;
    Rows<const double> statistics;
    Span<const double> constant, reach;
    Span<const Index> classes;

    using Fields = std::tuple<Index, Span<const double>, Rows<const double>, Span<const double>, Span<const double>,
                              Span<const Index>>;

    Index n_columns() const { return constant.size(); }
    // Raise ValueError unless all fit together, and have so many rows.
    void check(Index n_rows) const;
    // The loss of sums [K].
    double loss(Span<const double> total) const { return loss_of_total(kind, parameters, total); }
    // slopes . statistics of a hypothesis in units.
    Index cost(Span<const double> slopes, Index row) const {
        const Span<const double> own = statistics[row];
        return static_cast<Index>(std::floor(std::inner_product(own.begin(), own.end(), slopes.begin(), 0.0) / UNIT));
    }
    void add(Index row, Span<double> sums) const {
        const Span<const double> own = statistics[row];
        for (Index k = 0; k < own.size(); ++k) sums[k] += own[k];
    }
};

// A linear minorant of the height: of the box low, high [K] of the sums, laid where it is good at `at` [K].
struct Minorant {
    explicit Minorant(Index n_columns) : low(n_columns), high(low), at(low), slopes(low), least_(low), most_(low) {}

    Reals low, high, at, slopes;

    // Begin the box with sums [K] that are settled.
    void begin(Span<const double> sums) {
        low.assign(sums.begin(), sums.end());
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
    // add, in units, the `cost` of a row each.
    std::pair<Index, bool> lay_in_units(const Ratio& ratio, Span<const double> settled, Index n_open);

  private:
    Reals least_, most_;  // [K] of a list
};

struct DecodedTotal {
    double loss;
    // Whether the weights lie in the cap, every winner leads by more than rounding, or is within rounding of its equals
    // only, and none is forbidden.
    bool clear;
};

// Write each list's winner, counted within the list, and the summed statistics [K]; scores is work space.
DecodedTotal decode_total(const Lists& lists, const Ratio& ratio, const double* weights, Index* selection,
                          double* scores, Span<double> total);

}  // namespace lpmert
