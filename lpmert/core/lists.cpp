#include "lists.hpp"

#include <algorithm>

namespace lpmert {

Index Lists::longest() const {
    Index most = 1;
    for (Index s = 0; s < n_lists(); ++s) most = std::max(most, length(s));
    return most;
}

std::vector<double> columns_of(Span<const double> rows, Span<const Index> offsets, Index n_features) {
    std::vector<double> columns(static_cast<std::size_t>(rows.size()));
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        const Index begin = offsets[s], length = offsets[s + 1] - begin;
        for (Index i = 0; i < length; ++i) {
            for (Index d = 0; d < n_features; ++d)
                columns[begin * n_features + d * length + i] = rows[(begin + i) * n_features + d];
        }
    }
    return columns;
}

void OwnedLists::lay_out(Index n_features) {
    columns = columns_of(rows, offsets, n_features);
    reach.assign(n_features, 0.0);
    for (std::size_t k = 0; k < rows.size(); ++k) {
        double& most = reach[k % reach.size()];
        most = std::max(most, std::abs(rows[k]));
    }
}

Lists OwnedLists::view(const Lists& whole) const {
    return {rows, columns, offsets, costs, reach, whole.spread, whole.cap};
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

Index RowLists::score(Index s, Span<const double> weights, std::vector<double>& scores) const {
    const Index begin = offsets[s], length = offsets[s + 1] - begin, n = weights.size();
    if (static_cast<Index>(scores.size()) < length) scores.resize(length);
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

void decode(const RowLists& lists, Span<const double> weights, Span<Index> selection) {
    std::vector<double> scores;
    for (Index s = 0; s < lists.n_lists(); ++s) selection[s] = lists.offsets[s] + lists.score(s, weights, scores);
}

Decoded worst_cost(const RowLists& lists, Span<const Index> costs, Span<const double> weights, double bound) {
    Decoded found{0, true};
    std::vector<double> scores;
    for (Index s = 0; s < lists.n_lists(); ++s) {
        const Index best = lists.score(s, weights, scores);
        const Span<const Index> own = costs.part(lists.offsets[s], lists.offsets[s + 1]);
        const double top = scores[best];
        Index cost = own[best];
        for (Index i = 0; i < own.size(); ++i) {
            if (top - scores[i] <= bound && own[i] != own[best]) {
                found.clear = false;
                cost = std::max(cost, own[i]);
            }
        }
        found.cost = plus(found.cost, cost);
    }
    return found;
}

}  // namespace lpmert
