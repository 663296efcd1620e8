#include "lists.hpp"

#include "binding.hpp"

namespace lpmert {

LPMERT_CLONES
void score_blocks(const double* columns, Index n, Index length, const double* weights, double* scores) {
    Index i = 0;
    for (; i + 8 * LANES <= length; i += 8 * LANES) combine_blocks<8>(0.0, weights, columns + i, n, length, scores + i);
    for (; i + 2 * LANES <= length; i += 2 * LANES) combine_blocks<2>(0.0, weights, columns + i, n, length, scores + i);
    for (; i + LANES <= length; i += LANES) combine_blocks<1>(0.0, weights, columns + i, n, length, scores + i);
    if (i < length) combine_blocks<1>(0.0, weights, columns + length - LANES, n, length, scores + length - LANES);
}

Index Lists::longest() const {
    Index most = 1;
    for (Index s = 0; s < n_lists(); ++s) most = std::max(most, length(s));
    return most;
}

Lists::Lists(Rows<const double> rows_, Span<const Index> offsets_, Span<const Index> costs_, Span<const double> reach_,
             Span<const double> spread_, Span<const double> cap_)
    : rows(rows_), offsets(offsets_), costs(costs_), reach(reach_), spread(spread_), cap(cap_) {
    const Index n = rows.columns();
    check_size(costs.size(), rows.rows(), "costs");
    check_size(reach.size(), n, "reach");
    check_size(spread.size(), n, "spread");
    if (rows.rows() > std::numeric_limits<Row>::max()) throw std::invalid_argument("rows must be fewer than 2^31");
    if (cap.size() > 0) check_size(cap.size(), n + 1, "cap");
    check_offsets(offsets, rows.rows(), "offsets");
    Reals turned(rows.rows() * n);
    for (Index s = 0; s < n_lists(); ++s)
        for (Index i = 0; i < length(s); ++i)
            for (Index d = 0; d < n; ++d) turned[offsets[s] * n + d * length(s) + i] = row(offsets[s] + i)[d];
    held = std::make_shared<const Reals>(std::move(turned));
    columns = *held;
}

double rounding_bound(const Lists& lists, const double* weights) {
    double total = 0.0, off = 0.0;
    const Index n_features = lists.n_features();
    for (Index d = 0; d < n_features; ++d) {
        total += std::abs(weights[d]) * lists.reach[d];
        off += std::abs(weights[d]) * lists.spread[d];
    }
    return 2.0 * static_cast<double>(n_features + 3) * EPSILON * total + 2.0 * off;
}

bool in_cap(const Lists& lists, const double* weights) {
    if (lists.cap.size() == 0) return true;
    const Index n_features = lists.n_features();
    double along = 0.0, norm = 0.0;
    for (Index d = 0; d < n_features; ++d) {
        along += lists.cap[d] * weights[d];
        norm += weights[d] * weights[d];
    }
    return along >= (lists.cap[n_features] + 4.0 * static_cast<double>(n_features) * EPSILON) * std::sqrt(norm);
}

LPMERT_CLONES
Decoded decode_clearly(const Lists& lists, const double* weights, Index* selection, double* scores) {
    const double bound = rounding_bound(lists, weights);
    Decoded found{0, true};
    for (Index s = 0; s < lists.n_lists(); ++s) {
        const Index length = lists.length(s);
        score_list(lists, s, weights, scores);
        const Index best = largest(scores, length);
        selection[s] = best;
        found.cost = plus(found.cost, lists.costs[lists.offsets[s] + best]);
        if (found.clear) {
            const double top = scores[best];
            scores[best] = -std::numeric_limits<double>::infinity();
            found.clear = top - largest_score(scores, length) > bound;
        }
    }
    return found;
}

namespace {

// Lists as Python keeps them: rows [M, D] at offsets [S + 1], with the scores of one of them at weights [D].
class RowLists {
    Rows<const double> rows;
    Span<const Index> offsets;
    Span<const double> weights;
    Reals scores;

  public:
    RowLists(Rows<const double> rows_, Span<const Index> offsets_, Span<const double> weights_)
        : rows(rows_), offsets(offsets_), weights(weights_) {
        check_offsets(offsets, rows.rows(), "offsets");
        check_size(weights.size(), rows.columns(), "weights");
    }

    // Score one list after the other: each(its number, its scores, the position of the best, the first on ties).
    template <class Each>
    void each_list(Each each) {
        for (Index s = 0; s + 1 < offsets.size(); ++s) {
            const Index best = score(s);
            each(s, scores.data(), best);
        }
    }

  private:
    Index score(Index s) {
        const Index begin = offsets[s], length = offsets[s + 1] - begin, n = weights.size();
        if (count(scores) < length) scores.resize(length);
        double* const sums = scores.data();
        const double* const factors = weights.data();
        const double* own = rows[begin].data();
        Index best = 0;
        double top = -std::numeric_limits<double>::infinity();
        const auto take = [&](Index i, double score) {
            sums[i] = score;
            if (score > top) best = i, top = score;
        };
        Index i = 0;
        for (; i + 4 <= length; i += 4, own += 4 * n) {  // four at once: no sum waits for another
            double first = 0.0, second = 0.0, third = 0.0, fourth = 0.0;
            for (Index d = 0; d < n; ++d) {
                first += own[d] * factors[d];
                second += own[n + d] * factors[d];
                third += own[2 * n + d] * factors[d];
                fourth += own[3 * n + d] * factors[d];
            }
            take(i, first);
            take(i + 1, second);
            take(i + 2, third);
            take(i + 3, fourth);
        }
        for (; i < length; ++i, own += n) {
            double score = 0.0;
            for (Index d = 0; d < n; ++d) score += own[d] * factors[d];
            take(i, score);
        }
        return best;
    }
};

Indices decode(Rows<const double> features, Span<const Index> offsets, Span<const double> weights) {
    Indices selection;
    RowLists(features, offsets, weights).each_list([&](Index s, const double*, Index best) {
        selection.push_back(offsets[s] + best);
    });
    return selection;
}

std::tuple<Index, bool> worst_cost(Rows<const double> features, Span<const Index> offsets, Span<const Index> costs,
                                   Span<const double> weights, double bound) {
    check_size(costs.size(), features.rows(), "costs");
    Decoded found{0, true};
    RowLists(features, offsets, weights).each_list([&](Index s, const double* scores, Index best) {
        const Span<const Index> own = costs.part(offsets[s], offsets[s + 1]);
        found.cost = plus(found.cost, dearest_within(bound, scores, best, own, found.clear));
    });
    return {found.cost, found.clear};
}

std::tuple<Index, bool> checked_decode(const Lists& lists, Span<const double> weights, Span<Index> selection) {
    check_size(weights.size(), lists.n_features(), "weights");
    check_size(selection.size(), lists.n_lists(), "selection");
    Reals scores(lists.longest());
    const auto [cost, clear] = decode_clearly(lists, weights.data(), selection.data(), scores.data());
    return {cost, clear};
}

}  // namespace

void bind_lists(nb::module_& module) {
    nb::class_<Lists> lists(module, "Lists");
    define_init<Rows<const double>, Span<const Index>, Span<const Index>, Span<const double>, Span<const double>,
                Span<const double>>(lists, "rows", "offsets", "costs", "reach", "spread", "cap");
    define(lists, "decode_clearly", &checked_decode, "weights", "selection");
    define(module, "decode", &decode, "features", "offsets", "weights");
    define(module, "worst_cost", &worst_cost, "features", "offsets", "costs", "weights", "bound");
}

}  // namespace lpmert
