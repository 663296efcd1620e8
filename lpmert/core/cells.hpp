// Branch and bound over the weight space, depth first, for nodes of any shape and any loss.
//
// A node is a part of the weight space, and of every list that is still open in it the hypotheses that may win there.
// It is bounded by the sum of what the cheapest of these cost (lemma K3 of proofs/cones.md), raised by conflicts of
// pairs of lists (K7, B4). A node whose bound tells that nothing in it is better than the incumbent is dropped; a small
// one is searched selection by selection; others are halved, and propagated into both halves (K2, B2). Dropping all
// nodes proves the incumbent (T1 of proofs/trees.md).
//
//     shape     geometry of a node: how it is halved                     cone.hpp, box.hpp
//     loss      what a node costs, the incumbent, small nodes            cell_losses.hpp
//               propagation of a node into its halves                    propagation.hpp
//               conflicts of lists                                       conflicts.hpp
#pragma once

#include "cell_losses.hpp"
#include "conflicts.hpp"
#include "packing.hpp"
#include "propagation.hpp"

namespace lpmert::cells {

// How a slice of the search ended: nothing is open; nodes need more room; the one on top has to be closed in exact
// arithmetic; the work is done; or the bound of the one on top is above the level, so that it is for later.
enum class Outcome { empty, full, hard, paused, aside };

template <class Shape, class Loss>
class Search {
  public:
    using Node = typename Shape::Node;

    // n_columns: of statistics.
    Search(const Lists& lists, const Settings& settings, const Shape& shape, const Loss& first, Index n_columns)
        : loss(first),
          first_(first),
          lists_(lists),
          longest_(lists.longest()),
          n_columns_(n_columns),
          settings_(settings),
          shape_(shape),
          propagation_(lists, shape_),
          conflicts_(lists, settings_, shape_) {}
    Search(const Search&) = delete;

    // Begin anew, with these weights of the incumbent.
    void renew(Span<const double> weights) {
        check_size(weights.size(), lists_.n_features(), "weights");
        clear();
        counts = {};
        loss = first_;
        loss.weights.assign(weights.begin(), weights.end());
    }
    // Look only for what costs less, of a ratio for a lower loss.
    void aim(Index cost, double below) { loss.aim(cost, below); }

    // Begin a slice of so much work, in nodes with bounds of up to a step above the least; with all if step is
    // negative.
    void begin(Index budget, Index step) {
        stop_ = counts.work + budget;
        enough_ = counts.work + budget / LEAST_SHARE;
        step_ = step;
        rise();
    }

    // Search for what is better than the incumbent until the slice is done, in so many bytes: what there is room for
    // makes no difference. Nodes with bounds above the level are put aside; they come next unless much of the work is
    // done.
    Outcome explore(Index room) {
        for (;;) {
            const Outcome outcome = descend(room);
            if (outcome == Outcome::aside) {
                aside.push_back(take());
            } else if (outcome == Outcome::empty && !aside.empty() && counts.work < enough_) {
                rise();
            } else {
                return outcome;
            }
        }
    }

    // By how much conflicts raise the bound of the node on top; see conflicts.hpp.
    Index conflicts(Index needed) { return conflicts_.run(top(), needed, counts); }

    // Propagate the only node, which holds all hypotheses, below a limit.
    void propagate_root(Index below) {
        shape_.whole(top(), halves_[0]);
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
    // The same with a node from elsewhere: raises ValueError unless it is of these lists.
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
        aside.clear();
        bytes_ = 0;
    }
    // The bounds of all nodes, and their bytes.
    std::vector<std::tuple<Index, Bytes>> packed_nodes() const {
        std::vector<std::tuple<Index, Bytes>> found;
        each_node([&](const Node& node) { found.emplace_back(node.bound, packed(node)); });
        return found;
    }
    Indices bounds() const {
        Indices found;
        each_node([&](const Node& node) { found.push_back(node.bound); });
        return found;
    }
    // What may win in the node on top, and what the settled lists have as total.
    std::tuple<std::vector<Row>, Indices, Indices, Index, Reals> survivors() {
        Survivors part(top(), lists_);
        return {std::move(part.ids), std::move(part.costs), std::move(part.ends), part.fixed, top().total};
    }

    std::vector<Node> nodes, aside;  // open ones, the next one last; and those that are for later
    Loss loss;
    Counts counts;

  private:
    static constexpr Index LEAST_SHARE = 128;  // of a slice's work, so that it is not too little to be sent away for

    template <class Each>
    void each_node(Each each) const {
        for (const auto* const some : {&aside, &nodes}) std::for_each(some->begin(), some->end(), each);
    }

    // What bounds of nodes may be that hold something better than the incumbent.
    Index limit() const { return loss.upper - settings_.granularity; }

    Outcome descend(Index room) {
        while (!nodes.empty()) {
            Node& node = nodes.back();
            if (node.bound > limit()) {
                take();
                continue;
            }
            if (counts.work > stop_) return Outcome::paused;
            if (node.bound > level_) return Outcome::aside;
            if (bytes_ + 2 * node.bytes() > room) return Outcome::full;
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
                return Outcome::hard;
            counts.work += settings_.row_work * node.n_survivors() + 50;
            counts.looked_at += node.n_survivors();
            for (int c = 0; c < 2; ++c) {
                shape_.halve(node, c, halves_[c]);
                propagate(node, halves_[c], limit());
                halves_[c].stalled = shape_.stalled(node, halves_[c]);
            }
            take();
            const int better = Shape::better(halves_[0], halves_[1]);
            for (const int c : {1 - better, better}) keep(halves_[c]);  // the better one is searched first
        }
        return Outcome::empty;
    }

    // Take the next nodes that were put aside: those with bounds of up to a step above the least.
    void rise() {
        Index least = INFINITE_COST;
        each_node([&](const Node& node) { least = std::min(least, node.bound); });
        level_ = step_ < 0 || least == INFINITE_COST ? INFINITE_COST : least + step_;
        const auto later =
            std::stable_partition(aside.begin(), aside.end(), [this](const Node& node) { return node.bound > level_; });
        std::stable_sort(later, aside.end(), [](const Node& a, const Node& b) { return a.bound > b.bound; });
        for (auto node = later; node != aside.end(); ++node) push(std::move(*node));
        aside.erase(later, aside.end());
    }

    void propagate(const Node& node, Node& half, Index below) {
        propagation_.run(node, half, loss, below);
        ++counts.nodes;
        if (half.bound <= below) loss.template look_at_centre<Shape>(half);
    }

    // Put a half on top unless nothing is left in it.
    void keep(Node& half) {
        if (half.bound > limit() || half.closed) return;
        if (shape_.is_leaf(half)) {
            const Leaf leaf = search_leaf(half);
            if (leaf == Leaf::done) return;
            if (leaf == Leaf::undecided) half.stalled = settings_.hopeless;
        }
        push(std::move(half));
    }

    Leaf search_leaf(const Node& node) {
        ++counts.leaves;
        const Survivors part(node, lists_);
        if (!loss.is_small(part)) return Leaf::too_large;
        const Reals normals = Shape::normals(node);
        if (normals.empty()) return Leaf::undecided;
        return loss.search(part, node.total, normals, Shape::centre(node), counts);
    }

    Loss first_;
    Lists lists_;
    Index longest_, n_columns_;
    Settings settings_;
    Shape shape_;
    Propagation<Shape> propagation_;
    Conflicts<Shape> conflicts_;
    Node halves_[2];
    Index stop_ = 0, enough_ = 0, step_ = -1, level_ = INFINITE_COST;
    Index bytes_ = 0;
};

}  // namespace lpmert::cells
