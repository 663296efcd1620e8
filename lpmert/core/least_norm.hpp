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
//
// How to use it:
//
//     LeastNorm least_norm(lists);                // with its work space, one for each thread
//     Corral corral(lists.n_features());          // where a program starts, and what it leaves behind
//     corral.restart(weights);                    // or a copy of the corral of some of these choices
//     switch (least_norm.separate(decided, chosen, start, corral)) ...
//
// decided: the lists whose choices are asked about, of which the one at `start` is looked at first; chosen [S]: the
// position that is chosen in each of them. After `feasible` corral.point makes all these choices, clear of rounding;
// after `infeasible` the pairs (lists, others) of the corral are a core: no weights make the choices of its lists.
#pragma once

#include <utility>

#include "lists.hpp"

namespace lpmert {

enum class Verdict { infeasible, feasible, undecided };

// Affinely independent rows [size, D] of the hull, each chosen - others[k] of lists[k] with length 1, the multipliers
// of the point of least norm of their hull, and that point [D]. The factor is upper triangular with factor^T factor =
// 1 + rows rows^T; beside it stand the solution of factor^T f = 1 and the reciprocals of its diagonal. Within a cap it
// is that of rows rows^T, and the solution is for margin - rows c.
class Corral {
  public:
    explicit Corral(Index n_features);
    Corral(Corral&&) = default;
    Corral(const Corral&) = default;
    Corral& operator=(Corral&&) = default;
    Corral& operator=(const Corral& other);

    Index size = 0;

    Index n_features() const { return n; }
    Index bytes() const { return static_cast<Index>(8 * (numbers.size() + names.size())); }
    double* point() { return numbers.data(); }
    double* row(Index k) { return numbers.data() + n + k * n; }
    double* multipliers() { return numbers.data() + n + most() * n; }
    double* solution() { return multipliers() + most(); }
    double* reciprocals() { return solution() + most(); }
    double* factor(Index k) { return reciprocals() + most() + k * most(); }
    Index* lists() { return names.data(); }
    Index* others() { return names.data() + most(); }
    const double* point() const { return const_cast<Corral*>(this)->point(); }
    const double* row(Index k) const { return const_cast<Corral*>(this)->row(k); }
    const double* multipliers() const { return const_cast<Corral*>(this)->multipliers(); }
    const Index* lists() const { return names.data(); }
    const Index* others() const { return names.data() + most(); }

    // All that it is made of, and back again; for those who keep it elsewhere.
    std::pair<const std::vector<double>&, const std::vector<Index>&> items() const { return {numbers, names}; }
    void take(Index size_, Span<const double> numbers_, Span<const Index> names_);

    // Start anew at these weights.
    void restart(const double* weights);
    // Take row `size`, which the caller has written, into the rows and the factor; work [D + 4].
    void append(Span<const double> cap, double* work);
    // Write factor^-1 f into solved [size] and return its sum.
    double solve(double* solved);
    // Take row i out of the rows, and by rotations (of Givens) out of the factor.
    void remove(Index i);

  private:
    Index most() const { return n + 4; }

    Index n;
    std::vector<double> numbers;
    std::vector<Index> names;
};

class LeastNorm {
  public:
    explicit LeastNorm(const Lists& lists);

    Verdict separate(Span<const Index> decided, const Index* chosen, Index start, Corral& corral);

    const Lists lists;
    Index programs = 0, rounds = 0;

    // Work space for the scores of a list.
    double* scores() { return scores_of_list.data(); }

  private:
    // Bound the norm of what the normalised rows of the corral are off because the features are.
    double moved(const Index* chosen, const Corral& corral) const;
    // Whether the origin lies inside the simplex of the corral's rows, whatever is rounded.
    bool surely_inside(Corral& corral, double off);

    std::vector<double> solved, column, scores_of_list;
    Corral again;
};

}  // namespace lpmert
