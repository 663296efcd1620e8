// Boxes of weights on the faces of a cube: |w_d - c_d| <= r_d for every d, with |c_f| = 1 and r_f = 0 for one axis f.
//
// Scores only matter up to a positive factor, so a box stands for the cone of its weights; the faces of the cube cover
// the space, and the two halves of a box cover the box (lemma B2 of proofs/boxes.md). For any weights w of a box, the
// product of a difference g of features with w is at least g.c less its reach sum_d |g_d| r_d (B1).
//
// Centres and radii are dyadic numbers, so that doubles hold them exactly. A box inherits from its parent only which
// hypotheses are left, so that rounding errors do not accumulate.
#pragma once

#include "node.hpp"

namespace lpmert::cells {

inline constexpr Index SAMPLED = 128;      // about how many pairs, and how many longer lists, choose the axis to split
inline constexpr Index SAMPLED_ROWS = 16;  // about how many hypotheses of each such list are compared
inline constexpr double LEAST_RADIUS = 0x1p-30;
inline constexpr double WIDE = 1.0 + 1e-5;      // largest magnitude of a weight in a box, or in a slightly wider one
inline constexpr double WIDER = 1.0 + 0x1p-20;  // factor of radii, exact, by which a box certainly contains another

// places: how often an axis can be halved before sums of products in a box are no longer exact, -1 if they never are;
// off: error of the difference of two products because features are rounded; least: smallest radius of a stalled box.
struct Precision {
    Index places = -1;
    double off = 0.0, least = 0.0;

    using Fields = std::tuple<Index, double, double>;
};

// The axis f of the face on which a box with these radii [D] lies.
inline Index face_of(Span<const double> radius) {
    Index face = 0;
    for (Index d = 0; d < radius.size(); ++d)
        if (radius[d] == 0.0) face = d;
    return face;
}

// A box as a node; the values of its hypotheses are their features.
struct Box : Node {
    Reals centre, radius;

    Index n_features() const { return count(centre); }
    Index face() const { return face_of(radius); }
    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        Node::each_field(self, visit);
        visit("centre", self.centre);
        visit("radius", self.radius);
    }
    void set_pair(Index p, const Lists& lists, Row cheap_id, Row dear_id, Index step, double off) {
        const double *const low = lists.row(cheap_id), *const high = lists.row(dear_id);
        double size = 0.0;
        for (Index d = 0; d < n_features(); ++d) {
            gains[d][p] = high[d] - low[d];
            size += std::abs(gains[d][p]);
        }
        reaches[p] = static_cast<double>(n_features() + 4) * (EPSILON * size + TINY) + off;
        steps[p] = step;
        cheap[p] = cheap_id;
        dear[p] = dear_id;
    }
    // Fill in what the lists say about the hypotheses in cheap, dear and ids. Costs and steps that the node already has
    // are prices, and stay.
    void look_up(const Lists& lists, double off) {
        const Index n = n_features();
        check_size(n, lists.n_features(), "centre");
        check_size(count(radius), n, "radius");
        Buffer<Index> prices = std::move(costs), price_steps = std::move(steps);
        resize_pairs(n, n_pairs());
        for (Index p = 0; p < n_pairs(); ++p)
            set_pair(p, lists, cheap[p], dear[p], lists.costs[dear[p]] - lists.costs[cheap[p]], off);
        double spread = 0.0;
        for (const double of_feature : lists.spread) spread += of_feature;
        values.resize(n, n_rows());
        costs.resize(ids.size());
        row_reaches.resize(ids.size());
        for (Index i = 0; i < n_rows(); ++i) {
            costs[i] = lists.costs[ids[i]];
            double size = 0.0;
            for (Index d = 0; d < n; ++d) {
                const double value = lists.row(ids[i])[d];
                values[d][i] = value;
                size += std::abs(value);
            }
            row_reaches[i] = static_cast<double>(n + 4) * (EPSILON * size + TINY) + WIDE * spread;
        }
        if (!prices.empty()) costs = std::move(prices);
        if (!price_steps.empty()) steps = std::move(price_steps);
    }
};

