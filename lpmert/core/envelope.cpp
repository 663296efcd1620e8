#include "envelope.hpp"

#include "vectors.hpp"

namespace lpmert::lines {

namespace {

struct Bounds {
    double least_x, most_x, least_y, most_y;
};

// The least and the greatest coordinates of points [n]. Several side by side, as each would have to wait for the one
// before it.
LPMERT_CLONES Bounds find_bounds(const double* __restrict xs, const double* __restrict ys, Index n) {
    constexpr int LANES = 8;
    double least_x[LANES], most_x[LANES], least_y[LANES], most_y[LANES];
    for (int l = 0; l < LANES; ++l) least_x[l] = most_x[l] = xs[0], least_y[l] = most_y[l] = ys[0];
    for (Index i = 0; i + LANES <= n; i += LANES) {
        for (int l = 0; l < LANES; ++l) {
            const double x = xs[i + l], y = ys[i + l];
            least_x[l] = x < least_x[l] ? x : least_x[l];
            most_x[l] = x > most_x[l] ? x : most_x[l];
            least_y[l] = y < least_y[l] ? y : least_y[l];
            most_y[l] = y > most_y[l] ? y : most_y[l];
        }
    }
    for (Index i = n - n % LANES; i < n; ++i) {
        least_x[0] = std::min(least_x[0], xs[i]);
        most_x[0] = std::max(most_x[0], xs[i]);
        least_y[0] = std::min(least_y[0], ys[i]);
        most_y[0] = std::max(most_y[0], ys[i]);
    }
    return {*std::min_element(least_x, least_x + LANES), *std::max_element(most_x, most_x + LANES),
            *std::min_element(least_y, least_y + LANES), *std::max_element(most_y, most_y + LANES)};
}

// How often points [n] have one of the bounds, and for each bound the last that has it.
struct Holders {
    Index count, left, right, bottom, top;
};

LPMERT_CLONES Holders find_holders(const double* __restrict xs, const double* __restrict ys, Index n, Bounds bounds) {
    Index count = 0, left = 0, right = 0, bottom = 0, top = 0;
    for (Index i = 0; i < n; ++i) {  // to the end and without a branch: many at a time
        const bool on_left = xs[i] == bounds.least_x, on_right = xs[i] == bounds.most_x;
        const bool on_bottom = ys[i] == bounds.least_y, on_top = ys[i] == bounds.most_y;
        left = on_left ? i : left;
        right = on_right ? i : right;
        bottom = on_bottom ? i : bottom;
        top = on_top ? i : top;
        count += Index{on_left} + Index{on_right} + Index{on_bottom} + Index{on_top};
    }
    return {count, left, right, bottom, top};
}

// Return the point with the greatest first coordinate, of equals with the greatest second, times their signs.
Row farthest(const double* first, const double* second, Index n, double first_sign, double second_sign) {
    Row best = 0;
    for (Row i = 1; i < n; ++i) {
        const double ahead = first_sign * (first[i] - first[best]), aside = second_sign * (second[i] - second[best]);
        if (ahead > 0.0 || (ahead == 0.0 && aside > 0.0)) best = i;
    }
    return best;
}

}  // namespace

Extremes find_extremes(const double* xs, const double* ys, Index n) {
    const Holders found = find_holders(xs, ys, n, find_bounds(xs, ys, n));
    if (found.count == 4) {
        const Row left = static_cast<Row>(found.left), right = static_cast<Row>(found.right);
        const Row bottom = static_cast<Row>(found.bottom), top = static_cast<Row>(found.top);
        return {right, bottom, top, left, bottom, top};
    }
    return {farthest(xs, ys, n, 1, 1),   farthest(ys, xs, n, -1, 1),  farthest(ys, xs, n, 1, 1),
            farthest(xs, ys, n, -1, -1), farthest(ys, xs, n, -1, -1), farthest(ys, xs, n, 1, -1)};
}

LPMERT_CLONES void RoundedPoints::mark(const Extremes& corners, bool both, Span<std::uint8_t> marks) const {
    struct Chord {
        double x, y, run, rise;
    };
    const auto chord = [this](Row a, Row b) { return Chord{xs[a], ys[a], ys[b] - ys[a], xs[b] - xs[a]}; };
    const Index n = marks.size();
    const double* __restrict across = xs;
    const double* __restrict up = ys;
    std::uint8_t* __restrict out = marks.data();
    const Chord below = chord(corners.bottom_right, corners.right), above = chord(corners.right, corners.top_right);
    for (Index i = 0; i < n; ++i) {
        const double x = across[i], y = up[i];
        const bool first = (y < above.y) & ((x - below.x) * below.run > (y - below.y) * below.rise);
        const bool second = (y > above.y) & ((x - above.x) * above.run > (y - above.y) * above.rise);
        out[i] = static_cast<std::uint8_t>(static_cast<int>(first) | static_cast<int>(second) << 1);
    }
    if (!both) return;
    const Chord high = chord(corners.top_left, corners.left), low = chord(corners.left, corners.bottom_left);
    for (Index i = 0; i < n; ++i) {
        const double x = across[i], y = up[i];
        const bool third = (y > low.y) & ((x - high.x) * high.run > (y - high.y) * high.rise);
        const bool fourth = (y < low.y) & ((x - low.x) * low.run > (y - low.y) * low.rise);
        out[i] = static_cast<std::uint8_t>(out[i] | static_cast<int>(third) << 2 | static_cast<int>(fourth) << 3);
    }
}

}  // namespace lpmert::lines
