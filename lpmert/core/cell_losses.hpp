// What a node of the search over the weight space costs: a sum of costs, or a ratio of sums such as BLEU.
//
// The search is written for either. Both hold the incumbent. Of a sum, costs are the same in every node, and what is
// settled is one number. Of a ratio, costs are heights in units under a linear minorant of the metric that is tight at
// the sums of the node's centre (lemma R4 of proofs/ratio.md), so that a node reads like one of a sum; what is settled
// are sums of statistics.
//
// Small nodes are searched selection by selection, within sides that surely contain the node (K4 of proofs/cones.md, B3
// of proofs/boxes.md). Beyond it, in the rim, a dropped hypothesis may win: what is found is decoded on all lists, and
// where its cost is another one exact arithmetic has to close the node.
#pragma once

#include "box.hpp"
#include "choice_losses.hpp"
#include "cone.hpp"

namespace lpmert::cells {

inline constexpr Index LEAF_WORK = 1'000'000;      // scores that may be computed in a small part before it is split on
inline constexpr Index FEATURES_OF_FEW_CONES = 4;  // up to which boxes of ratios become cones as soon as they stall
inline constexpr Index FEW_LISTS = 10;             // open lists up to which exact arithmetic closes a stalled box

// The lists of a part of the space, and after them {normal, 0} for each of its sides, of which 0 must not win. The rows
// are the features of the problem, not the scores at the rays.
class LeafLists {
    Reals rows, reach;
    Indices costs, offsets;

  public:
    LeafLists(const Lists& whole, const Survivors& part, const Reals& normals)
        : reach(whole.reach.size()), costs(part.costs), offsets(part.ends) {
        const Index n = whole.n_features();
        rows.reserve(part.ids.size() * reach.size() + 2 * normals.size());
        for (const Row row : part.ids) rows.insert(rows.end(), whole.row(row), whole.row(row) + n);
        for (auto normal = normals.begin(); normal != normals.end(); normal += n) {
            rows.insert(rows.end(), normal, normal + n);
            rows.resize(rows.size() + reach.size());
            costs.insert(costs.end(), {0, INFINITE_COST});
            offsets.push_back(count(costs));
        }
        for (std::size_t k = 0; k < rows.size(); ++k) {
            double& most = reach[k % reach.size()];
            most = std::max(most, std::abs(rows[k]));
        }
    }
    Lists within(const Lists& whole) const {
        return {{rows.data(), count(costs), count(reach)}, offsets, costs, reach, whole.spread, whole.cap};
    }
};

class SumLoss {
  public:
    SumLoss(const Lists& lists, const lpmert::Settings& selections)
        : lists_(lists), selections_(selections), scores_(lists.longest()) {}

    // Look only for what costs less.
    void aim(Index cost, double) { upper = cost; }
    // Begin with a node.
    void begin() {}
    // How a list stands of which rows start .. end are left; what it adds to the node's total if it is settled. winner:
    // hypothesis that wins at the node's centre.
    Standing settle(Node&, const Row*, const Index* costs, Index start, Index end, Row) const {
        return costs[end - 1] == costs[start] ? Standing::settled : Standing::open;
    }
    // Settle a pair of which this hypothesis wins everywhere; return what the node costs, which is `own` by its prices.
    Index settle_pair(Node&, Index own, Row) const { return own; }
    // Note that this hypothesis of an open pair wins at the centre of a node.
    void choose_at_centre(Node&, Row) const {}
    // Price the hypotheses of a node anew if it is time; return what it costs by them.
    Index reprice(Node&, Index own, Index) const { return own; }
    // After how many splits with little settled a node is given up.
    Index hopeless(const Settings& settings, Index, Index) const { return settings.hopeless; }
    // Take the centre of a node if it is better than all before.
    template <class Shape>
    void look_at_centre(typename Shape::Node& node) {
        if (node.centre_cost < upper) offer(Shape::centre(node));
    }
    bool is_small(const Survivors&) const { return true; }
    // Search a small part selection by selection; total [K]: of the lists that are settled.
    Leaf search(const Survivors& part, const Reals&, const Reals& normals, const Reals& centre, Counts& counts) {
        const LeafLists owned(lists_, part, normals);
        const Lists leaf = owned.within(lists_);
        const Index limit = upper - part.fixed;
        ChoicesSearch<Sums> search(leaf, leaf.n_lists() - part.n_lists(), limit, centre, selections_, Sums());
        const State state = search.search(LEAF_WORK);
        counts.leaf_programs += search.programs().programs;
        counts.work += search.tree.work;
        if (search.tree.upper < limit) {
            const Decoded found = offer(search.tree.best_weights);
            if (!found.clear || found.cost != search.tree.upper + part.fixed) return Leaf::undecided;
        }
        return state == State::done ? Leaf::done : state == State::asking ? Leaf::undecided : Leaf::too_large;
    }

