// The two kinds of losses in the search over selections (choices.hpp): sums of costs, and ratios of sums such as BLEU.
//
// A loss says what hypotheses cost in a node, in which order they stand, and what is ruled out. For a ratio, the costs
// are prices under a linear minorant of the metric that is laid for each node (lemma R4 of proofs/ratio.md).
#pragma once

#include "choices.hpp"
#include "ratio.hpp"

namespace lpmert {

// A sum of costs. A hypothesis costs the same in every node, and lists are in order of cost.
class Sums {
  public:
    // Whether a selection costs exactly the sum of its hypotheses' costs, and not possibly more. Only then do cores
    // pay.
    static constexpr bool tight = true;

    double loss = 1.0;  // of a ratio's incumbent; unused here

    // Search only for a lower cost, or for a ratio for a lower loss.
    void aim(Tree& tree, Index cost, double) { tree.upper = cost; }
    // Decode weights into the selection of the tree; they become the incumbent if they are certainly better.
    void take_witness(Tree& tree, const double* weights, double* scores) {
        const auto [cost, clear] = decode_clearly(tree.lists, weights, tree.selection.data(), scores);
        if (!clear || cost >= tree.upper) return;
        tree.upper = cost;
        tree.set_incumbent(weights);
    }
    // Take the complete selection at this depth, which these weights attain. Here `take_witness` has already done it.
    void take_selection(Tree&, Index, const double*) {}

    // Find the costs in a node, their sum and the cheapest row of every list; return whether the node stays open.
    bool bound(Tree& tree) {
        if (tree.depth == 0) resume(tree, {});
        return true;
    }
    Index cost(const Tree& tree, Index row) const { return tree.lists.costs[row]; }
    // Rule out the cheapest row of a list; return the next cheapest one, or -1 if none is left.
    Index rule_out(Tree& tree, Index s, Index row) { return row + 1 < tree.lists.offsets[s + 1] ? row + 1 : -1; }
    // Undo that a choice was ruled out.
    void restore(Tree& tree, Choice choice) { tree.pointer[choice.list] = choice.position; }

    // By how much the second cheapest row of a list costs more than the cheapest.
    Index step(const Tree& tree, Index s) const {
        const Index here = tree.cheapest(s);
        return here + 1 == tree.lists.offsets[s + 1] ? INFINITE_COST : cost(tree, here + 1) - cost(tree, here);
    }
    // The weighted number of candidates of a list within the slack; a candidate weighs less the more it costs.
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
    // Fill the children of a node whose bounds are at most the limit, the cheapest first.
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

    // Flags [M] of the rows that are ruled out, or nothing if the pointers say it.
    Bytes ruled_out() const { return {}; }
    // Go on with a node in which these rows are ruled out.
    void resume(Tree& tree, const std::vector<Row>&) {
        tree.sum = 0;
        for (Index s = 0; s < tree.n_open; ++s)
            tree.sum += cost(tree, tree.first(s) + (tree.chosen[s] < 0 ? tree.pointer[s] : tree.chosen[s]));
    }
};

// A ratio of sums. The sums that are still possible in a node form a box; a linear minorant of the metric on that box
// gives every hypothesis a price in units of height. Below the node, hypotheses are ruled out whose price is too high,
// or which are incompatible with the decided choices. That narrows the box.
class Ratios {
  public:
    static constexpr bool tight = false;

    // The first minorant is laid at the sums of the hypotheses that weights [D] choose.
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
    // Differences of features round less than scores far from 0, so decoding alone may leave the selection in doubt.
    void take_selection(Tree& tree, Index depth, const double* weights) {
        take_if_less(tree, ratio.loss(total_at(depth)), total_at(depth), weights);
    }

    // Lay a minorant, and rule out the hypotheses that cost too much under it.
    bool bound(Tree& tree) {
        Node& node = tree.node();
        if (!fill_box(tree)) return false;
        for (Index k = 0; k < n_columns(); ++k)
            minorant.at[k] = std::min(minorant.high[k], std::max(minorant.low[k], target[k]));
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
    void restore(Tree& tree, Choice choice) { excluded[tree.first(choice.list) + choice.position] = false; }

    double weigh(const Tree& tree, Index s, double rate, double slack) const {
        const Index here = tree.cheapest(s);
        double weight = 0.0;
        for (Index i = tree.first(s); i < tree.first(s + 1); ++i)
            if (!excluded[i]) weight += std::exp(-rate * static_cast<double>(costs[i] - costs[here]) / slack);
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
    Bytes ruled_out() const { return excluded; }
    void resume(Tree&, const std::vector<Row>& rows) {
        std::fill(excluded.begin(), excluded.end(), std::uint8_t{0});
        for (const Row row : rows) excluded[row] = true;
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
        tree.set_incumbent(weights);
    }

    // Fill the box of the possible sums; return whether every list has a hypothesis left.
    bool fill_box(const Tree& tree) {
        minorant.begin(total_at(tree.depth));
        for (Index s = 0; s < tree.n_open; ++s) {
            const auto row = [&](Index i) { return excluded[tree.first(s) + i] ? -1 : tree.first(s) + i; };
            if (tree.chosen[s] < 0 && !minorant.widen(ratio, tree.lists.length(s), row)) return false;
        }
        return true;
    }

    // Lay the minorant at its point, and set the price of each row; return the bound of the node.
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
        for (Index i = tree.first(s); i < tree.first(s + 1); ++i)
            if (!excluded[i] && (best < 0 || costs[i] < costs[best])) best = i;
        return best;
    }

    Minorant minorant;
    Reals target;    // [K] sums of the incumbent
    Reals sums;      // [K] work space: sums of a witness
    Bytes excluded;  // [M] whether a row is ruled out
    Indices costs;   // [M] prices under the node's minorant
    Reals totals;    // [depth + 1, K] sums of the decided lists at each depth
};

}  // namespace lpmert
