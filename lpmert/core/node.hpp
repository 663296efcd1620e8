// Open nodes of all searches as bytes, for queues, files and other machines; and the nodes of the search over the
// weight space: a part of the space, the hypotheses that may still win in it, and bounds.
//
// Each kind of node lists its fields once, in `each_field(node, visit)`.
//
// The values of the hypotheses are stored in columns: one for each feature in a box (box.hpp), one for each ray in a
// cone (cone.hpp). In boxes, a list with two hypotheses left becomes a pair, of which only the difference matters.
#pragma once

#include <new>

#include "binding.hpp"
#include "lists.hpp"

namespace lpmert {

// The bytes of a node. Ascending row numbers are stored as a bit set where that is smaller.
template <class Node>
Bytes packed(const Node& node) {
    Bytes bytes;
    const auto append = [&](const void* items, std::size_t size) {
        const auto* const first = static_cast<const std::uint8_t*>(items);
        bytes.insert(bytes.end(), first, first + size);
    };
    const auto write = [&](const char*, const auto& field) {
        using Field = std::decay_t<decltype(field)>;
        if constexpr (std::is_class_v<Field>) {
            using Item = typename Field::value_type;
            std::size_t size = field.size();
            if constexpr (std::is_same_v<Item, Row>) {
                const bool bits = size > 0 && field[0] >= 0 && 8 * count(field) >= field.back() &&
                                  std::adjacent_find(field.begin(), field.end(), std::greater_equal<>()) == field.end();
                const std::size_t n_bits = bits ? static_cast<std::size_t>(field.back()) + 1 : 0;
                append(&n_bits, sizeof n_bits);
                if (bits) {
                    Bytes set((n_bits - 1) / 8 + 1);
                    for (const Row row : field) set[row / 8] = static_cast<std::uint8_t>(set[row / 8] | 1 << row % 8);
                    return append(set.data(), set.size());
                }
            }
            append(&size, sizeof size);
            append(field.data(), size * sizeof(Item));
        } else {
            append(&field, sizeof field);
        }
    };
    Node::each_field(node, write);
    return bytes;
}

// Fill a node from bytes; raises ValueError if they are too few or too many.
template <class Node>
void unpack(Span<const std::uint8_t> bytes, Node& node) {
    const std::uint8_t *next = bytes.begin(), *const end = bytes.end();
    const auto take = [&](std::size_t count, std::size_t size) {
        if (count > static_cast<std::size_t>(end - next) / size)
            throw std::invalid_argument("an open node has too few bytes");
        next += count * size;
        return next - count * size;
    };
    const auto take_size = [&] {
        std::size_t size = 0;
        std::memcpy(&size, take(1, sizeof size), sizeof size);
        return size;
    };
    const auto read = [&](const char*, auto& field) {
        using Field = std::decay_t<decltype(field)>;
        if constexpr (std::is_class_v<Field>) {
            using Item = typename Field::value_type;
            if constexpr (std::is_same_v<Item, Row>) {
                if (const std::size_t n_bits = take_size(); n_bits > 0) {
                    const std::uint8_t* const bits = take((n_bits - 1) / 8 + 1, 1);
                    field.clear();
                    for (std::size_t i = 0; i < n_bits; ++i)
                        if (bits[i / 8] >> i % 8 & 1) field.push_back(static_cast<Row>(i));
                    return;
                }
            }
            const std::size_t size = take_size();
            const std::uint8_t* const place = take(size, sizeof(Item));
            field.resize(size);
            if (size > 0) std::memcpy(field.data(), place, size * sizeof(Item));
        } else {
            std::memcpy(&field, take(1, sizeof field), sizeof field);
        }
    };
    Node::each_field(node, read);
    if (next != end) throw std::invalid_argument("an open node has too many bytes");
}

}  // namespace lpmert

