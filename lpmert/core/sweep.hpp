// The sweep along a line: events at which lists change their choices, and the levels of the loss between them.
//
// Source: Och, Minimum Error Rate Training in Statistical Machine Translation, ACL 2003.
#pragma once

#include "arrays.hpp"
#include "envelope.hpp"

namespace lpmert::lines {

// Intervals of a line that are narrower, in radians, than this are skipped: floating point cannot hold them.
inline constexpr double LEAST_ANGLE = 1e-12;

// Thresholds further than this times the scale count as if they were there, where no sum of them blurs the others.
inline constexpr double FAR = 1e6;

template <class Change>
struct Event {
    double at;
    Change change;
};

// Sort events by where they are. A radix sort of the bits of few numbers takes longer than comparing them.
template <class Change>
void sort_events(std::vector<Event<Change>>& events, std::vector<Event<Change>>& spare) {
    constexpr std::size_t FEW = 256;
    const auto earlier = [](const Event<Change>& a, const Event<Change>& b) { return a.at < b.at; };
    if (events.size() < FEW) {
        std::stable_sort(events.begin(), events.end(), earlier);
        return;
    }
    constexpr int BITS = 11, DIGITS = 6;
    constexpr std::uint64_t SIGN = std::uint64_t{1} << 63, MASK = (1 << BITS) - 1;
    // unsigned integers in the order of the numbers
    const auto key_of = [](const Event<Change>& event) {
        std::uint64_t bits;
        std::memcpy(&bits, &event.at, sizeof bits);
        return bits & SIGN ? ~bits : bits | SIGN;
    };
    static thread_local std::array<std::array<std::uint32_t, 1 << BITS>, DIGITS> counts;
    for (auto& digit : counts) digit.fill(0);
    for (const Event<Change>& event : events) {
        std::uint64_t key = key_of(event);
        for (auto& digit : counts) ++digit[key & MASK], key >>= BITS;
    }
    spare.resize(events.size());
    for (int place = 0; place < DIGITS; ++place) {
        auto& ends = counts[place];
        std::uint32_t total = 0;
        for (std::uint32_t& end : ends) {
            const std::uint32_t own = end;
            end = total;
            total += own;
        }
        for (const Event<Change>& event : events) spare[ends[(key_of(event) >> (place * BITS)) & MASK]++] = event;
        events.swap(spare);
    }
}

// An interval to take: its level, and the t within it.
template <class Level>
struct Found {
    Level level;
    double at;
};

// The levels between sorted thresholds; neighbours differ.
template <class Level>
struct Surface {
    Reals thresholds;
    std::vector<Level> levels;

    Index size() const { return count(levels); }

    // Return the least level within low..high and the middle of its interval, in the angle atan(t / scale), which is
    // finite for unbounded intervals too. Among equal levels the widest angle wins, or the interval nearest to 0;
    // intervals narrower than LEAST_ANGLE count only if there is no other.
    Found<Level> best(double low, double high, double scale, bool widest) const {
        Found<Level> found{levels[0], low};
        bool any = false;
        double merit = -INF;
        for (const double narrowest : {LEAST_ANGLE, 0.0}) {
            for (Index e = 0; e < size(); ++e) {
                const double from = e == 0 ? low : std::clamp(thresholds[e - 1], low, high);
                const double to = e + 1 == size() ? high : std::clamp(thresholds[e], low, high);
                if (!(to > from) || (any && levels[e] > found.level)) continue;
                const double before = std::atan2(from, scale), after = std::atan2(to, scale);
                const double own = widest ? after - before : -std::max({from, -to, 0.0});
                if (after - before < narrowest) continue;
                if (!any || levels[e] < found.level || own > merit) {
                    found = {levels[e], scale * std::tan((before + after) / 2)};
                    any = true;
                    merit = own;
                }
            }
            if (any) break;
        }
        found.at = std::clamp(found.at, low, high);
        return found;
    }

    // Return the level at that middle of an interval around which the mean level is least, and the middle. The mean is
    // over t - radius..t + radius, the radius `smoothing` times the scale; the middle of an unbounded interval lies a
    // radius beyond its end. Source: Gao, Yu, Yuan and Xu, HLT/EMNLP 2005 (smoothed sample risk).
    Found<Level> smoothest(double low, double high, double scale, double smoothing) const {
        const double radius = smoothing * scale;
        Found<Level> found{levels[0], std::clamp(0.0, low, high)};
        const std::size_t last = thresholds.size();
        if (last == 0) return found;
        Reals at(thresholds), sums(last);
        for (double& t : at) t = std::clamp(t, -FAR * scale, FAR * scale);
        for (std::size_t e = 1; e < last; ++e)
            sums[e] = sums[e - 1] + (at[e] - at[e - 1]) * static_cast<double>(levels[e]);
        // the integral of the levels from the first threshold to t, which lies in interval e
        const auto integral = [&](double t, std::size_t e) {
            if (e == 0) return (t - at[0]) * static_cast<double>(levels[0]);
            return sums[e - 1] + (t - at[e - 1]) * static_cast<double>(levels[e]);
        };
        double least = INF;
        std::size_t before = 0, after = 0;
        for (std::size_t e = 0; e <= last; ++e) {
            const double from = std::max(e == 0 ? at[0] - 2 * radius : at[e - 1], low);
            const double to = std::min(e == last ? at[last - 1] + 2 * radius : at[e], high);
            if (!(to > from)) continue;
            const double step = from + (to - from) / 2;
            while (before < last && at[before] <= step - radius) ++before;
            while (after < last && at[after] <= step + radius) ++after;
            const double mean = integral(step + radius, after) - integral(step - radius, before);
            if (mean < least) {
                least = mean;
                found = {levels[e], step};
            }
        }
        return found;
    }
};

// Collects the first choices of all lists and the events of a line, and returns the levels in between.
template <class Loss>
class Sweep {
    using Change = typename Loss::Change;
    using Level = typename Loss::Level;

    Loss loss;
    std::vector<Event<Change>> events, spare;
    Surface<Level> surface;

  public:
    explicit Sweep(Loss loss_) : loss(std::move(loss_)) {}

    void clear() {
        loss.clear();
        events.clear();
    }
    void choose(Index row) { loss.choose(row); }
    void add(double at, Index leaving, Index entering) {
        const Change change = loss.change(leaving, entering);
        if (Loss::matters(change)) events.push_back({at, change});
    }
    Level level() const { return loss.level(); }

    // Sort the events and sweep over them; the surface lasts until the next line.
    const Surface<Level>& finish() {
        sort_events(events, spare);
        surface.thresholds.clear();
        surface.levels.assign(1, loss.level());
        for (const Event<Change>& event : events) {
            loss.replace(event.change);
            const Level level = loss.level();
            if (level == surface.levels.back()) continue;
            surface.thresholds.push_back(event.at);
            surface.levels.push_back(level);
        }
        return surface;
    }
};

}  // namespace lpmert::lines
