// Branch and bound over selections, depth first: decide one list at a time, and bound the cost of the undecided lists.
//
// A node is a set of decided lists with their choices (lemma T1 of proofs/trees.md). Choices are compatible if some
// weights make all of them. Every undecided list adds to the bound the cost of its cheapest hypothesis that is
// compatible with the decided choices (look-ahead, S5 of proofs/selections.md). Disjoint cores, which are sets of
// incompatible choices, among these cheapest hypotheses raise the bound further (C5 of proofs/cores.md).
//
// The loss (choice_losses.hpp) says what a hypothesis costs: for a sum of costs always the same, for a ratio of sums a
// price that changes from node to node. least_norm.hpp decides whether choices are compatible. Where rounding hides the
// answer, the search pauses in the state `asking` until exact arithmetic answers.
#pragma once

#include "least_norm.hpp"
#include "node.hpp"

namespace lpmert {

struct Choice {
    Index list, position;
};
using Core = std::vector<Choice>;  // incompatible choices

inline bool operator==(const Choice& one, const Choice& other) {
    return one.list == other.list && one.position == other.position;
}

using Cores = std::deque<Core>;    // the newest first
constexpr Index MOST_CORES = 400;  // found last

inline void add_core(Core core, Cores& cores) {
    cores.push_front(std::move(core));
    if (count(cores) > MOST_CORES) cores.pop_back();
}

struct Child {
    Index position, bound;  // of the chosen hypothesis in its list; of the node that chooses it
};

enum class Phase { bound, look, core, descend };
enum class State { working, asking, done };

struct Node {
    explicit Node(Index n_features) : corral(n_features) {}

    Index bound = 0;
    Index branch = -1;            // the list to branch on
    std::vector<Child> children;  // of this list, the cheapest first
    Index next = 0;               // the child that comes next
    Index trail_end = 0;          // the end of what this node and its ancestors added to the trail
    Corral corral;                // where its linear programs start
};

// The state of the search that it shares with its loss.
struct Tree {
    Tree(const Lists& all, Index n_fixed, Index limit, Span<const double> weights)
        : lists(all),
          n_open(all.n_lists() - n_fixed),
          n_fixed(n_fixed),
          upper(limit),
          chosen(all.n_lists(), -1),
          decided(all.n_lists()),
          pointer(all.n_lists()),
          selection(all.n_lists()),
          best_weights(weights.begin(), weights.end()) {
        check_size(weights.size(), all.n_features(), "weights");
        if (n_fixed < 0 || n_open < 0) throw std::invalid_argument("n_fixed must be at most the number of lists");
        for (Index k = 0; k < n_fixed; ++k) {
            decided[k] = n_open + k;
            chosen[n_open + k] = 0;
        }
    }

    Lists lists;  // the last n_fixed of them are half-spaces: decided everywhere
    Index n_open, n_fixed;
    Index upper;  // cost of the incumbent
    Index depth = 0;
    Index sum = 0;  // cost of the decided choices and the cheapest candidates of all other lists
    Index work = 0;
    Indices chosen;             // [S] position of the choice, or -1
    Indices decided;            // the decided lists in order
    Indices pointer;            // [S] position of the cheapest candidate of each undecided list
    std::vector<Choice> trail;  // choices that were ruled out, from the root down
    std::vector<Node> nodes;    // by depth
    Indices selection;          // choices of the last witness
    Reals best_weights;

    Node& node() { return nodes[depth]; }
    Index first(Index s) const { return lists.offsets[s]; }
    Index cheapest(Index s) const { return lists.offsets[s] + pointer[s]; }
    Index n_decided() const { return n_fixed + depth; }
    void set_incumbent(const double* weights) { std::copy_n(weights, best_weights.size(), best_weights.begin()); }
    void rule_out(Index s, Index position) {
        trail.push_back({s, position});
        ++node().trail_end;
    }
};

// A node for this search or another one to go on with. It stands for all selections that make its choices, except those
// of the children that are already closed.
struct OpenNode {
    explicit OpenNode(const Node& node) : bound(node.bound), corral(node.corral) {}
    explicit OpenNode(Index n_features) : corral(n_features) {}

