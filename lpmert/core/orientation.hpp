// The sign of a cross product, exactly.
//
// Lemma K6 of proofs/cones.md. Sources: Shewchuk, Adaptive Precision Floating-Point Arithmetic and Fast Robust
// Geometric Predicates, 1997 (the filter of ORIENT2D, and expansions without error where it does not decide); Dekker, A
// floating-point technique for extending the available precision, 1971 (products).
#pragma once

#include "arrays.hpp"

namespace lpmert::lines {

// A point of the plane; its coordinates are at most 1, and 0 or at least 2^-440.
struct Vertex {
    double x, y;
};

// Return the sign of the cross product (q - p) x (s - r).
int turn(Vertex p, Vertex q, Vertex r, Vertex s);

}  // namespace lpmert::lines
