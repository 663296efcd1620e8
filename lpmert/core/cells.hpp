// Branch and bound over the weight space, depth first, for nodes of either shape.
//
// A node is a part of the weight space, with the hypotheses that may still win in it. Its lower bound is the sum of the
// cheapest of these of every list (lemma K3 of proofs/cones.md), raised by conflicts between pairs of lists (K7 there,
// B4 of proofs/boxes.md). The search drops a node whose bound shows that nothing in it is better than the incumbent,
// searches a small node selection by selection, and halves any other node (K2, B2), propagating into both halves. When
// no node is left, the incumbent is optimal (T1 of proofs/trees.md).
//
//     shape     the geometry of a node, and how it is halved             cone.hpp, box.hpp
//     loss      the costs in a node, the incumbent, leaves               cell_losses.hpp
//               conflicts between lists                                  conflicts.hpp
//
// Propagation drops the hypotheses that another one beats everywhere in a node, settles lists, and adds up the bound. A
// hypothesis that wins anywhere in the node is not beaten there, so it survives (K1, B1). A list whose survivors all
// cost the same is settled (K3). First, all hypotheses are compared with the best one at the centre. Then all that are
// left are compared with the cheapest, on which the bound rests; dropping any other only saves time. Propagation stops
// as soon as the bound exceeds its limit. One pass over the columns of a block of rows computes the least lead of one
// hypothesis over others; the shape's `beats` decides leads that are within rounding of a tie.
#pragma once

#include "cell_losses.hpp"
#include "conflicts.hpp"

namespace lpmert::cells {

// About the most pairs of hypotheses to compare within a list: more comparisons cost more time than they save.
inline constexpr Index MOST_COMPARED = 1'000'000;

template <class T>
void gather(const T* source, const Buffer<Row>& chosen, Index n, T* target) {
    for (Index j = 0; j < n; ++j) target[j] = source[chosen[j]];
}

template <class Shape>
class Propagation {
    using Node = typename Shape::Node;

  public:
    Propagation(const Lists& lists, const Shape& shape)
        : lists_(lists), shape_(shape), n_features_(lists.n_features()), values_(n_features_) {
        const Index size = std::max(PROPAGATION_BLOCK, lists.longest());
        scores_.resize(size);
        varied_.resize(size);
        best_.resize(size);
    }

    // Fill a half, whose geometry is set, with the survivors of its node; stop once its bound exceeds the limit.
    void run(const Node& node, Node& half, Loss& loss, Index limit) {
        half.age = node.age;
        half.total = node.total;
        half.centre_cost = 0;
        half.closed = false;
        extra_ = n_pairs_ = 0;
        shape_.view(node, values_);
        loss.begin();
        Index own = node.own;  // lists yet to be looked at count with their least cost in the node
        if constexpr (Shape::has_pairs) own = prune_pairs(node, half, loss, own, limit);
        if (own <= limit) own = prune_rows(node, half, loss, own, limit);
        if (own <= limit) {
            half.centre_cost = std::max(half.centre_cost, capped_sum(own, extra_));
            copy_survivors(node, half);
            own = loss.reprice(half, own, limit);
        }
        half.own = own;
        half.bound = std::max(own, node.bound);
    }

