// Lists of hypotheses as the searches see them: scores, decoding, and bounds on rounding errors.
//
// A score is a sum of D products. In whatever order it is added up, the difference of two scores has an error of at
// most 2 (D + 3) eps sum_d |w_d| reach_d, plus 2 sum_d |w_d| spread_d if the features themselves are rounded (lemma P5
// of proofs/problem.md), and 2 (D + 3) TINY for products that underflow. If a hypothesis leads by more than this, it
// leads in exact arithmetic.
//
// LPMERT_CLONES compiles a function for several processors; the loader chooses the best one. On each of them, every
// item goes through the same operations in the same order, and nothing is contracted (-ffp-contract=off), so the
// results are the same to the bit. Functions that such a function calls are LPMERT_INLINE, so that they are compiled
// with it.
#pragma once

#include <cfloat>

#include "binding.hpp"

#if defined(__GNUC__)
#define LPMERT_INLINE __attribute__((always_inline)) inline
#else
#define LPMERT_INLINE inline
#endif

// Not with Clang 22: it rejects clones that a header calls, and drops functions that only clones call.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(LPMERT_CHECKED)
#define LPMERT_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define LPMERT_CLONES
#endif

namespace lpmert {

inline constexpr Index LANES = 4;

#if defined(__GNUC__)
typedef double Block __attribute__((vector_size(32)));
LPMERT_INLINE Block broadcast(double x) { return Block{x, x, x, x}; }
LPMERT_INLINE Block larger(const Block& a, const Block& b) { return a > b ? a : b; }
#else
struct Block {
    double items[LANES];
    double operator[](Index i) const { return items[i]; }
};
template <class Operation>
LPMERT_INLINE Block each(Block a, Block b, Operation operation) {
    for (Index j = 0; j < LANES; ++j) a.items[j] = operation(a.items[j], b.items[j]);
    return a;
}
LPMERT_INLINE Block broadcast(double x) { return {{x, x, x, x}}; }
LPMERT_INLINE Block operator+(Block a, Block b) { return each(a, b, std::plus<>()); }
LPMERT_INLINE Block operator-(Block a, Block b) { return each(a, b, std::minus<>()); }
LPMERT_INLINE Block operator*(Block a, Block b) { return each(a, b, std::multiplies<>()); }
LPMERT_INLINE Block larger(Block a, Block b) {
    return each(a, b, [](double x, double y) { return x > y ? x : y; });
}
#endif

LPMERT_INLINE Block load(const double* place) {
    Block block;
    std::memcpy(&block, place, sizeof block);
    return block;
}
LPMERT_INLINE void store(const Block& block, double* place) { std::memcpy(place, &block, sizeof block); }

// A number of items, rounded up to whole blocks.
inline Index blocks(Index count) { return (count + LANES - 1) / LANES * LANES; }

// Compute `wide` blocks of target = start + sum of factors[k] * rows[k], for rows `stride` apart, in registers.
template <Index wide>
LPMERT_INLINE void combine_blocks(double start, const double* factors, const double* rows, Index count, Index stride,
                                  double* target) {
    Block sums[wide];
    for (Index b = 0; b < wide; ++b) sums[b] = broadcast(start);
    for (Index k = 0; k < count; ++k) {
        const Block factor = broadcast(factors[k]);
        for (Index b = 0; b < wide; ++b) sums[b] = sums[b] + factor * load(rows + b * LANES);
        rows += stride;
    }
    for (Index b = 0; b < wide; ++b) store(sums[b], target + b * LANES);
}

// Compute target = start + sum of factors[k] * rows[k], in the order of the rows [count, size]; size in whole blocks.
LPMERT_INLINE void combine(double start, const double* factors, const double* rows, Index count, double* target,
                           Index size) {
    Index i = 0;
    for (; i + 4 * LANES <= size; i += 4 * LANES) combine_blocks<4>(start, factors, rows + i, count, size, target + i);
    for (; i + 2 * LANES <= size; i += 2 * LANES) combine_blocks<2>(start, factors, rows + i, count, size, target + i);
    if (i < size) combine_blocks<1>(start, factors, rows + i, count, size, target + i);
}

// Compute target -= factor * source; size in whole blocks.
LPMERT_INLINE void subtract(double factor, const double* source, double* target, Index size) {
    const Block times = broadcast(factor);
    for (Index i = 0; i < size; i += LANES) store(load(target + i) - times * load(source + i), target + i);
}

// The inner product; size in whole blocks. The order of the sum is not that of the items.
LPMERT_INLINE double product(const double* one, const double* other, Index size) {
    Block sums = broadcast(0.0);
    for (Index i = 0; i < size; i += LANES) sums = sums + load(one + i) * load(other + i);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

LPMERT_INLINE double sum_of(const double* items, Index size) {
    Block sums = broadcast(0.0);
    for (Index i = 0; i < size; i += LANES) sums = sums + load(items + i);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

inline constexpr double EPSILON = std::numeric_limits<double>::epsilon();

// More than underflow takes from a product.
inline constexpr double TINY = 0x1p-1060;

static_assert(FLT_EVAL_METHOD == 0, "sums and products must be rounded to double one by one");

// A rounded sum or product and its rounding error: together they are exact.
struct Exact {
    double rounded, error;
};

// Knuth's two-sum.
inline Exact two_sum(double a, double b) {
    const double total = a + b, part = total - a;
    return {total, (a - (total - part)) + (b - part)};
}

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
