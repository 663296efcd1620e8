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
// Tangents are taken at no less than 1 / WIDEST of the largest sum: a steeper slope would drown the others in rounding.
inline constexpr double WIDEST = 256.0;
inline constexpr double LARGEST = 1e3;  // a minorant whose terms add up to more is useless
// Most units that rounding may take off a bound. Beyond, counts differ so much that the bound could leave 64 bits.
inline constexpr double MOST_LOST_UNITS = 0x1p60;

// Raise ValueError for an unknown kind, or a wrong number of parameters or statistics.
inline void check_kind(Index kind, Index n_parameters, Index n_columns) {
    if (kind < metric::BLEU || kind > metric::BUDGET) throw std::invalid_argument("kind is none of a ratio metric");
    const bool right = kind == metric::BLEU       ? n_columns == 9
                       : kind == metric::FRACTION ? n_parameters == 2 * n_columns
                       : kind == metric::CHRF     ? n_parameters == 1 && n_columns % 3 == 0
                                                  : n_parameters == 3 && n_columns == 2;
    if (!right) throw std::invalid_argument("the metric takes another number of statistics or parameters");
}

// The loss of sums [K]. It is a number whichever sums are zero.
inline double loss_of_total(Index kind, Span<const double> parameters, Span<const double> total) {
    const Index n_columns = total.size();
    if (kind == metric::BLEU) {
        const double matches = total[0] * total[2] * total[4] * total[6];
        if (matches <= 0.0) return 1.0;
        double score = std::sqrt(std::sqrt(matches / (total[1] * total[3] * total[5] * total[7])));
        if (total[1] < total[8]) score *= std::exp(1.0 - total[8] / total[1]);
        return 1.0 - score;
    }
    if (kind == metric::FRACTION) {
        const auto part = [&](Index first) {
            return std::inner_product(total.begin(), total.end(), &parameters[first], 0.0);
        };
        const double below = part(n_columns);
        return below > 0.0 ? part(0) / below : 1.0;
    }
    if (kind == metric::BUDGET) {
        const double excess = total[1] - parameters[0];
        return excess <= 0.0 ? std::min(0.5, parameters[1] * total[0]) : std::min(1.0, 0.5 + parameters[2] * excess);
    }
    double precision = 0.0, recall = 0.0, n_orders = 0.0;
    for (Index n = 0; n < n_columns; n += 3) {
        if (total[n] > 0.0 && total[n + 1] > 0.0) {
            precision += total[n + 2] / total[n];
            recall += total[n + 2] / total[n + 1];
            n_orders += 1.0;
        }
    }
    const double below = parameters[0] * precision + recall;
    if (below <= 0.0) return 1.0;
    return 1.0 - (1.0 + parameters[0]) * precision * recall / (below * n_orders);
}

// A height in units such that all losses of at least this height are no lower than this loss.
inline Index height_limit(Index kind, double loss) {
    if (loss >= 1.0) return INFINITE_COST;
    const double height = kind == metric::BLEU ? -std::log1p(-loss) : loss;
    const double slack = 16.0 * EPSILON * (1.0 + height) + 8.0 * EPSILON / (1.0 - loss);
    return static_cast<Index>(std::ceil((height + slack) / UNIT)) + 1;
}