    std::vector<Choice> choices;  // from the root down
    Indices pointer;              // [S]
    Index branch = -1;            // -1 if it has no children yet
    std::vector<Child> children;
    Index bound = 0;             // of the node
    std::vector<Row> ruled_out;  // of a ratio; for a sum, the pointers say it
    Corral corral;

    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        visit("choices", self.choices);
        visit("pointer", self.pointer);
        visit("branch", self.branch);
        visit("children", self.children);
        visit("bound", self.bound);
        visit("ruled_out", self.ruled_out);
        Corral::each_field(self.corral, visit);
    }

    // Raise ValueError unless the node is one of these lists.
    void check(const Tree& tree) const {
        const Lists& lists = tree.lists;
        const auto in = [](Index i, Index n) { return 0 <= i && i < n; };
        bool right = count(pointer) == lists.n_lists() && branch < tree.n_open && count(choices) <= tree.n_open &&
                     corral.is_sound();
        for (Index s = 0; right && s < lists.n_lists(); ++s) right = in(pointer[s], lists.length(s));
        Bytes decided(lists.n_lists());
        for (Index s = tree.n_open; right && s < lists.n_lists(); ++s) decided[s] = true;
        for (const Choice& choice : choices) {
            right = right && in(choice.list, tree.n_open) && in(choice.position, lists.length(choice.list));
            if (right) decided[choice.list] = true;
        }
        for (const Child& child : children) right = right && branch >= 0 && in(child.position, lists.length(branch));
        for (const Row row : ruled_out) right = right && in(row, lists.n_rows());
        for (Index k = 0; right && k < corral.size; ++k) {
            const Index s = corral.lists()[k];
            right = in(s, lists.n_lists()) && decided[s] && in(corral.others()[k], lists.length(s));
        }
        if (!right) throw std::invalid_argument("an open node must be of the lists to search");
    }
};

template <class Loss>
class ChoicesSearch {
  public:
    // granularity: the least improvement of a cost.
    ChoicesSearch(const Lists& lists, Index n_fixed, Index upper, Span<const double> weights, Index granularity,
                  Loss loss)
        : tree(lists, n_fixed, upper, weights),
          loss(std::move(loss)),
          granularity_(granularity),
          least_norm_(lists),
          trial_(lists.n_features()),
          attained_(lists.n_rows()),
          residual_(lists.n_lists()),
          in_core_(lists.n_lists()),
          tests_(lists.n_lists()),
          raised_(lists.n_lists()),
          gain_(lists.n_lists(), INF),
          order_(lists.n_lists()) {
        std::iota(order_.begin(), order_.end(), Index{0});
        tree.nodes.reserve(tree.n_open + 1);
        make_node(0);
        tree.nodes[0].corral.restart(weights.data());
    }

    // Search only for a lower cost, or for a ratio metric for a lower loss.
    void aim(Index cost, double below) { loss.aim(tree, cost, below); }

    // Search until no node is open, exact arithmetic has to answer, or a budget of scores is spent.
    State search(Index budget) {
        stop_ = tree.work + budget;
        stop_in_node_ = stop_ + MOST_IN_NODE;
        while (tree.depth >= 0) {
            if (tree.work > stop_) return state_ = State::working;
            const Outcome outcome = step();
            if (outcome == Outcome::asking) return state_ = State::asking;
            if (outcome == Outcome::working) return state_ = State::working;
            if (outcome == Outcome::closed) retreat();
        }
        return state_ = State::done;
    }

