// Do any weights make these choices? The point of least norm of a hull decides (Wolfe, Finding the nearest point in a
// polytope, 1976).
//
// The rows are the normalised differences chosen - other of the decided lists. Some w has a positive product with every
// row if and only if the hull of the rows does not contain the origin; then the hull's point of least norm is such a w.
// A verdict is given only if it is certain. Feasible: at this point, every chosen hypothesis leads by more than
// rounding (lemma P5 of proofs/problem.md). Infeasible: the origin lies inside a simplex of D + 1 rows by more than
// rounding (C2 and C4 of proofs/cores.md). In all other cases the verdict is `undecided`, and exact arithmetic has to
// decide.
//
// A cap restricts weights to those whose cosine with a unit vector c is at least t. Then the same steps project c onto
// the cone of all w with rows w >= 0: for any multipliers x >= 0 and any w of this cone, c.w <= (c + x rows).w <= |c +
// x rows| |w|. Infeasible then means that |c + x rows| < t (G1 of proofs/regions.md).
#pragma once

#include "lists.hpp"

namespace lpmert {

enum class Verdict { infeasible, feasible, undecided };

// The state of a program, from which another one can start: affinely independent rows [size, D] of the hull, where row
// k is chosen - others[k] of list lists[k] at length 1; the point of least norm [D] of their hull; and its multipliers.
//
// The corral also stores the inverse of A = 1 + rows rows^T and the solution of A x = 1: the multipliers of the point
// of least norm of the affine hull, up to a factor. With a cap, these are the inverse of A = rows rows^T and the
// solution of A x = margin - rows c. Rank-one updates follow each change of the rows. No verdict rests on the accuracy
// of either.
class Corral {
  public:
    explicit Corral(Index n_features);

    Index size = 0;

    Index n_features() const { return n; }
    double* point() { return numbers.data(); }
    double* multipliers() { return numbers.data() + wide; }
    double* solution() { return numbers.data() + wide + high; }
    double* row(Index k) { return numbers.data() + wide + 2 * high + k * wide; }
    Index* lists() { return indices.data(); }
    Index* others() { return indices.data() + high; }
    const double* point() const { return const_cast<Corral*>(this)->point(); }
    const double* multipliers() const { return const_cast<Corral*>(this)->multipliers(); }
    const Index* lists() const { return indices.data(); }
    const Index* others() const { return indices.data() + high; }

    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        visit("size", self.size);
        visit("numbers", self.numbers);
        visit("indices", self.indices);
    }
    // Whether fields that were read have sizes that fit together.
    bool is_sound() const;

    // Drop all rows, and start at these weights.
    void restart(const double* weights);

  private:
    friend class LeastNorm;
    // Vectors are stored in whole blocks, the last one filled up with zeros.
    double* column(Index d) { return numbers.data() + wide + 2 * high + high * wide + d * high; }
    double* inverse(Index k) { return column(n) + k * high; }

    void append(Span<const double> cap, double* work);
    void remove(Index i, Span<const double> cap, double* work);
    void refine(double* work);
    void recompute(Span<const double> cap, double* work);

    Index n, wide, high;  // n: D; wide, high: D and the largest number of rows, rounded up to blocks
    Index n_removed = 0;
    Reals numbers;
    Indices indices;
};

class LeastNorm {
  public:
    explicit LeastNorm(const Lists& lists);

    // Decide whether some weights make the choices of the decided lists. chosen [S]: position of the choice in each of
    // them; start: index in `decided` of the list that is looked at first; corral: where the program starts. After
    // `feasible`, its point makes all these choices, clear of rounding. After `infeasible`, its rows are a core: no
    // weights make the choices of its lists against its others.
    Verdict separate(Span<const Index> decided, const Index* chosen, Index start, Corral& corral);

    const Lists lists;
    Index programs = 0, rounds = 0;

    // Work space for the scores of a list.
    double* scores() { return scores_of_list.data(); }

  private:
    // A bound on the error of the difference of two scores.
    double bound_at(const double* point) const;
    // A bound on the norm of the errors of the corral's normalised rows because features are rounded (C4).
    double moved(const Index* chosen, const Corral& corral) const;
    // Whether the origin certainly lies inside the simplex of the corral's rows; off: `moved`.
    bool surely_inside(Corral& corral, double off);

    Reals work, off, scores_of_list;
};

}  // namespace lpmert