  private:
    // Settle the pairs of which one hypothesis beats the other; return the node's own bound.
    Index prune_pairs(const Node& node, Node& half, Loss& loss, Index own, Index limit) {
        const Index n = node.n_pairs();
        const double rounding = shape_.rounding(half);
        pairs_.resize(std::max(count(pairs_), n));
        for (Index begin = 0; begin < n && own <= limit; begin += PROPAGATION_BLOCK) {
            const Index end = std::min(begin + PROPAGATION_BLOCK, n);
            measure(node.gains, begin, end, half, scores_.data(), varied_.data());
            for (Index p = begin; p < end; ++p) {
                const double lead = scores_[p - begin], reach = varied_[p - begin] + rounding * node.reaches[p];
                if (lead - reach >= 0.0) {
                    own = loss.settle_pair(half, capped_sum(own, node.steps[p]), node.dear[p]);
                } else if (-lead - reach >= 0.0) {
                    own = loss.settle_pair(half, own, node.cheap[p]);
                } else {
                    pairs_[n_pairs_++] = static_cast<Row>(p);
                    const bool dear = lead > 0.0;
                    if (dear) extra_ = capped_sum(extra_, node.steps[p]);
                    loss.choose_at_centre(half, dear ? node.dear[p] : node.cheap[p]);
                }
            }
        }
        return own;
    }
    // Drop rows and settle lists; return the node's own bound.
    Index prune_rows(const Node& node, Node& half, Loss& loss, Index own, Index limit) {
        const Index n_lists = node.n_row_lists();
        for (Buffer<Row>* const buffer : {&rows_, &ids_}) buffer->resize(std::max(buffer->size(), node.ids.size()));
        costs_.resize(std::max(costs_.size(), node.ids.size()));
        new_pairs_.clear();
        ends_.assign(1, 0);
        Index row = 0;
        for (Index a = 0, b = 0; a < n_lists && own <= limit; a = b) {
            b = a + 1;
            while (b < n_lists && node.ends[b + 1] - node.ends[a] <= PROPAGATION_BLOCK) ++b;
            measure_lists(node, half, a, b);
            for (Index s = a; s < b; ++s) {
                const Index low = node.ends[s], high = node.ends[s + 1], best = block_ + best_[low - block_];
                const double top = scores_[best - block_], error = shape_.error(node, best);
                Index left = row;
                for (Index i = low; i < high; ++i) {
                    const double lead = Shape::lead(top - scores_[i - block_], varied_[i - block_]);
                    const double doubt = error + shape_.error(node, i);
                    bool beaten = lead > doubt;
                    if (!beaten && lead >= -doubt && i != best) beaten = shape_.beats(values_, best, i, half);
                    rows_[left] = static_cast<Row>(i);  // written unconditionally: the branch would be unpredictable
                    left += !beaten;
                }
                if (left - row > 2) left = drop_beaten(node, half, row, left, best, low, high);
                const Index least = node.costs[rows_[row]];
                own = capped_sum(own, least - node.costs[low]);
                for (Index k = row; k < left; ++k) {
                    ids_[k] = node.ids[rows_[k]];
                    costs_[k] = node.costs[rows_[k]];
                }
                const ListState state = loss.settle(half, ids_.data(), costs_.data(), row, left, node.ids[best]);
                if (state == ListState::settled) continue;
                if (state == ListState::impossible) {
                    own = INFINITE_COST;
                    continue;
                }
                extra_ = capped_sum(extra_, node.costs[best] - least);
                if (Shape::has_pairs && left - row == 2) {
                    new_pairs_.emplace_back(rows_[row], rows_[row + 1]);
                } else {
                    row = left;
                    ends_.push_back(row);
                }
            }
        }
        return own;
    }
    // Begin a block with the rows of lists a .. b - 1: find their scores and the best of each list at the centre, and
    // by how much the leads of these best rows vary in the half.
    void measure_lists(const Node& node, const Node& half, Index a, Index b) {
        block_ = node.ends[a];
        score_columns(values_, block_, node.ends[b], shape_.at_centre(half), scores_.data());
        for (Index s = a; s < b; ++s) {
            const Index low = node.ends[s] - block_, high = node.ends[s + 1] - block_;
            Index best = low;
            for (Index i = low + 1; i < high; ++i)
                if (scores_[i] > scores_[best]) best = i;
            std::fill(best_.begin() + low, best_.begin() + high, static_cast<Row>(best));
        }
        shape_.vary(values_, block_, node.ends[b], half, best_.data(), 0, varied_.data());
    }
    // Drop the rows among start .. end (of a list low .. high) that another one beats in the whole half; return the new
    // end.
    Index drop_beaten(const Node& node, const Node& half, Index start, Index end, Index best, Index low, Index high) {
        // Whether row k is beaten by another one that is not dropped. The best one at the centre is not tried again.
        const auto beaten = [&](Index left, Index k) {
            const Index i = rows_[k];
            shape_.vary(values_, low, high, half, nullptr, i - low, varied_.data() + (low - block_));
            for (Index q = start; q < end; ++q) {
                const Index j = rows_[q];
                const double lead = Shape::lead(scores_[j - block_] - scores_[i - block_], varied_[j - block_]);
                const bool plausible = lead >= -2.0 * (shape_.error(node, i) + shape_.error(node, j));
                if (plausible && j != best && q != k && (q < left || q > k) && shape_.beats(values_, j, i, half))
                    return true;
            }
            return false;
        };
        if constexpr (Shape::sparing) {
            // If no row beats the best of the cheapest at the centre, mostly none beats any of the cheapest.
            const auto score = [&](Index k) { return scores_[rows_[k] - block_]; };
            Index ahead = start;
            for (Index k = start; k < end && node.costs[rows_[k]] == node.costs[rows_[start]]; ++k)
                if (score(k) > score(ahead)) ahead = k;
            if (rows_[ahead] == best || !beaten(start, ahead)) return end;
        }
        Index left = start;
        for (Index k = start; k < end; ++k) {
            const Index i = rows_[k];
            const bool cheapest = left == start || node.costs[i] == node.costs[rows_[start]];
            if (left == k && !cheapest) return end;  // none was dropped
            const bool compared = cheapest && i != best && (k - start) * (end - start) <= MOST_COMPARED;
            if (!compared || !beaten(left, k)) rows_[left++] = static_cast<Row>(i);
        }
        return left;
    }
    // Copy the survivors to the half; lists that have become pairs come after the old pairs.
    void copy_survivors(const Node& node, Node& half) const {
        const Index n_rows = ends_.back();
        if constexpr (Shape::has_pairs) {
            half.resize_pairs(n_features_, n_pairs_ + count(new_pairs_));
            for (Index d = 0; d < n_features_; ++d) gather(node.gains[d], pairs_, n_pairs_, half.gains[d]);
            gather(node.reaches.data(), pairs_, n_pairs_, half.reaches.data());
            gather(node.steps.data(), pairs_, n_pairs_, half.steps.data());
            gather(node.cheap.data(), pairs_, n_pairs_, half.cheap.data());
            gather(node.dear.data(), pairs_, n_pairs_, half.dear.data());
            Index p = n_pairs_;
            for (const auto& [low, high] : new_pairs_)
                half.set_pair(p++, lists_, node.ids[low], node.ids[high], node.costs[high] - node.costs[low],
                              shape_.precision().off);
            half.row_reaches.resize(n_rows);
            gather(node.row_reaches.data(), rows_, n_rows, half.row_reaches.data());
        }
        half.values.resize(n_features_, n_rows);
        for (Index d = 0; d < n_features_; ++d) gather(values_[d], rows_, n_rows, half.values[d]);
        half.ids.assign(ids_.data(), ids_.data() + n_rows);
        half.costs.assign(costs_.data(), costs_.data() + n_rows);
        half.ends = ends_;
    }