    // While asking: the choices that may be compatible or not.
    const std::vector<Choice>& question() const { return question_; }
    // The rows with which the last linear program stopped.
    const Corral& trial() const { return trial_; }
    // Answer the question in exact arithmetic. If the choices are compatible: weights that make them, or no weights if
    // no doubles do. If not: a core of them [n, 2], as lists and positions.
    void answer(Span<const double> weights, Rows<const Index> core) {
        if (weights.size() > 0) check_size(weights.size(), tree.lists.n_features(), "weights");
        if (core.rows() > 0) check_size(core.columns(), 2, "core");
        Core choices;
        for (Index k = 0; k < core.rows(); ++k) {
            const auto [s, position] = choices.emplace_back(Choice{core[k][0], core[k][1]});
            if (s < 0 || s >= tree.lists.n_lists() || position < 0 || position >= tree.lists.length(s))
                throw std::invalid_argument("core must name lists, and positions in them");
        }
        tree.work += ANSWER_WORK + ANSWER_ROW_WORK * tree.lists.n_rows();
        // The choices become undecided again; the node tests them again and finds the answer.
        for (Index k = tree.n_decided(); k < count(question_); ++k) tree.chosen[question_[k].list] = -1;
        if (!choices.empty()) return add_core(std::move(choices), exact_cores_);
        answer_ = weights.size() > 0 ? Verdict::feasible : Verdict::infeasible;
        answer_weights_.assign(weights.begin(), weights.end());
    }

    // The least bound of the open nodes, INFINITE_COST if there are none.
    Index least_open() const {
        Index least = INFINITE_COST;
        if (state_ == State::done) return least;
        for (Index depth = 0; depth <= tree.depth; ++depth) least = std::min(least, open_bound(depth));
        return least;
    }

    // Bounds and bytes of the open nodes, from the root down.
    std::vector<std::tuple<Index, Bytes>> open_nodes() const {
        std::vector<std::tuple<Index, Bytes>> found;
        Indices pointer = tree.pointer;
        Bytes ruled_out = loss.ruled_out();
        for (Index depth = tree.depth; depth >= 0; --depth) {
            const Node& node = tree.nodes[depth];
            const Index bound = open_bound(depth);
            if (bound < INFINITE_COST) {
                OpenNode open(node);
                open.pointer = pointer;
                for (Index above = 0; above < depth; ++above) {
                    const Index s = tree.nodes[above].branch;
                    open.choices.push_back({s, tree.chosen[s]});
                }
                if (is_branched(depth)) {
                    open.branch = node.branch;
                    open.children.assign(node.children.begin() + node.next, node.children.end());
                }
                for (std::size_t i = 0; i < ruled_out.size(); ++i)
                    if (ruled_out[i]) open.ruled_out.push_back(static_cast<Row>(i));
                found.emplace_back(bound, packed(open));
            }
            const Index begin = depth > 0 ? tree.nodes[depth - 1].trail_end : 0;
            for (Index q = node.trail_end - 1; q >= begin; --q) {
                pointer[tree.trail[q].list] = tree.trail[q].position;
                if (!ruled_out.empty()) ruled_out[tree.first(tree.trail[q].list) + tree.trail[q].position] = false;
            }
        }
        std::reverse(found.begin(), found.end());
        return found;
    }

    // Drop all nodes and search this one next.
    void go_on_with(Span<const std::uint8_t> bytes) {
        OpenNode open(tree.lists.n_features());
        unpack(bytes, open);
        open.check(tree);
        std::fill_n(tree.chosen.begin(), tree.n_open, Index{-1});
        tree.pointer = open.pointer;
        tree.trail.clear();
        tree.depth = count(open.choices);
        make_node(tree.depth);
        for (Index depth = 0; depth <= tree.depth; ++depth) {
            Node& node = tree.nodes[depth];
            node.bound = open.bound;
            node.trail_end = 0;
            node.children.clear();
            node.next = 0;
            if (depth == tree.depth) break;
            const auto [s, position] = open.choices[depth];
            tree.chosen[s] = position;
            tree.decided[tree.n_fixed + depth] = node.branch = s;
            loss.enter(tree, depth + 1, {s, position});
        }
        tree.node().corral = open.corral;
        loss.resume(tree, open.ruled_out);
        answer_ = Verdict::undecided;
        ++visit_;
        phase_ = Phase::bound;
        if (open.branch >= 0) {
            phase_ = Phase::descend;
            tree.node().branch = open.branch;
            tree.node().children = open.children;
        }
        state_ = State::working;
    }

