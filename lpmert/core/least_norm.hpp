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

inline constexpr double VANISHED = 1e-16;        // a point with a smaller squared length counts as the origin
inline constexpr double SMALLEST_NORM = 1e-280;  // least squared length of a difference that can be normalised
inline constexpr int MOST_ROUNDS = 500;
inline constexpr double CAP_TOLERANCE = 1e-12;
// The inverse is recomputed when a row leaves whose diagonal entry in it is larger than this, as digits are lost; and
// when so many rows have left.
inline constexpr double MOST_LOST_DIGITS = 1e6;
inline constexpr Index MOST_REMOVED = 64;
inline constexpr double SMALLEST_REST = 1e-15, NEARLY_VANISHED = 1e-6;
// With a cap, products with rows of length 1 are at least this, so that the nearest weights do not tie.
inline constexpr double CAP_MARGIN = 1e-9;

// The state of a program, from which another one can start: affinely independent rows [size, D] of the hull, where row
// k is chosen - others[k] of list lists[k] at length 1; the point of least norm [D] of their hull; and its multipliers.
//
// The corral also stores the inverse of A = 1 + rows rows^T and the solution of A x = 1: the multipliers of the point
// of least norm of the affine hull, up to a factor. With a cap, these are the inverse of A = rows rows^T and the
// solution of A x = margin - rows c. Rank-one updates follow each change of the rows. No verdict rests on the accuracy
// of either.
class Corral {
  public:
    explicit Corral(Index n_features)
        : n(n_features),
          wide(blocks(n)),
          high(blocks(n + 2)),
          numbers(wide + 2 * high + high * (wide + n + high)),
          indices(2 * high) {}

    Index size = 0;

    Index n_features() const { return n; }
    double* point() { return numbers.data(); }
    double* multipliers() { return numbers.data() + wide; }
    double* solution() { return numbers.data() + wide + high; }
    double* row(Index k) { return numbers.data() + wide + 2 * high + k * wide; }
    Index* lists() { return indices.data(); }
    Index* others() { return indices.data() + high; }

    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        visit("size", self.size);
        visit("numbers", self.numbers);
        visit("indices", self.indices);
    }
    // Whether fields that were read have sizes that fit together.
    bool is_sound() const {
        const Corral empty(n);
        return 0 <= size && size <= n + 2 && numbers.size() == empty.numbers.size() &&
               indices.size() == empty.indices.size();
    }

    // Drop all rows, and start at these weights.
    void restart(const double* weights) {
        size = 0;
        std::copy_n(weights, n, point());
        std::fill_n(solution(), high, 0.0);
        std::fill_n(inverse(0), high * high, 0.0);
    }

  private:
    friend class LeastNorm;
    // Vectors are stored in whole blocks, the last one filled up with zeros.
    double* column(Index d) { return numbers.data() + wide + 2 * high + high * wide + d * high; }
    double* inverse(Index k) { return column(n) + k * high; }

    // Add row `size`, which the caller has written. For the new column (A', A'') of A, let u = inverse A' and s = A'' -
    // A' u. The inverse then gets the border -u / s and 1 / s, and u u^T / s is added to its old entries.
    LPMERT_INLINE void append(Span<const double> cap, double* work) {
        const bool capped = cap.size() > 0;
        const double* const added = row(size);
        double *const products = work, *const u = work + high;
        double goal = capped ? CAP_MARGIN : 1.0;
        for (Index d = 0; d < n; ++d) {
            column(d)[size] = added[d];
            if (capped) goal -= added[d] * cap[d];
        }
        combine(capped ? 0.0 : 1.0, added, column(0), n, products, high);
        combine(0.0, products, inverse(0), size, u, high);
        const double rest = std::max(products[size] - product(products, u, high), SMALLEST_REST), over = 1.0 / rest;
        const double share = (goal - product(products, solution(), high)) * over;
        u[size] = -1.0;
        for (Index j = 0; j <= size; ++j) subtract(-u[j] * over, u, inverse(j), high);
        subtract(share, u, solution(), high);
        ++size;
    }
    // Remove row i; the last row takes its place.
    LPMERT_INLINE void remove(Index i, Span<const double> cap, double* work) {
        const Index last = size - 1;
        double* const gone = work;
        std::copy_n(inverse(i), high, gone);
        const double over = 1.0 / gone[i];
        subtract(solution()[i] * over, gone, solution(), high);
        for (Index j = 0; j < size; ++j) subtract(gone[j] * over, gone, inverse(j), high);
        std::copy_n(row(last), wide, row(i));
        for (Index d = 0; d < n; ++d) column(d)[i] = column(d)[last];
        std::copy_n(inverse(last), high, inverse(i));
        for (Index j = 0; j < last; ++j) inverse(j)[i] = inverse(j)[last];
        for (Index j = 0; j < last; ++j) inverse(j)[last] = 0.0;
        if (i < last) inverse(i)[i] = inverse(last)[last];
        std::fill_n(inverse(last), high, 0.0);
        solution()[i] = solution()[last];
        solution()[last] = 0.0;
        multipliers()[i] = multipliers()[last];
        lists()[i] = lists()[last];
        others()[i] = others()[last];
        size = last;
        if (gone[i] > MOST_LOST_DIGITS || ++n_removed == MOST_REMOVED) recompute(cap, work);
    }
    // Take a step of iterative refinement, which restores the digits of the solution that updates have lost.
    LPMERT_INLINE void refine(double* work) {
        double *const sum = work, *const rest = sum + wide, *const step = rest + high;
        const double total = sum_of(solution(), high);
        combine(0.0, solution(), row(0), size, sum, wide);
        combine(total - 1.0, sum, column(0), n, rest, high);
        combine(0.0, rest, inverse(0), size, step, high);
        subtract(1.0, step, solution(), high);
    }
    // Compute the inverse and the solution from the rows, which restores the digits that updates have lost.
    void recompute(Span<const double> cap, double* work) {
        const Index count = size;
        size = n_removed = 0;
        std::fill_n(solution(), high, 0.0);
        std::fill_n(inverse(0), high * high, 0.0);
        while (size < count) append(cap, work);
    }

    Index n, wide, high;  // n: D; wide, high: D and the largest number of rows, rounded up to blocks
    Index n_removed = 0;
    Reals numbers;
    Indices indices;
};

