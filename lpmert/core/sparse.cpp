// Training on sparse features: line searches along one feature, passes of a perceptron, rounds of boosting.
//
// Sources: Gao, Yu, Yuan and Xu, HLT/EMNLP 2005 (minimum sample risk); Collins, EMNLP 2002 (perceptron); Collins and
// Koo, Computational Linguistics 2005 (boosting, with its efficient update).
#include "binding.hpp"
#include "envelope.hpp"
#include "lists.hpp"

namespace lpmert {

namespace {

// Rows of sparse entries. starts [n + 1]: where the entries of each row begin.
struct SparseRows {
    Span<const Index> starts, columns;
    Span<const double> values;
    Index n_columns;

    SparseRows(Span<const Index> starts_, Span<const Index> columns_, Span<const double> values_, Index n_columns_)
        : starts(starts_), columns(columns_), values(values_), n_columns(n_columns_) {
        check_size(columns.size(), values.size(), "columns");
        check_offsets(starts, values.size(), "starts", true);
        check_within(columns, n_columns, "columns");
    }

    Index n_rows() const { return starts.size() - 1; }
    // Call function(column, value) for the entries of a row.
    template <class Function>
    void each(Index row, Function function) const {
        for (Index e = starts[row]; e < starts[row + 1]; ++e) function(columns[e], values[e]);
    }
};

class FeatureLines {
    Span<const Index> offsets;
    Indices list_of;  // [M]: the list of every row
    Envelope envelope;
    Reals slopes, intercepts;  // of a list: values of the feature, and scores plus `step` times these

    // Call each(first row, number of rows) for every list with an entry, and return these lists. Raises ValueError
    // unless rows ascend, with a value each.
    template <class Each>
    Indices each_list(Span<const Index> rows, Span<const double> values, double step, Span<const double> scores,
                      Each each) {
        check_size(values.size(), rows.size(), "values");
        check_size(scores.size(), count(list_of), "scores");
        check_within(rows, scores.size(), "rows");
        if (std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) != rows.end())
            throw std::invalid_argument("rows must ascend");
        Indices visited;
        for (Index e = 0; e < rows.size();) {
            const Index s = list_of[rows[e]];
            visited.push_back(s);
            slopes.clear();
            intercepts.clear();
            for (Index i = offsets[s]; i < offsets[s + 1]; ++i) {
                slopes.push_back(e < rows.size() && rows[e] == i ? values[e++] : 0.0);
                intercepts.push_back(scores[i] + step * slopes.back());
            }
            each(offsets[s], count(slopes));
        }
        return visited;
    }

  public:
    explicit FeatureLines(Span<const Index> offsets_) : offsets(offsets_) {
        check_offsets(offsets, offsets.size() > 0 ? offsets[offsets.size() - 1] : 0, "offsets");
        for (Index s = 0; s + 1 < offsets.size(); ++s) list_of.insert(list_of.end(), offsets[s + 1] - offsets[s], s);
    }

    std::tuple<Indices, Indices, Reals, Indices, Indices> events(Span<const Index> rows, Span<const double> values,
                                                                 double weight, Span<const double> scores) {
        Indices first, leaving, entering;
        Reals thresholds;
        Indices visited = each_list(rows, values, -weight, scores, [&](Index begin, Index n) {
            const auto next = [&](double threshold, Row a, Row b) {
                thresholds.push_back(threshold);
                leaving.push_back(begin + a);
                entering.push_back(begin + b);
            };
            envelope.upper({intercepts.data(), slopes.data()}, n, [&](Row i) { first.push_back(begin + i); }, next);
        });
        return {std::move(visited), std::move(first), std::move(thresholds), std::move(leaving), std::move(entering)};
    }

    std::tuple<Indices, Indices> choices(Span<const Index> rows, Span<const double> values, double step,
                                         Span<const double> scores) {
        Indices chosen;
        Indices visited = each_list(rows, values, step, scores, [&](Index begin, Index n) {
            chosen.push_back(begin + largest(intercepts.data(), n));
        });
        return {std::move(visited), std::move(chosen)};
    }
};

Index perceptron_pass(const SparseRows& features, Span<const Index> order, Span<const Index> offsets,
                      Span<const double> base, Span<const bool> gold, Span<double> weights, Span<double> weighted,
                      Index visits) {
    check_offsets(offsets, features.n_rows(), "offsets");
    check_size(base.size(), features.n_rows(), "base");
    check_size(gold.size(), features.n_rows(), "gold");
    check_size(weights.size(), features.n_columns, "weights");
    check_size(weighted.size(), features.n_columns, "weighted");
    check_within(order, offsets.size() - 1, "order");
    const auto move = [&](Index row, double step) {
        features.each(row, [&](Index column, double value) {
            weights[column] += step * value;
            weighted[column] += step * value * static_cast<double>(visits);
        });
    };
    Index updates = 0;
    for (const Index s : order) {
        double best = -INF, best_gold = -INF;
        Index winner = offsets[s], target = offsets[s];
        for (Index i = offsets[s]; i < offsets[s + 1]; ++i) {
            double score = base[i];
            features.each(i, [&](Index column, double value) { score += weights[column] * value; });
            if (score > best) winner = i, best = score;
            if (gold[i] && score > best_gold) target = i, best_gold = score;
        }
        if (!gold[winner]) {
            ++updates;
            move(target, 1.0);
            move(winner, -1.0);
        }
        ++visits;
    }
    return updates;
}

class Boosting {
    // Of a feature: the weights of pairs that it ranks rightly and wrongly, and its largest difference.
    struct Sums {
        double above = 0.0, below = 0.0, reach = 0.0;

