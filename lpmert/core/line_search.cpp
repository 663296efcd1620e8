// Line searches: the scores of all lists on a line, their envelopes, and the sweep over their events.
//
// Source: Och, Minimum Error Rate Training in Statistical Machine Translation, ACL 2003. On the line w + t d a
// hypothesis scores intercept + t slope; each list's choices are the upper envelope of its lines, and the loss is
// constant between the events at which some list changes its choice. What a search promises holds up to the rounding of
// scores: whoever relies on it decodes at the step.
#include "line_search.hpp"

#include <nanobind/stl/pair.h>

#include <numeric>

#include "vectors.hpp"

namespace lpmert::lines {

namespace {

// Scores that stay in the first-level cache while the features are added up.
constexpr Index BLOCK = 1024;

}  // namespace

LPMERT_CLONES void combine(Rows<const double> columns, Span<const double> weights, Span<double> scores) {
    const Index dimension = weights.size();
    for (Index begin = 0; begin < scores.size(); begin += BLOCK) {
        const Index n = std::min(BLOCK, scores.size() - begin);
        double* __restrict sums = scores.data() + begin;
        const auto column = [&](Index d) { return columns[d].data() + begin; };
        Index d = 0;
        if (dimension == 0) std::fill_n(sums, n, 0.0);
        if (dimension > 0) {
            const double weight = weights[0];
            const double* __restrict own = column(0);
            for (Index i = 0; i < n; ++i) sums[i] = weight * own[i];
            d = 1;
        }
        // two at a time, each added in its turn: the sums are those of one at a time
        for (; d + 1 < dimension; d += 2) {
            const double first = weights[d], second = weights[d + 1];
            const double* __restrict own = column(d);
            const double* __restrict next = column(d + 1);
            for (Index i = 0; i < n; ++i) sums[i] = (sums[i] + first * own[i]) + second * next[i];
        }
        if (d < dimension) {
            const double weight = weights[d];
            const double* __restrict own = column(d);
            for (Index i = 0; i < n; ++i) sums[i] += weight * own[i];
        }
    }
}

double norm(Span<const double> vector) {
    double total = 0.0;
    for (const double entry : vector) total += entry * entry;
    return std::sqrt(total);
}

Index best_row(Span<const double> scores, Index begin, Index end) {
    Index best = begin;
    for (Index i = begin + 1; i < end; ++i)
        if (scores[i] > scores[best]) best = i;
    return best;
}

template <class Loss>
LineSearch<Loss>::LineSearch(Lists lists_, Loss loss)
    : lists(lists_),
      intercepts(static_cast<std::size_t>(lists_.rows())),
      slopes(intercepts.size()),
      right(loss),
      left(loss) {
    Index longest = 0;
    for (Index s = 0; s < lists.count(); ++s) longest = std::max(longest, lists.end(s) - lists.begin(s));
    envelope.reserve(longest);
}

template <class Loss>
void LineSearch<Loss>::score(Span<const double> weights) {
    if (!scored.empty() && std::equal(scored.begin(), scored.end(), weights.begin(), weights.end())) return;
    scored.assign(weights.begin(), weights.end());
    combine(lists.columns, weights, intercepts);
}

template <class Loss>
typename Loss::Level LineSearch<Loss>::level() {
    right.clear();
    for (Index s = 0; s < lists.count(); ++s) right.choose(best_row(intercepts, lists.begin(s), lists.end(s)));
    return right.level();
}

template <class Loss>
template <class First, class Next>
void LineSearch<Loss>::each_event(First&& first, Next&& next) {
    for (Index s = 0; s < lists.count(); ++s) {
        const Index begin = lists.begin(s), n = lists.end(s) - begin;
        const RoundedPoints points{intercepts.data() + begin, slopes.data() + begin};
        const Extremes found = find_extremes(points.xs, points.ys, n);
        first(begin + found.bottom_right);
        each_threshold(envelope, points, n, found, [&](double at, Row a, Row b) { next(at, begin + a, begin + b); });
    }
}

template <class Loss>
Found<typename Loss::Level> LineSearch<Loss>::step(double low, double high, double scale, Choice choice) {
    right.clear();
    each_event([&](Index row) { right.choose(row); },
               [&](double at, Index leaving, Index entering) { right.add(at, leaving, entering); });
    return chosen(low, high, scale, choice);
}

template <class Loss>
Found<typename Loss::Level> LineSearch<Loss>::chosen(double low, double high, double scale, Choice choice) {
    const Surface<Level>& surface = right.finish();
    if (choice.interval == Interval::SMOOTHED) return surface.smoothest(low, high, scale, choice.smoothing);
    return surface.best(low, high, scale, choice.interval == Interval::WIDEST);
}

template <class Loss>
Found<typename Loss::Level> LineSearch<Loss>::coordinate_step(Index d, double low, double high, double scale,
                                                              Choice choice) {
    const RoundedPoints points{intercepts.data(), lists.columns[d].data()};
    const Span<const Row> order = Span<const Row>(orders).part(d * lists.rows(), (d + 1) * lists.rows());
    right.clear();
    for (Index s = 0; s < lists.count(); ++s) {
        double at = -INF;
        right.choose(envelope.sorted_corners(
            points, order.part(lists.begin(s), lists.end(s)), tops[static_cast<std::size_t>(s)], [&](Row a, Row b) {
                at = std::max(at, (points.x(a) - points.x(b)) / (points.y(b) - points.y(a)));
                right.add(at, a, b);
            }));
    }
    return chosen(low, high, scale, choice);
}

template <class Loss>
void LineSearch<Loss>::prepare_coordinates() {
    if (orders.empty()) {
        orders.resize(static_cast<std::size_t>(lists.dimension() * lists.rows()));
        for (Index d = 0; d < lists.dimension(); ++d) {
            const Span<const double> column = lists.columns[d];
            const auto order = orders.begin() + d * lists.rows();
            std::iota(order, order + lists.rows(), 0);
            for (Index s = 0; s < lists.count(); ++s)
                std::stable_sort(order + lists.begin(s), order + lists.end(s),
                                 [&](Row a, Row b) { return column[a] < column[b]; });
        }
    }
    tops.clear();
    for (Index s = 0; s < lists.count(); ++s)
        tops.push_back(*std::max_element(intercepts.begin() + lists.begin(s), intercepts.begin() + lists.end(s)));
}

template <class Loss>
void LineSearch<Loss>::turns(std::vector<Index>& start, std::vector<Turn>& found) {
    each_event([&](Index row) { start.push_back(row); },
               [&](double at, Index leaving, Index entering) { found.push_back({at, leaving, entering}); });
}

template <class Loss>
void LineSearch<Loss>::pieces(double low, double high, std::vector<Piece>& found) {
    constexpr double PI = 3.14159265358979323846;
    const bool both = low < -PI / 2 || high > PI / 2;
    right.clear();
    left.clear();
    for (Index s = 0; s < lists.count(); ++s) {
        const Index begin = lists.begin(s), n = lists.end(s) - begin;
        const RoundedPoints points{intercepts.data() + begin, slopes.data() + begin};
        const Extremes extremes = find_extremes(points.xs, points.ys, n);
        right.choose(begin + extremes.bottom_right);
        left.choose(begin + extremes.top_left);
        const auto into = [&](Sweep<Loss>& sweep) {
            return [&points, &sweep, begin, at = -INF](Row a, Row b) mutable {
                at = std::max(at, (points.x(a) - points.x(b)) / (points.y(b) - points.y(a)));
                sweep.add(at, begin + a, begin + b);
            };
        };
        envelope.corners(points, n, extremes, both, into(right), into(left));
    }
    found.clear();
    const auto add = [&](double begin, double end, Level level) {
        if (end > begin) found.push_back({begin, end, static_cast<double>(level)});
    };
    const auto angle = [&](const Surface<Level>& surface, Index e, double middle) {
        const bool last = e + 1 == surface.size();
        return last ? middle + PI / 2 : middle + std::atan(surface.thresholds[static_cast<std::size_t>(e)]);
    };
    const Surface<Level>& ahead = right.finish();
    double begin = -PI / 2;
    for (Index e = 0; e < ahead.size(); ++e) {
        const double end = angle(ahead, e, 0.0);
        add(std::max(begin, low), std::min(end, high), ahead.level(e));
        begin = end;
    }
    if (!both) return;
    const Surface<Level>& behind = left.finish();
    begin = PI / 2;
    for (Index e = 0; e < behind.size(); ++e) {
        const double end = angle(behind, e, PI);
        add(begin, std::min(end, high), behind.level(e));
        add(std::max(begin - 2 * PI, low), end - 2 * PI, behind.level(e));
        begin = end;
    }
}

template class LineSearch<SumOfCosts>;
template class LineSearch<LossOfSums>;

namespace {

BoundLineSearch new_line_search(Array columns, Array offsets, Index kind, Array parameters, Array costs,
                                Array statistics, Array constant) {
    const Lists lists{matrix<double>(columns, "columns"), vector<Index>(offsets, "offsets")};
    check_offsets(lists.offsets, lists.rows(), "offsets");
    if (lists.rows() > std::numeric_limits<Row>::max()) throw std::invalid_argument("columns has too many hypotheses");
    const Span<const Cost> own = vector<Cost>(costs, "costs");
    std::vector<Array> arrays{columns, offsets, parameters, costs, statistics, constant};
    if (kind < 0) {
        check_size(own.size(), lists.rows(), "costs");
        return {std::move(arrays), LineSearch<SumOfCosts>(lists, SumOfCosts(own)), own};
    }
    const Span<const double> factors = vector<double>(parameters, "parameters");
    const Span<const double> more = vector<double>(constant, "constant");
    const Rows<const double> sums = matrix<double>(statistics, "statistics");
    check_size(sums.rows(), lists.rows(), "the rows of statistics");
    check_size(more.size(), sums.columns(), "constant");
    check_kind(kind, factors.size(), more.size());
    return {std::move(arrays), LineSearch<LossOfSums>(lists, LossOfSums(kind, factors, sums, more)), own};
}

Interval checked_interval(int number) {
    if (number < 0 || number > static_cast<int>(Interval::SMOOTHED)) throw std::invalid_argument("no such interval");
    return static_cast<Interval>(number);
}

nb::object at(BoundLineSearch& self, const Array& weights) {
    const Span<const double> own = self.vector_of(weights, "weights");
    return std::visit(
        [&](auto& search) -> nb::object {
            return nb::cast(unlocked([&] {
                search.score(own);
                return search.level();
            }));
        },
        self.search);
}

nb::tuple along(BoundLineSearch& self, const Array& weights, const Array& direction, double low, double high,
                double scale, int interval, double smoothing) {
    const Span<const double> own = self.vector_of(weights, "weights"), d = self.vector_of(direction, "direction");
    const Choice choice{checked_interval(interval), smoothing};
    return std::visit(
        [&](auto& search) {
            const auto found = unlocked([&] {
                search.score(own);
                search.turn_to(d);
                return search.step(low, high, scale, choice);
            });
            return nb::make_tuple(found.level, found.at);
        },
        self.search);
}

nb::tuple best_coordinate(BoundLineSearch& self, const Array& weights, const Array& coordinates, const Array& ranges,
                          double scale, int interval, double smoothing) {
    const Span<const double> own = self.vector_of(weights, "weights");
    const Span<const Index> tried = vector<Index>(coordinates, "coordinates");
    const Rows<const double> ends = matrix<double>(ranges, "ranges");
    const Choice choice{checked_interval(interval), smoothing};
    check_size(ends.rows(), own.size(), "ranges");
    check_size(ends.columns(), 2, "the rows of ranges");
    for (const Index d : tried)
        if (d < 0 || d >= own.size()) throw std::invalid_argument("coordinates has one that there is not");
    if (tried.size() == 0) throw std::invalid_argument("coordinates must name one at least");
    return std::visit(
        [&](auto& search) {
            Index best = -1;
            const auto found = unlocked([&] {
                search.score(own);
                search.prepare_coordinates();
                decltype(search.step(0.0, 0.0, 0.0, choice)) least{};
                for (const Index d : tried) {
                    const auto step = search.coordinate_step(d, ends[d][0], ends[d][1], scale, choice);
                    if (best >= 0 && step.level >= least.level) continue;
                    best = d;
                    least = step;
                }
                return least;
            });
            return nb::make_tuple(best, found.level, found.at);
        },
        self.search);
}

nb::tuple events(BoundLineSearch& self, const Array& weights, const Array& direction) {
    const Span<const double> own = self.vector_of(weights, "weights"), d = self.vector_of(direction, "direction");
    std::vector<Index> start, leaving, entering;
    std::vector<double> thresholds;
    unlocked([&] {
        std::vector<Turn> turns;
        std::visit(
            [&](auto& search) {
                search.score(own);
                search.turn_to(d);
                search.turns(start, turns);
            },
            self.search);
        std::stable_sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) { return a.at < b.at; });
        for (const Turn& turn : turns) {
            thresholds.push_back(turn.at);
            leaving.push_back(turn.leaving);
            entering.push_back(turn.entering);
        }
    });
    return nb::make_tuple(owned(std::move(start)), owned(std::move(thresholds)), owned(std::move(leaving)),
                          owned(std::move(entering)));
}