namespace lpmert::cells {

// An allocator that leaves new numbers uninitialised: they are about to be written.
template <class T>
struct Uninitialized : std::allocator<T> {
    template <class U>
    struct rebind {
        using other = Uninitialized<U>;
    };
    Uninitialized() = default;
    template <class U>
    Uninitialized(const Uninitialized<U>&) {}
    template <class U>
    void construct(U* place) {
        ::new (static_cast<void*>(place)) U;
    }
};

template <class T>
using Buffer = std::vector<T, Uninitialized<T>>;

// A matrix [features, n], stored feature by feature.
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

// Pairs or rows in a block: the numbers computed for them stay in the fastest cache.
inline constexpr Index PROPAGATION_BLOCK = 512;

// Pointers to columns, one for each feature or ray.
using View = std::vector<const double*>;

// Fill the scores of items begin .. end at weights [D]. The sums run feature by feature, whatever the width of vectors.
LPMERT_CLONES inline void score_columns(const View& values, Index begin, Index end, const double* weights,
                                        double* scores) {
    const Index n = end - begin;
    for (Index j = 0; j < n; ++j) scores[j] = 0.0;
    for (std::size_t d = 0; d < values.size(); ++d) {
        const double* const column = values[d] + begin;
        const double weight = weights[d];
        for (Index j = 0; j < n; ++j) scores[j] += column[j] * weight;
    }
}

// own: the lower bound by the cheapest survivor of every list; bound: the largest of `own`, the bounds of its ancestors
// and what conflicts prove. total [K]: summed statistics of the settled lists, empty for sums of costs. stalled: splits
// since a tenth of the lists was last settled; age: splits until its hypotheses are priced anew. centre_cost: cost of
// the node's centre, infinite if unknown or forbidden; closed: nothing is left to find in the node.
//
// Pairs [P] have a cheap hypothesis and a dear one. steps: by how much the dear one costs more; gains [D, P]: its
// features less those of the cheap one; reaches: bounds on the rounding errors of products of gains with weights.
//
// Rows [R] are the survivors of all other lists, list by list; `ends` has the ends of these lists. A row has its
// hypothesis (ids), its cost, its values [D, R], and in boxes a bound on the rounding error of its products
// (row_reaches).
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
    // Raise ValueError unless the node's hypotheses are of these lists, with at most `longest` to a list.
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
    // Visit the fields that cannot be looked up in the lists. Costs and steps are among them only if they are prices.
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
        for (auto* const ids_of : {&cheap, &dear}) ids_of->resize(n);
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

// The hypotheses that may win in a node, list by list in order of cost. fixed: cost of the settled lists; own: the
// node's own bound.
struct Survivors {
    std::vector<Row> ids;
    Indices costs, ends;
    Index fixed = 0, own = 0;

    // First the lists with rows, then the pairs.
    Survivors(const Node& node, const Lists& lists)
        : ids(node.ids.begin(), node.ids.end()),
          costs(node.costs.begin(), node.costs.end()),
          ends(node.ends),
          fixed(node.own),
          own(node.own) {
        for (Index a = 0; a < node.n_row_lists(); ++a) fixed -= costs[ends[a]];
        for (Index p = 0; p < node.n_pairs(); ++p) {
            // Under prices the cheap one may cost something else; `fixed` makes up for the difference.
            const Index cost = lists.costs[node.cheap[p]];
            ids.insert(ids.end(), {node.cheap[p], node.dear[p]});
            costs.insert(costs.end(), {cost, cost + node.steps[p]});
            ends.push_back(count(ids));
            fixed -= cost;
        }
    }
    Index n_lists() const { return count(ends) - 1; }
};

// granularity: the least difference between two losses, in the units of bounds. A node is a leaf, to be searched
// selection by selection, if it has at most leaf_lists open lists, or if it has at most leaf_rows survivors after
// most_stalled splits that settled little. After `hopeless` such splits, exact arithmetic has to close the node.
// conflict_lists: most open lists with which conflicts are looked for; row_work: work of a split for each survivor;
// levels: most cost levels of a list that conflicts may charge in a box.
struct Settings {
    Index granularity, leaf_lists, leaf_rows, conflict_lists, most_stalled, hopeless, row_work, levels;

    using Fields = std::tuple<Index, Index, Index, Index, Index, Index, Index, Index>;
};

// The state of a list in a node; `impossible`: none of its hypotheses may be chosen.
enum class ListState { open, settled, impossible };

// The outcome of searching a leaf selection by selection. done: nothing is left in it; too_large: it was too much work;
// undecided: rounding hides the answer, so that exact arithmetic has to close the node.
enum class LeafOutcome { done, too_large, undecided };

// Counters of a search. work: about the number of rows looked at; looked_at: survivors of the nodes that were split.
struct Counts {
    Index nodes = 0, leaves = 0, leaf_programs = 0, conflicting = 0, looked_at = 0, work = 0;
};

}  // namespace lpmert::cells
