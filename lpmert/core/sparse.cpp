// Training on sparse features: lines of one feature, passes of the perceptron, rounds of boosting.
//
// Sources: Gao, Yu, Yuan and Xu, HLT/EMNLP 2005 (minimum sample risk); Collins, EMNLP 2002 (perceptron); Collins and
// Koo, Computational Linguistics 2005 (boosting, with its efficient update).
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>

#include "lists.hpp"

namespace lpmert {

namespace {

constexpr double INF = std::numeric_limits<double>::infinity();

// Rows of entries, one after the other: starts [n + 1], and of each entry its column and its value.
struct SparseRows {
    std::vector<Array> arrays;
    Span<const Index> starts, columns;
    Span<const double> values;
    Index n_columns;

    SparseRows(const Array& starts_, const Array& columns_, const Array& values_, Index n_columns_)
        : arrays{starts_, columns_, values_},
          starts(vector<Index>(starts_, "starts")),
          columns(vector<Index>(columns_, "columns")),
          values(vector<double>(values_, "values")),
          n_columns(n_columns_) {
        check_size(columns.size(), values.size(), "columns");
        bool right = starts.size() > 0 && starts[0] == 0 && starts[starts.size() - 1] == values.size();
        for (Index i = 1; right && i < starts.size(); ++i) right = starts[i] >= starts[i - 1];
        if (!right) throw std::invalid_argument("starts must not decrease from 0 to the number of values");
        for (const Index column : columns) right = right && column >= 0 && column < n_columns;
        if (!right) throw std::invalid_argument("columns must be at least 0 and less than n_columns");
    }

    Index n_rows() const { return starts.size() - 1; }
};

// Lists of which one feature's weight changes. Its entries are rows, ascending, and values; a row without an entry has
// the value 0. Only lists with an entry are visited.
class FeatureLines {
    // Of the rows with one value only the best by the rest of the score can win; begin: where its line becomes the
    // best.
    struct Line {
        double value, rest, begin;
        Index row;
    };

    std::vector<Array> arrays;
    Span<const Index> offsets;
    std::vector<Index> numbers;  // [M]: the list of every row
    std::vector<Line> lines;

    // Raise ValueError unless rows ascend among those of the lists, with a value each.
    void check(Span<const Index> rows, Span<const double> values, Span<const double> scores) const {
        check_size(values.size(), rows.size(), "values");
        check_size(scores.size(), static_cast<Index>(numbers.size()), "scores");
        Index last = -1;
        for (const Index row : rows) {
            if (row <= last || row >= scores.size()) throw std::invalid_argument("rows must be rows, and ascend");
            last = row;
        }
    }

    void insert(double value, double rest, Index row) {
        const auto place = std::lower_bound(lines.begin(), lines.end(), value,
                                            [](const Line& line, double own) { return line.value < own; });
        if (place == lines.end() || place->value != value) {
            lines.insert(place, {value, rest, 0.0, row});
        } else if (rest > place->rest) {
            place->rest = rest;
            place->row = row;
        }
    }

    // Keep the upper envelope of the lines.
    void envelop() {
        std::size_t n = 1;  // lines on it so far
        for (std::size_t g = 1; g < lines.size(); ++g) {
            double begin = 0.0;
            for (; n > 0; --n) {
                const Line& top = lines[n - 1];
                begin = (top.rest - lines[g].rest) / (lines[g].value - top.value);
                if (n == 1 || begin > top.begin) break;
            }
            lines[n] = lines[g];
            lines[n++].begin = begin;
        }
        lines.resize(n);
    }

  public:
    explicit FeatureLines(const Array& offsets_) : arrays{offsets_}, offsets(vector<Index>(offsets_, "offsets")) {
        check_offsets(offsets, offsets.size() > 0 ? offsets[offsets.size() - 1] : 0, "offsets");
        for (Index s = 0; s + 1 < offsets.size(); ++s)
            numbers.insert(numbers.end(), static_cast<std::size_t>(offsets[s + 1] - offsets[s]), s);
    }

    // Write for every entry of features by their rows whether the feature differs within the entry's list.
    void mark_varying(const SparseRows& features, const Writable& varying) const {
        const Span<bool> marks = vector<bool>(varying, "varying");
        check_size(features.n_columns, static_cast<Index>(numbers.size()), "n_columns of the features");
        check_size(marks.size(), features.values.size(), "varying");
        for (Index d = 0; d < features.n_rows(); ++d) {
            const Index end = features.starts[d + 1];
            for (Index e = features.starts[d], last = e; e < end; e = last) {
                const Index s = numbers[static_cast<std::size_t>(features.columns[e])];
                bool same = true;
                for (; last < end && features.columns[last] < offsets[s + 1] && features.columns[last] >= offsets[s];
                     ++last)
                    same = same && features.values[last] == features.values[e];
                same = same && last - e == offsets[s + 1] - offsets[s];
                std::fill(marks.begin() + e, marks.begin() + last, !same);
            }
        }
    }