    Lists lists_;
    const Shape& shape_;
    Index n_features_;
    View values_;      // the node's columns, with those of the half's new ray
    Index extra_ = 0;  // by how much the winners at the centre cost more than the cheapest
    // Of a block of pairs, or of rows from block_ on: leads of pairs, or scores of rows, at the centre; by how much
    // leads vary in the half; and for each row, the position in the block of the best of its list at the centre.
    Buffer<double> scores_, varied_;
    Buffer<Row> best_;
    Index block_ = 0;
    // Survivors: pairs, rows, the rows' hypotheses and costs, the ends of their lists, and lists that became pairs.
    Buffer<Row> pairs_, rows_, ids_;
    Buffer<Index> costs_;
    Indices ends_;
    std::vector<std::pair<Row, Row>> new_pairs_;
    Index n_pairs_ = 0;
};

// How a slice of the search ended. empty: no node is open; full: nodes need more memory; needs_exact: exact arithmetic
// has to close the node on top; paused: the work is done.
enum class Outcome { empty, full, needs_exact, paused };

// What Python calls is documented in __init__.pyi.
template <class Shape>
class Search {
  public:
    using Node = typename Shape::Node;

    Search(const Lists& lists, const Settings& settings, const Shape& shape, const Loss& initial)
        : loss(initial),
          initial_(initial),
          lists_(lists),
          longest_(lists.longest()),
          settings_(settings),
          shape_(shape),
          propagation_(lists, shape_),
          conflicts_(lists, settings_, shape_) {}
    Search(const Search&) = delete;

    void renew(Span<const double> weights) {
        check_size(weights.size(), lists_.n_features(), "weights");
        clear();
        counts = {};
        loss = initial_;
        loss.weights.assign(weights.begin(), weights.end());
    }
    void aim(Index cost, double below) { loss.aim(cost, below); }

    void begin(Index budget, Index step) {
        stop_ = counts.work + budget;
        early_stop_ = counts.work + budget / LEAST_SHARE;
        step_ = step;
        raise_level();
    }

    // Search for a better incumbent until the slice ends, or nodes need more than this many bytes. The memory limit
    // does not change what is found. Nodes with bounds above the level are deferred; they come next, unless a good
    // share of the work is already done.
    Outcome explore(Index memory) {
        for (;;) {
            if (nodes.empty()) {
                if (deferred.empty() || counts.work >= early_stop_) return Outcome::empty;
                raise_level();
            }
            Node& node = nodes.back();
            if (node.bound > limit()) {
                take();
                continue;
            }
            if (counts.work > stop_) return Outcome::paused;
            if (node.bound > level_) {
                deferred.push_back(take());
                continue;
            }
            if (bytes_ + 2 * node.bytes() > memory) return Outcome::full;
            if (node.n_lists() <= settings_.conflict_lists) {
                const Index needed = std::min(limit(), level_) - node.own;
                node.bound = std::max(node.bound, node.own + conflicts(needed));
                if (node.bound > limit()) {
                    take();
                    ++counts.conflicting;
                    continue;
                }
                if (node.bound > level_) continue;
            }
            if (!shape_.branch(node, loss.hopeless(settings_, node.n_lists()))) return Outcome::needs_exact;
            counts.work += settings_.row_work * node.n_survivors() + 50;
            counts.looked_at += node.n_survivors();
            for (int c = 0; c < 2; ++c) {
                shape_.halve(node, c, halves_[c]);
                propagate(node, halves_[c], limit());
                halves_[c].stalled = shape_.stalled(node, halves_[c]);
            }
            take();
            const int better = Shape::better(halves_[0], halves_[1]);
            for (const int c : {1 - better, better}) push_if_open(halves_[c]);  // the better one is searched first
        }
    }

