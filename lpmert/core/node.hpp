// A node of the search over the weight space: the hypotheses that may still win in a part of it, and bounds.
//
// What is known of hypotheses stands in columns, one for each feature of a box (box.hpp) or ray of a cone (cone.hpp).
// In boxes, lists with two hypotheses left are pairs, of which only the difference matters.
#pragma once

#include <new>

#include "binding.hpp"
#include "lists.hpp"

namespace lpmert::cells {

// Room whose items are about to be written, and need not be zeros before.
template <class T>
struct Unwritten : std::allocator<T> {
    template <class U>
    struct rebind {
        using other = Unwritten<U>;
    };
    Unwritten() = default;
    template <class U>
    Unwritten(const Unwritten<U>&) {}
    template <class U, class... Given>
    void construct(U* place, Given&&... given) {
        if constexpr (sizeof...(Given) == 0)
            ::new (static_cast<void*>(place)) U;
        else
            ::new (static_cast<void*>(place)) U(std::forward<Given>(given)...);
    }
};

template <class T>
using Buffer = std::vector<T, Unwritten<T>>;

// Numbers of n items, feature by feature.
struct Columns {
    Buffer<double> items;
    Index n = 0;

    void resize(Index n_features, Index n_items) {
        n = n_items;
        items.resize(n_features * n_items);
    }
    double* operator[](Index d) { return items.data() + d * n; }
    const double* operator[](Index d) const { return items.data() + d * n; }
};

// Columns wherever they stand, one for each feature or ray.
using View = std::vector<const double*>;

// Fill scores with the products of columns begin .. end and weights [D], added up feature by feature whatever the width
// of vectors.
LPMERT_CLONES inline void score_columns(const View& values, Index begin, Index end, const double* weights,
                                        double* scores) {
    const Index n = end - begin;
    for (Index j = 0; j < n; ++j) scores[j] = 0.0;
    for (std::size_t d = 0; d < values.size(); ++d) {
        const double* const own = values[d] + begin;
        const double weight = weights[d];
        for (Index j = 0; j < n; ++j) scores[j] += own[j] * weight;
    }
}

// own: what the node costs at least by the cheapest survivor of every list; bound: that, raised by conflicts here or in
// what it is a part of. total [K]: sums of statistics of settled lists, empty for sums of costs. stalled: splits since
// a tenth of the lists was last settled; age: splits until its hypotheses are priced anew. centre_cost: what its centre
// costs, infinite where that is not known or forbidden; closed: whether nothing is left to find in it.
//
// Pairs [P]: the cheap hypothesis, the dear one, and what this costs and has more: steps, gains [D, P]; of the latter's
// products with weights, `reaches` bound the rounding errors. Rows [R] of the other lists, which end at `ends`: their
// hypotheses, costs, values [D, R], and in boxes the rounding errors of products, row_reaches.
struct Node {
    Index own = 0, bound = 0, stalled = 0, age = 0, centre_cost = 0;
    bool closed = false;
    Reals total;
    Buffer<Row> cheap, dear;
    Buffer<Index> steps;
    Columns gains;
    Buffer<double> reaches;
    Buffer<Row> ids;
    Indices ends;
    Buffer<Index> costs;
    Columns values;
    Buffer<double> row_reaches;

