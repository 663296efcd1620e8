// Simplicial cones of weights: all sum_k x_k ray_k with x >= 0.
//
// Scores are linear. So a hypothesis that is better at all rays is better in the whole cone (lemma K1 of
// proofs/cones.md), and the score at the midpoint of an edge is the mean of the scores at its ends: branching takes one
// pass over the survivors. The two halves of a cone, split at such a midpoint, cover it (K2). Rays have dyadic
// coordinates and are exact.
#pragma once

#include "node.hpp"

namespace lpmert::cells {

inline constexpr Index SAMPLED_LISTS = 100;  // about how many lists choose the edge to split
inline constexpr double OUTWARD = 1e-7;      // by how much the sides are moved outwards, see K4

// Write the columns of the inverse of a matrix [n, n] as rows, by Gauss-Jordan elimination with partial pivoting;
// return false if the matrix is singular.
inline bool inverse_by_columns(const double* matrix, Index n, double* columns) {
    Reals left(matrix, matrix + n * n);
    std::fill(columns, columns + n * n, 0.0);
    for (Index k = 0; k < n; ++k) columns[k * n + k] = 1.0;
    for (Index k = 0; k < n; ++k) {
        Index pivot = k;
        for (Index i = k + 1; i < n; ++i)
            if (std::abs(left[i * n + k]) > std::abs(left[pivot * n + k])) pivot = i;
        const double value = left[pivot * n + k];
        if (value == 0.0) return false;
        for (Index d = 0; d < n; ++d) {
            std::swap(left[k * n + d], left[pivot * n + d]);
            std::swap(columns[d * n + k], columns[d * n + pivot]);
        }
        for (Index d = 0; d < n; ++d) {
            left[k * n + d] /= value;
            columns[d * n + k] /= value;
        }
        for (Index i = 0; i < n; ++i) {
            const double factor = left[i * n + k];
            if (i == k || factor == 0.0) continue;
            for (Index d = 0; d < n; ++d) {
                left[i * n + d] -= factor * left[k * n + d];
                columns[d * n + i] -= factor * columns[d * n + k];
            }
        }
    }
    return true;
}

// Return normals [D, D] of the sides of a cone slightly wider than that of rays [D, D], and whether this is certain:
// every ray has a positive product with every normal, beyond rounding (K4).
inline std::tuple<Matrix<double>, bool> outer_normals(Rows<const double> rays) {
    const Index n = rays.rows();
    check_size(rays.columns(), n, "a ray");
    Matrix<double> found{Reals(n * n), n};
    double* const normals = found.items.data();
    if (n == 0 || !inverse_by_columns(rays.items().data(), n, normals)) return {std::move(found), false};
    Reals widened(n, 0.0);
    for (Index k = 0; k < n; ++k)
        for (Index d = 0; d < n; ++d) widened[d] += normals[k * n + d];
    bool certain = true;
    for (Index k = 0; k < n; ++k) {
        double* const normal = normals + k * n;
        double largest = 0.0;
        for (Index d = 0; d < n; ++d) {
            normal[d] += OUTWARD * widened[d];
            largest = std::max(largest, std::abs(normal[d]));
        }
        if (!(0.0 < largest && largest < INF)) return {std::move(found), false};
        for (Index d = 0; d < n; ++d) normal[d] /= largest;
        for (Index j = 0; j < n; ++j) {
            double product = 0.0, size = 0.0;
            for (Index d = 0; d < n; ++d) {
                product += rays[j][d] * normal[d];
                size += std::abs(rays[j][d] * normal[d]);
            }
            certain = certain && product > static_cast<double>(n + 2) * EPSILON * size;
        }
    }
    return {std::move(found), certain};
}

// A cone as a node; the values of its hypotheses are scores at the rays [D, D], with errors of at most `errors` [D].
struct Cone : Node {
    Reals rays, errors;

    Index n_features() const { return count(errors); }
    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        Node::each_field(self, visit);
        visit("rays", self.rays);
        visit("errors", self.errors);
        visit("scores", self.values.items);
    }
};

