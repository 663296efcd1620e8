// Vectorised loops whose results do not depend on the width of the processor's vectors.
//
// LPMERT_CLONES compiles a function for several processors; the loader chooses the best one. On each of them, every
// item goes through the same operations in the same order, and nothing is contracted (-ffp-contract=off), so the
// results are the same to the bit. Functions that such a function calls are LPMERT_INLINE, so that they are compiled
// with it.
#pragma once

#include "arrays.hpp"

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
LPMERT_INLINE Block broadcast(double x) { return {{x, x, x, x}}; }
LPMERT_INLINE Block operator+(Block a, Block b) {
    for (Index j = 0; j < LANES; ++j) a.items[j] += b.items[j];
    return a;
}
LPMERT_INLINE Block operator-(Block a, Block b) {
    for (Index j = 0; j < LANES; ++j) a.items[j] -= b.items[j];
    return a;
}
LPMERT_INLINE Block operator*(Block a, Block b) {
    for (Index j = 0; j < LANES; ++j) a.items[j] *= b.items[j];
    return a;
}
LPMERT_INLINE Block larger(Block a, Block b) {
    for (Index j = 0; j < LANES; ++j) a.items[j] = a.items[j] > b.items[j] ? a.items[j] : b.items[j];
    return a;
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

}  // namespace lpmert