    Index n_pairs() const { return count(cheap); }
    Index n_rows() const { return count(ids); }
    Index n_row_lists() const { return count(ends) - 1; }
    Index n_lists() const { return n_row_lists() + n_pairs(); }
    Index n_survivors() const { return n_rows() + n_pairs(); }
    Index bytes() const {
        return 8 * (count(gains.items) + count(values.items) + 3 * n_survivors()) + 16 * count(ends) + 1000;
    }
    // Raise ValueError unless what it tells of hypotheses is of these lists; longest: list; statistics have so many
    // columns.
    void check(const Lists& lists, Index longest, Index n_columns) const {
        check_within(cheap, lists.n_rows(), "cheap");
        check_within(dear, lists.n_rows(), "dear");
        check_within(ids, lists.n_rows(), "ids");
        check_size(count(dear), n_pairs(), "dear");
        check_size(count(total), n_columns, "total");
        check_offsets(ends, n_rows(), "ends");
        bool fits = n_lists() <= lists.n_lists() && 2 * n_pairs() + n_rows() <= lists.n_rows();
        for (std::size_t s = 1; fits && s < ends.size(); ++s) fits = ends[s] - ends[s - 1] <= longest;
        if (!fits) throw std::invalid_argument("a node has more lists or hypotheses than there are");
        if (!costs.empty()) check_size(count(costs), n_rows(), "costs");
        if (!steps.empty()) check_size(count(steps), n_pairs(), "steps");
    }
    // Name all that cannot be looked up in the lists; costs and steps only where they are prices of their own.
    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        visit("own", self.own);
        visit("bound", self.bound);
        visit("stalled", self.stalled);
        visit("age", self.age);
        visit("total", self.total);
        visit("cheap", self.cheap);
        visit("dear", self.dear);
        visit("ids", self.ids);
        visit("ends", self.ends);
        if (self.total.empty()) return;
        visit("costs", self.costs);
        visit("steps", self.steps);
    }
    void resize_pairs(Index n_features, Index n) {
        for (auto* const rows : {&cheap, &dear}) rows->resize(n);
        steps.resize(n);
        reaches.resize(n);
        gains.resize(n_features, n);
    }
    void swap_rows(Index i, Index j, Index n_features) {
        std::swap(ids[i], ids[j]);
        std::swap(costs[i], costs[j]);
        for (Index d = 0; d < n_features; ++d) std::swap(values[d][i], values[d][j]);
        if (!row_reaches.empty()) std::swap(row_reaches[i], row_reaches[j]);
    }
};

// The hypotheses that may win in a part of the weight space, list by list in order of cost; fixed: of all other lists.
struct Survivors {
    std::vector<Row> ids;
    Indices costs, ends;
    Index fixed = 0, own = 0;

    // The rows of a node, and after them its pairs.
    Survivors(const Node& node, const Lists& lists)
        : ids(node.ids.begin(), node.ids.end()),
          costs(node.costs.begin(), node.costs.end()),
          ends(node.ends),
          fixed(node.own),
          own(node.own) {
        for (Index a = 0; a < node.n_row_lists(); ++a) fixed -= costs[ends[a]];
        for (Index p = 0; p < node.n_pairs(); ++p) {
            const Index cost =
                lists.costs[node.cheap[p]];  // by prices it may be another one, which makes no difference
            ids.insert(ids.end(), {node.cheap[p], node.dear[p]});
            costs.insert(costs.end(), {cost, cost + node.steps[p]});
            ends.push_back(count(ids));
            fixed -= cost;
        }
    }
    Index n_lists() const { return count(ends) - 1; }
};

// granularity: what bounds of selections of different losses differ by at least. Nodes of at most leaf_lists open lists
// are searched selection by selection, and so are those of at most leaf_rows survivors after most_stalled splits with
// little settled; after `hopeless` of them exact arithmetic has to close a node. conflict_lists: most open lists
// between which conflicts are looked for; row_work: what a split costs a survivor; levels: of a list's costs that
// conflicts may charge in a box, at most.
struct Settings {
    Index granularity, leaf_lists, leaf_rows, conflict_lists, most_stalled, hopeless, row_work, levels;

    using Fields = std::tuple<Index, Index, Index, Index, Index, Index, Index, Index>;
};

// How a list stands in a node: `impossible` where none of its hypotheses may be chosen.
enum class Standing { open, settled, impossible };

// What became of a small node that was searched selection by selection: nothing is left in it, it was too much work, or
// rounding leaves open what exact arithmetic has to decide.
enum class Leaf { done, too_large, undecided };

// What a search has counted. work: rows looked at, about; looked_at: survivors of nodes that were split.
struct Counts {
    Index nodes = 0, leaves = 0, leaf_programs = 0, conflicting = 0, looked_at = 0, work = 0;
};

}  // namespace lpmert::cells
