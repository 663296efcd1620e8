// The loss in the search over the weight space: a sum of costs, or a ratio of sums such as BLEU.
//
// The loss prices the hypotheses of a node, holds the incumbent and searches leaves. For a sum, costs are the same in
// every node, and the settled lists add up to one number. For a ratio, a hypothesis has a price: its height, in units,
// under a linear minorant of the metric that is tight at the sums of the node's centre (lemma R4 of proofs/ratio.md).
// The search then treats prices like costs; the settled lists add up to sums of statistics.
//
// Leaves are searched selection by selection, within sides that certainly contain the node (K4 of proofs/cones.md, B3
// of proofs/boxes.md). In the rim between these sides and the node, a dropped hypothesis may win. So the weights that
// are found decode all lists, and if their cost is not the expected one, exact arithmetic has to close the node.
#pragma once

#include "box.hpp"
#include "choices.hpp"
#include "cone.hpp"

namespace lpmert::cells {

inline constexpr Index LEAF_WORK = 1'000'000;  // scores to compute in a leaf before it is halved instead
// Stalled boxes of ratios become cones if there are at most so many features, unless they have few open lists: then
// exact arithmetic closes them.
inline constexpr Index FEATURES_OF_FEW_CONES = 4, FEW_LISTS = 10;

class Loss {
  public:
    Loss(const Lists& lists, const std::optional<Ratio>& ratio, Index granularity)
        : lists_(lists),
          ratio_(ratio),
          granularity_(granularity),
          minorant_(ratio ? ratio->n_columns() : 0),
          scores_(lists.longest()) {
        if (!ratio) return;
        ratio->check(lists.n_rows());
        total_.resize(ratio->n_columns());
        prices_.resize(lists.n_rows());
        selection_.resize(lists.n_lists());
    }