    // Whether the search can stop here, with its open nodes searched elsewhere, without losing work.
    bool between_nodes() const {
        return state_ == State::working && (phase_ == Phase::bound || phase_ == Phase::descend);
    }
    const LeastNorm& programs() const { return least_norm_; }

    Tree tree;
    Loss loss;
    Index nodes = 0, core_programs = 0;

  private:
    // Work beyond the budget after which a search pauses in the middle of a node, if lists are very many or very long.
    static constexpr Index MOST_IN_NODE = 200'000'000;
    // The work of an exact answer, which takes some milliseconds, and its work for each hypothesis.
    static constexpr Index ANSWER_WORK = 300'000, ANSWER_ROW_WORK = 25;
    static constexpr double CORE_PREFERENCE = 3.0;  // largest factor by which `branch` weighs lists outside all cores
    static constexpr double SHARPNESS = 2.0;        // how fast the weight of a candidate falls with its excess cost

    enum class Outcome { open, closed, working, asking };

    bool too_dear(Index bound) const { return bound > tree.upper - granularity_; }
    bool is_branched(Index depth) const { return depth < tree.depth || phase_ == Phase::descend; }
    Index open_bound(Index depth) const {
        const Node& node = tree.nodes[depth];
        if (!is_branched(depth)) return node.bound;
        const bool any = node.next < count(node.children);
        return any ? std::max(node.bound, node.children[node.next].bound) : INFINITE_COST;
    }
    void make_node(Index depth) {
        while (count(tree.nodes) <= depth) tree.nodes.emplace_back(tree.lists.n_features());
    }

    // Take the node through its next phases.
    Outcome step() {
        Node& node = tree.node();
        if (phase_ == Phase::bound) {
            // All lists are decided. The witness was recorded when the node was entered, unless this is the root.
            if (tree.depth == tree.n_open) return tree.depth > 0 ? Outcome::closed : close_root();
            if (!loss.bound(tree)) return Outcome::closed;
            phase_ = Phase::look;
        }
        if (phase_ == Phase::look) {
            const Outcome outcome = look_ahead();
            if (outcome != Outcome::open) return outcome;
            node.bound = std::max(node.bound, tree.sum);
            if (too_dear(node.bound)) return Outcome::closed;
            phase_ = Phase::core;
            core_sum_ = tree.sum;
            if constexpr (Loss::tight) core_sum_ = start_core_bound();
            node.bound = std::max(node.bound, core_sum_);
        }
        if (phase_ == Phase::core) {
            if constexpr (Loss::tight) {
                const Outcome outcome = core_bound();
                if (outcome != Outcome::open) return outcome;
            }
            if (too_dear(node.bound)) return Outcome::closed;
            branch();
            phase_ = Phase::descend;
        }
        return descend();
    }