// The products of a difference with all weights of a box. lead: at the centre; reach: most by which they vary in the
// box; mass: sum of the sizes of the terms, which bounds the rounding errors.
struct Products {
    double lead = 0.0, reach = 0.0, mass = 0.0;

    void add(double gain, double size, double centre, double radius) {
        lead += gain * centre;
        reach += std::abs(gain) * radius;
        mass += size;
    }
    // A bound on the rounding error after n roundings of each term; rounding: 0.0 if all sums are exact, else 1.0.
    double error(Index n, double rounding) const { return rounding * static_cast<double>(n) * (EPSILON * mass + TINY); }
    bool are_at_least(double error) const { return lead - (reach + error) >= 0.0; }
};

// The products of one row of columns less another one.
template <class Values>
Products lead_in_box(const Values& values, Index one, Index other, const Box& box) {
    Products products;
    for (Index d = 0; d < box.n_features(); ++d) {
        const double gain = values[d][one] - values[d][other];
        products.add(gain, std::abs(gain), box.centre[d], box.radius[d]);
    }
    return products;
}

// Return normals [2 D - 1, D] of the sides of a box slightly wider than this one: all weights of the box have positive
// products with them (B3). The first one is that of the face.
inline Matrix<double> box_normals(Span<const double> centre, Span<const double> radius) {
    const Index n = centre.size(), face = face_of(radius);
    check_size(radius.size(), n, "radius");
    if (n == 0) throw std::invalid_argument("centre must have an item");
    Reals normals((2 * n - 1) * n);
    normals[face] = centre[face];
    double* normal = normals.data() + n;
    for (Index d = 0; d < n; ++d) {
        if (d == face) continue;
        const double high = centre[d] + WIDER * radius[d], low = centre[d] - WIDER * radius[d];
        normal[face] = centre[face] * high;
        normal[d] = -1.0;
        normal += n;
        normal[face] = -centre[face] * low;
        normal[d] = 1.0;
        normal += n;
    }
    return {std::move(normals), n};
}

// Fill the products of columns begin .. end with the centre (lead), and by how much they vary in the box (reach). The
// sums run feature by feature, whatever the width of vectors.
LPMERT_CLONES inline void measure(const Columns& columns, Index begin, Index end, const Box& box, double* lead,
                                  double* reach) {
    const Index n = end - begin;
    for (Index j = 0; j < n; ++j) lead[j] = reach[j] = 0.0;
    for (Index d = 0; d < box.n_features(); ++d) {
        const double* const values = columns[d] + begin;
        const double c = box.centre[d], r = box.radius[d];
        for (Index j = 0; j < n; ++j) {
            lead[j] += values[j] * c;
            reach[j] += std::abs(values[j]) * r;
        }
    }
}

// The geometry of boxes for the search; `Cones` documents the functions.
class Boxes {
  public:
    using Node = Box;
    static constexpr bool has_pairs = true;
    static constexpr bool sparing = true;

    Boxes(const Lists& lists, const Settings& settings, const Precision& precision)
        : settings_(settings), precision_(precision), stakes_(lists.n_features()), shares_(lists.n_features()) {}