    // Search only for a lower cost, or for a ratio for a lower loss.
    void aim(Index cost, double below) {
        upper = cost;
        if (!ratio_) return;
        loss = std::min(loss, below);
        upper = height_limit(ratio_->kind, loss);
    }
    // The number of statistics that a node sums up.
    Index n_columns() const { return ratio_ ? ratio_->n_columns() : 0; }
    // Begin the propagation of a node.
    void begin() { std::fill(minorant_.at.begin(), minorant_.at.end(), 0.0); }
    // Return the state of a list of which rows start .. end are left; add it to the node's total if it is settled.
    // winner: the hypothesis that wins at the node's centre.
    ListState settle(Node& node, const Row* ids, const Index* costs, Index start, Index end, Row winner) {
        if (!ratio_) return costs[end - 1] == costs[start] ? ListState::settled : ListState::open;
        const Index first = ratio_->classes[ids[start]];
        Index i = start + 1;
        while (i < end && ratio_->classes[ids[i]] == first) ++i;
        if (forbidden(winner)) node.centre_cost = INFINITE_COST;
        if (first == FORBIDDEN && end == start + 1) return ListState::impossible;
        ratio_->add(winner, i == end ? node.total : minorant_.at);
        return i == end ? ListState::settled : ListState::open;
    }
    // Settle a pair of which this hypothesis wins everywhere; return the own bound, which is `own` by the prices.
    Index settle_pair(Node& node, Index own, Row winner) {
        if (!ratio_) return own;
        if (forbidden(winner)) return INFINITE_COST;
        ratio_->add(winner, node.total);
        return own;
    }
    // Note that this hypothesis of an open pair wins at the centre of the node.
    void choose_at_centre(Node& node, Row winner) {
        if (!ratio_) return;
        if (forbidden(winner)) node.centre_cost = INFINITE_COST;
        ratio_->add(winner, minorant_.at);
    }
    // Complete the sums at the centre of a node. If it is time, lay a minorant for the node, give hypotheses their
    // prices under it, sort lists by price, and return the sum of the least prices. The old prices stay if the new ones
    // give no better bound.
    Index reprice(Node& node, Index own, Index limit) {
        if (!ratio_) return own;
        for (Index k = 0; k < n_columns(); ++k) minorant_.at[k] += node.total[k];
        if (node.age > 0) {
            --node.age;
            return own;
        }
        node.age = REPRICED_EVERY - 1;
        const Index n_pairs = node.n_pairs(), n_lists = node.n_row_lists();
        minorant_.begin(node.total);
        for (Index p = 0; p < n_pairs; ++p)
            if (!forbidden(node.dear[p]))
                minorant_.widen(*ratio_, 2, [&](Index i) { return i == 0 ? node.cheap[p] : node.dear[p]; });
        for (Index a = 0; a < n_lists; ++a) {
            const Row* const ids = node.ids.data() + node.ends[a];
            const Index size = node.ends[a + 1] - node.ends[a];
            if (!forbidden(ids[0]) && !forbidden(ids[size - 1]))
                minorant_.widen(*ratio_, size, [&](Index i) { return ids[i]; });
        }
        auto [least, useful] = minorant_.lay_in_units(*ratio_, node.total, n_pairs + n_lists);
        if (least == INFINITE_COST || !useful) return std::max(own, least);
        Index* const dear_prices = prices_.data() + n_pairs;
        Index* const row_prices = dear_prices + n_pairs;
        for (Index p = 0; p < n_pairs; ++p) {
            prices_[p] = price(node.cheap[p]);
            dear_prices[p] = price(node.dear[p]);
            least += forbidden(node.dear[p]) ? prices_[p] : std::min(prices_[p], dear_prices[p]);
        }
        for (Index a = 0; a < n_lists; ++a) {
            Index cheapest = INFINITE_COST;
            for (Index i = node.ends[a]; i < node.ends[a + 1]; ++i) {
                row_prices[i] = price(node.ids[i]);
                if (!forbidden(node.ids[i])) cheapest = std::min(cheapest, row_prices[i]);
            }
            least += cheapest;
        }
        if (least <= own) return own;
        const Index too_dear = std::max<Index>(0, limit - least) + 1;
        for (Index p = 0; p < n_pairs; ++p) {
            const Index step = forbidden(node.dear[p]) ? too_dear : dear_prices[p] - prices_[p];
            node.steps[p] = std::abs(step);
            if (step >= 0) continue;
            std::swap(node.cheap[p], node.dear[p]);  // the dearer one has become the cheaper
            for (Index d = 0; d < lists_.n_features(); ++d) node.gains[d][p] = -node.gains[d][p];
        }
        for (Index a = 0; a < n_lists; ++a) {
            const Index begin = node.ends[a];
            for (Index i = begin; i < node.ends[a + 1]; ++i) {
                node.costs[i] = forbidden(node.ids[i]) ? too_dear : row_prices[i];
                for (Index j = i; j > begin && node.costs[j - 1] > node.costs[j]; --j)  // nearly in order
                    node.swap_rows(j - 1, j, lists_.n_features());
            }
        }
        return least;
    }
    // After how many splits that settled little a node is left to exact arithmetic. A leaf of a ratio tries selections
    // one by one; a box with many open lists has too many, however often it is halved.
    Index hopeless(const Settings& settings, Index n_lists) const {
        const bool soon = ratio_ && n_lists > FEW_LISTS && lists_.n_features() <= FEATURES_OF_FEW_CONES;
        return soon ? settings.most_stalled : settings.hopeless;
    }
    // Take the centre of a node as incumbent if it is better.
    template <class Shape>
    void look_at_centre(typename Shape::Node& node) {
        const bool open = node.n_lists() > 0;
        if (!ratio_) {
            if (node.centre_cost < upper) offer(Shape::centre(node));
        } else if (ratio_->loss(minorant_.at) >= loss) {
            node.closed = !open;
        } else if (!open || node.centre_cost < INFINITE_COST) {
            node.closed = offer_total(Shape::centre(node)).clear && !open;
        }
    }
    // Search a leaf selection by selection; total [K]: of the settled lists; normals [k, D]: of its sides, empty if
    // rounding hides them.
    LeafOutcome search(const Survivors& survivors, const Reals& total, const Reals& normals, const Reals& centre,
                       Counts& counts) {
        if (ratio_ && count_selections(survivors) > MOST_SELECTIONS) return LeafOutcome::too_large;
        if (normals.empty()) return LeafOutcome::undecided;
        // The lists are followed by a list {normal, 0} for each side, in which 0 must not win. The rows are the
        // features of the problem, not scores at rays.
        const Index n = lists_.n_features();
        Reals rows, reach(n);
        Indices costs = survivors.costs, ends = survivors.ends;
        rows.reserve(count(survivors.ids) * n + 2 * count(normals));
        for (const Row row : survivors.ids) rows.insert(rows.end(), lists_.row(row), lists_.row(row) + n);
        for (auto normal = normals.begin(); normal != normals.end(); normal += n) {
            rows.insert(rows.end(), normal, normal + n);
            rows.resize(count(rows) + n);
            costs.insert(costs.end(), {0, INFINITE_COST});
            ends.push_back(count(costs));
        }
        for (Index k = 0; k < count(rows); ++k) reach[k % n] = std::max(reach[k % n], std::abs(rows[k]));
        const Lists leaf({rows.data(), count(costs), n}, ends, costs, reach, lists_.spread, lists_.cap);
        return ratio_ ? try_selections(survivors, leaf, total, centre, counts)
                      : search_choices(survivors, leaf, centre, counts);
    }

    Index upper = INFINITE_COST;  // nodes with bounds from here on have nothing better than the incumbent
    double loss = 1.0;            // of a ratio's incumbent
    Reals weights;

  private:
    static constexpr Index MOST_SELECTIONS = 4096;  // of a leaf
    static constexpr Index REPRICED_EVERY = 3;      // splits from one minorant to the next, as it changes little

