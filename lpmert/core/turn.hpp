// Which way do two edges of the plane turn? The sign of a cross product of differences of points, exactly (lemma K6 of
// proofs/cones.md).
//
// A floating-point filter decides nearly always; otherwise the product is expanded into doubles without error.
//
// Sources: Shewchuk, Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates, 1997 (the
// filter of ORIENT2D, and expansions); Dekker, A floating-point technique for extending the available precision, 1971
// (products).
#pragma once

#include <cfloat>
#include <cmath>

namespace lpmert::lines {

static_assert(FLT_EVAL_METHOD == 0, "sums and products must be rounded to double one by one");

// A point of the plane. Each coordinate is 0, or its magnitude is between 2^-440 and 1.
struct Vertex {
    double x, y;
};

inline constexpr double HALF_ULP = 0x1p-53;
inline constexpr double FILTER = (3 + 16 * HALF_ULP) * HALF_ULP;
inline constexpr double UNDERFLOW_BOUND = 1e-300;
inline constexpr double SPLITTER = 0x1p27 + 1;

// A rounded sum or product and its rounding error: together they are exact.
struct Exact {
    double rounded, error;
};

// Knuth's two-sum.
inline Exact two_sum(double a, double b) {
    const double total = a + b, part = total - a;
    return {total, (a - (total - part)) + (b - part)};
}

// Dekker's product.
inline Exact two_product(double a, double b) {
    const double product = a * b;
    const double wide_a = SPLITTER * a, wide_b = SPLITTER * b;
    const double a_high = wide_a - (wide_a - a), b_high = wide_b - (wide_b - b);
    const double a_low = a - a_high, b_low = b - b_high;
    return {product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)};
}

// An exact sum: nonzero terms of increasing magnitude that do not overlap.
class Expansion {
    double terms[20];
    int size = 0;

  public:
    void add(double term) {
        int n = 0;
        for (int k = 0; k < size; ++k) {
            const Exact sum = two_sum(term, terms[k]);
            term = sum.rounded;
            if (sum.error != 0.0) terms[n++] = sum.error;
        }
        if (term != 0.0) terms[n++] = term;
        size = n;
    }
    void add_product(double a, double b) {
        const Exact product = two_product(a, b);
        add(product.error);
        add(product.rounded);
    }
    int sign() const { return size == 0 ? 0 : terms[size - 1] > 0.0 ? 1 : -1; }
};

inline int sign(double value) { return (value > 0.0) - (value < 0.0); }

inline int exact_turn(Vertex p, Vertex q, Vertex r, Vertex s) {
    const Exact ax = two_sum(q.x, -p.x), ay = two_sum(q.y, -p.y), bx = two_sum(s.x, -r.x), by = two_sum(s.y, -r.y);
    Expansion sum;
    for (const double a : {ax.error, ax.rounded})
        for (const double b : {by.error, by.rounded}) sum.add_product(a, b);
    for (const double a : {-ay.error, -ay.rounded})
        for (const double b : {bx.error, bx.rounded}) sum.add_product(a, b);
    return sum.sign();
}

// The sign of the cross product (q - p) x (s - r).
inline int turn(Vertex p, Vertex q, Vertex r, Vertex s) {
    const double ax = q.x - p.x, ay = q.y - p.y, bx = s.x - r.x, by = s.y - r.y;
    const double left = ax * by, right = ay * bx, difference = left - right;
    if (std::abs(difference) > FILTER * (std::abs(left) + std::abs(right)) + UNDERFLOW_BOUND)
        return difference > 0.0 ? 1 : -1;
    const int left_sign = sign(ax) * sign(by), right_sign = sign(ay) * sign(bx);
    if (left_sign != right_sign) return left_sign > right_sign ? 1 : -1;
    return left_sign == 0 ? 0 : exact_turn(p, q, r, s);
}

}  // namespace lpmert::lines
