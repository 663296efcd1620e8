#include "box.hpp"

#include <algorithm>
#include <cmath>

namespace lpmert::cells {

namespace {

constexpr Index SAMPLED = 128;      // pairs, and lists of more hypotheses, that tell where to split
constexpr Index SAMPLED_ROWS = 16;  // hypotheses of each of these lists that are compared with its cheapest, about
constexpr double LEAST_RADIUS = 0x1p-30;
constexpr double WIDE = 1.0 + 1e-5;      // what an entry of weights of a box, or of a slightly wider one, is at most
constexpr double WIDER = 1.0 + 0x1p-20;  // radii of a box that surely contains another; their products are exact

}  // namespace

double rounding_of(Index places, const double* centre, const double* radius, Index n) {
    for (Index d = 0; d < n; ++d) {
        const double low = std::ldexp(centre[d] - radius[d], static_cast<int>(places));
        const double high = std::ldexp(centre[d] + radius[d], static_cast<int>(places));
        if (low != std::floor(low) || high != std::floor(high)) return 1.0;
    }
    return 0.0;
}

std::vector<double> box_normals(const double* centre, const double* radius, Index n) {
    Index face = 0;
    for (Index d = 0; d < n; ++d)
        if (radius[d] == 0.0) face = d;
    std::vector<double> normals(static_cast<std::size_t>((2 * n - 1) * n), 0.0);
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
    return normals;
}

Index Box::face() const {
    Index found = 0;
    for (Index d = 0; d < n_features(); ++d)
        if (radius[d] == 0.0) found = d;
    return found;
}

void Box::look_up(const Lists& lists, double off) {
    const Index n = n_features();
    resize_pairs(n, n_pairs());
    for (Index p = 0; p < n_pairs(); ++p) {
        const double *low = lists.row(cheap[p]), *high = lists.row(dear[p]);
        const auto gain = [&](Index d) { return high[d] - low[d]; };
        set_pair(p, cheap[p], dear[p], lists.costs[dear[p]] - lists.costs[cheap[p]], gain, off);
    }
    double doubt = 0.0;
    for (const double spread : lists.spread) doubt += spread;
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
        row_reaches[i] = static_cast<double>(n + 4) * EPSILON * size + TINY + WIDE * doubt;
    }
}

// Sums are added up feature by feature, whatever the width of vectors.

LPMERT_CLONES
void measure(const Columns& columns, Index begin, Index end, const Box& box, double* lead, double* reach) {
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

namespace {

LPMERT_CLONES
void reaches_in_box(const View& values, Index begin, Index end, const double* radius, const Row* best, Index one,
                    double* reach) {
    const Index n = end - begin;
    for (Index j = 0; j < n; ++j) reach[j] = 0.0;
    for (std::size_t d = 0; d < values.size(); ++d) {
        const double* const own = values[d] + begin;
        const double r = radius[d], value = own[one];
        if (r > 0.0 && best != nullptr)
            for (Index j = 0; j < n; ++j) reach[j] += std::abs(own[best[j]] - own[j]) * r;
        else if (r > 0.0)
            for (Index j = 0; j < n; ++j) reach[j] += std::abs(own[j] - value) * r;
    }
}

}  // namespace

void Boxes::vary(const View& values, Index begin, Index end, const Box& half, const Row* best, Index one,
                 double* varied) const {
    reaches_in_box(values, begin, end, half.radius.data(), best, one, varied);
}

Boxes::Boxes(const Lists& lists, const Settings& settings, const Precision& precision)
    : settings_(settings), precision_(precision) {
    stakes_.resize(static_cast<std::size_t>(lists.n_features()));
    shares_.resize(static_cast<std::size_t>(lists.n_features()));
}

// The axis along which most cost is at stake between two hypotheses, by an even sample of the lists.
void Boxes::longest_axis(const Box& box) {
    const Index n = box.n_features();
    std::fill(stakes_.begin(), stakes_.end(), 0.0);
    const auto add = [&](double stake) {
        double reach = 0.0;
        for (const double share : shares_) reach += share;
        if (!(0.0 < reach && reach < std::numeric_limits<double>::infinity())) return;
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
            for (Index d = 0; d < n; ++d) shares_[d] = std::abs(box.values[d][low] - box.values[d][i]) * box.radius[d];
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

bool Boxes::branch(const Box& box, Index hopeless) {
    longest_axis(box);
    const double least = box.stalled >= settings_.most_stalled ? precision_.least : LEAST_RADIUS;
    return box.stalled < hopeless && 0.5 * box.radius[axis_] >= least;
}

void Boxes::halve(const Box& box, int which, Box& half) {
    whole(box, half);
    const double radius = 0.5 * box.radius[axis_];
    half.radius[axis_] = radius;
    half.centre[axis_] += which == 0 ? radius : -radius;
    rounding_ = rounding(half);
}

void Boxes::whole(const Box& box, Box& same) {
    same.centre = box.centre;
    same.radius = box.radius;
    rounding_ = rounding(same);
}

}  // namespace lpmert::cells
