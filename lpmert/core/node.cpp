#include "node.hpp"

namespace lpmert::cells {

LPMERT_CLONES
void score_columns(const View& values, Index begin, Index end, const double* weights, double* scores) {
    const Index n = end - begin;
    for (Index j = 0; j < n; ++j) scores[j] = 0.0;
    for (std::size_t d = 0; d < values.size(); ++d) {
        const double* const own = values[d] + begin;
        const double weight = weights[d];
        for (Index j = 0; j < n; ++j) scores[j] += own[j] * weight;
    }
}

void Node::resize_pairs(Index n_features, Index n) {
    const auto size = static_cast<std::size_t>(n);
    for (auto* const rows : {&cheap, &dear}) rows->resize(size);
    steps.resize(size);
    reaches.resize(size);
    gains.resize(n_features, n);
}

void Node::swap_rows(Index i, Index j, Index n_features) {
    std::swap(ids[i], ids[j]);
    std::swap(costs[i], costs[j]);
    for (Index d = 0; d < n_features; ++d) std::swap(values[d][i], values[d][j]);
    if (!row_reaches.empty()) std::swap(row_reaches[i], row_reaches[j]);
}

Survivors::Survivors(const Node& node, const Lists& lists)
    : ids(node.ids.begin(), node.ids.end()),
      costs(node.costs.begin(), node.costs.end()),
      ends(node.ends),
      fixed(node.own),
      own(node.own) {
    for (Index a = 0; a < node.n_row_lists(); ++a) fixed -= costs[ends[a]];
    for (Index p = 0; p < node.n_pairs(); ++p) {
        const Index cost = lists.costs[node.cheap[p]];  // by prices it may be another one, which makes no difference
        ids.insert(ids.end(), {node.cheap[p], node.dear[p]});
        costs.insert(costs.end(), {cost, cost + node.steps[p]});
        ends.push_back(count(ids));
        fixed -= cost;
    }
}

}  // namespace lpmert::cells