    bool branch(const Box& box, Index hopeless) {
        choose_axis(box);
        const double least = box.stalled >= settings_.most_stalled ? precision_.least : LEAST_RADIUS;
        return box.stalled < hopeless && 0.5 * box.radius[axis_] >= least;
    }
    void halve(const Box& box, int which, Box& half) {
        half.centre = box.centre;
        half.radius = box.radius;
        if (which >= 0) {
            half.radius[axis_] = 0.5 * box.radius[axis_];
            half.centre[axis_] += which == 0 ? half.radius[axis_] : -half.radius[axis_];
        }
        rounding_ = rounding(half);
    }
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
        return std::make_pair(first.bound, first.n_lists()) < std::make_pair(second.bound, second.n_lists()) ? 0 : 1;
    }
    static Reals centre(const Box& box) { return box.centre; }
    static Reals normals(const Box& box) { return box_normals(box.centre, box.radius).items; }

    void view(const Box& box, View& values) const {
        for (Index d = 0; d < box.n_features(); ++d) values[d] = box.values[d];
    }
    const double* at_centre(const Box& half) const { return half.centre.data(); }
    LPMERT_CLONES void vary(const View& values, Index begin, Index end, const Box& half, const Row* best, Index one,
                            double* varied) const {
        const Index n = end - begin;
        for (Index j = 0; j < n; ++j) varied[j] = 0.0;
        for (std::size_t d = 0; d < values.size(); ++d) {
            const double* const column = values[d] + begin;
            const double r = half.radius[d], value = column[one];
            if (r > 0.0 && best != nullptr)
                for (Index j = 0; j < n; ++j) varied[j] += std::abs(column[best[j]] - column[j]) * r;
            else if (r > 0.0)
                for (Index j = 0; j < n; ++j) varied[j] += std::abs(column[j] - value) * r;
        }
    }
    static double lead(double at_centre, double varied) { return at_centre - varied; }
    static double error(const Box& box, Index i) { return box.row_reaches[i]; }
    bool beats(const View& values, Index winner, Index loser, const Box& half) const {
        const Products products = lead_in_box(values, winner, loser, half);
        return products.are_at_least(products.error(half.n_features() + 4, rounding_) + precision_.off);
    }
    // 0.0 if all sums of products in a box are exact, because its sides are multiples of 2^-places; else 1.0.
    double rounding(const Box& box) const {
        const auto is_multiple = [this](double side) {
            const double scaled = std::ldexp(side, static_cast<int>(precision_.places));
            return scaled == std::floor(scaled);
        };
        for (Index d = 0; d < box.n_features(); ++d)
            if (!is_multiple(box.centre[d] - box.radius[d]) || !is_multiple(box.centre[d] + box.radius[d])) return 1.0;
        return 0.0;
    }
    const Precision& precision() const { return precision_; }
    void complete(Box& box, const Lists& lists) const { box.look_up(lists, precision_.off); }

  private:
    // Choose the axis with the most cost at stake between two hypotheses, estimated from an even sample of the lists.
    void choose_axis(const Box& box) {
        const Index n = box.n_features();
        std::fill(stakes_.begin(), stakes_.end(), 0.0);
        const auto add = [&](double stake) {
            double reach = 0.0;
            for (const double share : shares_) reach += share;
            if (!(0.0 < reach && reach < INF)) return;
            for (Index d = 0; d < n; ++d) stakes_[d] += stake * (shares_[d] / reach);
        };
        Index stride = std::max<Index>(1, box.n_pairs() / SAMPLED);
        for (Index p = 0; p < box.n_pairs(); p += stride) {
            for (Index d = 0; d < n; ++d) shares_[d] = std::abs(box.gains[d][p]) * box.radius[d];
            add(static_cast<double>(stride) * 0.5 * static_cast<double>(box.steps[p]));
        }
        stride = std::max<Index>(1, box.n_row_lists() / SAMPLED);
        for (Index a = 0; a < box.n_row_lists(); a += stride) {
            const Index low = box.ends[a], size = box.ends[a + 1] - low, each = std::max<Index>(1, size / SAMPLED_ROWS);
            for (Index i = low + 1; i < low + size; i += each) {
                const Index step = box.costs[i] - box.costs[low];
                if (step <= 0) continue;
                for (Index d = 0; d < n; ++d)
                    shares_[d] = std::abs(box.values[d][low] - box.values[d][i]) * box.radius[d];
                add(static_cast<double>(stride) * static_cast<double>(step) * static_cast<double>(each) /
                    static_cast<double>(size));
            }
        }
        double most = -1.0;
        axis_ = 0;
        for (Index d = 0; d < n; ++d) {
            const double stake = stakes_[d] + 1e-3 * box.radius[d];
            if (box.radius[d] > 0.0 && stake > most) {
                most = stake;
                axis_ = d;
            }
        }
    }

    Settings settings_;
    Precision precision_;
    double rounding_ = 1.0;  // `rounding` of the last half
    Reals stakes_, shares_;  // [D] work space
    Index axis_ = 0;         // to split
};

}  // namespace lpmert::cells