    // Rule out the cheapest hypotheses of each undecided list until one is compatible with the decided choices.
    Outcome look_ahead() {
        if (too_dear(tree.sum)) return Outcome::closed;
        if (answer_ == Verdict::undecided)
            std::stable_sort(order_.begin(), order_.end(), [this](Index a, Index b) { return gain_[a] > gain_[b]; });
        const Index n_decided = tree.n_decided();
        for (const Index s : order_) {
            if (tree.chosen[s] >= 0) continue;
            while (attained_[tree.cheapest(s)] != visit_) {
                if (tree.work > stop_in_node_) return Outcome::working;
                const Index h = tree.pointer[s], row = tree.cheapest(s);
                trial_ = tree.node().corral;
                tree.chosen[s] = h;
                tree.decided[n_decided] = s;
                const Verdict verdict = test_choices(n_decided + 1, n_decided);
                if (verdict == Verdict::undecided) return Outcome::asking;
                tree.chosen[s] = -1;
                if (verdict == Verdict::feasible) {
                    record_witness();
                    mark_attained();
                    attained_[row] = visit_;
                } else {
                    tree.rule_out(s, h);
                    const Index next = loss.rule_out(tree, s, row);
                    if (next < 0) return Outcome::closed;
                    const Index rise = loss.cost(tree, next) - loss.cost(tree, row);
                    raised_[s] += static_cast<double>(rise);
                    tree.sum += rise;
                    tree.pointer[s] = next - tree.first(s);
                }
                gain_[s] = raised_[s] / static_cast<double>(++tests_[s]);
                if (too_dear(tree.sum)) return Outcome::closed;
            }
        }
        return Outcome::open;
    }

    // Mark the choices of the last witness: they are compatible with the decided choices.
    void mark_attained() {
        for (Index s = 0; s < tree.n_open; ++s) attained_[tree.first(s) + tree.selection[s]] = visit_;
    }

    // Charge the least residual of a core's undecided lists to each; return it, or INFINITE_COST if all are decided.
    Index charge(const Core& core) {
        Index least = INFINITE_COST;
        for (const Choice& choice : core)
            if (tree.chosen[choice.list] < 0) least = std::min(least, residual_[choice.list]);
        if (least == INFINITE_COST) return least;
        for (const Choice& choice : core) {
            if (tree.chosen[choice.list] < 0) {
                residual_[choice.list] -= least;
                ++in_core_[choice.list];
            }
        }
        return least;
    }

    bool applies(const Core& core) const {
        return std::all_of(core.begin(), core.end(), [this](const Choice& choice) {
            const auto [s, h] = choice;
            return tree.chosen[s] >= 0 ? tree.chosen[s] == h : tree.pointer[s] == h && residual_[s] > 0;
        });
    }

    // Reset what each list can be charged, and charge the known cores that apply; return the bound.
    Index start_core_bound() {
        Index bound = tree.sum;
        std::fill(in_core_.begin(), in_core_.end(), 0);
        for (Index s = 0; s < tree.n_open; ++s)
            if (tree.chosen[s] < 0) residual_[s] = loss.step(tree, s);
        for (const Core& core : cores_) {
            if (!applies(core)) continue;
            const Index least = charge(core);
            if (least == INFINITE_COST) return least;
            bound = capped_sum(bound, least);
        }
        return bound;
    }

    // Raise the bound by disjoint cores among the cheapest candidates, as core-guided MaxSAT does.
    Outcome core_bound() {
        Node& node = tree.node();
        const Index n_decided = tree.n_decided();
        while (!too_dear(node.bound)) {
            if (tree.work > stop_in_node_) return Outcome::working;
            Index n_tested = n_decided;
            for (Index s = 0; s < tree.n_open; ++s)
                if (tree.chosen[s] < 0 && residual_[s] > 0) tree.decided[n_tested++] = s;
            if (n_tested == n_decided) return Outcome::open;
            for (Index k = n_decided; k < n_tested; ++k) tree.chosen[tree.decided[k]] = tree.pointer[tree.decided[k]];
            trial_ = node.corral;
            ++core_programs;
            const Verdict verdict = test_choices(n_tested, n_decided);
            if (verdict == Verdict::undecided) return Outcome::asking;
            for (Index k = n_decided; k < n_tested; ++k) tree.chosen[tree.decided[k]] = -1;
            if (verdict == Verdict::feasible) {
                record_witness();
                // With every list at its cheapest, the node's bound is attained.
                return n_tested == tree.lists.n_lists() ? Outcome::closed : Outcome::open;
            }
            if (core_.empty()) return Outcome::open;  // compatible, but at no doubles: the caller notes it
            add_core(core_, cores_);
            const Index least = charge(core_);
            if (least == INFINITE_COST) return Outcome::closed;
            // Cores add to the node's own sum, not to its parent's bound, which may be larger.
            core_sum_ = capped_sum(core_sum_, least);
            node.bound = std::max(node.bound, core_sum_);
        }
        return Outcome::closed;
    }

