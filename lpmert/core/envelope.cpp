#include "envelope.hpp"

#include "vectors.hpp"

namespace lpmert::lines {

Extremes find_extremes(const double* xs, const double* ys, Index n, bool both) {
    Extremes found{0, 0, 0, 0, 0, 0};
    double right_x = xs[0], right_y = ys[0], bottom_y = ys[0], bottom_x = xs[0], top_y = ys[0], top_x = xs[0];
    for (Row i = 1; i < n; ++i) {
        const double x = xs[i], y = ys[i];
        if (y <= bottom_y && (y < bottom_y || x > bottom_x)) found.bottom_right = i, bottom_y = y, bottom_x = x;
        if (y >= top_y && (y > top_y || x > top_x)) found.top_right = i, top_y = y, top_x = x;
        if (x >= right_x && (x > right_x || y > right_y)) found.right = i, right_x = x, right_y = y;
    }
    if (!both) return found;
    double left_x = xs[0], left_y = ys[0];
    bottom_y = top_y = ys[0], bottom_x = top_x = xs[0];
    for (Row i = 1; i < n; ++i) {
        const double x = xs[i], y = ys[i];
        if (y <= bottom_y && (y < bottom_y || x < bottom_x)) found.bottom_left = i, bottom_y = y, bottom_x = x;
        if (y >= top_y && (y > top_y || x < top_x)) found.top_left = i, top_y = y, top_x = x;
        if (x <= left_x && (x < left_x || y < left_y)) found.left = i, left_x = x, left_y = y;
    }
    return found;
}

LPMERT_CLONES void mark_beyond(double sign, const double* xs, const double* ys, Point a, Point b, Point c,
                               Span<std::uint8_t> marks) {
    const double level = sign * b.y;
    const double ax = sign * a.x, ay = sign * a.y, bx = sign * b.x, by = sign * b.y;
    const double run = by - ay, rise = bx - ax, next_run = sign * c.y - by, next_rise = sign * c.x - bx;
    const Index n = marks.size();
    std::uint8_t* __restrict out = marks.data();
    for (Index i = 0; i < n; ++i) {
        const double x = sign * xs[i], y = sign * ys[i];
        const bool before = (y < level) & ((x - ax) * run > (y - ay) * rise);
        const bool after = (y > level) & ((x - bx) * next_run > (y - by) * next_rise);
        out[i] = static_cast<std::uint8_t>(static_cast<int>(before) | static_cast<int>(after) << 1);
    }
}

}  // namespace lpmert::lines