class LeastNorm {
  public:
    explicit LeastNorm(const Lists& lists_)
        : lists(lists_),
          work(3 * (lists.n_features() + 16)),
          off(blocks(lists.n_features())),
          scores_of_list(lists.longest()) {
        const double terms = static_cast<double>(lists.n_features() + 3);
        for (Index d = 0; d < lists.n_features(); ++d)
            off[d] = (2.0 * terms * EPSILON * lists.reach[d] + 2.0 * lists.spread[d]) * (1.0 + 2.0 * terms * EPSILON);
    }

    // Decide whether some weights make the choices of the decided lists. chosen [S]: position of the choice in each of
    // them; start: index in `decided` of the list that is looked at first; corral: where the program starts. After
    // `feasible`, its point makes all these choices, clear of rounding. After `infeasible`, its rows are a core: no
    // weights make the choices of its lists against its others.
    LPMERT_CLONES
    Verdict separate(Span<const Index> decided, const Index* chosen, Index start, Corral& corral) {
        const Index n = lists.n_features(), wide = corral.wide;
        const bool capped = lists.cap.size() > 0;
        double *const point = corral.point(), *const scores = scores_of_list.data();
        double *const multipliers = corral.multipliers(), *const solution = corral.solution();
        if (capped && corral.size == 0) std::copy_n(lists.cap.begin(), n, point);
        ++programs;
        Index position = start;
        for (int round = 0; round < MOST_ROUNDS; ++round) {
            const double norm = product(point, point, wide);
            if (capped) {
                double mass = 1.0;
                for (Index k = 0; k < corral.size; ++k) mass += multipliers[k];
                double least = lists.cap[n] - CAP_TOLERANCE - 16.0 * static_cast<double>(n) * EPSILON * mass;
                if (least > 0.0 && norm < least * least) {
                    least -= mass * moved(chosen, corral);
                    if (least > 0.0 && norm < least * least) return Verdict::infeasible;
                }
            }
            if (corral.size > 0 && norm < VANISHED)
                return surely_inside(corral, moved(chosen, corral)) ? Verdict::infeasible : Verdict::undecided;
            // Find a violated list, beginning with the one found last; its best other hypothesis enters.
            const double bound = bound_at(point);
            Index entering = -1, entering_list = -1;
            for (Index looked = 0; looked < decided.size(); ++looked) {
                const Index s = decided[position], length = lists.length(s);
                if (length > 1) {
                    score_list(lists, s, point, scores);
                    const double lead = scores[chosen[s]];
                    scores[chosen[s]] = -INF;
                    const double next = largest_score(scores, length);
                    if (!(lead - next > bound)) {
                        entering = 0;
                        while (scores[entering] < next) ++entering;
                        entering_list = s;
                        break;
                    }
                }
                position = position + 1 == decided.size() ? 0 : position + 1;
            }
            if (entering < 0) return in_cap(lists, point) ? Verdict::feasible : Verdict::undecided;
            if (corral.size >= n + 2) return Verdict::undecided;
            Index same = 0;
            for (Index k = 0; k < corral.size; ++k)
                same += corral.lists()[k] == entering_list && corral.others()[k] == entering;
            if (same > 0) return Verdict::undecided;  // the method stalls
            ++rounds;
            double* added = corral.row(corral.size);
            const double* best = lists.row(lists.offsets[entering_list] + chosen[entering_list]);
            const double* other = lists.row(lists.offsets[entering_list] + entering);
            for (Index d = 0; d < n; ++d) added[d] = best[d] - other[d];
            double length = product(added, added, wide);
            if (length < SMALLEST_NORM) return Verdict::undecided;
            length = 1.0 / std::sqrt(length);
            bool vanished = false;  // a column of the rows must be all zeros only if that of the differences is
            for (Index d = 0; d < n; ++d) {
                vanished |= added[d] != 0.0 && added[d] * length == 0.0;
                added[d] *= length;
            }
            if (vanished) return Verdict::undecided;
            corral.lists()[corral.size] = entering_list;
            corral.others()[corral.size] = entering;
            multipliers[corral.size] = corral.size == 0 && !capped ? 1.0 : 0.0;
            corral.append(lists.cap, work.data());
            // Move towards the affine point of least norm; rows whose multiplier would turn negative leave.
            Index newest = corral.size - 1;
            bool refined = false;
            while (true) {
                double scale = 1.0;
                if (!capped) {
                    scale = 1.0 / sum_of(solution, corral.high);
                    // The squared norm is scale - 1; if nearly nothing is left of it, all digits matter.
                    if (scale - 1.0 < NEARLY_VANISHED && !refined) {
                        corral.refine(work.data());
                        refined = true;
                        continue;
                    }
                }
                double step = 1.0;
                Index leaving = -1;
                for (Index k = 0; k < corral.size; ++k) {
                    const double target = scale * solution[k];
                    if (target > 1e-12) continue;
                    const double gap = multipliers[k] - target, reach = gap > 1e-300 ? multipliers[k] / gap : 0.0;
                    if (reach < step || leaving < 0) {
                        step = reach;
                        leaving = k;
                    }
                }
                if (leaving < 0) {
                    for (Index k = 0; k < corral.size; ++k) multipliers[k] = scale * solution[k];
                    break;
                }
                for (Index k = 0; k < corral.size; ++k) multipliers[k] += step * (scale * solution[k] - multipliers[k]);
                for (Index k = corral.size - 1; k >= 0; --k) {
                    if (k != leaving && (k == newest || multipliers[k] > 1e-14)) continue;
                    const Index last = corral.size - 1;
                    if (newest == k) newest = -1;
                    if (newest == last) newest = k;
                    corral.remove(k, lists.cap, work.data());
                    refined = false;
                }
            }
            combine(0.0, multipliers, corral.row(0), corral.size, point, wide);
            if (capped)
                for (Index d = 0; d < n; ++d) point[d] += lists.cap[d];
        }
        return Verdict::undecided;
    }