    nb::tuple events(const Array& rows, const Array& values, double weight, const Array& scores) {
        const Span<const Index> ids = vector<Index>(rows, "rows");
        const Span<const double> own = vector<double>(values, "values"), all = vector<double>(scores, "scores");
        check(ids, own, all);
        std::vector<Index> visited, first, leaving, entering;
        std::vector<double> thresholds;
        unlocked([&] {
            for (Index e = 0; e < ids.size();) {
                const Index s = numbers[static_cast<std::size_t>(ids[e])];
                lines.clear();
                for (Index i = offsets[s]; i < offsets[s + 1]; ++i) {
                    const double value = e < ids.size() && ids[e] == i ? own[e++] : 0.0;
                    insert(value, all[i] - weight * value, i);
                }
                envelop();
                visited.push_back(s);
                first.push_back(lines[0].row);
                for (std::size_t g = 1; g < lines.size(); ++g) {
                    thresholds.push_back(lines[g].begin);
                    leaving.push_back(lines[g - 1].row);
                    entering.push_back(lines[g].row);
                }
            }
        });
        return nb::make_tuple(owned(std::move(visited)), owned(std::move(first)), owned(std::move(thresholds)),
                              owned(std::move(leaving)), owned(std::move(entering)));
    }

    nb::tuple choices(const Array& rows, const Array& values, double step, const Array& scores) const {
        const Span<const Index> ids = vector<Index>(rows, "rows");
        const Span<const double> own = vector<double>(values, "values"), all = vector<double>(scores, "scores");
        check(ids, own, all);
        std::vector<Index> visited, chosen;
        unlocked([&] {
            for (Index e = 0; e < ids.size();) {
                const Index s = numbers[static_cast<std::size_t>(ids[e])];
                double best = -INF;
                Index winner = offsets[s];
                for (Index i = offsets[s]; i < offsets[s + 1]; ++i) {
                    const double score = e < ids.size() && ids[e] == i ? all[i] + step * own[e++] : all[i];
                    if (score > best) winner = i, best = score;
                }
                visited.push_back(s);
                chosen.push_back(winner);
            }
        });
        return nb::make_tuple(owned(std::move(visited)), owned(std::move(chosen)));
    }
};

// Visit lists in order; move weights [D] from a wrong best row to the best gold row. weighted [D] is the sum of every
// update times the visits before it.
Index perceptron_pass(const SparseRows& features, const Array& order, const Array& offsets, const Array& base,
                      const Array& gold, double rate, const Writable& weights, const Writable& weighted, Index visits) {
    const Span<const Index> visited = vector<Index>(order, "order"), ends = vector<Index>(offsets, "offsets");
    const Span<const double> fixed = vector<double>(base, "base");
    const Span<const bool> golden = vector<bool>(gold, "gold");
    const Span<double> own = vector<double>(weights, "weights"), sums = vector<double>(weighted, "weighted");
    check_offsets(ends, features.n_rows(), "offsets");
    check_size(fixed.size(), features.n_rows(), "base");
    check_size(golden.size(), features.n_rows(), "gold");
    check_size(own.size(), features.n_columns, "weights");
    check_size(sums.size(), features.n_columns, "weighted");
    for (const Index s : visited)
        if (s < 0 || s + 1 >= ends.size()) throw std::invalid_argument("order must name lists");
    const auto move = [&](Index row, double step) {
        for (Index e = features.starts[row]; e < features.starts[row + 1]; ++e) {
            const Index column = features.columns[e];
            own[column] += step * features.values[e];
            sums[column] += step * features.values[e] * static_cast<double>(visits);
        }
    };
    Index updates = 0;
    for (const Index s : visited) {
        double best = -INF, best_gold = -INF;
        Index winner = ends[s], target = ends[s];
        for (Index i = ends[s]; i < ends[s + 1]; ++i) {
            double score = fixed[i];
            for (Index e = features.starts[i]; e < features.starts[i + 1]; ++e)
                score += own[features.columns[e]] * features.values[e];
            if (score > best) winner = i, best = score;
            if (golden[i] && score > best_gold) target = i, best_gold = score;
        }
        if (!golden[winner]) {
            ++updates;
            move(target, rate);
            move(winner, -rate);
        }
        ++visits;
    }
    return updates;
}

// The exponential loss of pairs of hypotheses, and what a step along each feature would gain. The differences, gold row
// less other row, are kept by feature and by pair.
class Boosting {
    // Of a feature: the weights of the pairs that it ranks rightly and wrongly, and its largest difference.
    struct Sums {
        double above = 0.0, below = 0.0, reach = 0.0;

        void add(double value, double weight) {
            if (value > 0.0) {
                above += value * weight;
            } else {
                below -= value * weight;
            }
        }
        double gain() const {
            const double difference = std::sqrt(std::max(above, 0.0)) - std::sqrt(std::max(below, 0.0));
            return difference * difference / reach;
        }
    };

    const SparseRows &by_feature, &by_pair;
    std::vector<double> pairs;  // [P]: importance times exp(-margin)
    std::vector<Sums> sums;     // [D]
    std::vector<double> gains;  // [D]