    LeafOutcome search_choices(const Survivors& survivors, const Lists& leaf, const Reals& centre, Counts& counts) {
        const Index limit = upper - survivors.fixed;
        ChoicesSearch search(leaf, std::nullopt, leaf.n_lists() - survivors.n_lists(), centre, granularity_);
        search.aim(limit, 1.0);
        const State state = search.search(LEAF_WORK);
        counts.leaf_programs += search.programs().programs;
        counts.work += search.work;
        if (search.upper < limit) {
            const Decoded found = offer(search.best_weights());
            if (!found.clear || found.cost != search.upper + survivors.fixed) return LeafOutcome::undecided;
        }
        return state == State::closed   ? LeafOutcome::done
               : state == State::asking ? LeafOutcome::undecided
                                        : LeafOutcome::too_large;
    }
    // Try the selections one after the other; those that would lower the loss are tested for attainability.
    LeafOutcome try_selections(const Survivors& survivors, const Lists& leaf, const Reals& total, const Reals& centre,
                               Counts& counts) {
        const Index n_lists = survivors.n_lists();
        LeastNorm least_norm(leaf);
        Corral corral(leaf.n_features());
        Indices decided(leaf.n_lists()), chosen(decided.size());
        std::iota(decided.begin(), decided.end(), Index{0});
        // Whether the chosen selection, with these sums, is decided: it does not lower the loss, or no weights make it,
        // or it has become the incumbent.
        const auto decide = [&](const Reals& sums) {
            const double reached = ratio_->loss(sums);
            if (reached >= loss) return true;
            corral.restart(centre.data());
            ++counts.leaf_programs;
            const Verdict verdict = least_norm.separate(decided, chosen.data(), 0, corral);
            if (verdict == Verdict::infeasible) return true;
            if (verdict == Verdict::undecided) return false;
            const DecodedTotal found = offer_total({corral.point(), corral.point() + leaf.n_features()});
            return found.clear && found.loss == reached;
        };
        Indices least(n_lists, INFINITE_COST);
        for (Index a = 0; a < n_lists; ++a)
            for (Index i = survivors.ends[a]; i < survivors.ends[a + 1]; ++i)
                if (!forbidden(survivors.ids[i])) least[a] = std::min(least[a], survivors.costs[i]);
        std::vector<Reals> totals(n_lists + 1, total);
        // Whether all selections with the present choices of the first `a` lists, which have this bound, are decided.
        const auto decide_below = [&](const auto& self, Index a, Index bound) {
            if (a == n_lists) return decide(totals[a]);
            for (Index i = survivors.ends[a]; i < survivors.ends[a + 1]; ++i) {
                const Index child_bound = bound + survivors.costs[i] - least[a];
                if (forbidden(survivors.ids[i]) || child_bound >= upper) continue;
                chosen[a] = i - survivors.ends[a];
                totals[a + 1] = totals[a];
                ratio_->add(survivors.ids[i], totals[a + 1]);
                if (!self(self, a + 1, child_bound)) return false;
            }
            return true;
        };
        const bool done = decide_below(decide_below, 0, survivors.own);
        counts.work += 20 * count_selections(survivors) + least_norm.rounds * leaf.n_rows();
        return done ? LeafOutcome::done : LeafOutcome::undecided;
    }

    bool forbidden(Row row) const { return ratio_->classes[row] == FORBIDDEN; }
    // Decode weights on all lists, and take them as incumbent if they certainly cost less: where a winner does not lead
    // beyond rounding, all hypotheses near it have to cost the same.
    LPMERT_CLONES
    Decoded offer(const Reals& candidate) {
        const double bound = rounding_bound(lists_, candidate.data());
        Index total = 0;
        bool clear = true;
        for (Index s = 0; s < lists_.n_lists(); ++s) {
            score_list(lists_, s, candidate.data(), scores_.data());
            const Index best = largest(scores_.data(), lists_.length(s));
            const Span<const Index> costs = lists_.costs.part(lists_.offsets[s], lists_.offsets[s + 1]);
            total = capped_sum(total, dearest_within(bound, scores_.data(), best, costs, clear));
        }
        if (clear && total < upper && in_cap(lists_, candidate.data())) {
            upper = total;
            weights = candidate;
        }
        return {total, clear};
    }
    // Decode weights on all lists, and take them as incumbent if their loss is certainly lower.
    DecodedTotal offer_total(const Reals& candidate) {
        const DecodedTotal found =
            decode_total(lists_, *ratio_, candidate.data(), selection_.data(), scores_.data(), total_);
        if (found.clear && found.loss < loss) {
            loss = found.loss;
            upper = height_limit(ratio_->kind, loss);
            weights = candidate;
        }
        return found;
    }
    Index price(Row row) const { return ratio_->cost(minorant_.slopes, row); }
    // The number of selections, or some number above MOST_SELECTIONS.
    static Index count_selections(const Survivors& survivors) {
        Index number = 1;
        for (Index a = 0; a < survivors.n_lists() && number <= MOST_SELECTIONS; ++a)
            number *= survivors.ends[a + 1] - survivors.ends[a];
        return number;
    }

    Lists lists_;
    std::optional<Ratio> ratio_;
    Index granularity_;
    Minorant minorant_;  // laid at the sums of a node's centre
    Reals scores_, total_;
    Indices prices_, selection_;
};

}  // namespace lpmert::cells
