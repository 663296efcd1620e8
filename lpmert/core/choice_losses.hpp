// What the hypotheses of a node cost in the search over selections: of a sum of losses, or of a ratio of sums like
// BLEU.
//
// choices.hpp is written for either of them.
#pragma once

#include "choices.hpp"
#include "ratio.hpp"

namespace lpmert {

// Losses that add up: hypotheses cost the same everywhere, and stand in order of cost.
class Sums {
  public:
    // Whether a selection costs what its hypotheses add up to, and no more.
    static constexpr bool tight = true;

    double loss = 1.0;  // that of a ratio's incumbent

    // Look only for what costs less, of a ratio for a lower loss.
    void aim(Tree& tree, Index cost, double) { tree.upper = cost; }
    // Decode weights into the selection of the tree, and take them as incumbent if they are better beyond rounding.
    void take_witness(Tree& tree, const double* weights, double* scores) {
        const auto [cost, clear] = decode_clearly(tree.lists, weights, tree.selection.data(), scores);
        if (!clear || cost >= tree.upper) return;
        tree.upper = cost;
        tree.take(weights);
    }
    // Take the complete selection at this depth, which weights are known to attain; here they decode it clearly.
    void take_selection(Tree&, Index, const double*) {}

    // Find the costs in a node, its sum and the cheapest of every list; return whether it stays open.
    bool bound(Tree& tree) {
        if (tree.depth == 0) resume(tree, {});
        return true;
    }
    Index cost(const Tree& tree, Index row) const { return tree.lists.costs[row]; }
    // Rule out the cheapest row of a list; return the next one, or -1 if none is left.
    Index rule_out(Tree& tree, Index s, Index row) { return row + 1 < tree.lists.offsets[s + 1] ? row + 1 : -1; }
    void put_back(Tree& tree, Choice choice) { tree.pointer[choice.list] = choice.position; }

    // What the second cheapest row of a list costs more than the cheapest.
    Index step(const Tree& tree, Index s) const {
        const Index here = tree.cheapest(s);
        return here + 1 == tree.lists.offsets[s + 1] ? INFINITE_COST : cost(tree, here + 1) - cost(tree, here);
    }
    // How many candidates within the slack a list has, each counting the less the more it costs.
    double weigh(const Tree& tree, Index s, double rate, double slack) const {
        const Index here = tree.cheapest(s), least = cost(tree, here);
        double weight = 0.0;
        for (Index i = here; i < tree.lists.offsets[s + 1]; ++i) {
            const double excess = static_cast<double>(cost(tree, i) - least);
            if (excess >= slack) break;
            weight += std::exp(-rate * excess / slack);
        }
        return weight;
    }
    void list_children(const Tree& tree, Node& node, Index limit) const {
        const Index s = node.branch, rest = tree.sum - cost(tree, tree.cheapest(s));
        for (Index h = tree.pointer[s]; h < tree.lists.length(s); ++h) {
            const Index bound = rest + cost(tree, tree.first(s) + h);
            if (bound > limit) break;
            node.children.push_back({h, bound});
        }
    }
    // Note the choice by which the node at this depth is entered.
    void enter(Tree&, Index, Choice) {}

    // Flags of the rows that are ruled out, where the pointers do not tell; go on with these rows ruled out.
    Bytes out() const { return {}; }
    void resume(Tree& tree, const std::vector<Row>&) {
        tree.sum = 0;
        for (Index s = 0; s < tree.n_open; ++s) {
            tree.sum += cost(tree, tree.first(s) + (tree.chosen[s] < 0 ? tree.pointer[s] : tree.chosen[s]));
        }
    }
};

// A ratio of sums: a linear minorant of the metric on the box of what the sums can still be gives every hypothesis a
// cost in units of height. What costs too much, or does not go together with the decided choices, is ruled out below
// the node, which narrows the box.
class Ratios {
  public:
    static constexpr bool tight = false;

    // The first minorant is laid at the sums of what weights [D] choose.
    Ratios(const Ratio& of_lists, const Lists& lists, Span<const double> weights)
        : ratio(of_lists),
          minorant(of_lists.n_columns()),
          target(of_lists.n_columns()),
          sums(target),
          excluded(lists.n_rows()),
          costs(lists.n_rows()),
          totals(ratio.constant.begin(), ratio.constant.end()) {
        ratio.check(lists.n_rows());
        check_size(weights.size(), lists.n_features(), "weights");
        Indices selection(lists.n_lists());
        Reals scores(lists.longest());
        decode_total(lists, ratio, weights.data(), selection.data(), scores.data(), target);
    }

    void aim(Tree& tree, Index, double below) {
        loss = std::min(loss, below);
        tree.upper = height_limit(ratio.kind, loss);
    }

    void take_witness(Tree& tree, const double* weights, double* scores) {
        const auto [found, clear] = decode_total(tree.lists, ratio, weights, tree.selection.data(), scores, sums);
        if (clear) take_if_less(tree, found, sums, weights);
    }
    // Scores far from 0 round where differences do not: decoding alone need not show the selection clearly.
    void take_selection(Tree& tree, Index depth, const double* weights) {
        take_if_less(tree, ratio.loss(total_at(depth)), total_at(depth), weights);
    }