    void add_up(Index feature) {
        Sums own{0.0, 0.0, sums[static_cast<std::size_t>(feature)].reach};
        for (Index e = by_feature.starts[feature]; e < by_feature.starts[feature + 1]; ++e)
            own.add(by_feature.values[e], pairs[static_cast<std::size_t>(by_feature.columns[e])]);
        sums[static_cast<std::size_t>(feature)] = own;
    }

    // Change a pair's weight by this share of it, and the sums of its features.
    void reweigh(Index pair, double share) {
        double& weight = pairs[static_cast<std::size_t>(pair)];
        const double change = weight * share;
        weight += change;
        for (Index k = by_pair.starts[pair]; k < by_pair.starts[pair + 1]; ++k)
            sums[static_cast<std::size_t>(by_pair.columns[k])].add(by_pair.values[k], change);
    }

  public:
    Boosting(const SparseRows& by_feature_, const SparseRows& by_pair_, const Array& weights)
        : by_feature(by_feature_), by_pair(by_pair_) {
        const Span<const double> given = vector<double>(weights, "pair_weights");
        check_size(given.size(), by_pair.n_rows(), "pair_weights");
        check_size(by_feature.n_rows(), by_pair.n_columns, "by_feature, less 1,");
        check_size(by_feature.n_columns, by_pair.n_rows(), "a row of by_feature");
        pairs.assign(given.begin(), given.end());
        sums.resize(static_cast<std::size_t>(by_feature.n_rows()));
        gains.assign(sums.size(), 0.0);
        for (Index d = 0; d < by_feature.n_rows(); ++d) {
            Sums& own = sums[static_cast<std::size_t>(d)];
            for (Index e = by_feature.starts[d]; e < by_feature.starts[d + 1]; ++e)
                own.reach = std::max(own.reach, std::abs(by_feature.values[e]));
            add_up(d);
            if (own.reach > 0.0) gains[static_cast<std::size_t>(d)] = own.gain();
        }
    }

    // Take up to so many steps, each along the feature of the largest gain; return how many were taken. It ends where
    // no gain is more than tolerance times the sum of the pairs' weights, or that is not above least.
    Index run(Index n_rounds, double smoothing, double tolerance, double least, const Writable& given) {
        const Span<double> weights = vector<double>(given, "weights");
        check_size(weights.size(), by_feature.n_rows(), "weights");
        if (weights.size() == 0) return 0;
        Index taken = 0;
        while (taken < n_rounds) {
            const Index feature = largest(gains.data(), weights.size());
            const auto d = static_cast<std::size_t>(feature);
            double total = 0.0;
            for (const double weight : pairs) total += weight;
            if (total <= least || gains[d] <= tolerance * total) break;
            // anew, because the sums kept up to date have rounding errors, which count where values are large
            add_up(feature);
            gains[d] = sums[d].gain();
            if (gains[d] <= tolerance * total) continue;
            const double floor = smoothing * total;
            const double step = 0.5 / sums[d].reach * std::log((sums[d].above + floor) / (sums[d].below + floor));
            weights[feature] += step;
            const Index begin = by_feature.starts[feature], end = by_feature.starts[feature + 1];
            for (Index e = begin; e < end; ++e)
                reweigh(by_feature.columns[e], std::expm1(-step * by_feature.values[e]));
            for (Index e = begin; e < end; ++e) {
                const Index pair = by_feature.columns[e];
                for (Index k = by_pair.starts[pair]; k < by_pair.starts[pair + 1]; ++k) {
                    const auto column = static_cast<std::size_t>(by_pair.columns[k]);
                    gains[column] = sums[column].gain();
                }
            }
            ++taken;
        }
        return taken;
    }
};

}  // namespace

void bind_sparse(nb::module_& module) {
    using nb::literals::operator""_a;
    const auto free = nb::call_guard<nb::gil_scoped_release>();
    nb::class_<SparseRows>(module, "SparseRows")
        .def(nb::init<const Array&, const Array&, const Array&, Index>(), "starts"_a, "columns"_a, "values"_a,
             "n_columns"_a);
    nb::class_<FeatureLines>(module, "FeatureLines")
        .def(nb::init<const Array&>(), "offsets"_a)
        .def("mark_varying", &FeatureLines::mark_varying, "features"_a, "varying"_a, free)
        .def("events", &FeatureLines::events, "rows"_a, "values"_a, "weight"_a, "scores"_a)
        .def("choices", &FeatureLines::choices, "rows"_a, "values"_a, "step"_a, "scores"_a);
    module.def("perceptron_pass", &perceptron_pass, "features"_a, "order"_a, "offsets"_a, "base"_a, "gold"_a, "rate"_a,
               "weights"_a, "weighted"_a, "visits"_a, free);
    nb::class_<Boosting>(module, "Boosting")
        .def(nb::init<const SparseRows&, const SparseRows&, const Array&>(), "by_feature"_a, "by_pair"_a,
             "pair_weights"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("run", &Boosting::run, "n_rounds"_a, "smoothing"_a, "tolerance"_a, "least"_a, "weights"_a, free);
}

}  // namespace lpmert
