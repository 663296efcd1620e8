#include "choice_losses.hpp"

namespace lpmert {

void Ratios::take_if_less(Tree& tree, double found, const double* total, const double* weights) {
    if (!(found < loss)) return;
    loss = found;
    std::copy_n(total, n_columns(), target.begin());
    tree.upper = height_limit(ratio.kind, loss);
    tree.take(weights);
}

// Fill the box of what the sums can still be; return whether every list has a hypothesis left.
bool Ratios::fill_box(const Tree& tree) {
    minorant.begin(total_at(tree.depth));
    for (Index s = 0; s < tree.n_open; ++s) {
        const auto row = [&](Index i) { return excluded[tree.first(s) + i] ? -1 : tree.first(s) + i; };
        if (tree.chosen[s] < 0 && !minorant.widen(ratio, tree.lists.length(s), row)) return false;
    }
    return true;
}

// Lay the minorant at its point and find what rows cost under it; return (what the cheapest add up to, whether that
// says anything). The sums of the cheapest are left in `sums`.
std::pair<Index, bool> Ratios::sum_of_least(const Tree& tree) {
    std::copy_n(total_at(tree.depth), n_columns(), sums.begin());
    auto [least, useful] = minorant.lay_in_units(ratio, sums.data(), tree.n_open - tree.depth);
    if (!useful || least == INFINITE_COST) return {least, false};
    for (Index s = 0; s < tree.n_open; ++s) {
        if (tree.chosen[s] >= 0) continue;
        Index best = -1;
        for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
            if (excluded[i]) continue;
            laid[i] = row_cost(ratio, minorant.slopes.data(), i);
            if (best < 0 || laid[i] < laid[best]) best = i;
        }
        least += laid[best];
        for (Index k = 0; k < n_columns(); ++k) sums[k] += ratio.statistics[best][k];
    }
    return {least, true};
}

// The bound is the best of several minorants; what costs too much under it is ruled out.
bool Ratios::bound(Tree& tree, bool& ready) {
    Node& node = tree.node();
    if (!fill_box(tree)) return false;
    std::vector<double>& at = minorant.at;
    for (Index k = 0; k < n_columns(); ++k) {
        at[k] = std::min(minorant.high[k], std::max(minorant.low[k], target[k]));
    }
    Index most = -INFINITE_COST;
    for (int trial = 0; trial < TANGENTS; ++trial) {
        tree.work += 2 * tree.lists.n_rows();
        const auto [least, found] = sum_of_least(tree);
        node.bound = std::max(node.bound, least);
        if (node.bound >= tree.upper) return false;
        if (!found) break;
        if (least > most) {
            most = least;
            costs = laid;
        } else if (trial > 1) {
            break;
        }
        // towards the sums of the cheapest selection, as in the method of Frank and Wolfe
        const double stride = 2.0 / (trial + 3.0);
        for (Index k = 0; k < n_columns(); ++k) at[k] += stride * (sums[k] - at[k]);
    }
    if (most == -INFINITE_COST) {
        std::fill(costs.begin(), costs.end(), 0);
        most = node.bound;
    }
    Index ruled_out = 0, left = 0;
    for (Index s = 0; s < tree.n_open; ++s) {
        if (tree.chosen[s] >= 0) continue;
        const Index best = cheapest(tree, s), dearest = tree.upper - most + costs[best];
        for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
            if (excluded[i]) continue;
            if (costs[i] >= dearest) {
                excluded[i] = true;
                tree.rule_out(s, i - tree.first(s));
                ++ruled_out;
            } else {
                ++left;
            }
        }
        tree.pointer[s] = best - tree.first(s);
    }
    tree.sum = most;
    ++node.tries;
    ready = 8 * ruled_out <= left || node.tries >= MOST_BOUNDED;
    return true;
}

Index Ratios::cheapest(const Tree& tree, Index s) const {
    Index best = -1;
    for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
        if (!excluded[i] && (best < 0 || costs[i] < costs[best])) best = i;
    }
    return best;
}

Index Ratios::step(const Tree& tree, Index s) const {
    const Index here = tree.cheapest(s);
    Index second = INFINITE_COST;
    for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
        if (i != here && !excluded[i]) second = std::min(second, costs[i] - costs[here]);
    }
    return second;
}

double Ratios::weigh(const Tree& tree, Index s, double rate, double slack) const {
    const Index here = tree.cheapest(s);
    double weight = 0.0;
    for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
        if (!excluded[i]) weight += std::exp(-rate * static_cast<double>(costs[i] - costs[here]) / slack);
    }
    return weight;
}

void Ratios::list_children(const Tree& tree, Node& node, Index limit) const {
    const Index first = tree.first(node.branch), rest = tree.sum - costs[tree.cheapest(node.branch)];
    for (Index i = first; i < tree.first(node.branch + 1); ++i) {
        if (excluded[i]) continue;
        const Index bound = std::max(node.bound, rest + costs[i]);
        if (bound <= limit) node.children.push_back({i - first, bound});
    }
    std::sort(node.children.begin(), node.children.end(), [&](const Child& one, const Child& other) {
        const Index a = costs[first + one.position], b = costs[first + other.position];
        return a != b ? a < b : one.position < other.position;
    });
}

void Ratios::enter(Tree& tree, Index depth, Choice choice) {
    const Index n = n_columns();
    if (static_cast<Index>(totals.size()) < (depth + 1) * n) totals.resize(static_cast<std::size_t>((depth + 1) * n));
    const Span<const double> own = ratio.statistics[tree.first(choice.list) + choice.position];
    for (Index k = 0; k < n; ++k) totals[depth * n + k] = totals[(depth - 1) * n + k] + own[k];
}

}  // namespace lpmert
