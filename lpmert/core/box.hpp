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

// places: how often an axis may be halved so that all sums of a box are still exact, -1 if they never are; off: how far
// the difference of two products may be from the one meant, as features are rounded; least: smallest radius of a box
// that has stalled.
struct Precision {
    Index places = -1;
    double off = 0.0, least = 0.0;
};

// A node whose values are features.
struct Box : Node {
    std::vector<double> centre, radius;

    Index n_features() const { return count(centre); }
    Index face() const;
    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        Node::each_field(self, visit);
        visit("centre", self.centre);
        visit("radius", self.radius);
    }
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

// What is known of products of a difference with weights of a box: their value at the centre, how much less or more
// they are in the box at most, and the size of the terms, by which rounding errors are bounded.
struct Products {
    double lead = 0.0, reach = 0.0, mass = 0.0;

    void add(double gain, double size, double centre, double radius) {
        lead += gain * centre;
        reach += std::abs(gain) * radius;
        mass += size;
    }
    // What is computed may be off, n roundings of each term; rounding: 0.0 if all sums are exact, else 1.0.
    double error(Index n, double rounding) const { return rounding * (static_cast<double>(n) * EPSILON * mass + TINY); }
    bool are_at_least(double error) const { return lead - (reach + error) >= 0.0; }
};

// Whether a row of columns surely has at least the product of another with all weights of a box; off: of Precision.
inline bool beats_in_box(const View& values, Index winner, Index loser, const Box& box, double rounding, double off) {
    const Index n = box.n_features();
    Products products;
    for (Index d = 0; d < n; ++d) {
        const double gain = values[d][winner] - values[d][loser];
        products.add(gain, std::abs(gain), box.centre[d], box.radius[d]);
    }
    return products.are_at_least(products.error(n + 4, rounding) + off);
}

// Return normals [2 D - 1, D] of a box slightly wider than this one: products with its weights are positive (B3). For
// one feature, the face is all that there is.
std::vector<double> box_normals(const double* centre, const double* radius, Index n_features);

// Fill lead with the products of columns begin .. end and the centre, reach with what they vary by in the box.
void measure(const Columns& columns, Index begin, Index end, const Box& box, double* lead, double* reach);

// The same of boxes as Cones has of cones.
class Boxes {
  public:
    using Node = Box;
    static constexpr bool has_pairs = true;
    static constexpr bool sparing = true;

    Boxes(const Lists& lists, const Settings& settings, const Precision& precision);

    bool branch(const Box& box, Index hopeless);
    void halve(const Box& box, int which, Box& half);
    void whole(const Box& box, Box& same);
    Index stalled(const Box& box, const Box& half) const {
        const bool little = static_cast<double>(half.n_lists()) >= 0.9 * static_cast<double>(box.n_lists());
        return little ? box.stalled + 1 : 0;
    }
    bool is_leaf(const Box& half) const {
        const bool stuck =
            half.stalled >= settings_.most_stalled && 2 * half.n_pairs() + half.n_rows() <= settings_.leaf_rows;
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

    void view(const Box& box, View& values) const {
        for (Index d = 0; d < box.n_features(); ++d) values[d] = box.values[d];
    }
    const double* at_centre(const Box& half) const { return half.centre.data(); }
    void vary(const View& values, Index begin, Index end, const Box& half, const Row* best, Index one,
              double* varied) const;
    static double lead(double at_centre, double varied) { return at_centre - varied; }
    static double error(const Box& box, Index i) { return box.row_reaches[i]; }
    static double error_at_centre(const Box& box, Index i, Index j) { return box.row_reaches[i] + box.row_reaches[j]; }
    bool beats(const View& values, Index winner, Index loser, const Box& half) const {
        return beats_in_box(values, winner, loser, half, rounding_, precision_.off);
    }
    double rounding(const Box& box) const {
        return rounding_of(precision_.places, box.centre.data(), box.radius.data(), box.n_features());
    }
    const Precision& precision() const { return precision_; }

  private:
    void longest_axis(const Box& box);

    Settings settings_;
    Precision precision_;
    double rounding_ = 1.0;  // of the last half
    std::vector<double> stakes_, shares_;
    Index axis_ = 0;
};

}  // namespace lpmert::cells
