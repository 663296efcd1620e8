// Branch and bound over the weight space, depth first, for nodes of either shape and either kind of loss.
//
// A node is a part of the weight space, with the hypotheses that may still win in it. Its lower bound is the sum of the
// cheapest of these of every list (lemma K3 of proofs/cones.md), raised by conflicts between pairs of lists (K7 there,
// B4 of proofs/boxes.md). The search drops a node whose bound shows that nothing in it is better than the incumbent,
// searches a small node selection by selection, and halves any other node (K2, B2), propagating into both halves. When
// no node is left, the incumbent is optimal (T1 of proofs/trees.md).
//
//     shape     the geometry of a node, and how it is halved             cone.hpp, box.hpp
//     loss      the costs in a node, the incumbent, leaves               cell_losses.hpp
//               propagation of a node into its halves                    propagation.hpp
//               conflicts between lists                                  conflicts.hpp
#pragma once

#include "cell_losses.hpp"
#include "conflicts.hpp"
#include "packing.hpp"
#include "propagation.hpp"

namespace lpmert::cells {

// How a slice of the search ended. empty: no node is open; full: nodes need more memory; needs_exact: exact arithmetic
// has to close the node on top; paused: the work is done; deferred: the bound of the node on top is above the level.
enum class Outcome { empty, full, needs_exact, paused, deferred };

template <class Shape, class Loss>
class Search {
  public:
    using Node = typename Shape::Node;

    // n_columns: number of statistics.
    Search(const Lists& lists, const Settings& settings, const Shape& shape, const Loss& initial, Index n_columns)
        : loss(initial),
          initial_(initial),
          lists_(lists),
          longest_(lists.longest()),
          n_columns_(n_columns),
          settings_(settings),
          shape_(shape),
          propagation_(lists, shape_),
          conflicts_(lists, settings_, shape_) {}
    Search(const Search&) = delete;

    // Forget all nodes, findings and counts; the incumbent has these weights.
    void renew(Span<const double> weights) {
        check_size(weights.size(), lists_.n_features(), "weights");
        clear();
        counts = {};
        loss = initial_;
        loss.weights.assign(weights.begin(), weights.end());
    }
    // Search only for a lower cost, or for a ratio metric for a lower loss.
    void aim(Index cost, double below) { loss.aim(cost, below); }

    // Begin a slice with this budget of work. It branches on nodes whose bounds are at most a step above the least one;
    // on all nodes if the step is negative.
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
            const Outcome outcome = descend(memory);
            if (outcome == Outcome::deferred) {
                deferred.push_back(take());
            } else if (outcome == Outcome::empty && !deferred.empty() && counts.work < early_stop_) {
                raise_level();
            } else {
                return outcome;
            }
        }
    }

    // Return by how much conflicts raise the own bound of the node on top; see conflicts.hpp.
    Index conflicts(Index needed) { return conflicts_.run(top(), needed, counts); }

    // Propagate the only node, which has all hypotheses; drop it if its bound exceeds the limit.
    void propagate_root(Index below) {
        shape_.copy_geometry(top(), halves_[0]);
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
        node.check(lists_, longest_, n_columns_);
        shape_.complete(node, lists_);
        push(std::move(node));
    }
    void load(Span<const std::uint8_t> bytes) {
        Node node;
        unpack(bytes, node);
        push_checked(std::move(node));
    }
    void pop() { take(); }
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
    // The bounds and bytes of all open nodes.
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
    // The hypotheses that may win in the node on top: ids, costs, ends of lists; cost and total of the settled lists.
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

    Outcome descend(Index memory) {
        while (!nodes.empty()) {
            Node& node = nodes.back();
            if (node.bound > limit()) {
                take();
                continue;
            }
            if (counts.work > stop_) return Outcome::paused;
            if (node.bound > level_) return Outcome::deferred;
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
            if (!shape_.branch(node, loss.hopeless(settings_, node.n_lists(), lists_.n_features())))
                return Outcome::needs_exact;
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
        return Outcome::empty;
    }

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
            const LeafOutcome leaf = search_leaf(half);
            if (leaf == LeafOutcome::done) return;
            if (leaf == LeafOutcome::undecided) half.stalled = settings_.hopeless;
        }
        push(std::move(half));
    }

    LeafOutcome search_leaf(const Node& node) {
        ++counts.leaves;
        const Survivors survivors(node, lists_);
        if (!loss.is_small(survivors)) return LeafOutcome::too_large;
        const Reals normals = Shape::normals(node);
        if (normals.empty()) return LeafOutcome::undecided;
        return loss.search(survivors, node.total, normals, Shape::centre(node), counts);
    }

    Loss initial_;
    Lists lists_;
    Index longest_, n_columns_;
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