    Index upper = 0;  // bounds of nodes from here on hold nothing better than the incumbent
    double loss = 1.0;
    Reals weights;

  private:
    // Decode weights on all lists and take them if they cost less, beyond rounding: where a winner does not lead
    // clearly, all that are near it have to cost the same.
    LPMERT_CLONES
    Decoded offer(const Reals& offered) {
        const double bound = rounding_bound(lists_, offered.data());
        Index total = 0;
        bool clear = true;
        for (Index s = 0; s < lists_.n_lists(); ++s) {
            score_list(lists_, s, offered.data(), scores_.data());
            const Index best = largest(scores_.data(), lists_.length(s));
            const Span<const Index> costs = lists_.costs.part(lists_.offsets[s], lists_.offsets[s + 1]);
            total = plus(total, dearest_within(bound, scores_.data(), best, costs, clear));
        }
        if (clear && total < upper && in_cap(lists_, offered.data())) {
            upper = total;
            weights = offered;
        }
        return {total, clear};
    }

    Lists lists_;
    lpmert::Settings selections_;
    Reals scores_;
};

class RatioLoss {
  public:
    RatioLoss(const Lists& lists, const Ratio& ratio)
        : lists_(lists),
          ratio_(ratio),
          minorant_(ratio.n_columns()),
          scores_(lists.longest()),
          total_(ratio.n_columns()),
          prices_(lists.n_rows()),
          selection_(lists.n_lists()) {
        ratio.check(lists.n_rows());
    }

