#include "cell_losses.hpp"

#include <algorithm>
#include <cmath>

namespace lpmert::cells {

namespace {

constexpr Index LEAF_WORK = 1'000'000;      // scores that may be computed in a small part before it is split on
constexpr Index FEATURES_OF_FEW_CONES = 4;  // up to which boxes of ratios become cones as soon as they stall
constexpr Index FEW_LISTS = 10;             // open lists up to which exact arithmetic closes a stalled box

// The lists of a part of the space, and after them {normal, 0} for each of its sides, of which 0 must not win. The rows
// are the features of the problem, not the scores at the rays.
OwnedLists leaf_lists(const Lists& lists, const Survivors& part, const std::vector<double>& normals) {
    OwnedLists leaf;
    const Index n = lists.n_features(), n_sides = static_cast<Index>(normals.size()) / n;
    leaf.rows.reserve((part.ids.size() + static_cast<std::size_t>(2 * n_sides)) * static_cast<std::size_t>(n));
    for (const Row row : part.ids) leaf.rows.insert(leaf.rows.end(), lists.row(row), lists.row(row) + n);
    leaf.costs = part.costs;
    leaf.offsets = part.ends;
    for (Index k = 0; k < n_sides; ++k) {
        leaf.rows.insert(leaf.rows.end(), normals.begin() + k * n, normals.begin() + (k + 1) * n);
        leaf.rows.insert(leaf.rows.end(), static_cast<std::size_t>(n), 0.0);
        leaf.costs.insert(leaf.costs.end(), {0, INFINITE_COST});
        leaf.offsets.push_back(leaf.offsets.back() + 2);
    }
    leaf.lay_out(n);
    return leaf;
}

}  // namespace

// ---- sums

SumLoss::SumLoss(const Lists& lists, const lpmert::Settings& selections)
    : lists_(lists), selections_(selections), scores_(static_cast<std::size_t>(lists.longest())) {}

// Decode weights on all lists and take them if they cost less, beyond rounding: where a winner does not lead clearly,
// all that are near it have to cost the same.
LPMERT_CLONES
Decoded SumLoss::offer(const std::vector<double>& offered) {
    const double bound = rounding_bound(lists_, offered.data());
    Index total = 0;
    bool clear = true;
    for (Index s = 0; s < lists_.n_lists(); ++s) {
        score_list(lists_, s, offered.data(), scores_.data());
        const Index length = lists_.length(s), best = largest(scores_.data(), length);
        const Index* const costs = lists_.costs.begin() + lists_.offsets[s];
        Index cost = costs[best];
        const double top = scores_[best];
        bool close = false;  // looked at first, as vectors do that
        for (Index i = 0; i < length; ++i) close |= (top - scores_[i] <= bound) & (costs[i] != costs[best]);
        for (Index i = 0; close && i < length; ++i) {
            if (top - scores_[i] <= bound && costs[i] != cost) {
                clear = false;
                cost = std::max(cost, costs[i]);
            }
        }
        total = plus(total, cost);
    }
    if (clear && total < upper && in_cap(lists_, offered.data())) {
        upper = total;
        weights = offered;
    }
    return {total, clear};
}

Leaf SumLoss::search(const Survivors& part, const std::vector<double>&, const std::vector<double>& normals,
                     const std::vector<double>& centre, Counts& counts) {
    const OwnedLists leaf = leaf_lists(lists_, part, normals);
    const Index n_sides = static_cast<Index>(leaf.offsets.size()) - 1 - part.n_lists(), limit = upper - part.fixed;
    ChoicesSearch<Sums> search(leaf.view(lists_), n_sides, limit, centre.data(), selections_, Sums());
    const State state = search.search(LEAF_WORK);
    counts.leaf_programs += search.programs().programs;
    counts.work += search.tree.work;
    if (search.tree.upper < limit) {
        const Decoded found = offer(search.tree.best_weights);
        if (!found.clear || found.cost != search.tree.upper + part.fixed) return Leaf::undecided;
    }
    return state == State::done ? Leaf::done : state == State::asking ? Leaf::undecided : Leaf::too_large;
}

// ---- ratios

RatioLoss::RatioLoss(const Lists& lists, const Ratio& ratio)
    : lists_(lists),
      ratio_(ratio),
      minorant_(ratio.n_columns()),
      scores_(static_cast<std::size_t>(lists.longest())),
      total_(static_cast<std::size_t>(ratio.n_columns())),
      prices_(static_cast<std::size_t>(lists.n_rows())),
      selection_(static_cast<std::size_t>(lists.n_lists())) {}

void RatioLoss::aim(Index, double below) {
    loss = std::min(loss, below);
    upper = height_limit(ratio_.kind, loss);
}

// Decode weights on all lists and take them if their loss is lower, beyond rounding.
DecodedTotal RatioLoss::offer(const std::vector<double>& offered) {
    const DecodedTotal found =
        decode_total(lists_, ratio_, offered.data(), selection_.data(), scores_.data(), total_.data());
    if (found.clear && found.loss < loss) {
        loss = found.loss;
        upper = height_limit(ratio_.kind, loss);
        weights = offered;
    }
    return found;
}

void RatioLoss::add(Row row, double* sums) const {
    const double* const statistics = ratio_.statistics[row].begin();
    for (Index k = 0; k < ratio_.n_columns(); ++k) sums[k] += statistics[k];
}

Standing RatioLoss::settle(Node& node, const Row* ids, const Index*, Index start, Index end, Row winner) {
    const Index own = ratio_.classes[ids[start]];
    Index i = start + 1;
    while (i < end && ratio_.classes[ids[i]] == own) ++i;
    if (forbidden(winner)) node.centre_cost = INFINITE_COST;
    if (own == FORBIDDEN && end == start + 1) return Standing::impossible;
    add(winner, i == end ? node.total.data() : minorant_.at.data());
    return i == end ? Standing::settled : Standing::open;
}

Index RatioLoss::settle_pair(Node& node, Index own, Row winner) {
    if (forbidden(winner)) return INFINITE_COST;
    add(winner, node.total.data());
    return own;
}

Index RatioLoss::pair_at_centre(Node& node, Row cheap, Row dear, Index, double lead, double error) {
    const Row winner = lead > 0.0 ? dear : cheap;
    if (!(std::abs(lead) > error) || forbidden(winner)) node.centre_cost = INFINITE_COST;
    add(winner, minorant_.at.data());
    return 0;
}

// Complete the sums at a node's centre; return whether its hypotheses are to be priced anew: the minorant changes less
// than the choice between them.
bool RatioLoss::is_due(Node& node) {
    for (Index k = 0; k < ratio_.n_columns(); ++k) minorant_.at[k] += node.total[k];
    if (node.age > 0) {
        --node.age;
        return false;
    }
    node.age = REPRICED_EVERY - 1;
    return true;
}

// Give hypotheses the prices of a minorant that is laid for the node, and put lists in order of these; return what the
// least add up to. Prices stay as they are where they bound no better than before.
Index RatioLoss::reprice(Node& node, Index own, Index limit) {
    if (!is_due(node)) return own;
    const Index n_pairs = node.n_pairs(), n_lists = node.n_row_lists();
    minorant_.begin(node.total.data());
    for (Index p = 0; p < n_pairs; ++p)
        if (!forbidden(node.dear[p]))
            minorant_.widen(ratio_, 2, [&](Index i) { return i == 0 ? node.cheap[p] : node.dear[p]; });
    for (Index a = 0; a < n_lists; ++a) {
        const Row* const ids = node.ids.data() + node.ends[a];
        const Index size = node.ends[a + 1] - node.ends[a];
        if (!forbidden(ids[0]) && !forbidden(ids[size - 1]))
            minorant_.widen(ratio_, size, [&](Index i) { return ids[i]; });
    }
    auto [least, useful] = minorant_.lay_in_units(ratio_, node.total.data(), n_pairs + n_lists);
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
Index RatioLoss::hopeless(const Settings& settings, Index n_lists, Index n_features) const {
    return n_lists > FEW_LISTS && n_features <= FEATURES_OF_FEW_CONES ? settings.most_stalled : settings.hopeless;
}

// How many selections a part has, or some number that is too many.
Index RatioLoss::count_selections(const Survivors& part) {
    Index number = 1;
    for (Index a = 0; a < part.n_lists() && number <= MOST_SELECTIONS; ++a) number *= part.ends[a + 1] - part.ends[a];
    return number;
}

// Try the selections of a small part one after the other: those that would lower the loss are tested for attainability.
Leaf RatioLoss::search(const Survivors& part, const std::vector<double>& total, const std::vector<double>& normals,
                       const std::vector<double>& centre, Counts& counts) {
    const OwnedLists owned = leaf_lists(lists_, part, normals);
    const Lists leaf = owned.view(lists_);
    const Index n_lists = part.n_lists(), n_columns = ratio_.n_columns();
    LeastNorm least_norm(leaf);
    Corral corral(leaf.n_features());
    std::vector<Index> decided(static_cast<std::size_t>(leaf.n_lists())), chosen(decided.size());
    for (Index s = 0; s < leaf.n_lists(); ++s) decided[s] = s;
    // Whether nothing is left to find in the selection of all lists, whose sums are given.
    const auto settled = [&](const double* sums) {
        const double reached = loss_of_total(ratio_.kind, ratio_.parameters, sums, n_columns);
        if (reached >= loss) return true;
        corral.restart(centre.data());
        ++counts.leaf_programs;
        const Verdict verdict = least_norm.separate(decided, chosen.data(), 0, corral);
        if (verdict == Verdict::infeasible) return true;
        if (verdict == Verdict::undecided) return false;
        const DecodedTotal found = offer({corral.point(), corral.point() + leaf.n_features()});
        return found.clear && found.loss == reached;
    };
    std::vector<Index> least(static_cast<std::size_t>(n_lists), INFINITE_COST);
    for (Index a = 0; a < n_lists; ++a)
        for (Index i = part.ends[a]; i < part.ends[a + 1]; ++i)
            if (!forbidden(part.ids[i])) least[a] = std::min(least[a], part.costs[i]);
    std::vector<Index> bounds(static_cast<std::size_t>(n_lists + 1), part.own);
    std::vector<double> totals(static_cast<std::size_t>((n_lists + 1) * n_columns));
    std::copy(total.begin(), total.end(), totals.begin());
    bool done = true;
    Index a = 0;
    if (n_lists == 0) {
        done = settled(totals.data());
        a = -1;
    } else {
        chosen[0] = -1;
    }
    while (a >= 0 && done) {
        const Index i = part.ends[a] + ++chosen[a];
        if (i == part.ends[a + 1]) {
            --a;
            continue;
        }
        if (forbidden(part.ids[i])) continue;
        bounds[a + 1] = bounds[a] + part.costs[i] - least[a];
        if (bounds[a + 1] >= upper) continue;
        double* const sums = totals.data() + (a + 1) * n_columns;
        std::copy(sums - n_columns, sums, sums);
        add(part.ids[i], sums);
        if (a + 1 < n_lists)
            chosen[++a] = -1;
        else
            done = settled(sums);
    }
    counts.work += 20 * count_selections(part) + least_norm.rounds * leaf.n_rows();
    return done ? Leaf::done : Leaf::undecided;
}

}  // namespace lpmert::cells
