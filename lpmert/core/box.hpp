// Boxes of weights: |w_d - c_d| <= r_d for every d, on a face of the cube, where c_f = 1 or -1 and r_f = 0 for one f.
//
// A box stands for the cone of its weights. The product of a difference g with weights of the box is at least g.c less
// its reach sum_d |g_d| r_d (lemma B1 of proofs/boxes.md). Centre and radii are dyadic numbers that doubles hold, and
// nothing is handed down from box to box but which hypotheses are left, so that rounding errors do not add up. The
// faces cover the space, and halves their box (B2).
#pragma once

#include "node.hpp"

namespace lpmert::cells {

// More than what underflow takes from a sum of products.
inline constexpr double TINY = 0x1p-1060;

// What an entry of weights of a box, or of a slightly wider one, is at most, and room for rounding.
inline constexpr double WIDE = 1.0 + 1e-5;

// places: how often an axis may be halved so that all sums of a box are still exact, -1 if they never are; off: how far
// the difference of two products may be from the one meant, as features are rounded; least: smallest radius of a box
// that has stalled.
struct Precision {
    Index places = -1;
    double off = 0.0, least = 0.0;
};

// What is open in a box: lists of two survivors as pairs, all others as rows. gains [D, P]: dearer - cheaper hypothesis
// of each pair, reaches [P]: bounds on the rounding errors of their products with weights of the cube; steps [P]:
// costs. features [D, R], row_reaches, ids and costs [R] of the other lists; ends: of each of them.
struct Box : Node {
    std::vector<double> centre, radius;
    Columns gains;
    Buffer<double> reaches;
    Buffer<Index> steps;
    Buffer<Row> cheap, dear;
    Columns features;
    Buffer<double> row_reaches;
    Buffer<Index> costs;
    Buffer<Row> ids;
    std::vector<Index> ends;

    Index n_features() const { return count(centre); }
    Index n_pairs() const { return count(steps); }
    Index n_rows() const { return count(ids); }
    Index n_row_lists() const { return count(ends) - 1; }
    Index n_lists() const { return n_row_lists() + n_pairs(); }
    Index n_survivors() const { return n_rows() + n_pairs(); }
    Index face() const;
    Index bytes() const { return (8 * n_features() + 24) * n_survivors() + 16 * count(ends) + 1000; }

    void resize_pairs(Index n_features, Index n);
    void resize_rows(Index n_features, Index n);
    // Make pair p one of two hypotheses, of which the dearer one is ahead by feature(d) in each feature.
    template <class Feature>
    void set_pair(Index p, Row cheap_id, Row dear_id, Index step, Feature feature, double off) {
        double size = 0.0;
        for (Index d = 0; d < n_features(); ++d) {
            const double gain = feature(d);
            gains[d][p] = gain;
            size += std::abs(gain);
        }
        reaches[p] = static_cast<double>(n_features() + 4) * EPSILON * size + TINY + off;
        steps[p] = step;
        cheap[p] = cheap_id;
        dear[p] = dear_id;
    }
    // Look up what the lists tell of the hypotheses in cheap, dear and ids.
    void look_up(const Lists& lists, double off);
};

// 0.0 where all sums of a box are exact, as its sides are multiples of 2^-places, else 1.0.
double rounding_of(Index places, const double* centre, const double* radius, Index n_features);

// Whether hypothesis `winner` of columns surely has at least the product of `loser` with all weights of a box;
// rounding: 0.0 if all sums are exact, else 1.0; off: of Precision.
inline bool beats_in_box(const Columns& columns, Index winner, Index loser, const Box& box, double rounding,
                         double off) {
    const Index n = box.n_features();
    double lead = 0.0, reach = 0.0, mass = 0.0;
    for (Index d = 0; d < n; ++d) {
        const double gain = columns[d][winner] - columns[d][loser];
        lead += gain * box.centre[d];
        reach += std::abs(gain) * box.radius[d];
        mass += std::abs(gain);
    }
    const double error = rounding * (static_cast<double>(n + 4) * EPSILON * mass + TINY) + off;
    return lead - (reach + error) >= 0.0;
}

// Return normals [2 D - 1, D] of a box slightly wider than this one: products with its weights are positive (B3). For
// one feature, the face is all that there is.
std::vector<double> box_normals(const double* centre, const double* radius, Index n_features);

class Boxes {
  public:
    using Node = Box;

    Boxes(const Lists& lists, const Settings& settings, const Precision& precision);

    bool branch(const Box& box, Index hopeless);
    void halve(const Box& box, int which, Box& half) const;
    void whole(const Box& box, Box& same) const;
    Index stalled(const Box& box, const Box& half) const {
        const bool little = static_cast<double>(half.n_lists()) >= 0.9 * static_cast<double>(box.n_lists());
        return little ? box.stalled + 1 : 0;
    }
    bool is_leaf(const Box& half, Index stalled) const {
        const bool stuck =
            stalled >= settings_.most_stalled && 2 * half.n_pairs() + half.n_rows() <= settings_.leaf_rows;
        return half.n_lists() <= settings_.leaf_lists || stuck;
    }
    static int better(const Box& first, const Box& second) {
        if (first.bound == second.bound) return first.n_lists() < second.n_lists() ? 0 : 1;
        return first.bound < second.bound ? 0 : 1;
    }
    static std::vector<double> centre(const Box& box) { return box.centre; }
    static std::vector<double> normals(const Box& box) {
        return box_normals(box.centre.data(), box.radius.data(), box.n_features());
    }
    static Survivors survivors(const Box& box, const Lists& lists);
    const Precision& precision() const { return precision_; }

  private:
    void longest_axis(const Box& box);

    Settings settings_;
    Precision precision_;
    std::vector<double> stakes_, shares_;
    Index axis_ = 0;
};

}  // namespace lpmert::cells