// The geometry of cones for the search: how a node is halved, and how propagation compares hypotheses in it.
class Cones {
  public:
    using Node = Cone;
    static constexpr bool has_pairs = false;  // means of differences of scores would not be exact
    static constexpr bool sparing = false;    // whether rows are compared only if the best of the cheapest is beaten

    Cones(const Lists& lists, const Settings& settings) : settings_(settings) {
        const Index n = lists.n_features();
        disagreement_.resize(n * n);
        ones_.assign(n, 1.0);
        best_.resize(n);
    }

    // Choose where to split a cone; return false if it cannot be split exactly, or too many splits have settled little.
    bool branch(const Cone& cone, Index hopeless) {
        if (cone.stalled >= hopeless) return false;
        choose_edge(cone);
        return midpoint(cone);
    }
    // Write the geometry of one of the halves, 0 or 1, or of the cone itself in place of a half, -1.
    void halve(const Cone& cone, int which, Cone& half) {
        const Index n = cone.n_features();
        half.rays = cone.rays;
        half.errors = cone.errors;
        replaced_ = which < 0 ? -1 : which == 0 ? first_ : second_;
        if (replaced_ < 0) return;
        half.errors[replaced_] = error_;
        for (Index d = 0; d < n; ++d)
            half.rays[replaced_ * n + d] = 0.5 * (cone.rays[first_ * n + d] + cone.rays[second_ * n + d]);
    }
    // How many splits in a row have settled little.
    Index stalled(const Cone& cone, const Cone& half) const {
        const bool little = static_cast<double>(half.n_lists()) >= 0.9 * static_cast<double>(cone.n_lists());
        return little && half.n_rows() <= settings_.leaf_rows ? cone.stalled + 1 : 0;
    }
    bool is_leaf(const Cone& half) const {
        return half.n_lists() <= settings_.leaf_lists || half.stalled >= settings_.most_stalled;
    }
    // Which of two halves is searched first.
    static int better(const Cone& first, const Cone& second) { return first.bound > second.bound ? 1 : 0; }
    static Reals centre(const Cone& cone) {
        const Index n = cone.n_features();
        Reals sum(n, 0.0);
        for (Index k = 0; k < n; ++k)
            for (Index d = 0; d < n; ++d) sum[d] += cone.rays[k * n + d];
        return sum;
    }
    // Normals [k, D] of the sides of a slightly wider part of the weight space; empty if rounding hides it.
    static Reals normals(const Cone& cone) {
        auto [found, certain] = outer_normals({cone.rays.data(), cone.n_features(), cone.n_features()});
        return certain ? std::move(found.items) : Reals();
    }

    // Check the geometry of a node whose other fields were checked, and fill in what the lists say: here the costs,
    // unless the node has prices.
    static void complete(Cone& cone, const Lists& lists) {
        const Index n = lists.n_features();
        check_size(cone.n_pairs(), 0, "cheap");
        check_size(count(cone.errors), n, "errors");
        check_size(count(cone.rays), n * n, "rays");
        check_size(count(cone.values.items), n * cone.n_rows(), "scores");
        cone.values.n = cone.n_rows();
        if (!cone.costs.empty()) return;
        for (const Row id : cone.ids) cone.costs.push_back(lists.costs[id]);
    }