std::pair<Cost, Index> decode_cost(const Array& scores, const Array& offsets, const Array& costs, double error) {
    const Span<const double> own = vector<double>(scores, "scores");
    const Span<const Index> lists = vector<Index>(offsets, "offsets");
    const Span<const Cost> prices = vector<Cost>(costs, "costs");
    check_size(prices.size(), own.size(), "costs");
    check_offsets(lists, own.size(), "offsets");
    Cost total = 0;
    Index doubtful = 0;
    for (Index s = 0; s + 1 < lists.size(); ++s) {
        const Index best = best_row(own, lists[s], lists[s + 1]);
        total += prices[best];
        const double least = own[best] - error;
        for (Index i = lists[s]; i < lists[s + 1]; ++i) {
            if (own[i] >= least && prices[i] != prices[best]) {
                ++doubtful;
                break;
            }
        }
    }
    return {total, doubtful};
}

}  // namespace

}  // namespace lpmert::lines

namespace lpmert {

using namespace lines;

void bind_line_search(nb::module_& module) {
    using nb::literals::operator""_a;
    const auto free = nb::call_guard<nb::gil_scoped_release>();
    module.def(
        "combine",
        [](const Array& columns, const Array& weights, const Writable& scores) {
            const Rows<const double> features = matrix<double>(columns, "columns");
            const Span<const double> factors = vector<double>(weights, "weights");
            const Span<double> sums = vector<double>(scores, "scores");
            check_size(factors.size(), features.rows(), "weights");
            check_size(sums.size(), features.columns(), "scores");
            combine(features, factors, sums);
        },
        "columns"_a, "weights"_a, "scores"_a, free);
    module.def("decode_cost", &decode_cost, "scores"_a, "offsets"_a, "costs"_a, "error"_a, free);
    nb::class_<BoundLineSearch>(module, "LineSearch")
        .def(nb::new_(&new_line_search), "columns"_a, "offsets"_a, "kind"_a, "parameters"_a, "costs"_a, "statistics"_a,
             "constant"_a)
        .def_prop_ro("n_hypotheses", [](const BoundLineSearch& self) { return self.lists().rows(); })
        .def("at", &at, "weights"_a)
        .def("along", &along, "weights"_a, "direction"_a, "low"_a, "high"_a, "scale"_a, "interval"_a, "smoothing"_a)
        .def("best_coordinate", &best_coordinate, "weights"_a, "coordinates"_a, "ranges"_a, "scale"_a, "interval"_a,
             "smoothing"_a)
        .def("events", &events, "weights"_a, "direction"_a);
}

}  // namespace lpmert
