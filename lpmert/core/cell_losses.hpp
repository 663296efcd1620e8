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

class SumLoss {
  public:
    SumLoss(const Lists& lists, const lpmert::Settings& selections);

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
    // What a pair adds to the cost at the centre of a node, where the dearer hypothesis leads by so much.
    Index pair_at_centre(Node&, Row, Row, Index step, double lead, double error) const {
        return -lead > error ? 0 : step;
    }
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
    Leaf search(const Survivors& part, const std::vector<double>& total, const std::vector<double>& normals,
                const std::vector<double>& centre, Counts& counts);

    Index upper = 0;  // bounds of nodes from here on hold nothing better than the incumbent
    double loss = 1.0;
    std::vector<double> weights;

  private:
    Decoded offer(const std::vector<double>& offered);

    Lists lists_;
    lpmert::Settings selections_;
    std::vector<double> scores_;
};

class RatioLoss {
  public:
    RatioLoss(const Lists& lists, const Ratio& ratio);

    void aim(Index, double below);
    void begin() { std::fill(minorant_.at.begin(), minorant_.at.end(), 0.0); }
    Standing settle(Node& node, const Row* ids, const Index* costs, Index start, Index end, Row winner);
    Index settle_pair(Node& node, Index own, Row winner);
    Index pair_at_centre(Node& node, Row cheap, Row dear, Index step, double lead, double error);
    Index reprice(Node& node, Index own, Index limit);
    Index hopeless(const Settings& settings, Index n_lists, Index n_features) const;
    template <class Shape>
    void look_at_centre(typename Shape::Node& node) {
        const bool open = node.n_lists() > 0;
        if (loss_at_centre() >= loss) {
            node.closed = !open;
        } else if (!open || node.centre_cost < INFINITE_COST) {
            node.closed = offer(Shape::centre(node)).clear && !open;
        }
    }
    bool is_small(const Survivors& part) const { return count_selections(part) <= MOST_SELECTIONS; }
    Leaf search(const Survivors& part, const std::vector<double>& total, const std::vector<double>& normals,
                const std::vector<double>& centre, Counts& counts);

    Index upper = INFINITE_COST;
    double loss = 1.0;
    std::vector<double> weights;

  private:
    static constexpr Index MOST_SELECTIONS = 4096;  // of a small part, which are tried one by one
    static constexpr Index REPRICED_EVERY = 3;      // splits from one minorant to the next

    bool forbidden(Row row) const { return ratio_.classes[row] == FORBIDDEN; }
    void add(Row row, double* sums) const;
    bool is_due(Node& node);
    double loss_at_centre() const {
        return loss_of_total(ratio_.kind, ratio_.parameters, minorant_.at.data(), ratio_.n_columns());
    }
    DecodedTotal offer(const std::vector<double>& offered);
    Index price(Row row) const { return row_cost(ratio_, minorant_.slopes.data(), row); }
    static Index count_selections(const Survivors& part);

    Lists lists_;
    Ratio ratio_;
    Minorant minorant_;  // laid at the sums at a node's centre
    std::vector<double> scores_, total_;
    std::vector<Index> prices_, selection_;
};

}  // namespace lpmert::cells