    const Lists lists;
    Index programs = 0, rounds = 0;

    // Work space for the scores of a list.
    double* scores() { return scores_of_list.data(); }

  private:
    // `rounding_bound`, vectorised; `off` has the error for each unit of a weight.
    LPMERT_INLINE double bound_at(const double* point) const {
        Block sums = broadcast(0.0);
        for (Index d = 0; d < count(off); d += LANES) {
            const Block weights = load(point + d);
            sums = sums + larger(weights, broadcast(0.0) - weights) * load(off.data() + d);
        }
        return (sums[0] + sums[2]) + (sums[1] + sums[3]) + 4.0 * static_cast<double>(lists.n_features() + 3) * TINY;
    }
    // A bound on the norm of the errors of the corral's normalised rows because features are rounded (C4).
    double moved(const Index* chosen, Corral& corral) const {
        const Index n = lists.n_features();
        const double off = std::inner_product(lists.spread.begin(), lists.spread.end(), lists.spread.begin(), 0.0);
        if (off == 0.0) return 0.0;
        double total = 0.0;
        for (Index k = 0; k < corral.size; ++k) {
            const Index s = corral.lists()[k];
            const double* best = lists.row(lists.offsets[s] + chosen[s]);
            const double* other = lists.row(lists.offsets[s] + corral.others()[k]);
            double norm = 0.0;
            for (Index d = 0; d < n; ++d) norm += (best[d] - other[d]) * (best[d] - other[d]);
            total += 4.0 * off / norm;
        }
        return std::sqrt(total) * (1.0 + 1e-9);
    }
    // Whether the origin certainly lies inside the simplex of the corral's rows; off: `moved`.
    //
    // Let B = [rows | 1], without columns of zeros, be square. The exact multipliers solve B^T x = (0, 1). They differ
    // from the computed ones by at most |residual| / the smallest singular value of B. The square of that value is at
    // least (1 - |1 - A H|) / |H| for A = B B^T and any H (C4 of proofs/cores.md).
    LPMERT_INLINE bool surely_inside(Corral& corral, double off) {
        const Index n = lists.n_features(), size = corral.size, high = corral.high;
        double *const multipliers = corral.multipliers(), *const entries = work.data(),
                      *const products = entries + high;
        Index used = 0;
        for (Index d = 0; d < n; ++d) {
            bool any = lists.spread[d] > 0.0;
            for (Index k = 0; k < size; ++k) any = any || corral.row(k)[d] != 0.0;
            used += any;
        }
        if (size != used + 1) return false;
        double rest = 0.0, norm = 0.0, total = 0.0, least = INF;
        for (Index k = 0; k < size; ++k) {
            combine(1.0, corral.row(k), corral.column(0), n, entries, high);
            combine(0.0, entries, corral.inverse(0), size, products, high);
            products[k] -= 1.0;
            rest += product(products, products, high);
            norm += product(corral.inverse(k), corral.inverse(k), high);
            total += corral.solution()[k];
        }
        // The rounding error of 1 - A H: entries of A are at most 2, and sums have one term for each row.
        const double count = static_cast<double>(size), changed = 16.0 * count * EPSILON + off;
        norm = std::sqrt(norm);
        rest = std::sqrt(rest) + 8.0 * count * count * count * EPSILON * norm;
        if (!(rest < 0.5)) return false;
        const double smallest = std::sqrt((1.0 - rest) / norm) - changed;
        if (!(smallest > 0.0)) return false;
        double sum = -1.0;
        for (Index k = 0; k < size; ++k) {
            multipliers[k] = corral.solution()[k] / total;
            sum += multipliers[k];
            least = std::min(least, multipliers[k]);
        }
        combine(0.0, multipliers, corral.row(0), size, entries, corral.wide);
        const double residual = std::sqrt(sum * sum + product(entries, entries, corral.wide));
        return least > 2.0 * (residual + changed) / smallest;
    }

    Reals work, off, scores_of_list;
};

}  // namespace lpmert
