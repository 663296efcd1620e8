// The corners of a list on half of a circle, which is the upper envelope of its lines.
//
// With weights cos(t) w + sin(t) v a hypothesis scores cos(t) x + sin(t) y. Where cos(t) > 0, the winners are the
// corners of the convex hull of the points (x, y) on its right, or the upper envelope of the lines x + tan(t) y; in
// the other half of the circle those on its left, the envelope of -x - tan(t) y.
//
// Sources: Akl and Toussaint, A fast convex hull algorithm, Information Processing Letters 1978 (what lies within the
// polygon of the extreme points is no corner); Barber, Dobkin and Huhdanpaa, The Quickhull algorithm for convex hulls,
// 1996 (the point farthest from a chord is a corner, and what lies below the two new chords is none).
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace lpmert::lines {

inline constexpr double INF = std::numeric_limits<double>::infinity();

struct Point {
    double x, y;
};

// Do what `RoundedPoints::mark` does, many points at a time.
void mark_beyond(double sign, const double* xs, const double* ys, Point a, Point b, Point c, Span<std::uint8_t> marks);

// Points of a list with predicates in floating point. `Sign` is 1 for the right half, -1 for the left, which is turned.
template <int Sign>
struct RoundedPoints {
    const double* xs;
    const double* ys;

    double x(Index i) const { return Sign * xs[i]; }
    double y(Index i) const { return Sign * ys[i]; }
    // How far a point lies to the right of the chord from a up to b, in units of the chord's length.
    double height(Index a, Index b, Index i) const {
        return (x(i) - x(a)) * (y(b) - y(a)) - (y(i) - y(a)) * (x(b) - x(a));
    }
    bool beyond(Index a, Index b, Index i) const {
        return (x(i) - x(a)) * (y(b) - y(a)) > (y(i) - y(a)) * (x(b) - x(a));
    }
    // Mark the points that lie beyond the chord from a to b with 1, those beyond that from b to c with 2.
    void mark(Index a, Index b, Index c, Span<std::uint8_t> marks) const {
        mark_beyond(Sign, xs, ys, {xs[a], ys[a]}, {xs[b], ys[b]}, {xs[c], ys[c]}, marks);
    }
    // The candidate farthest from the chord; of several the first corner.
    Index farthest(Index a, Index b, Span<const Row> candidates) const {
        Index best = candidates[0];
        double most = height(a, b, best);
        for (Index k = 1; k < candidates.size(); ++k) {
            const Index i = candidates[k];
            const double own = height(a, b, i);
            if (own < most) continue;
            if (own > most || y(i) < y(best) || (y(i) == y(best) && x(i) > x(best))) {
                best = i;
                most = own;
            }
        }
        return best;
    }
};

// The extreme points of a list. On the right half these are, in order, bottom_right, right and top_right; on the left
// top_left, left and bottom_left. Of points that are equal the first stands.
struct Extremes {
    Row right, bottom_right, top_right, left, bottom_left, top_left;
};

// Find the extremes of points [n], those on the left only if wanted.
Extremes find_extremes(const double* xs, const double* ys, Index n, bool both);

// Finds envelopes; holds the room for it.
class Envelope {
    struct Pending {
        Row end;
        Index low, high;
    };
    std::vector<Row> before, after, spare;
    std::vector<Pending> waiting;
    std::vector<std::uint8_t> marks;  // 1 and 2: beyond the chord before, after the middle

    // Emit the corners from a up to b, of candidates beyond their chord: emit(corner, next corner).
    template <class Points, class Emit>
    void between(const Points& points, Row a, Row b, Span<Row> candidates, Emit&& emit) {
        Index low = 0, high = candidates.size();
        for (;;) {
            while (high > low) {
                const Row top = static_cast<Row>(points.farthest(a, b, candidates.part(low, high)));
                const double level = points.y(top);
                Index middle = low, kept = 0;
                for (Index k = low; k < high; ++k) {
                    const Row i = candidates[k];
                    // written in any case and then kept or not: a branch that nobody can predict costs more
                    candidates[middle] = i;
                    spare[static_cast<std::size_t>(kept)] = i;
                    middle += (points.y(i) < level) & points.beyond(a, top, i);
                    kept += (points.y(i) > level) & points.beyond(top, b, i);
                }
                std::copy_n(spare.begin(), kept, candidates.begin() + middle);
                waiting.push_back({b, middle, middle + kept});
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

  public:
    // Make room for lists of so many points.
    void reserve(Index n) {
        for (auto* room : {&before, &after, &spare}) room->resize(static_cast<std::size_t>(n + 1));
        marks.resize(static_cast<std::size_t>(n + 8));
    }

    // Emit the corners of points [n] on the half from `first` over `middle` to `last`, its extremes.
    template <class Points, class Emit>
    void half(const Points& points, Index n, Row first, Row middle, Row last, Emit&& emit) {
        const double level = points.y(middle);
        points.mark(first, middle, last, {marks.data(), n});
        Index n_before = 0, n_after = 0;
        for (Index word = 0; word < n; word += 8) {
            std::uint64_t eight;
            std::memcpy(&eight, marks.data() + word, sizeof eight);
            if (eight == 0) continue;  // as most are
            for (Index i = word; i < std::min(word + 8, n); ++i) {
                const std::uint8_t mark = marks[static_cast<std::size_t>(i)];
                before[static_cast<std::size_t>(n_before)] = after[static_cast<std::size_t>(n_after)] =
                    static_cast<Row>(i);
                n_before += mark & 1;
                n_after += mark >> 1;
            }
        }
        if (points.y(first) < level) between(points, first, middle, {before.data(), n_before}, emit);
        if (level < points.y(last)) between(points, middle, last, {after.data(), n_after}, emit);
    }

    // Do the same for points in a known order, by y and equals by number; `most` is their greatest x. Below the point
    // that has it only points with a greater x than all of smaller y can be corners, and above it only those with a
    // greater x than all of greater y: two running maxima leave a few. Returns the first corner.
    template <class Points, class Emit>
    Row sorted_half(const Points& points, Span<const Row> order, double most, Emit&& emit) {
        const auto scan = [&](std::vector<Row>& found, Index position, Index step) {
            Index n = 0;
            double best = -INF;
            for (; position >= 0 && position < order.size(); position += step) {
                const Row i = order[position];
                const double x = points.x(i);
                const bool level = n > 0 && points.y(i) == points.y(found[static_cast<std::size_t>(n - 1)]);
                if (best == most && !level) break;
                if (x > best || (x == best && level && step < 0)) {  // of equals the first stands
                    n -= level;
                    found[static_cast<std::size_t>(n++)] = i;
                    best = x;
                }
            }
            return n;
        };
        const Index below = scan(before, 0, 1), above = scan(after, order.size() - 1, -1);
        const Row first = before[0], middle = after[static_cast<std::size_t>(above - 1)], last = after[0];
        const auto between_two = [&](Row a, Row b, std::vector<Row>& found, Index n) {
            if (!(points.y(a) < points.y(b))) return;
            Index kept = 0;
            for (Index k = 1; k < n; ++k) {
                const Row i = found[static_cast<std::size_t>(k)];
                found[static_cast<std::size_t>(kept)] = i;
                kept += i != a && i != b && points.beyond(a, b, i);
            }
            between(points, a, b, {found.data(), kept}, emit);
        };
        between_two(first, middle, before, below);
        between_two(middle, last, after, above);
        return first;
    }
};

}  // namespace lpmert::lines
