// Simplicial cones of weights: all sum_k x_k ray_k with x >= 0.
//
// Rays have dyadic coordinates and are exact. Scores are linear, so that order at the rays is order in the cone (lemma
// K1 of proofs/cones.md), and the score at the middle of an edge is the mean of those at its ends: a child costs one
// pass over the survivors. A split at a midpoint covers its cone (K2).
#pragma once

#include "node.hpp"

namespace lpmert::cells {

// Whether a + b has no rounding error (Knuth's two-sum).
inline bool exact_sum(double a, double b) {
    const double total = a + b, part = total - a;
    return (a - (total - part)) + (b - part) == 0.0;
}

// Write normals [D, D] of a cone slightly wider than the one of these rays [D, D]; return whether that is certain:
// every ray has a positive product with every normal, beyond rounding (K4).
bool outer_normals(const double* rays, Index n_features, double* normals);

// Whether a row of columns surely has at least the score of another at every ray, beyond the errors [D] of both.
inline bool beats_at_rays(const View& values, Index winner, Index loser, const std::vector<double>& errors) {
    for (Index d = 0; d < count(errors); ++d)
        if (!(values[d][winner] - values[d][loser] - 2.0 * errors[d] >= 0.0)) return false;
    return true;
}

// A node whose values are scores at the rays [D, D], off by errors [D] at most.
struct Cone : Node {
    std::vector<double> rays, errors;

    Index n_features() const { return count(errors); }
    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        Node::each_field(self, visit);
        visit("rays", self.rays);
        visit("errors", self.errors);
        visit("scores", self.values.items);
    }
};

class Cones {
  public:
    using Node = Cone;
    static constexpr bool has_pairs = false;  // differences of scores are rounded, and their means no longer exact
    static constexpr bool sparing = false;    // whether rows are compared only if the best of the cheapest is beaten

    Cones(const Lists& lists, const Settings& settings);

    // Choose where to split a cone; false where that cannot be done exactly, or has brought nothing for too long.
    bool branch(const Cone& cone, Index hopeless);
    // Write the geometry of one of the halves, or of the whole cone in place of a half.
    void halve(const Cone& cone, int which, Cone& half);
    void whole(const Cone& cone, Cone& same);
    // Splits in a row that have settled little.
    Index stalled(const Cone& cone, const Cone& half) const {
        const bool little = static_cast<double>(half.n_lists()) >= 0.9 * static_cast<double>(cone.n_lists());
        return little && half.n_rows() <= settings_.leaf_rows ? cone.stalled + 1 : 0;
    }
    bool is_leaf(const Cone& half) const {
        return half.n_lists() <= settings_.leaf_lists || half.stalled >= settings_.most_stalled;
    }
    // Which of two halves is searched first.
    static int better(const Cone& first, const Cone& second) { return first.bound > second.bound ? 1 : 0; }
    static std::vector<double> centre(const Cone& cone);
    // Normals [k, D] of a slightly wider part of the weight space; empty where that is not certain.
    static std::vector<double> normals(const Cone& cone);

    // How propagation compares the cone's rows in the half: by what they have at the half's rays, columns [D]; the
    // centre is where all rays count as much.
    void view(const Cone& cone, View& values) const;
    const double* at_centre(const Cone&) const { return ones_.data(); }
    // Fill `varied` so that lead(lead at the centre, varied) is the least lead in the half: of the best row of its list
    // over each of rows begin .. end, or, where best is none, of each of these over row begin + one.
    void vary(const View& values, Index begin, Index end, const Cone& half, const Row* best, Index one,
              double* varied) const;
    static double lead(double, double varied) { return varied; }
    static double error(const Cone&, Index) { return 0.0; }
    double error_at_centre(const Cone&, Index, Index) const { return tolerance_; }
    static bool beats(const View& values, Index winner, Index loser, const Cone& half) {
        return beats_at_rays(values, winner, loser, half.errors);
    }

  private:
    void longest_edge(const Cone& cone);
    bool midpoint(const Cone& cone);
    void take(const Cone& cone, Cone& half, Index replaced);

    Settings settings_;
    double largest_ = 0.0;          // what the magnitudes of the features of a hypothesis add up to at most
    Index first_ = 0, second_ = 1;  // the ends of the edge that is split
    double error_ = 0.0;            // of the scores at its middle
    Index replaced_ = -1;           // the ray of the last half that is the midpoint, -1 for a whole cone
    double tolerance_ = 0.0;        // what leads at the centre of the last half may be off
    std::vector<double> middle_, disagreement_, ones_;
    std::vector<Index> best_;
};

}  // namespace lpmert::cells
