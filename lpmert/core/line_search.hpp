// Line searches: the scores of all lists on a line, their envelopes, and a sweep over the events.
//
// On the line w + t d, a hypothesis scores intercept + t slope, and the choices of a list form the upper envelope of
// its lines (envelope.hpp). The loss is constant between events, at which some list changes its choice. The results of
// a search are exact only up to the rounding of scores: a caller that needs certainty decodes at the weights it found.
//
// Source: Och, Minimum Error Rate Training in Statistical Machine Translation, ACL 2003.
#pragma once

#include "binding.hpp"
#include "envelope.hpp"
#include "ratio.hpp"

namespace lpmert {

inline constexpr double PI = 3.14159265358979323846;

// Write the scores [M] of columns [D, M] at weights [D].
void combine(Rows<const double> columns, Span<const double> weights, Span<double> scores);

inline double dot(Span<const double> a, Span<const double> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
inline double norm(Span<const double> vector) { return std::sqrt(dot(vector, vector)); }

// A sum of costs [M]. A level is a whole number.
class SumOfCosts {
    Index sum = 0;

  public:
    using Level = Index;
    using Change = Index;
    using Given = Span<const Index>;

    const Given costs;

    SumOfCosts(Given costs_, Index n_rows) : costs(costs_) { check_size(costs.size(), n_rows, "costs"); }

    void clear() { sum = 0; }
    void choose(Index row) { sum += costs[row]; }
    Change change(Index leaving, Index entering) const { return costs[entering] - costs[leaving]; }
    static bool matters(Change change) { return change != 0; }
    void replace(Change change) { sum += change; }
    Level level() const { return sum; }
};

// A ratio metric. A level is its loss of the sum of statistics [M, K] and a constant [K].
class LossOfSums {
    Ratio ratio;
    Reals total;

  public:
    using Level = double;
    struct Change {
        Row leaving, entering;
    };
    using Given = std::tuple<Index, Span<const double>, Rows<const double>, Span<const double>>;

    LossOfSums(const Given& given, Index n_rows)
        : ratio(std::apply([](auto... one) { return Ratio{one..., {}, {}}; }, given)), total(ratio.n_columns()) {
        check_size(ratio.statistics.rows(), n_rows, "the rows of statistics");
        check_size(ratio.n_columns(), ratio.statistics.columns(), "constant");
        check_kind(ratio.kind, ratio.parameters.size(), ratio.n_columns());
    }

    void clear() { std::copy(ratio.constant.begin(), ratio.constant.end(), total.begin()); }
    void choose(Index row) { ratio.add(row, total); }
    Change change(Index leaving, Index entering) const {
        return {static_cast<Row>(leaving), static_cast<Row>(entering)};
    }
    static bool matters(Change) { return true; }
    void replace(Change change) {
        const Span<const double> old = ratio.statistics[change.leaving], fresh = ratio.statistics[change.entering];
        for (std::size_t k = 0; k < total.size(); ++k) total[k] += fresh[k] - old[k];
    }
    Level level() const { return ratio.loss(total); }
};

// Intervals of a line narrower than this, in radians, are skipped: floating point cannot resolve them.
inline constexpr double LEAST_ANGLE = 1e-12;

template <class Change>
struct Event {
    double at;
    Change change;
};

// Sort events by position: many by a radix sort of their bits, few by comparisons, which are then faster.
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
    // Unsigned integers in the order of the numbers.
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
            const std::uint32_t n = end;
            end = total;
            total += n;
        }
        for (const Event<Change>& event : events) spare[ends[(key_of(event) >> (place * BITS)) & MASK]++] = event;
        events.swap(spare);
    }
}

// The best interval of a line: its level, and a t within it.
template <class Level>
using Found = std::tuple<Level, double>;

// Collects the first choices and the events of all lists on a line, and computes the levels between the events.
template <class Loss>
class Sweep {
    using Change = typename Loss::Change;
    using Level = typename Loss::Level;

    Loss loss;
    std::vector<Event<Change>> events, spare;

  public:
    // The levels of the line, of which neighbours differ, and the sorted thresholds between them.
    std::vector<Level> levels;
    Reals thresholds;

    explicit Sweep(Loss loss_) : loss(std::move(loss_)) {}

    void clear() {
        loss.clear();
        events.clear();
    }
    void choose(Index row) { loss.choose(row); }
    // A function that adds an event of the list that begins at this row.
    auto of_list(Index begin) {
        return [this, begin](double at, Index leaving, Index entering) {
            const Change change = loss.change(begin + leaving, begin + entering);
            if (Loss::matters(change)) events.push_back({at, change});
        };
    }
    Level level() const { return loss.level(); }