    // Set the columns by which propagation compares the cone's rows in the half: the scores at the half's rays. The
    // centre is the sum of the rays.
    void view(const Cone& cone, View& values) const {
        for (Index d = 0; d < cone.n_features(); ++d) values[d] = d == replaced_ ? middle_.data() : cone.values[d];
    }
    const double* at_centre(const Cone&) const { return ones_.data(); }
    // Fill `varied` so that lead(lead at the centre, varied) is the least lead in the half: the lead of best[j], the
    // best row of its list, over each row j of begin .. end; or, if best is null, the lead of each of these over row
    // begin + one.
    LPMERT_CLONES void vary(const View& values, Index begin, Index end, const Cone& half, const Row* best, Index one,
                            double* varied) const {
        const Index n = end - begin;
        std::fill_n(varied, n, INF);
        for (Index d = 0; d < half.n_features(); ++d) {
            const double* const scores = values[d] + begin;
            const double off = 2.0 * half.errors[d], score = scores[one];
            const auto take = [&](Index j, double lead) { varied[j] = lead < varied[j] ? lead : varied[j]; };
            if (best != nullptr)
                for (Index j = 0; j < n; ++j) take(j, scores[best[j]] - scores[j] - off);
            else
                for (Index j = 0; j < n; ++j) take(j, scores[j] - score - off);
        }
    }
    static double lead(double, double varied) { return varied; }
    static double error(const Cone&, Index) { return 0.0; }
    // The errors are already subtracted from leads at rays, so that a lead of at least 0 is certain.
    static bool beats(const View&, Index, Index, const Cone&) { return true; }

  private:
    // Choose the edge with the most cost at stake between the winners at its ends, weighted by its length. A list that
    // is tied at one end counts as won there by the winner at the other end: otherwise splits would pile up at a ray in
    // which many boundaries meet.
    void choose_edge(const Cone& cone) {
        const Index n = cone.n_features(), n_lists = cone.n_lists();
        std::fill(disagreement_.begin(), disagreement_.end(), 0.0);
        for (Index a = 0; a < n_lists; a += std::max<Index>(1, n_lists / SAMPLED_LISTS)) {
            for (Index d = 0; d < n; ++d) {
                const double* const scores = cone.values[d];
                best_[d] = std::max_element(scores + cone.ends[a], scores + cone.ends[a + 1]) - scores;
            }
            for (Index p = 0; p < n; ++p) {
                for (Index q = p + 1; q < n; ++q) {
                    const Index first = best_[p], second = best_[q];
                    if (cone.values[p][second] < cone.values[p][first] &&
                        cone.values[q][first] < cone.values[q][second])
                        disagreement_[p * n + q] +=
                            static_cast<double>(std::abs(cone.costs[first] - cone.costs[second]));
                }
            }
        }
        double most = -1.0;
        first_ = 0;
        second_ = 1;
        for (Index p = 0; p < n; ++p) {
            for (Index q = p + 1; q < n; ++q) {
                double length = 0.0;
                for (Index d = 0; d < n; ++d) length += std::abs(cone.rays[p * n + d] - cone.rays[q * n + d]);
                const double stake = (disagreement_[p * n + q] + 1e-3) * length;
                if (stake > most) {
                    most = stake;
                    first_ = p;
                    second_ = q;
                }
            }
        }
    }
    // Compute the scores at the midpoint of the edge and their error; return false if the new ray is not exact.
    bool midpoint(const Cone& cone) {
        const Index n = cone.n_features();
        const double *const first = cone.values[first_], *const second = cone.values[second_];
        bool exact_ray = true, exact = true;
        for (Index d = 0; d < n; ++d)
            exact_ray = exact_ray && two_sum(cone.rays[first_ * n + d], cone.rays[second_ * n + d]).error == 0.0;
        double largest = 0.0;
        middle_.resize(cone.ids.size());
        for (Index i = 0; i < cone.n_rows(); ++i) {
            const Exact sum = two_sum(first[i], second[i]);
            middle_[i] = 0.5 * sum.rounded;
            exact &= sum.error == 0.0 && 2.0 * middle_[i] == sum.rounded;
            largest = std::max(largest, std::abs(middle_[i]));
        }
        error_ = 0.5 * (cone.errors[first_] + cone.errors[second_]) * (1.0 + 4.0 * EPSILON);
        if (!exact) error_ += EPSILON * largest + TINY;
        return exact_ray;
    }

    Settings settings_;
    Index first_ = 0, second_ = 1;  // the ends of the edge that is split
    double error_ = 0.0;            // of the scores at its midpoint
    Index replaced_ = -1;           // the ray of the last half that is the midpoint, -1 for a whole cone
    Reals middle_;                  // scores at the midpoint
    Reals disagreement_, ones_;
    Indices best_;
};

}  // namespace lpmert::cells
