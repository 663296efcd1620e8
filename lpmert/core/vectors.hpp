// Loops over numbers that do not depend on each other, in vectors of the processor at hand.
//
// LPMERT_CLONES compiles a function for several processors, of which the best is chosen when the module is loaded. Each
// item sees the same operations in the same order on all of them, and nothing is contracted (-ffp-contract=off), so
// that results are the same. What such functions call is LPMERT_INLINE, to be compiled with them.
#pragma once

#include "arrays.hpp"

#if defined(__GNUC__)
#define LPMERT_INLINE __attribute__((always_inline)) inline
#else
#define LPMERT_INLINE inline
#endif

// Not by Clang 22: it refuses clones that a header calls, and leaves out functions that only clones call.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(LPMERT_CHECKED)
#define LPMERT_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define LPMERT_CLONES
#endif

namespace lpmert {

inline constexpr Index LANES = 4;

#if defined(__GNUC__)
typedef double Block __attribute__((vector_size(32)));
LPMERT_INLINE Block every(double x) { return Block{x, x, x, x}; }
LPMERT_INLINE Block larger(const Block& a, const Block& b) { return a > b ? a : b; }
#else
struct Block {
    double items[LANES];
    double operator[](Index i) const { return items[i]; }
};
LPMERT_INLINE Block every(double x) { return {{x, x, x, x}}; }
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

// A count rounded up to whole blocks.
inline Index blocks(Index count) { return (count + LANES - 1) / LANES * LANES; }

// `wide` blocks of target = start + sum of factors[k] * rows[k], rows `stride` apart; they stay in registers meanwhile.
template <Index wide>
LPMERT_INLINE void combine_blocks(double start, const double* factors, const double* rows, Index count, Index stride,
                                  double* target) {
    Block sums[wide];
    for (Index b = 0; b < wide; ++b) sums[b] = every(start);
    for (Index k = 0; k < count; ++k) {
        const Block factor = every(factors[k]);
        for (Index b = 0; b < wide; ++b) sums[b] = sums[b] + factor * load(rows + b * LANES);
        rows += stride;
    }
    for (Index b = 0; b < wide; ++b) store(sums[b], target + b * LANES);
}

// target = start + sum of factors[k] * rows[k], rows [count, size] in whole blocks, in the order of the rows.
LPMERT_INLINE void combine(double start, const double* factors, const double* rows, Index count, double* target,
                           Index size) {
    Index i = 0;
    for (; i + 4 * LANES <= size; i += 4 * LANES) combine_blocks<4>(start, factors, rows + i, count, size, target + i);
    for (; i + 2 * LANES <= size; i += 2 * LANES) combine_blocks<2>(start, factors, rows + i, count, size, target + i);
    if (i < size) combine_blocks<1>(start, factors, rows + i, count, size, target + i);
}

// target -= factor * source, in whole blocks.
LPMERT_INLINE void subtract(double factor, const double* source, double* target, Index size) {
    const Block times = every(factor);
    for (Index i = 0; i < size; i += LANES) store(load(target + i) - times * load(source + i), target + i);
}

// The sum of products, in whole blocks, in no particular order.
LPMERT_INLINE double product(const double* one, const double* other, Index size) {
    Block sums = every(0.0);
    for (Index i = 0; i < size; i += LANES) sums = sums + load(one + i) * load(other + i);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

LPMERT_INLINE double sum_of(const double* items, Index size) {
    Block sums = every(0.0);
    for (Index i = 0; i < size; i += LANES) sums = sums + load(items + i);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

}  // namespace lpmert