    // Sort the events and sweep over them.
    void finish() {
        sort_events(events, spare);
        thresholds.clear();
        levels.assign(1, loss.level());
        for (const Event<Change>& event : events) {
            loss.replace(event.change);
            const Level level = loss.level();
            if (level == levels.back()) continue;
            thresholds.push_back(event.at);
            levels.push_back(level);
        }
    }

    // Finish; find the least level within low .. high and the middle of its interval. The middle is taken in the
    // angle atan(t / scale), which is finite even for unbounded intervals. On ties, the interval with the widest angle
    // wins if `widest`, else the one nearest to 0. Intervals narrower than LEAST_ANGLE count only if there is no other.
    Found<Level> best(double low, double high, double scale, bool widest = false) {
        finish();
        Level least = levels[0];
        double at = low, merit = -INF;
        for (const double narrowest : {LEAST_ANGLE, 0.0}) {
            bool any = false;
            for (std::size_t e = 0; e < levels.size(); ++e) {
                const double from = e == 0 ? low : std::clamp(thresholds[e - 1], low, high);
                const double to = e + 1 == levels.size() ? high : std::clamp(thresholds[e], low, high);
                if (!(to > from) || (any && levels[e] > least)) continue;
                const double before = std::atan2(from, scale), after = std::atan2(to, scale);
                const double interval_merit = widest ? after - before : -std::max({from, -to, 0.0});
                if (after - before < narrowest) continue;
                if (any && levels[e] == least && interval_merit <= merit) continue;
                least = levels[e], at = scale * std::tan((before + after) / 2);
                any = true, merit = interval_merit;
            }
            if (any) break;
        }
        return {least, std::clamp(at, low, high)};
    }
};

// A piece of a circle, in radians, and its level.
struct Piece {
    double begin, end, level;
};

// Lists as columns [D, M] of features and offsets [S + 1], and the scores of all hypotheses on a line or circle.
class Lines {
    Reals scored;  // the weights of the intercepts, empty if unknown

  public:
    const Rows<const double> columns;
    const Span<const Index> offsets;
    Reals intercepts, slopes;

    Lines(Rows<const double> columns_, Span<const Index> offsets_)
        : columns(columns_), offsets(offsets_), intercepts(n_rows()), slopes(n_rows()) {
        check_offsets(offsets, n_rows(), "offsets");
        if (n_rows() > std::numeric_limits<Row>::max()) throw std::invalid_argument("columns has too many hypotheses");
    }

    Index n_lists() const { return offsets.size() - 1; }
    Index n_rows() const { return columns.columns(); }
    Index dimension() const { return columns.rows(); }
    // The first row of list s with the best of scores [M].
    Index best(const Reals& scores, Index s) const {
        return offsets[s] + largest(scores.data() + offsets[s], offsets[s + 1] - offsets[s]);
    }

    // Set the intercepts to the scores at weights [D], unless they already are.
    void score(Span<const double> weights) {
        if (!scored.empty() && std::equal(scored.begin(), scored.end(), weights.begin(), weights.end())) return;
        check_size(weights.size(), dimension(), "weights");
        scored.assign(weights.begin(), weights.end());
        combine(columns, weights, intercepts);
    }

    // Set the slopes to the scores in a direction [D].
    void turn_to(Span<const double> direction) {
        check_size(direction.size(), dimension(), "direction");
        combine(columns, direction, slopes);
    }

    // Set the intercepts to cosine * intercepts + sine * slopes: the scores at the new weights, up to rounding.
    void move(double cosine, double sine) {
        for (std::size_t i = 0; i < intercepts.size(); ++i) intercepts[i] = cosine * intercepts[i] + sine * slopes[i];
        scored.clear();
    }
};

// Line searches on the same lists, by one thread at a time. The methods that Python calls are documented in the stub.
template <class Loss>
class LineSearch : public Lines {
  public:
    using Level = typename Loss::Level;

    const Loss loss;

    LineSearch(Rows<const double> columns_, Span<const Index> offsets_, const typename Loss::Given& losses)
        : Lines(columns_, offsets_), loss(losses, n_rows()), right(loss), left(loss) {}

    Level at(Span<const double> weights) {
        score(weights);
        right.clear();
        for (Index s = 0; s < n_lists(); ++s) right.choose(best(intercepts, s));
        return right.level();
    }

