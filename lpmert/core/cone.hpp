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

// scores [R, D] of the survivors at the rays; ids and costs [R]; ends: of each open list among them. rays [D, D];
// errors [D]: of the scores at each ray.
struct Cone : Node {
    Buffer<double> scores;
    Buffer<Row> ids;
    Buffer<Index> costs;
    std::vector<Index> ends;
    std::vector<double> rays, errors;

    Index n_features() const { return count(errors); }
    Index n_rows() const { return count(ids); }
    Index n_lists() const { return count(ends) - 1; }
    Index n_survivors() const { return n_rows(); }
    Index bytes() const { return bytes_of(scores) + bytes_of(ids) + bytes_of(costs) + 16 * count(ends) + 1000; }
    const double* score(Index i) const { return scores.data() + i * n_features(); }
};

// The edge (first, second) of a cone that is split; error: of the scores at its middle.
struct Edge {
    Index first = 0, second = 1;
    double error = 0.0;
};

class Cones {
  public:
    using Node = Cone;

    Cones(const Lists& lists, const Settings& settings);

    // Choose where to split a cone; false where that cannot be done exactly, or has brought nothing for too long.
    bool branch(const Cone& cone, Index hopeless);
    // Write the geometry of one of the halves.
    void halve(const Cone& cone, int which, Cone& half);
    // The cone itself, in place of a half.
    void whole(const Cone& cone, Cone& same);
    // Splits in a row that have settled little.
    Index stalled(const Cone& cone, const Cone& half) const {
        const bool little = static_cast<double>(half.n_lists()) >= 0.9 * static_cast<double>(cone.n_lists());
        return little && half.n_rows() <= settings_.leaf_rows ? cone.stalled + 1 : 0;
    }
    bool is_leaf(const Cone& half, Index stalled) const {
        return half.n_lists() <= settings_.leaf_lists || stalled >= settings_.most_stalled;
    }
    // Which of two halves is searched first.
    static int better(const Cone& first, const Cone& second) { return first.bound > second.bound ? 1 : 0; }
    static std::vector<double> centre(const Cone& cone);
    // Normals [k, D] of a slightly wider part of the weight space; empty where that is not certain.
    static std::vector<double> normals(const Cone& cone);
    static Survivors survivors(const Cone& cone, const Lists& lists);
    // The ray of the last half that is the midpoint, -1 for a whole cone; and the scores there of the cone's survivors.
    Index replaced() const { return replaced_; }
    const double* middle() const { return middle_.data(); }

  private:
    void longest_edge(const Cone& cone);
    bool midpoint(const Cone& cone);

    Settings settings_;
    Edge edge_;
    Index replaced_ = -1;
    std::vector<double> middle_, disagreement_;
    std::vector<Index> best_;
};

}  // namespace lpmert::cells
