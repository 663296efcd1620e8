// The corners of a list: the hypotheses that win for some weights of a line, a circle or the plane.
//
// With weights cos(t) w + sin(t) v, a hypothesis scores cos(t) x + sin(t) y. So the winners are the corners of the
// convex hull of the points (x, y). Where cos(t) > 0, these are the corners on the right of the hull, from the lowest
// to the highest: the upper envelope of the lines x + tan(t) y. In the other half of the circle they are the corners on
// the left: the envelope of the lines -x - tan(t) y. On a line, only the right side counts.
//
// Sources: Akl and Toussaint, A fast convex hull algorithm, Information Processing Letters 1978 (no point inside the
// polygon of the extreme points is a corner); Barber, Dobkin and Huhdanpaa, The Quickhull algorithm for convex hulls,
// 1996 (the point farthest from a chord is a corner, and no point below the two new chords is one).
#pragma once

#include "lists.hpp"

namespace lpmert {

// A point of the plane. Each coordinate is 0, or its magnitude is between 2^-440 and 1.
struct Vertex {
    double x, y;
};

inline constexpr double HALF_ULP = 0x1p-53;
inline constexpr double FILTER = (3 + 16 * HALF_ULP) * HALF_ULP;
inline constexpr double UNDERFLOW_BOUND = 1e-300;
inline constexpr double SPLITTER = 0x1p27 + 1;

// Dekker's product.
inline Exact two_product(double a, double b) {
    const double product = a * b;
    const double wide_a = SPLITTER * a, wide_b = SPLITTER * b;
    const double a_high = wide_a - (wide_a - a), b_high = wide_b - (wide_b - b);
    const double a_low = a - a_high, b_low = b - b_high;
    return {product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)};
}

// An exact sum: nonzero terms of increasing magnitude that do not overlap.
class Expansion {
    double terms[20];
    int size = 0;

  public:
    void add(double term) {
        int n = 0;
        for (int k = 0; k < size; ++k) {
            const Exact sum = two_sum(term, terms[k]);
            term = sum.rounded;
            if (sum.error != 0.0) terms[n++] = sum.error;
        }
        if (term != 0.0) terms[n++] = term;
        size = n;
    }
    void add_product(double a, double b) {
        const Exact product = two_product(a, b);
        add(product.error);
        add(product.rounded);
    }
    int sign() const { return size == 0 ? 0 : terms[size - 1] > 0.0 ? 1 : -1; }
};

inline int sign(double value) { return (value > 0.0) - (value < 0.0); }

inline int exact_turn(Vertex p, Vertex q, Vertex r, Vertex s) {
    const Exact ax = two_sum(q.x, -p.x), ay = two_sum(q.y, -p.y), bx = two_sum(s.x, -r.x), by = two_sum(s.y, -r.y);
    Expansion sum;
    for (const double a : {ax.error, ax.rounded})
        for (const double b : {by.error, by.rounded}) sum.add_product(a, b);
    for (const double a : {-ay.error, -ay.rounded})
        for (const double b : {bx.error, bx.rounded}) sum.add_product(a, b);
    return sum.sign();
}

// The sign of the cross product (q - p) x (s - r).
inline int turn(Vertex p, Vertex q, Vertex r, Vertex s) {
    const double ax = q.x - p.x, ay = q.y - p.y, bx = s.x - r.x, by = s.y - r.y;
    const double left = ax * by, right = ay * bx, difference = left - right;
    if (std::abs(difference) > FILTER * (std::abs(left) + std::abs(right)) + UNDERFLOW_BOUND)
        return difference > 0.0 ? 1 : -1;
    const int left_sign = sign(ax) * sign(by), right_sign = sign(ay) * sign(bx);
    if (left_sign != right_sign) return left_sign > right_sign ? 1 : -1;
    return left_sign == 0 ? 0 : exact_turn(p, q, r, s);
}

