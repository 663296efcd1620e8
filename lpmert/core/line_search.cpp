#include "line_search.hpp"

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
    return std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0));
}

Index best_row(Span<const double> scores, Index begin, Index end) {
    Index best = begin;
    for (Index i = begin + 1; i < end; ++i)
        if (scores[i] > scores[best]) best = i;
    return best;
}

namespace {

std::variant<LineSearch<SumOfCosts>, LineSearch<LossOfSums>> new_search(Lists lists, const Losses& losses) {
    const auto& [kind, parameters, costs, statistics, constant] = losses;
    check_offsets(lists.offsets, lists.rows(), "offsets");
    if (lists.rows() > std::numeric_limits<Row>::max()) throw std::invalid_argument("columns has too many hypotheses");
    if (kind < 0) {
        check_size(costs.size(), lists.rows(), "costs");
        return LineSearch<SumOfCosts>(lists, SumOfCosts(costs));
    }
    check_size(statistics.rows(), lists.rows(), "the rows of statistics");
    check_size(constant.size(), statistics.columns(), "constant");
    check_kind(kind, parameters.size(), constant.size());
    return LineSearch<LossOfSums>(lists, LossOfSums(losses));
}

void check_choice(Choice choice) {
    if (choice.interval < 0 || choice.interval > SMOOTHED) throw std::invalid_argument("no such interval");
}

using Level = std::variant<Cost, double>;

Level at(AnyLineSearch& self, Span<const double> weights) {
    return self.with([&](auto& search) -> Level {
        search.score(weights);
        return search.level();
    });
}

std::tuple<Level, double> along(AnyLineSearch& self, Span<const double> weights, Span<const double> direction,
                                double low, double high, double scale, Choice choice) {
    check_choice(choice);
    return self.with([&](auto& search) -> std::tuple<Level, double> {
        search.score(weights);
        search.turn_to(direction);
        const auto found = search.step(low, high, scale, choice);
        return {found.level, found.at};
    });
}

std::tuple<Index, Level, double> best_coordinate(AnyLineSearch& self, Span<const double> weights,
                                                 Span<const Index> coordinates, Rows<const double> ranges, double scale,
                                                 Choice choice) {
    check_choice(choice);
    check_size(ranges.rows(), self.lists.dimension(), "ranges");
    check_size(ranges.columns(), 2, "the rows of ranges");
    check_within(coordinates, ranges.rows(), "coordinates");
    if (coordinates.size() == 0) throw std::invalid_argument("coordinates must name one at least");
    return self.with([&](auto& search) -> std::tuple<Index, Level, double> {
        search.score(weights);
        search.prepare_coordinates();
        Index best = -1;
        decltype(search.step(0.0, 0.0, 0.0, choice)) least{};
        for (const Index d : coordinates) {
            const auto step = search.coordinate_step(d, ranges[d][0], ranges[d][1], scale, choice);
            if (best < 0 || step.level < least.level) best = d, least = step;
        }
        return {best, least.level, least.at};
    });
}

std::tuple<Indices, Reals, Indices, Indices> events(AnyLineSearch& self, Span<const double> weights,
                                                    Span<const double> direction) {
    Indices start, leaving, entering;
    Reals thresholds;
    self.with([&](auto& search) {
        search.score(weights);
        search.turn_to(direction);
        search.each_event([&](Index row) { start.push_back(row); },
                          [&](double at, Index from, Index to) {
                              thresholds.push_back(at);
                              leaving.push_back(from);
                              entering.push_back(to);
                          });
    });
    return {std::move(start), std::move(thresholds), std::move(leaving), std::move(entering)};
}

void combine_into(Rows<const double> columns, Span<const double> weights, Span<double> scores) {
    check_size(weights.size(), columns.rows(), "weights");
    check_size(scores.size(), columns.columns(), "scores");
    combine(columns, weights, scores);
}

std::tuple<Cost, Index> decode_cost(Span<const double> scores, Span<const Index> offsets, Span<const Cost> costs,
                                    double error) {
    check_size(costs.size(), scores.size(), "costs");
    check_offsets(offsets, scores.size(), "offsets");
    Cost total = 0;
    Index doubtful = 0;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        const Index best = best_row(scores, offsets[s], offsets[s + 1]);
        bool clear = true;
        dearest_within(error, scores.data() + offsets[s], best - offsets[s], costs.part(offsets[s], offsets[s + 1]),
                       clear);
        total += costs[best];
        doubtful += !clear;
    }
    return {total, doubtful};
}

}  // namespace

AnyLineSearch::AnyLineSearch(Rows<const double> columns, Span<const Index> offsets, const Losses& losses)
    : search(new_search({columns, offsets}, losses)), lists{columns, offsets}, costs(losses.costs) {}

void bind_line_search(nb::module_& module) {
    define(module, "combine", &combine_into, "columns", "weights", "scores");
    define(module, "decode_cost", &decode_cost, "scores", "offsets", "costs", "error");
    nb::class_<AnyLineSearch> search(module, "LineSearch");
    define_init<Rows<const double>, Span<const Index>, Losses>(search, "columns", "offsets", "losses");
    define(search, "at", &at, "weights");
    define(search, "along", &along, "weights", "direction", "low", "high", "scale", "choice");
    define(search, "best_coordinate", &best_coordinate, "weights", "coordinates", "ranges", "scale", "choice");
    define(search, "events", &events, "weights", "direction");
}

}  // namespace lpmert::lines