    // Branch on the undecided list with the fewest candidates below the cut-off, where cheap candidates weigh more.
    //
    // Lists outside all cores weigh more too: the more, the more the cores have raised the bound towards the incumbent.
    void branch() {
        const double slack = static_cast<double>(tree.upper - tree.sum);
        const double raised = static_cast<double>(core_sum_ - tree.sum) / std::max(1.0, slack);
        const double outside_cores = 1.0 + (CORE_PREFERENCE - 1.0) * raised;
        double best = INF;
        Index lightest = -1;
        for (Index s = 0; s < tree.n_open; ++s) {
            if (tree.chosen[s] >= 0) continue;
            double weight = loss.weigh(tree, s, SHARPNESS, slack);
            if (in_core_[s] == 0) weight *= outside_cores;
            if (weight < best) {
                best = weight;
                lightest = s;
            }
        }
        Node& node = tree.node();
        node.branch = lightest;
        node.next = 0;
        node.children.clear();
        loss.list_children(tree, node, tree.upper - granularity_);
    }

    // Enter the next child of the node whose choice is compatible; close the node if none is left below the cut-off.
    Outcome descend() {
        Node& node = tree.node();
        const Index s = node.branch, n_decided = tree.n_decided();
        Child child;
        do {
            if (node.next == count(node.children)) return Outcome::closed;
            child = node.children[node.next];
            if (too_dear(child.bound)) return Outcome::closed;
            if (tree.work > stop_in_node_) return Outcome::working;
            tree.chosen[s] = child.position;
            tree.decided[n_decided] = s;
            trial_ = node.corral;
            const Verdict verdict = test_choices(n_decided + 1, n_decided);
            if (verdict == Verdict::undecided) return Outcome::asking;
            ++node.next;
            if (verdict == Verdict::feasible) break;
            tree.chosen[s] = -1;
        } while (true);
        const double* weights = trial_.point();
        record_witness();
        ++visit_;
        mark_attained();
        make_node(tree.depth + 1);
        Node &entered = tree.nodes[tree.depth + 1], &parent = tree.node();
        entered.trail_end = parent.trail_end;
        entered.bound = std::max(parent.bound, child.bound);
        tree.sum = child.bound;
        loss.enter(tree, tree.depth + 1, {s, child.position});
        if (n_decided + 1 == tree.lists.n_lists()) loss.take_selection(tree, tree.depth + 1, weights);
        std::swap(entered.corral, trial_);
        ++tree.depth;
        phase_ = Phase::bound;
        ++nodes;
        return Outcome::open;
    }

    // Go back to the parent: restore what was ruled out below it; the list that it branches on is undecided again.
    void retreat() {
        const Index begin = tree.depth > 0 ? tree.nodes[tree.depth - 1].trail_end : 0;
        while (count(tree.trail) > begin) {
            loss.restore(tree, tree.trail.back());
            tree.trail.pop_back();
        }
        --tree.depth;
        phase_ = Phase::descend;
        answer_ = Verdict::undecided;  // an unused answer belongs to a question of the closed node
        if (tree.depth >= 0) tree.chosen[tree.node().branch] = -1;
    }

    // Find and record a witness if no list is open.
    Outcome close_root() {
        trial_ = tree.node().corral;
        const Verdict verdict = test_choices(tree.n_fixed, 0);
        if (verdict == Verdict::undecided) return Outcome::asking;
        if (verdict == Verdict::feasible) {
            record_witness();
            loss.take_selection(tree, 0, trial_.point());
        }
        return Outcome::closed;
    }