        void add(double value, double weight) { (value > 0.0 ? above : below) += std::abs(value) * weight; }
        double gain() const {
            const double difference = std::sqrt(std::max(above, 0.0)) - std::sqrt(std::max(below, 0.0));
            return difference * difference / reach;
        }
    };

    const SparseRows &by_feature, &by_pair;
    Reals pairs;             // [P]: importance times exp(-margin)
    std::vector<Sums> sums;  // [D]
    Reals gains;             // [D]

    // Compute the sums of a feature from all its pairs.
    void add_up(Index feature) {
        Sums fresh{0.0, 0.0, sums[feature].reach};
        by_feature.each(feature, [&](Index pair, double value) { fresh.add(value, pairs[pair]); });
        sums[feature] = fresh;
    }

  public:
    Boosting(const SparseRows& by_feature_, const SparseRows& by_pair_, Span<const double> weights)
        : by_feature(by_feature_), by_pair(by_pair_), pairs(weights.begin(), weights.end()) {
        check_size(weights.size(), by_pair.n_rows(), "pair_weights");
        check_size(by_feature.n_rows(), by_pair.n_columns, "by_feature, less 1,");
        check_size(by_feature.n_columns, by_pair.n_rows(), "a row of by_feature");
        sums.resize(by_feature.n_rows());
        gains.assign(sums.size(), 0.0);
        for (Index d = 0; d < by_feature.n_rows(); ++d) {
            double& reach = sums[d].reach;
            by_feature.each(d, [&](Index, double value) { reach = std::max(reach, std::abs(value)); });
            add_up(d);
            if (reach > 0.0) gains[d] = sums[d].gain();
        }
    }

    Index run(Index n_rounds, double smoothing, double tolerance, double least, Span<double> weights) {
        check_size(weights.size(), by_feature.n_rows(), "weights");
        if (weights.size() == 0) return 0;
        Index taken = 0;
        while (taken < n_rounds) {
            const Index feature = largest(gains.data(), weights.size());
            double total = 0.0;
            for (const double weight : pairs) total += weight;
            if (total <= least || gains[feature] <= tolerance * total) break;
            // Compute the sums again: updates have rounding errors, which matter if values are large.
            add_up(feature);
            gains[feature] = sums[feature].gain();
            if (gains[feature] <= tolerance * total) continue;
            const auto& [above, below, reach] = sums[feature];
            const double floor = smoothing * total;
            const double step = 0.5 / reach * std::log((above + floor) / (below + floor));
            weights[feature] += step;
            by_feature.each(feature, [&](Index pair, double value) {
                const double change = pairs[pair] * std::expm1(-step * value);
                pairs[pair] += change;
                by_pair.each(pair, [&](Index column, double of_pair) { sums[column].add(of_pair, change); });
            });
            by_feature.each(feature, [&](Index pair, double) {
                by_pair.each(pair, [&](Index column, double) { gains[column] = sums[column].gain(); });
            });
            ++taken;
        }
        return taken;
    }
};

}  // namespace

void bind_sparse(nb::module_& module) {
    nb::class_<SparseRows> rows(module, "SparseRows");
    define_init<Span<const Index>, Span<const Index>, Span<const double>, Index>(rows, "starts", "columns", "values",
                                                                                 "n_columns");
    nb::class_<FeatureLines> lines(module, "FeatureLines");
    define_init<Span<const Index>>(lines, "offsets");
    lines.def("events", &FeatureLines::events, "rows"_a, "values"_a, "weight"_a, "scores"_a, unlocked);
    lines.def("choices", &FeatureLines::choices, "rows"_a, "values"_a, "step"_a, "scores"_a, unlocked);
    module.def("perceptron_pass", &perceptron_pass, "features"_a, "order"_a, "offsets"_a, "base"_a, "gold"_a,
               "weights"_a, "weighted"_a, "visits"_a, unlocked);
    nb::class_<Boosting> boosting(module, "Boosting");
    define_init<const SparseRows&, const SparseRows&, Span<const double>>(boosting, "by_feature", "by_pair",
                                                                          "pair_weights");
    boosting.def("run", &Boosting::run, "n_rounds"_a, "smoothing"_a, "tolerance"_a, "least"_a, "weights"_a, unlocked);
}

}  // namespace lpmert