    Found<Level> along(Span<const double> weights, Span<const double> direction, double low, double high,
                       double scale) {
        score(weights);
        turn_to(direction);
        return step(low, high, scale);
    }

    // The first call sorts the rows of each list by each feature.
    std::tuple<Index, Level, double> best_coordinate(Span<const double> weights, Span<const Index> coordinates,
                                                     Rows<const double> ranges, double scale) {
        check_size(ranges.rows(), dimension(), "ranges");
        check_size(ranges.columns(), 2, "the rows of ranges");
        check_within(coordinates, ranges.rows(), "coordinates");
        if (coordinates.size() == 0) throw std::invalid_argument("coordinates must name at least one");
        score(weights);
        if (orders.empty()) sort_by_features();
        tops.clear();
        for (Index s = 0; s < n_lists(); ++s) tops.push_back(intercepts[best(intercepts, s)]);
        std::tuple<Index, Level, double> best{-1, {}, 0.0};
        for (const Index d : coordinates) {
            const RoundedPoints points{intercepts.data(), columns[d].data()};
            const Span<const Row> order = Span<const Row>(orders).part(d * n_rows(), (d + 1) * n_rows());
            right.clear();
            for (Index s = 0; s < n_lists(); ++s)
                envelope.sorted_upper(
                    points, order.part(offsets[s], offsets[s + 1]), tops[s], [&](Row row) { right.choose(row); },
                    right.of_list(0));
            const auto [level, at] = right.best(ranges[d][0], ranges[d][1], scale);
            if (std::get<0>(best) < 0 || level < std::get<1>(best)) best = {d, level, at};
        }
        return best;
    }

    // Return the best step on the line intercepts + t slopes; see Sweep::best.
    Found<Level> step(double low, double high, double scale, bool widest = false) {
        right.clear();
        for (Index s = 0; s < n_lists(); ++s) {
            const Index begin = offsets[s];
            envelope.upper(
                {intercepts.data() + begin, slopes.data() + begin}, offsets[s + 1] - begin,
                [&](Row row) { right.choose(begin + row); }, right.of_list(begin));
        }
        return right.best(low, high, scale, widest);
    }

    // Find the pieces of the circle cos(t) intercepts + sin(t) slopes within low .. high, where -pi <= low <= 0 <= high
    // <= pi. They are not sorted by angle, and neighbouring pieces may have the same level.
    void pieces(double low, double high, std::vector<Piece>& found) {
        const bool both = low < -PI / 2 || high > PI / 2;
        right.clear();
        left.clear();
        for (Index s = 0; s < n_lists(); ++s) {
            const Index begin = offsets[s], n = offsets[s + 1] - begin;
            const RoundedPoints points{intercepts.data() + begin, slopes.data() + begin};
            const Extremes extremes = find_extremes(points.xs, points.ys, n);
            right.choose(begin + extremes.bottom_right);
            left.choose(begin + extremes.top_left);
            auto on_right = right.of_list(begin), on_left = left.of_list(begin);
            envelope.corners(points, n, extremes, both, crossings(points, on_right), crossings(points, on_left));
        }
        found.clear();
        // Add the intervals of the half circle around a middle, also a turn before, for angles beyond pi.
        const auto add = [&](Sweep<Loss>& half, double middle) {
            half.finish();
            double begin = middle - PI / 2;
            for (std::size_t e = 0; e < half.levels.size(); ++e) {
                const bool last = e + 1 == half.levels.size();
                const double end = middle + (last ? PI / 2 : std::atan(half.thresholds[e]));
                for (const double turn : {0.0, 2 * PI}) {
                    const double from = std::max(begin - turn, low), to = std::min(end - turn, high);
                    if (to > from) found.push_back({from, to, static_cast<double>(half.levels[e])});
                }
                begin = end;
            }
        };
        add(right, 0.0);
        if (both) add(left, PI);
    }

  private:
    void sort_by_features() {
        orders.resize(dimension() * n_rows());
        for (Index d = 0; d < dimension(); ++d) {
            const Span<const double> column = columns[d];
            const auto order = orders.begin() + d * n_rows();
            std::iota(order, order + n_rows(), 0);
            for (Index s = 0; s < n_lists(); ++s)
                std::stable_sort(order + offsets[s], order + offsets[s + 1],
                                 [&](Row a, Row b) { return column[a] < column[b]; });
        }
    }

    std::vector<Row> orders;  // [D, M] the rows of each list, sorted by each feature
    Reals tops;               // [S] the greatest intercept of each list
    Sweep<Loss> right, left;
    Envelope envelope;
};

}  // namespace lpmert