// The extreme points of a list: on the right of its hull, from the lowest to the highest, bottom_right, right (the
// higher if there are two) and top_right; on the left, from the highest to the lowest, top_left, left (the lower if
// there are two) and bottom_left. Of equal points, the first one counts.
struct Extremes {
    Row right, bottom_right, top_right, left, bottom_left, top_left;
};

// The positions of the least and the greatest of some values, the last ones on ties, and how many values equal either.
struct Ends {
    Row least, greatest;
    Index count;
};

// Find the ends of values [n]. Both loops run without branches, many values at a time; the first keeps several minima
// and maxima, as each step of a single one would have to wait for the step before.
LPMERT_CLONES inline Ends find_ends(const double* __restrict values, Index n) {
    constexpr int LANES = 8;
    double low[LANES], high[LANES];
    for (int l = 0; l < LANES; ++l) low[l] = high[l] = values[0];
    for (Index i = 0; i + LANES <= n; i += LANES) {
        for (int l = 0; l < LANES; ++l) {
            const double value = values[i + l];
            low[l] = value < low[l] ? value : low[l];
            high[l] = value > high[l] ? value : high[l];
        }
    }
    for (Index i = n - n % LANES; i < n; ++i) {
        low[0] = std::min(low[0], values[i]);
        high[0] = std::max(high[0], values[i]);
    }
    const double least = *std::min_element(low, low + LANES), greatest = *std::max_element(high, high + LANES);
    Index count = 0, first = 0, last = 0;
    for (Index i = 0; i < n; ++i) {
        const bool is_least = values[i] == least, is_greatest = values[i] == greatest;
        first = is_least ? i : first;
        last = is_greatest ? i : last;
        count += Index{is_least} + Index{is_greatest};
    }
    return {static_cast<Row>(first), static_cast<Row>(last), count};
}

// Return the point with the greatest first coordinate, times a sign; on ties, the greatest second one, times a sign.
inline Row farthest(const double* first, const double* second, Index n, double first_sign, double second_sign) {
    Row best = 0;
    for (Row i = 1; i < n; ++i) {
        const double ahead = first_sign * (first[i] - first[best]), aside = second_sign * (second[i] - second[best]);
        if (ahead > 0.0 || (ahead == 0.0 && aside > 0.0)) best = i;
    }
    return best;
}

// Return the extremes of points [n].
inline Extremes find_extremes(const double* xs, const double* ys, Index n) {
    const Ends across = find_ends(xs, n), up = find_ends(ys, n);
    if (across.count == 2 && up.count == 2)
        return {across.greatest, up.least, up.greatest, across.least, up.least, up.greatest};
    return {farthest(xs, ys, n, 1, 1),   farthest(ys, xs, n, -1, 1),  farthest(ys, xs, n, 1, 1),
            farthest(xs, ys, n, -1, -1), farthest(ys, xs, n, -1, -1), farthest(ys, xs, n, 1, -1)};
}

// The points of a list, compared in floating point.
struct RoundedPoints {
    const double* xs;
    const double* ys;

    double x(Index i) const { return xs[i]; }
    double y(Index i) const { return ys[i]; }
    // How far a point lies outside of the chord from corner a to corner b, times the chord's length.
    double height(Index a, Index b, Index i) const {
        return (xs[i] - xs[a]) * (ys[b] - ys[a]) - (ys[i] - ys[a]) * (xs[b] - xs[a]);
    }
    // Whether a point lies outside of the chord from corner a to corner b.
    bool beyond(Index a, Index b, Index i) const {
        return (xs[i] - xs[a]) * (ys[b] - ys[a]) > (ys[i] - ys[a]) * (xs[b] - xs[a]);
    }
    // The candidate farthest from the chord; on ties, the one that comes first as a corner.
    Index farthest(Index a, Index b, Span<const Row> candidates) const {
        const double up = ys[b] > ys[a] ? 1.0 : -1.0;
        Index best = candidates[0];
        double most = height(a, b, best);
        for (Index k = 1; k < candidates.size(); ++k) {
            const Index i = candidates[k];
            const double distance = height(a, b, i);
            if (distance < most) continue;
            const double step = up * (ys[best] - ys[i]), out = up * (xs[i] - xs[best]);
            if (distance > most || step > 0.0 || (step == 0.0 && out > 0.0)) best = i, most = distance;
        }
        return best;
    }
    // Mark each point [n] with the sides of the polygon of the extremes that it lies beyond: 1 and 2 for the sides on
    // the right, and if `both`, 4 and 8 for those on the left, each in the order of the corners.
    LPMERT_CLONES void mark(const Extremes& corners, bool both, Span<std::uint8_t> marks) const {
        mark_side<true>(corners.bottom_right, corners.right, corners.top_right, marks);
        if (both) mark_side<false>(corners.top_left, corners.left, corners.bottom_left, marks);
    }

