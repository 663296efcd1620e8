// Can these choices be made together? The point of least norm of a hull decides (Wolfe, Finding the nearest point in a
// polytope, 1976).
//
// The rows are the normalised differences chosen - other of the decided lists. Their hull misses the origin exactly
// when some w has a positive product with every row. A verdict is given only where it is certain: feasible when every
// chosen hypothesis leads by more than rounding at the point (lemma P5 of proofs/problem.md), infeasible when the
// origin lies inside a simplex of D + 1 rows by more than rounding (C2 and C4 of proofs/cores.md). All else is
// undecided, and exact arithmetic has to decide it.
//
// Within a cap, the weights whose cosine with a unit vector c is at least t, the same steps project c onto the cone of
// the rows: for any multipliers x >= 0 and any w of the cone, c.w <= (c + x rows).w <= |c + x rows| |w|. Infeasible
// then means that |c + x rows| < t (G1 of proofs/regions.md).
#pragma once

#include "lists.hpp"

namespace lpmert {

enum class Verdict { infeasible, feasible, undecided };

// Affinely independent rows [size, D] of the hull, each chosen - others[k] of lists[k] with length 1, the multipliers
// of the point of least norm of their hull, and that point [D].
//
// Beside them stand the inverse of A = 1 + rows rows^T and the solution of A x = 1, which is the point of least norm of
// the affine hull but for its scale. Within a cap they are those of A = rows rows^T and A x = margin - rows c. Both
// follow the rows by rank-one updates; no verdict rests on their digits.
class Corral {
  public:
    explicit Corral(Index n_features);

    Index size = 0;

    Index n_features() const { return n; }
    Index bytes() const { return static_cast<Index>(8 * (numbers.size() + names.size())); }
    double* point() { return numbers.data(); }
    double* multipliers() { return numbers.data() + wide; }
    double* solution() { return numbers.data() + wide + high; }
    double* row(Index k) { return numbers.data() + wide + 2 * high + k * wide; }
    Index* lists() { return names.data(); }
    Index* others() { return names.data() + high; }
    const double* point() const { return const_cast<Corral*>(this)->point(); }
    const double* row(Index k) const { return const_cast<Corral*>(this)->row(k); }
    const double* multipliers() const { return const_cast<Corral*>(this)->multipliers(); }
    const Index* lists() const { return names.data(); }
    const Index* others() const { return names.data() + high; }

    // Name all that it is made of; whether what was read fits together.
    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        visit("size", self.size);
        visit("numbers", self.numbers);
        visit("names", self.names);
    }
    bool is_sound() const;

    // Start anew at these weights.
    void restart(const double* weights);

  private:
    friend class LeastNorm;
    // Numbers stand in whole blocks, the last filled up with zeros.
    double* column(Index d) { return numbers.data() + wide + 2 * high + high * wide + d * high; }
    double* inverse(Index k) { return column(n) + k * high; }

    void append(Span<const double> cap, double* work);
    void remove(Index i, Span<const double> cap, double* work);
    void refine(double* work);
    void bring_up_to_date(Span<const double> cap, double* work);

    Index n, wide, high;  // wide: D in blocks; high: as many rows as there may be, in blocks
    Index n_removed = 0;
    Reals numbers;
    Indices names;
};

class LeastNorm {
  public:
    explicit LeastNorm(const Lists& lists);

    // decided: the lists whose choices are asked about, of which the one at `start` is looked at first; chosen [S]: the
    // position that is chosen in each of them; corral: where the program starts. After `feasible` its point makes all
    // these choices, clear of rounding; after `infeasible` its pairs (lists, others) are a core: no weights make the
    // choices of its lists.
    Verdict separate(Span<const Index> decided, const Index* chosen, Index start, Corral& corral);

    const Lists lists;
    Index programs = 0, rounds = 0;

    // Work space for the scores of a list.
    double* scores() { return scores_of_list.data(); }

  private:
    // What the difference of two scores may be off by.
    double bound_at(const double* point) const;
    // Bound the norm of what the normalised rows of the corral are off because the features are.
    double moved(const Index* chosen, const Corral& corral) const;
    // Whether the origin lies inside the simplex of the corral's rows, whatever is rounded.
    bool surely_inside(Corral& corral, double off);

    Reals work, off, scores_of_list;
};

}  // namespace lpmert