    // Decode the witness of a trial into the selection of the tree; it becomes the incumbent if certainly better.
    void record_witness() {
        loss.take_witness(tree, trial_.point(), least_norm_.scores());
        tree.work += tree.lists.n_rows();
    }

    // Decide whether the choices of the first n_decided lists are compatible. If so, the point of trial_ makes them; if
    // not, core_ has a core. `undecided`: exact arithmetic has to answer the question.
    Verdict test_choices(Index n_decided, Index start) {
        const Index rounds = least_norm_.rounds;
        const Span<const Index> lists(tree.decided.data(), n_decided);
        Verdict verdict = least_norm_.separate(lists, tree.chosen.data(), start, trial_);
        if (verdict == Verdict::undecided && answer_ == Verdict::undecided) {
            // Near a degenerate core there is often a sound one, which a search from another start may find.
            trial_.restart(tree.best_weights.data());
            verdict = least_norm_.separate(lists, tree.chosen.data(), 0, trial_);
        }
        tree.work += (least_norm_.rounds - rounds + 1) * std::max(Index{1}, tree.lists.n_rows() / 4);
        if (verdict == Verdict::infeasible) {
            core_.clear();
            for (Index k = 0; k < trial_.size; ++k) {
                const Choice choice{trial_.lists()[k], tree.chosen[trial_.lists()[k]]};
                if (std::find(core_.begin(), core_.end(), choice) == core_.end()) core_.push_back(choice);
            }
            return verdict;
        }
        if (verdict == Verdict::feasible) return verdict;
        const auto chosen = [this](const Choice& choice) { return tree.chosen[choice.list] == choice.position; };
        const auto applied = [&](const Core& core) { return std::all_of(core.begin(), core.end(), chosen); };
        const auto known = std::find_if(exact_cores_.rbegin(), exact_cores_.rend(), applied);
        if (known != exact_cores_.rend()) {
            core_ = *known;
            answer_ = Verdict::undecided;
            return Verdict::infeasible;
        }
        // The answer may belong to another question, asked before.
        const bool same = std::equal(lists.begin(), lists.end(), question_.begin(), question_.end(),
                                     [&](Index s, const Choice& asked) { return asked.list == s && chosen(asked); });
        if (answer_ == Verdict::undecided || !same) {
            question_.clear();
            for (const Index s : lists) question_.push_back({s, tree.chosen[s]});
            answer_ = Verdict::undecided;
            return Verdict::undecided;
        }
        verdict = answer_;
        answer_ = Verdict::undecided;
        if (verdict == Verdict::feasible) {
            trial_.restart(answer_weights_.data());
        } else {
            core_.clear();
        }
        return verdict;
    }

    Index granularity_;
    LeastNorm least_norm_;
    Corral trial_;  // of the last linear program
    Phase phase_ = Phase::bound;
    State state_ = State::working;
    Index stop_ = 0, stop_in_node_ = 0;  // work at which to pause, between nodes or anywhere
    Index core_sum_ = 0;                 // tree.sum, raised by disjoint cores
    Index visit_ = 1;                    // the number of the node that was entered last
    Indices attained_;                   // [M] the last visit at which a witness chose the hypothesis
    Indices residual_;                   // [S] what a list can still be charged
    Indices in_core_;                    // [S] number of cores of this node that the list is in
    Core core_;                          // of the last infeasible trial
    Cores cores_, exact_cores_;
    Indices tests_;                        // [S] number of linear programs that looked ahead in the list
    Reals raised_;                         // [S] by how much these raised bounds
    Reals gain_;                           // [S] by how much a test raised the bound, on average
    Indices order_;                        // lists by gain
    std::vector<Choice> question_;         // the choices that the answer is about
    Verdict answer_ = Verdict::undecided;  // undecided: there is none
    Reals answer_weights_;
};

}  // namespace lpmert