    // Lay a minorant, and rule out what costs too much under it.
    bool bound(Tree& tree) {
        Node& node = tree.node();
        if (!fill_box(tree)) return false;
        for (Index k = 0; k < n_columns(); ++k) {
            minorant.at[k] = std::min(minorant.high[k], std::max(minorant.low[k], target[k]));
        }
        tree.work += 2 * tree.lists.n_rows();
        const Index least = lay_costs(tree);
        node.bound = std::max(node.bound, least);
        if (node.bound >= tree.upper) return false;
        for (Index s = 0; s < tree.n_open; ++s) {
            if (tree.chosen[s] >= 0) continue;
            const Index best = cheapest(tree, s), dearest = tree.upper - least + costs[best];
            for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
                if (excluded[i] || costs[i] < dearest) continue;
                excluded[i] = true;
                tree.rule_out(s, i - tree.first(s));
            }
            tree.pointer[s] = best - tree.first(s);
        }
        tree.sum = least;
        return true;
    }
    Index cost(const Tree&, Index row) const { return costs[row]; }
    Index rule_out(Tree& tree, Index s, Index row) {
        excluded[row] = true;
        return cheapest(tree, s);
    }
    void put_back(Tree& tree, Choice choice) { excluded[tree.first(choice.list) + choice.position] = false; }

    Index step(const Tree& tree, Index s) const {
        const Index here = tree.cheapest(s);
        Index second = INFINITE_COST;
        for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
            if (i != here && !excluded[i]) second = std::min(second, costs[i] - costs[here]);
        }
        return second;
    }

    double weigh(const Tree& tree, Index s, double rate, double slack) const {
        const Index here = tree.cheapest(s);
        double weight = 0.0;
        for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
            if (!excluded[i]) weight += std::exp(-rate * static_cast<double>(costs[i] - costs[here]) / slack);
        }
        return weight;
    }

    void list_children(const Tree& tree, Node& node, Index limit) const {
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

    void enter(Tree& tree, Index depth, Choice choice) {
        const Index n = n_columns();
        if (count(totals) < (depth + 1) * n) totals.resize((depth + 1) * n);
        std::copy_n(totals.begin() + (depth - 1) * n, n, totals.begin() + depth * n);
        ratio.add(tree.first(choice.list) + choice.position, {totals.data() + depth * n, n});
    }
    Bytes out() const { return excluded; }
    void resume(Tree&, const std::vector<Row>& out) {
        std::fill(excluded.begin(), excluded.end(), std::uint8_t{0});
        for (const Row row : out) excluded[row] = true;
    }

    Ratio ratio;
    double loss = 1.0;

  private:
    Index n_columns() const { return ratio.n_columns(); }
    Span<const double> total_at(Index depth) const {
        return Span<const double>(totals).part(depth * n_columns(), (depth + 1) * n_columns());
    }

    void take_if_less(Tree& tree, double found, Span<const double> total, const double* weights) {
        if (!(found < loss)) return;
        loss = found;
        target.assign(total.begin(), total.end());
        tree.upper = height_limit(ratio.kind, loss);
        tree.take(weights);
    }

    // Fill the box of what the sums can still be; return whether every list has a hypothesis left.
    bool fill_box(const Tree& tree) {
        minorant.begin(total_at(tree.depth));
        for (Index s = 0; s < tree.n_open; ++s) {
            const auto row = [&](Index i) { return excluded[tree.first(s) + i] ? -1 : tree.first(s) + i; };
            if (tree.chosen[s] < 0 && !minorant.widen(ratio, tree.lists.length(s), row)) return false;
        }
        return true;
    }

    // Lay the minorant at its point, and write what rows cost under it; return what the cheapest add up to.
    Index lay_costs(const Tree& tree) {
        auto [least, useful] = minorant.lay_in_units(ratio, total_at(tree.depth), tree.n_open - tree.depth);
        if (least == INFINITE_COST) return least;
        for (Index s = 0; s < tree.n_open; ++s) {
            if (tree.chosen[s] >= 0) continue;
            Index best = INFINITE_COST;
            for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
                if (excluded[i]) continue;
                costs[i] = useful ? ratio.cost(minorant.slopes, i) : 0;
                best = std::min(best, costs[i]);
            }
            least += best;
        }
        return least;
    }

    Index cheapest(const Tree& tree, Index s) const {
        Index best = -1;
        for (Index i = tree.first(s); i < tree.first(s + 1); ++i) {
            if (!excluded[i] && (best < 0 || costs[i] < costs[best])) best = i;
        }
        return best;
    }

    Minorant minorant;
    Reals target;    // [K] sums of the incumbent
    Reals sums;      // [K] work space: of a witness
    Bytes excluded;  // [M] what is ruled out
    Indices costs;   // [M] under the node's minorant
    Reals totals;    // [depth + 1, K] of the decided lists at each depth
};

}  // namespace lpmert