// A lower bound on all losses whose height is at least this one.
inline double loss_of_height(Index kind, double height) {
    const double loss = kind == metric::BLEU ? -std::expm1(-height) : height;
    return std::max(0.0, loss - 8.0 * EPSILON);
}

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
    void check(Index n_rows) const {
        check_size(statistics.rows(), n_rows, "statistics");
        check_size(classes.size(), n_rows, "classes");
        check_size(statistics.columns(), constant.size(), "a row of statistics");
        check_size(reach.size(), constant.size(), "reach");
        check_kind(kind, parameters.size(), constant.size());
    }
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
    double lay(Index kind, Span<const double> parameters) {
        std::fill(slopes.begin(), slopes.end(), 0.0);
        const Laid laid = kind == metric::BLEU     ? lay_bleu()
                          : kind == metric::CHRF   ? lay_chrf(parameters[0])
                          : kind == metric::BUDGET ? lay_budget(parameters)
                                                   : Laid{0.0, 0.0};
        if (laid.size < LARGEST) return laid.constant - 64.0 * EPSILON * laid.size;
        std::fill(slopes.begin(), slopes.end(), 0.0);
        return 0.0;
    }

    // Lay the minorant; return (height of the settled sums [K] and the constant in units, whether any slope is not 0).
    // The height allows for the rounding of the `cost` of a row of each of n_open other lists, which add to it.
    std::pair<Index, bool> lay_in_units(const Ratio& ratio, Span<const double> settled, Index n_open) {
        double constant = lay(ratio.kind, ratio.parameters);
        if (constant == INF) return {INFINITE_COST, true};
        double size = std::abs(constant), error = 0.0;
        bool useful = false;
        for (Index k = 0; k < ratio.n_columns(); ++k) {
            constant += slopes[k] * settled[k];
            size += std::abs(slopes[k]) * settled[k];
            error += std::abs(slopes[k]) * ratio.reach[k];
            useful = useful || slopes[k] != 0.0;
        }
        const double n_terms = static_cast<double>(ratio.n_columns() + 3);
        const double lost = n_terms * EPSILON * error / UNIT;
        if (lost * static_cast<double>(n_open) > MOST_LOST_UNITS) {
            std::fill(slopes.begin(), slopes.end(), 0.0);
            return {0, false};
        }
        const Index units = static_cast<Index>(std::floor((constant - n_terms * EPSILON * size) / UNIT));
        return {units - n_open * (static_cast<Index>(lost) + 1), useful};
    }

  private:
    struct Laid {
        double constant;
        double size;  // a bound on the sum of the sizes of the constant's terms
    };

    // Bound the height of BLEU by tangents of the logarithms of matches, chords of those of totals, and a tangent of a
    // McCormick envelope of the brevity penalty (R1, R2).
    Laid lay_bleu() {
        double constant = 0.0, size = 1.0;
        for (std::size_t n = 0; n < 8; n += 2) {
            if (high[n] < 1.0) return {INF, 0.0};
            const double point = std::min(high[n], std::max({at[n], low[n], high[n] / WIDEST, 1.0}));
            constant += 0.25 * (1.0 - std::log(point));
            slopes[n] = -0.25 / point;
            const double least = std::max(1.0, low[n + 1]), most = high[n + 1];
            slopes[n + 1] = most > least ? 0.25 * (std::log(most) - std::log(least)) / (most - least) : 0.0;
            constant += 0.25 * std::log(least) - slopes[n + 1] * least;
            size += std::log(point) + std::log(most) + slopes[n + 1] * most + high[n] / point;
        }
        const double least = std::max(1.0, low[1]), most = high[1];
        const double length = std::min(most, std::max({at[1], least, most / WIDEST}));
        // The term reference / length - 1, where 1 / length is between 1 / most and 1 / least, and at least its
        // tangent.
        const double below = low[8] / length + (at[8] - low[8]) / most;
        const double above = high[8] / length + (at[8] - high[8]) / least;
        const double reference = below >= above ? low[8] : high[8];
        const double steepness = below >= above ? 1.0 / most : 1.0 / least;
        if (std::max(below, above) > 1.0) {
            constant += reference * (2.0 / length - steepness) - 1.0;
            slopes[1] -= reference / (length * length);
            slopes[8] = steepness;
            size += reference * (2.0 / length + steepness) + reference / length * most / length + steepness * high[8];
        }
        return {constant, size};
    }

    // Bound the loss of chrF by a tangent of the harmonic mean of precision and recall, and a McCormick envelope above
    // each of the two (R3).
    Laid lay_chrf(double squared) {
        double n_orders = 0.0, precision = 0.0, recall = 0.0;
        for (std::size_t n = 0; n < low.size(); n += 3) {
            if (high[n] < 1.0 || high[n + 1] < 1.0) continue;
            if (low[n] < 1.0 || low[n + 1] < 1.0) return {0.0, 0.0};  // this order may count or not
            n_orders += 1.0;
            precision += at[n + 2] / std::max(1.0, at[n]);
            recall += at[n + 2] / std::max(1.0, at[n + 1]);
        }
        if (n_orders == 0.0) return {1.0, 0.0};
        if (precision <= 0.0 || recall <= 0.0) precision = recall = 1.0;
        const double below = squared * precision + recall;
        double constant = 1.0, size = 1.0;
        for (std::size_t n = 0; n < low.size(); n += 3) {
            if (high[n] < 1.0 || high[n + 1] < 1.0) continue;
            for (std::size_t k = 0; k < 2; ++k) {
                const double share = k == 0 ? recall / below : precision / below;
                const double factor = (1.0 + squared) * share * share / n_orders * (k == 0 ? 1.0 : squared);
                const double least = low[n + k], most = high[n + k];
                // 1 / count is at most its chord, intercept - descent * count.
                const double descent = 1.0 / (least * most), intercept = 1.0 / least + 1.0 / most;
                const double chord = intercept - descent * at[n + k];
                const double above_high = high[n + 2] * chord + (at[n + 2] - high[n + 2]) / most;
                const double above_low = low[n + 2] * chord + (at[n + 2] - low[n + 2]) / least;
                const double match = above_high <= above_low ? high[n + 2] : low[n + 2];
                const double steepness = above_high <= above_low ? 1.0 / most : 1.0 / least;
                constant -= factor * match * (intercept - steepness);
                slopes[n + k] += factor * match * descent;
                slopes[n + 2] -= factor * steepness;
                size += factor * (match * (2.0 * intercept + descent * most) + steepness * high[n + 2]);
            }
        }
        return {constant, size};
    }

    // Bound the loss of a budget by itself, or, if the box has points on both sides of the budget, by the loss plus a
    // price on the excess (R7). The price is at most the slope of the box's diagonal, and 0 if the point keeps to the
    // budget.
    Laid lay_budget(Span<const double> parameters) {
        const double most = parameters[0], unit = parameters[1], beyond = parameters[2];
        if (low[1] > most) {
            if ((high[1] - most) * beyond > 0.5) return {0.5, 0.5};
            slopes[1] = beyond;
            return {0.5 - most * beyond, 0.5 + (most + high[1]) * beyond};
        }
        if (unit * high[0] > 0.5) return {0.0, 0.0};
        slopes[0] = unit;
        if (high[1] <= most) return {0.0, unit * high[0]};
        const double width = high[1] - low[1];
        const double share = std::min(1.0, std::max(0.0, (at[1] - most) / width));
        const double steepest = (0.5 - unit * high[0]) / (high[1] - most);
        slopes[1] = std::min(share * unit * (high[0] - low[0]) / width, (1.0 - 8.0 * EPSILON) * steepest);
        return {-slopes[1] * most, unit * high[0] + slopes[1] * (most + high[1])};
    }

    Reals least_, most_;  // [K] range of a list
};

struct DecodedTotal {
    double loss;
    // Whether the weights lie in the cap, and every winner is allowed and clearly leads all of other classes.
    bool clear;
};

// Write the position of each list's winner, and the summed statistics [K]; scores is work space.
inline DecodedTotal decode_total(const Lists& lists, const Ratio& ratio, const double* weights, Index* selection,
                                 double* scores, Span<double> total) {
    const double bound = rounding_bound(lists, weights);
    std::copy(ratio.constant.begin(), ratio.constant.end(), total.begin());
    bool clear = in_cap(lists, weights);
    for (Index s = 0; s < lists.n_lists(); ++s) {
        const Index begin = lists.offsets[s], length = lists.length(s);
        score_list(lists, s, weights, scores);
        const Index best = largest(scores, length);
        selection[s] = best;
        ratio.add(begin + best, total);
        const Index winning = ratio.classes[begin + best];
        clear = clear && winning != FORBIDDEN;
        const double least = scores[best] - bound;
        for (Index i = 0; clear && i < length; ++i)
            clear = !(scores[i] >= least && ratio.classes[begin + i] != winning);
    }
    return {ratio.loss(total), clear};
}

}  // namespace lpmert