    Index conflicts(Index needed) { return conflicts_.run(top(), needed, counts); }

    void propagate_root(Index below) {
        shape_.halve(top(), -1, halves_[0]);
        propagate(top(), halves_[0], below);
        take();
        if (halves_[0].bound > below || halves_[0].closed) return;
        halves_[0].stalled = 0;
        push(std::move(halves_[0]));
    }

    // The node that comes next; raises ValueError if there is none.
    Node& top() {
        if (nodes.empty()) throw std::invalid_argument("there is no node");
        return nodes.back();
    }
    void push(Node node) {
        bytes_ += node.bytes();
        nodes.push_back(std::move(node));
    }
    // Push a node from Python or from bytes; raises ValueError unless it is of these lists.
    void push_checked(Node node) {
        node.check(lists_, longest_, loss.n_columns());
        shape_.complete(node, lists_);
        push(std::move(node));
    }
    void load(Span<const std::uint8_t> bytes) {
        Node node;
        unpack(bytes, node);
        push_checked(std::move(node));
    }
    Node take() {
        bytes_ -= top().bytes();
        Node node = std::move(nodes.back());
        nodes.pop_back();
        return node;
    }
    void clear() {
        nodes.clear();
        deferred.clear();
        bytes_ = 0;
    }
    std::vector<std::tuple<Index, Bytes>> packed_nodes() const {
        std::vector<std::tuple<Index, Bytes>> open;
        each_node([&](const Node& node) { open.emplace_back(node.bound, packed(node)); });
        return open;
    }
    Indices bounds() const {
        Indices open;
        each_node([&](const Node& node) { open.push_back(node.bound); });
        return open;
    }
    std::tuple<std::vector<Row>, Indices, Indices, Index, Reals> survivors() {
        Survivors found(top(), lists_);
        return {std::move(found.ids), std::move(found.costs), std::move(found.ends), found.fixed, top().total};
    }

    std::vector<Node> nodes, deferred;  // open nodes: a stack, and those with bounds above the level
    Loss loss;
    Counts counts;

  private:
    // A slice goes on with deferred nodes until it has done 1 / LEAST_SHARE of its work: sending it away must pay.
    static constexpr Index LEAST_SHARE = 128;

    template <class Each>
    void each_node(Each each) const {
        for (const auto* const open : {&deferred, &nodes}) std::for_each(open->begin(), open->end(), each);
    }

    // The cut-off: a node with a larger bound has nothing better than the incumbent.
    Index limit() const { return loss.upper - settings_.granularity; }

    // Set the level to a step above the least bound; push the deferred nodes up to it, the least bounds last.
    void raise_level() {
        Index least = INFINITE_COST;
        each_node([&](const Node& node) { least = std::min(least, node.bound); });
        level_ = step_ < 0 || least == INFINITE_COST ? INFINITE_COST : least + step_;
        const auto next = std::stable_partition(deferred.begin(), deferred.end(),
                                                [this](const Node& node) { return node.bound > level_; });
        std::stable_sort(next, deferred.end(), [](const Node& a, const Node& b) { return a.bound > b.bound; });
        for (auto node = next; node != deferred.end(); ++node) push(std::move(*node));
        deferred.erase(next, deferred.end());
    }

    void propagate(const Node& node, Node& half, Index below) {
        propagation_.run(node, half, loss, below);
        ++counts.nodes;
        if (half.bound <= below) loss.template look_at_centre<Shape>(half);
    }

    // Push a half unless nothing is left in it; a leaf is searched first.
    void push_if_open(Node& half) {
        if (half.bound > limit() || half.closed) return;
        if (shape_.is_leaf(half)) {
            ++counts.leaves;
            const LeafOutcome leaf =
                loss.search(Survivors(half, lists_), half.total, Shape::normals(half), Shape::centre(half), counts);
            if (leaf == LeafOutcome::done) return;
            if (leaf == LeafOutcome::undecided) half.stalled = settings_.hopeless;
        }
        push(std::move(half));
    }

    Loss initial_;
    Lists lists_;
    Index longest_;
    Settings settings_;
    Shape shape_;
    Propagation<Shape> propagation_;
    Conflicts<Shape> conflicts_;
    Node halves_[2];
    Index stop_ = 0, early_stop_ = 0;  // counts.work at which the slice ends; at which it takes no more deferred nodes
    Index step_ = -1, level_ = INFINITE_COST;
    Index bytes_ = 0;
};

}  // namespace lpmert::cells