  private:
    struct Chord {
        double x, y, run, rise;
    };
    Chord chord(Row a, Row b) const { return {xs[a], ys[a], ys[b] - ys[a], xs[b] - xs[a]}; }

    template <bool right>
    LPMERT_INLINE void mark_side(Row begin, Row middle, Row end, Span<std::uint8_t> marks) const {
        const Chord first = chord(begin, middle), second = chord(middle, end);
        const double* __restrict across = xs;
        const double* __restrict up = ys;
        std::uint8_t* __restrict out = marks.data();
        for (Index i = 0; i < marks.size(); ++i) {
            const double x = across[i], y = up[i];
            const bool below = y<second.y, above = y> second.y;
            const bool in_first = (right ? below : above) & ((x - first.x) * first.run > (y - first.y) * first.rise);
            const bool in_second =
                (right ? above : below) & ((x - second.x) * second.run > (y - second.y) * second.rise);
            const int found = static_cast<int>(in_first) | static_cast<int>(in_second) << 1;
            out[i] = static_cast<std::uint8_t>(right ? found : out[i] | found << 2);
        }
    }
};

// Turn a function emit(t, line, next line), to be called where neighbouring lines x + t y cross, into one that is
// called with neighbouring corners on the right. Rounding never makes t fall.
template <class Emit>
auto crossings(const RoundedPoints& points, Emit&& emit) {
    return [points, &emit, at = -INF](Row a, Row b) mutable {
        at = std::max(at, (points.x(a) - points.x(b)) / (points.y(b) - points.y(a)));
        emit(at, a, b);
    };
}

// Finds the corners of lists; owns the work space for it.
class Envelope {
    struct Pending {
        Row end;
        Index low, high;
    };
    std::array<std::vector<Row>, 4> sides;
    std::vector<Row> spare;
    std::vector<Pending> waiting;
    Bytes marks;

    // Call emit(corner, next corner) along the hull from corner a to corner b, with n candidates beyond their chord;
    // not at all if both have the same y.
    template <class Points, class Emit>
    void side(const Points& points, Row a, Row b, std::vector<Row>& beyond, Index n, Emit&& emit) {
        if (points.y(a) == points.y(b)) return;
        const Span<Row> candidates(beyond.data(), n);
        const double up = points.y(b) > points.y(a) ? 1.0 : -1.0;
        Index low = 0, high = n;
        for (;;) {
            while (high > low) {
                const Row top = static_cast<Row>(points.farthest(a, b, candidates.part(low, high)));
                const double level = up * points.y(top);
                Index middle = low, n_above = 0;
                for (Index k = low; k < high; ++k) {
                    const Row i = candidates[k];
                    const double y = up * points.y(i);
                    // Always write, then advance or not: an unpredictable branch costs more.
                    candidates[middle] = i;
                    spare[n_above] = i;
                    middle += (y < level) & points.beyond(a, top, i);
                    n_above += (y > level) & points.beyond(top, b, i);
                }
                std::copy_n(spare.begin(), n_above, candidates.begin() + middle);
                waiting.push_back({b, middle, middle + n_above});
                b = top;
                high = middle;
            }
            emit(a, b);
            if (waiting.empty()) return;
            a = b;
            b = waiting.back().end, low = waiting.back().low, high = waiting.back().high;
            waiting.pop_back();
        }
    }

