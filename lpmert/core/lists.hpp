// Lists of hypotheses as the searches see them: scores, decoding, and what rounding may have changed of a lead.
//
// Rounding (lemma P5 of proofs/problem.md): a score is a sum of D products, so that the difference of two scores is off
// by at most 2 (D + 3) eps sum_d |w_d| reach_d in whatever order it is added up, and by 2 sum_d |w_d| spread_d where
// the features themselves are rounded. A lead that is larger than this is a lead of the exact scores.
#pragma once

#include "arrays.hpp"
#include "vectors.hpp"

namespace lpmert {

inline constexpr double EPSILON = std::numeric_limits<double>::epsilon();

// A cost that no selection reaches: choosing such a hypothesis is forbidden. Sums that may hold it stop at it.
inline constexpr Index INFINITE_COST = Index{1} << 61;

inline Index plus(Index cost, Index more) {
    const Index sum = cost + more;
    return sum < INFINITE_COST ? sum : INFINITE_COST;
}

// Rows [M, D] in order of cost within each list, and the same numbers list by list, feature by feature, in columns.
// offsets [S + 1]; costs [M]; reach [D]: the largest magnitude of each feature; spread [D]: how far it may be from the
// exact one; cap: empty, or a unit vector [D] and the least cosine with it.
class Lists {
    std::shared_ptr<const Reals> held;

  public:
    // Raises ValueError unless they fit together.
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

// Fill scores [length] of a list of at least a block, given its columns [n, length]; the last block may overlap the one
// before. Inlined into a large function, the sums would not all stay in registers.
void score_blocks(const double* columns, Index n, Index length, const double* weights, double* scores);

// Fill scores [length] of list s. Each is added up in the order of the features.
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

// The position of the first largest of `length` scores, of which there is at least one.
LPMERT_INLINE Index largest(const double* scores, Index length) {
    const double top = largest_score(scores, length);
    Index i = 0;
    while (scores[i] < top) ++i;
    return i;
}

// What a list costs if the dearest of the hypotheses within `bound` of its best one counts; clear: whether these cost
// the same.
LPMERT_INLINE Index dearest_within(double bound, const double* scores, Index best, Span<const Index> costs,
                                   bool& clear) {
    const double top = scores[best];
    Index cost = costs.data()[best];
    bool close = false;  // looked at first, as vectors do that
    for (Index i = 0; i < costs.size(); ++i) close |= (top - scores[i] <= bound) & (costs.data()[i] != cost);
    for (Index i = 0; close && i < costs.size(); ++i)
        if (top - scores[i] <= bound) cost = std::max(cost, costs.data()[i]);
    clear &= !close;
    return cost;
}

// What the difference of two scores may be off by.
double rounding_bound(const Lists& lists, const double* weights);

// Whether weights surely lie in the cap; without a cap all do.
bool in_cap(const Lists& lists, const double* weights);

struct Decoded {
    Index cost;  // INFINITE_COST where a forbidden hypothesis wins
    bool clear;  // whether every winner leads by more than rounding
};

// Write each list's winner, counted within the list, into selection [S]; scores [longest list] is work space.
Decoded decode_clearly(const Lists& lists, const double* weights, Index* selection, double* scores);

}  // namespace lpmert
