// Lists of hypotheses as the searches see them: scores, decoding, and bounds on rounding errors.
//
// A score is a sum of D products. In whatever order it is added up, the difference of two scores has an error of at
// most 2 (D + 3) eps sum_d |w_d| reach_d, plus 2 sum_d |w_d| spread_d if the features themselves are rounded (lemma P5
// of proofs/problem.md), and 2 (D + 3) TINY for products that underflow. If a hypothesis leads by more than this, it
// leads in exact arithmetic.
#pragma once

#include "arrays.hpp"
#include "vectors.hpp"

namespace lpmert {

inline constexpr double EPSILON = std::numeric_limits<double>::epsilon();

// More than underflow takes from a product.
inline constexpr double TINY = 0x1p-1060;

// The cost of a forbidden hypothesis, larger than that of any selection. `capped_sum` caps sums at it.
inline constexpr Index INFINITE_COST = Index{1} << 61;

inline Index capped_sum(Index cost, Index more) {
    const Index sum = cost + more;
    return sum < INFINITE_COST ? sum : INFINITE_COST;
}

// The features of all hypotheses: as rows [M, D], in order of cost within each list, and as columns [D, length] of one
// list after the other. offsets [S + 1]; costs [M]; reach [D]: largest magnitude of each feature; spread [D]: largest
// error of each feature; cap: empty, or a unit vector [D] and the least cosine that weights must have with it.
class Lists {
    std::shared_ptr<const Reals> columns_owner;

  public:
    // Raises ValueError unless the sizes fit together.
    Lists(Rows<const double> rows, Span<const Index> offsets, Span<const Index> costs, Span<const double> reach,
          Span<const double> spread, Span<const double> cap);

    Rows<const double> rows;
    Span<const double> columns;
    Span<const Index> offsets, costs;
    Span<const double> reach, spread, cap;

    Index n_features() const { return reach.size(); }
    Index n_lists() const { return offsets.size() - 1; }
    Index n_rows() const { return offsets[n_lists()]; }
    Index length(Index s) const { return offsets[s + 1] - offsets[s]; }
    const double* row(Index i) const { return rows[i].begin(); }
    Index longest() const {
        Index longest = 1;
        for (Index s = 0; s < n_lists(); ++s) longest = std::max(longest, length(s));
        return longest;
    }
};

// Fill the scores [length] of a list with at least a block of hypotheses, given its columns [n, length]. The last block
// may overlap the one before. Not inlined: in a large function, the sums would not all stay in registers.
void score_blocks(const double* columns, Index n, Index length, const double* weights, double* scores);

// Fill the scores [length] of list s. Each score is added up in the order of the features.
LPMERT_INLINE void score_list(const Lists& lists, Index s, const double* weights, double* scores) {
    const Index n = lists.n_features(), length = lists.length(s);
    const double* const columns = lists.columns.begin() + lists.offsets[s] * n;
    if (length >= LANES) return score_blocks(columns, n, length, weights, scores);
    for (Index i = 0; i < length; ++i) {
        double score = 0.0;
        for (Index d = 0; d < n; ++d) score += weights[d] * columns[d * length + i];
        scores[i] = score;
    }
}

// The largest of `length` scores.
LPMERT_INLINE double largest_score(const double* scores, Index length) {
    double top = -INF;
    Index i = 0;
    if (length >= 2 * LANES) {
        Block tops = load(scores), others = load(scores + LANES);
        for (i = 2 * LANES; i + 2 * LANES <= length; i += 2 * LANES) {
            tops = larger(load(scores + i), tops);
            others = larger(load(scores + i + LANES), others);
        }
        tops = larger(tops, others);
        for (Index j = 0; j < LANES; ++j) top = tops[j] > top ? tops[j] : top;
    }
    for (; i < length; ++i) top = scores[i] > top ? scores[i] : top;
    return top;
}

// The position of the first of the largest scores; length is at least 1.
LPMERT_INLINE Index largest(const double* scores, Index length) {
    const double top = largest_score(scores, length);
    Index i = 0;
    while (scores[i] < top) ++i;
    return i;
}

// The cost of the dearest hypothesis whose score is within `bound` of the best one. `clear` becomes false unless all of
// these hypotheses cost the same.
LPMERT_INLINE Index dearest_within(double bound, const double* scores, Index best, Span<const Index> costs,
                                   bool& clear) {
    const double top = scores[best];
    Index cost = costs.data()[best];
    bool close = false;  // a first loop without branches, which is vectorised, nearly always ends the matter
    for (Index i = 0; i < costs.size(); ++i) close |= !(top - scores[i] > bound) & (costs.data()[i] != cost);
    for (Index i = 0; close && i < costs.size(); ++i)
        if (!(top - scores[i] > bound)) cost = std::max(cost, costs.data()[i]);
    clear &= !close;
    return cost;
}

// A bound on the error of the difference of two scores (P5).
double rounding_bound(const Lists& lists, const double* weights);

// Whether weights certainly lie in the cap; true if there is none.
bool in_cap(const Lists& lists, const double* weights);

struct Decoded {
    Index cost;  // INFINITE_COST where a forbidden hypothesis wins
    bool clear;  // whether every winner leads by more than rounding
};

// Write the position of each list's winner into selection [S]; scores [longest list] is work space.
Decoded decode_clearly(const Lists& lists, const double* weights, Index* selection, double* scores);

}  // namespace lpmert