    // Make the work space large enough for lists of n points.
    void make_room(Index n) {
        if (n < count(spare)) return;
        for (std::vector<Row>& side : sides) side.resize(n + 1);
        marks.resize(n + 8);
        spare.resize(n + 1);  // last, as its size says that all others are large enough
    }

  public:
    // Call right(corner, next corner) along the right of the hull of points [n], from bottom_right to top_right, and if
    // `both`, left(corner, next corner) from top_left to bottom_left.
    template <class Points, class Right, class Left>
    void corners(const Points& points, Index n, const Extremes& found, bool both, Right&& right, Left&& left) {
        make_room(n);
        points.mark(found, both, {marks.data(), n});
        std::array<Index, 4> counts{};
        for (Index word = 0; word < n; word += 8) {
            std::uint64_t eight;
            std::memcpy(&eight, marks.data() + word, sizeof eight);
            if (eight == 0) continue;
            for (Index i = word; i < std::min(word + 8, n); ++i) {
                const unsigned mark = marks[i];
                for (unsigned k = 0; k < sides.size(); ++k) {
                    sides[k][counts[k]] = static_cast<Row>(i);
                    counts[k] += mark >> k & 1;
                }
            }
        }
        side(points, found.bottom_right, found.right, sides[0], counts[0], right);
        side(points, found.right, found.top_right, sides[1], counts[1], right);
        if (!both) return;
        side(points, found.top_left, found.left, sides[2], counts[2], left);
        side(points, found.left, found.bottom_left, sides[3], counts[3], left);
    }

    // Go along the upper envelope of the lines x + t y [n]: call first(line) for the one at t = -inf, and next(t, line,
    // next line) where another line takes over. Rounding never makes t fall.
    template <class First, class Next>
    void upper(const RoundedPoints& points, Index n, First&& first, Next&& next) {
        const Extremes found = find_extremes(points.xs, points.ys, n);
        first(found.bottom_right);
        corners(points, n, found, false, crossings(points, next), [](Row, Row) {});
    }

    // The same for lines whose order by y, and by number on ties, is known; `most` is their greatest x. Below the point
    // with that x, only a point with a greater x than all points of smaller y can be a corner; above it, only one with
    // a greater x than all of greater y. So two running maxima leave few candidates.
    template <class First, class Next>
    void sorted_upper(const RoundedPoints& points, Span<const Row> order, double most, First&& first, Next&& next) {
        const auto scan = [&](std::vector<Row>& found, Index position, Index step) {
            Index n = 0;
            double best = -INF;
            for (; position >= 0 && position < order.size(); position += step) {
                const Row i = order[position];
                const double x = points.x(i);
                const bool level = n > 0 && points.y(i) == points.y(found[n - 1]);
                if (best == most && !level) break;
                if (x > best || (x == best && level && step < 0)) {  // of equal points, the first
                    n -= level;
                    found[n++] = i;
                    best = x;
                }
            }
            return n;
        };
        make_room(order.size());
        const Index below = scan(sides[0], 0, 1), above = scan(sides[1], order.size() - 1, -1);
        const Row bottom = sides[0][0], right = sides[1][above - 1], top = sides[1][0];
        const auto keep_beyond = [&](Row a, Row b, std::vector<Row>& found, Index n) {
            Index left = 0;
            for (Index k = 1; k < n; ++k) {
                const Row i = found[k];
                found[left] = i;
                left += i != a && i != b && points.beyond(a, b, i);
            }
            return left;
        };
        first(bottom);
        auto emit = crossings(points, next);
        side(points, bottom, right, sides[0], keep_beyond(bottom, right, sides[0], below), emit);
        side(points, right, top, sides[1], keep_beyond(right, top, sides[1], above), emit);
    }
};

}  // namespace lpmert
