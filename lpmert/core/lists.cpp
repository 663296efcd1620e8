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
    Reals transposed(rows.rows() * n);
    for (Index s = 0; s < n_lists(); ++s)
        for (Index i = 0; i < length(s); ++i)
            for (Index d = 0; d < n; ++d) transposed[offsets[s] * n + d * length(s) + i] = row(offsets[s] + i)[d];
    columns_owner = std::make_shared<const Reals>(std::move(transposed));
    columns = *columns_owner;
}

double rounding_bound(const Lists& lists, const double* weights) {
    double total = 0.0, off = 0.0;
    const Index n_features = lists.n_features();
    for (Index d = 0; d < n_features; ++d) {
        total += std::abs(weights[d]) * lists.reach[d];
        off += std::abs(weights[d]) * lists.spread[d];
    }
    return 2.0 * static_cast<double>(n_features + 3) * (EPSILON * total + TINY) + 2.0 * off;
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
        found.cost = capped_sum(found.cost, lists.costs[lists.offsets[s] + best]);
        if (found.clear) {
            const double top = scores[best];
            scores[best] = -INF;
            found.clear = top - largest_score(scores, length) > bound;
        }
    }
    return found;
}

namespace {

// Score the lists of rows [M, D] at weights [D], and call each(list, scores, position of the first best hypothesis).
template <class Each>
void score_lists(Rows<const double> rows, Span<const Index> offsets, Span<const double> weights, Each each) {
    check_offsets(offsets, rows.rows(), "offsets");
    check_size(weights.size(), rows.columns(), "weights");
    Reals scores;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        scores.clear();
        for (Index i = offsets[s]; i < offsets[s + 1]; ++i) {
            const double* const row = rows[i].data();
            double score = 0.0;
            for (Index d = 0; d < weights.size(); ++d) score += row[d] * weights.data()[d];
            scores.push_back(score);
        }
        each(s, scores.data(), std::max_element(scores.begin(), scores.end()) - scores.begin());
    }
}

Indices decode(Rows<const double> features, Span<const Index> offsets, Span<const double> weights) {
    Indices selection;
    score_lists(features, offsets, weights,
                [&](Index s, const double*, Index best) { selection.push_back(offsets[s] + best); });
    return selection;
}

std::tuple<Index, bool> worst_cost(Rows<const double> features, Span<const Index> offsets, Span<const Index> costs,
                                   Span<const double> weights, double bound) {
    check_size(costs.size(), features.rows(), "costs");
    Decoded found{0, true};
    score_lists(features, offsets, weights, [&](Index s, const double* scores, Index best) {
        const Span<const Index> of_list = costs.part(offsets[s], offsets[s + 1]);
        found.cost = capped_sum(found.cost, dearest_within(bound, scores, best, of_list, found.clear));
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
    lists.def("decode_clearly", &checked_decode, "weights"_a, "selection"_a, unlocked);
    module.def("decode", &decode, "features"_a, "offsets"_a, "weights"_a, unlocked);
    module.def("worst_cost", &worst_cost, "features"_a, "offsets"_a, "costs"_a, "weights"_a, "bound"_a, unlocked);
}

}  // namespace lpmert