    void aim(Index, double below) {
        loss = std::min(loss, below);
        upper = height_limit(ratio_.kind, loss);
    }
    void begin() { std::fill(minorant_.at.begin(), minorant_.at.end(), 0.0); }
    Standing settle(Node& node, const Row* ids, const Index*, Index start, Index end, Row winner) {
        const Index own = ratio_.classes[ids[start]];
        Index i = start + 1;
        while (i < end && ratio_.classes[ids[i]] == own) ++i;
        if (forbidden(winner)) node.centre_cost = INFINITE_COST;
        if (own == FORBIDDEN && end == start + 1) return Standing::impossible;
        ratio_.add(winner, i == end ? node.total : minorant_.at);
        return i == end ? Standing::settled : Standing::open;
    }
    Index settle_pair(Node& node, Index own, Row winner) {
        if (forbidden(winner)) return INFINITE_COST;
        ratio_.add(winner, node.total);
        return own;
    }
    void choose_at_centre(Node& node, Row winner) {
        if (forbidden(winner)) node.centre_cost = INFINITE_COST;
        ratio_.add(winner, minorant_.at);
    }
    // Complete the sums at the centre of a node. If it is time, give hypotheses the prices of a minorant that is laid
    // for the node, and put lists in order of these; return what the least add up to. Prices stay as they are where
    // they bound no better than before.
    Index reprice(Node& node, Index own, Index limit) {
        for (Index k = 0; k < ratio_.n_columns(); ++k) minorant_.at[k] += node.total[k];
        if (node.age > 0) {
            --node.age;
            return own;
        }
        node.age = REPRICED_EVERY - 1;
        const Index n_pairs = node.n_pairs(), n_lists = node.n_row_lists();
        minorant_.begin(node.total);
        for (Index p = 0; p < n_pairs; ++p)
            if (!forbidden(node.dear[p]))
                minorant_.widen(ratio_, 2, [&](Index i) { return i == 0 ? node.cheap[p] : node.dear[p]; });
        for (Index a = 0; a < n_lists; ++a) {
            const Row* const ids = node.ids.data() + node.ends[a];
            const Index size = node.ends[a + 1] - node.ends[a];
            if (!forbidden(ids[0]) && !forbidden(ids[size - 1]))
                minorant_.widen(ratio_, size, [&](Index i) { return ids[i]; });
        }
        auto [least, useful] = minorant_.lay_in_units(ratio_, node.total, n_pairs + n_lists);
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
    // Selections are tried one by one, and a box with many open lists has too many however often it is split.
    Index hopeless(const Settings& settings, Index n_lists, Index n_features) const {
        return n_lists > FEW_LISTS && n_features <= FEATURES_OF_FEW_CONES ? settings.most_stalled : settings.hopeless;
    }
    template <class Shape>
    void look_at_centre(typename Shape::Node& node) {
        const bool open = node.n_lists() > 0;
        if (ratio_.loss(minorant_.at) >= loss) {
            node.closed = !open;
        } else if (!open || node.centre_cost < INFINITE_COST) {
            node.closed = offer(Shape::centre(node)).clear && !open;
        }
    }
    bool is_small(const Survivors& part) const { return count_selections(part) <= MOST_SELECTIONS; }
    // Try the selections of a small part one after the other: those that would lower the loss are tested for
    // attainability.
    Leaf search(const Survivors& part, const Reals& total, const Reals& normals, const Reals& centre, Counts& counts) {
        const LeafLists owned(lists_, part, normals);
        const Lists leaf = owned.within(lists_);
        const Index n_lists = part.n_lists();
        LeastNorm least_norm(leaf);
        Corral corral(leaf.n_features());
        Indices decided(leaf.n_lists()), chosen(decided.size());
        std::iota(decided.begin(), decided.end(), Index{0});
        // Whether nothing is left to find in the selection of all lists, whose sums are given.
        const auto settled = [&](const Reals& sums) {
            const double reached = ratio_.loss(sums);
            if (reached >= loss) return true;
            corral.restart(centre.data());
            ++counts.leaf_programs;
            const Verdict verdict = least_norm.separate(decided, chosen.data(), 0, corral);
            if (verdict == Verdict::infeasible) return true;
            if (verdict == Verdict::undecided) return false;
            const DecodedTotal found = offer({corral.point(), corral.point() + leaf.n_features()});
            return found.clear && found.loss == reached;
        };
        Indices least(n_lists, INFINITE_COST);
        for (Index a = 0; a < n_lists; ++a)
            for (Index i = part.ends[a]; i < part.ends[a + 1]; ++i)
                if (!forbidden(part.ids[i])) least[a] = std::min(least[a], part.costs[i]);
        std::vector<Reals> totals(n_lists + 1, total);
        // The same of all selections with the choices that the first `a` lists have made, whose bound is given.
        const auto settled_below = [&](const auto& self, Index a, Index bound) {
            if (a == n_lists) return settled(totals[a]);
            for (Index i = part.ends[a]; i < part.ends[a + 1]; ++i) {
                const Index own = bound + part.costs[i] - least[a];
                if (forbidden(part.ids[i]) || own >= upper) continue;
                chosen[a] = i - part.ends[a];
                totals[a + 1] = totals[a];
                ratio_.add(part.ids[i], totals[a + 1]);
                if (!self(self, a + 1, own)) return false;
            }
            return true;
        };
        const bool done = settled_below(settled_below, 0, part.own);
        counts.work += 20 * count_selections(part) + least_norm.rounds * leaf.n_rows();
        return done ? Leaf::done : Leaf::undecided;
    }

    Index upper = INFINITE_COST;
    double loss = 1.0;
    Reals weights;

  private:
    static constexpr Index MOST_SELECTIONS = 4096;  // of a small part, which are tried one by one
    static constexpr Index REPRICED_EVERY = 3;      // splits from one minorant to the next: it changes little

    bool forbidden(Row row) const { return ratio_.classes[row] == FORBIDDEN; }
    // Decode weights on all lists and take them if their loss is lower, beyond rounding.
    DecodedTotal offer(const Reals& offered) {
        const DecodedTotal found =
            decode_total(lists_, ratio_, offered.data(), selection_.data(), scores_.data(), total_);
        if (found.clear && found.loss < loss) {
            loss = found.loss;
            upper = height_limit(ratio_.kind, loss);
            weights = offered;
        }
        return found;
    }
    Index price(Row row) const { return ratio_.cost(minorant_.slopes, row); }
    // How many selections a part has, or some number that is too many.
    static Index count_selections(const Survivors& part) {
        Index number = 1;
        for (Index a = 0; a < part.n_lists() && number <= MOST_SELECTIONS; ++a)
            number *= part.ends[a + 1] - part.ends[a];
        return number;
    }

    Lists lists_;
    Ratio ratio_;
    Minorant minorant_;  // laid at the sums at a node's centre
    Reals scores_, total_;
    Indices prices_, selection_;
};

}  // namespace lpmert::cells
