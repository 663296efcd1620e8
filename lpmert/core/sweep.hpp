// The sweep along a line: events at which lists change their choices, and the levels of the loss between them.
//
// Source: Och, Minimum Error Rate Training in Statistical Machine Translation, ACL 2003.
#pragma once

#include "arrays.hpp"
#include "envelope.hpp"

namespace lpmert::lines {

// Intervals of a line that are narrower, in radians, than this are skipped: floating point cannot hold them.
inline constexpr double LEAST_ANGLE = 1e-12;

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
