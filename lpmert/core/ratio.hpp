// Metrics that are functions of summed statistics, and linear lower bounds on them: BLEU, chrF, fractions and budgets.
//
// A height is an increasing function of the loss that has linear lower bounds in the sums (lemmas R1 to R4 of
// proofs/ratio.md, R7 for budgets). Searches compare heights in whole units: bounds are rounded down, limits up.
//
//     BLEU      sums match_1, total_1, ..., match_4, total_4, reference length; no parameters
//     Fraction  a.x / b.x, and 1 where the denominator is 0; parameters a [K], b [K]
//     chrF      sums of hypothesis, reference and matching n-grams of each order; parameters [beta^2]
//     Budget    sums loss, second; parameters most, u, v: min(1/2, u * loss) if second <= most,
//               else min(1, 1/2 + v * (second - most))
//
// The `check` of a metric in `lpmert.metrics.ratio` rejects statistics that its formula does not take. Then the loss is
// at least 0, and at most 1 unless the metric is a fraction.
#pragma once

#include "binding.hpp"
#include "lists.hpp"

namespace lpmert {

namespace metric {
enum Kind : Index { BLEU, FRACTION, CHRF, BUDGET };
}

inline constexpr double UNIT = 0x1p-48;  // height of one unit
inline constexpr Index FORBIDDEN = -1;   // class of a hypothesis that no weights in the region choose

// Raise ValueError for an unknown kind, or a wrong number of parameters or statistics.
void check_kind(Index kind, Index n_parameters, Index n_columns);

// The loss of sums [K]. It is a number whichever sums are zero.
double loss_of_total(Index kind, Span<const double> parameters, Span<const double> total);

// A height in units such that all losses of at least this height are no lower than this loss.
Index height_limit(Index kind, double loss);

// A ratio metric, and its statistics of the hypotheses of lists. statistics [M, K]; constant [K]: sums over lists that
// presolve settled; reach [K]: the largest of each statistic; classes [M]: hypotheses of a list are in the same class
// if their statistics are equal.
struct Ratio {
    Index kind;
    Span<const double> parameters;
    Rows<const double> statistics;
    Span<const double> constant, reach;
    Span<const Index> classes;

    using Fields = std::tuple<Index, Span<const double>, Rows<const double>, Span<const double>, Span<const double>,
                              Span<const Index>>;

    Index n_columns() const { return constant.size(); }
    // Raise ValueError unless the sizes fit together, with this many rows.
    void check(Index n_rows) const;
    // The loss of sums [K].
    double loss(Span<const double> total) const { return loss_of_total(kind, parameters, total); }
    // slopes . statistics of a hypothesis, in units, rounded down.
    Index cost(Span<const double> slopes, Index row) const {
        const Span<const double> of_row = statistics[row];
        const double height = std::inner_product(of_row.begin(), of_row.end(), slopes.begin(), 0.0);
        return static_cast<Index>(std::floor(height / UNIT));
    }
    void add(Index row, Span<double> sums) const {
        const Span<const double> of_row = statistics[row];
        for (Index k = 0; k < of_row.size(); ++k) sums[k] += of_row[k];
    }
};

// A linear minorant of the height on the box low .. high [K] of the sums, laid to be good at the point `at` [K].
struct Minorant {
    explicit Minorant(Index n_columns) : low(n_columns), high(low), at(low), slopes(low), least_(low), most_(low) {}

    Reals low, high, at, slopes;

    // Begin the box with the sums [K] of the settled lists.
    void begin(Span<const double> sums) {
        low.assign(sums.begin(), sums.end());
        high = low;
    }
    // Widen the box by a list: by the range of each statistic among row(0) .. row(size - 1), without those that are -1.
    // Return whether the list has any row.
    template <class RowOf>
    bool widen(const Ratio& ratio, Index size, RowOf row) {
        bool any = false;
        for (Index i = 0; i < size; ++i) {
            const Index candidate = row(i);
            if (candidate < 0) continue;
            const double* const statistics = ratio.statistics[candidate].begin();
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
    // The constant already allows for its rounding error. It is infinite if every x in the box has a loss of 1. The
    // slopes are 0 if no bound but 0 is known, as for a fraction.
    double lay(Index kind, Span<const double> parameters);

    // Lay the minorant; return (height of the settled sums [K] and the constant in units, whether any slope is not 0).
    // The height allows for the rounding of the `cost` of a row of each of n_open other lists, which add to it.
    std::pair<Index, bool> lay_in_units(const Ratio& ratio, Span<const double> settled, Index n_open);

  private:
    Reals least_, most_;  // [K] range of a list
};

struct DecodedTotal {
    double loss;
    // Whether the weights lie in the cap, and every winner is allowed and clearly leads all of other classes.
    bool clear;
};

// Write the position of each list's winner, and the summed statistics [K]; scores is work space.
DecodedTotal decode_total(const Lists& lists, const Ratio& ratio, const double* weights, Index* selection,
                          double* scores, Span<double> total);

}  // namespace lpmert
