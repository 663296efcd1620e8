// Branch and bound over selections, depth first: decide one list at a time, and bound the cost of the undecided lists.
//
// A node is a set of decided lists with their choices (lemma T1 of proofs/trees.md). Choices are compatible if some
// weights make all of them. Every undecided list adds to the bound the cost of its cheapest hypothesis that is
// compatible with the decided choices (look-ahead, S5 of proofs/selections.md). Disjoint cores, which are sets of
// incompatible choices, among these cheapest hypotheses raise the bound further (C5 of proofs/cores.md).
//
// For a sum of costs, a hypothesis costs the same in every node, and lists are in order of cost. For a ratio of sums
// such as BLEU, the sums that are still possible in a node form a box; a linear minorant of the metric on that box
// gives every hypothesis a price, its cost in this node, in units of height (R4 of proofs/ratio.md). Below the node,
// hypotheses are ruled out whose price is too high, or which are incompatible with the decided choices. That narrows
// the box. A selection may cost more than the sum of its prices, so cores do not pay.
//
// least_norm.hpp decides whether choices are compatible. Where rounding hides the answer, the search pauses in the
// state `asking` until exact arithmetic answers.
#pragma once

#include "least_norm.hpp"
#include "node.hpp"
#include "ratio.hpp"

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

// A node for this search or another one to go on with. It stands for all selections that make its choices, except those
// of the children that are already closed.
struct OpenNode {
    std::vector<Choice> choices;  // from the root down
    Index branch = -1;            // -1 if it has no children yet
    std::vector<Child> children;
    Index bound = 0;  // of the node
    std::vector<Row> ruled_out;
    Corral corral;

    template <class Self, class Visit>
    static void each_field(Self& self, Visit& visit) {
        visit("choices", self.choices);
        visit("branch", self.branch);
        visit("children", self.children);
        visit("bound", self.bound);
        visit("ruled_out", self.ruled_out);
        Corral::each_field(self.corral, visit);
    }
};

// A search with no list decided is `working` until exact arithmetic has to answer (`asking`) or no node is open
// (`closed`). A step leaves its node in one of these states, or `open` for the next step.
enum class State { working, asking, closed, open };

// What Python calls is documented in __init__.pyi.
class ChoicesSearch {
  public:
    // n_fixed: so many lists at the end are half-spaces, decided everywhere; granularity: the least improvement of a
    // cost. weights [D]: where programs start; the first minorant is laid at the sums of what they choose.
    ChoicesSearch(const Lists& lists, const std::optional<Ratio>& ratio, Index n_fixed, Span<const double> weights,
                  Index granularity)
        : lists_(lists),
          n_open_(lists.n_lists() - n_fixed),
          n_fixed_(n_fixed),
          granularity_(granularity),
          best_weights_(weights.begin(), weights.end()),
          chosen_(lists.n_lists(), -1),
          decided_(lists.n_lists()),
          cheapest_(lists.n_lists()),
          selection_(lists.n_lists()),
          excluded_(lists.n_rows()),
          least_norm_(lists),
          trial_(lists.n_features()),
          attained_(lists.n_rows()),
          residual_(lists.n_lists()),
          in_core_(lists.n_lists()),
          tests_(lists.n_lists()),
          order_(lists.n_lists()),
          raised_(lists.n_lists()),
          gain_(lists.n_lists(), INF),
          costs_(lists.costs),
          ratio_(ratio),
          minorant_(ratio ? ratio->n_columns() : 0) {
        check_size(weights.size(), lists.n_features(), "weights");
        if (n_fixed < 0 || n_open_ < 0) throw std::invalid_argument("n_fixed must be at most the number of lists");
        for (Index k = 0; k < n_fixed; ++k) {
            decided_[k] = n_open_ + k;
            chosen_[n_open_ + k] = 0;
        }
        std::iota(order_.begin(), order_.end(), Index{0});
        nodes_.reserve(n_open_ + 1);
        make_node(0);
        node().corral.restart(weights.data());
        if (!ratio) return;
        ratio->check(lists.n_rows());
        totals_.assign(ratio->constant.begin(), ratio->constant.end());
        prices_.resize(lists.n_rows());
        costs_ = prices_;
        target_ = sums_ = totals_;
        decode_total(lists, *ratio, weights.data(), selection_.data(), least_norm_.scores(), target_);
    }
    ChoicesSearch(const ChoicesSearch&) = delete;

    void aim(Index cost, double below) {
        upper = cost;
        if (!ratio_) return;
        loss = std::min(loss, below);
        upper = height_limit(ratio_->kind, loss);
    }

    // Search until no node is open, exact arithmetic has to answer, or a budget of scores is spent.
    State search(Index budget) {
        stop_ = work + budget;
        stop_in_node_ = stop_ + MOST_IN_NODE;
        while (depth >= 0) {
            if (work > stop_) return state_ = State::working;
            const State found = step();
            if (found == State::asking || found == State::working) return state_ = found;
            if (found == State::closed) retreat();
        }
        return state_ = State::closed;
    }

    const std::vector<Choice>& question() const { return question_; }
    Corral& trial() { return trial_; }
    void answer(Span<const double> weights, Rows<const Index> core) {
        if (weights.size() > 0) check_size(weights.size(), lists_.n_features(), "weights");
        if (core.rows() > 0) check_size(core.columns(), 2, "core");
        Core choices;
        for (Index k = 0; k < core.rows(); ++k) {
            choices.push_back({core[k][0], core[k][1]});
            if (!exists(choices.back())) throw std::invalid_argument("core must name lists, and positions in them");
        }
        work += ANSWER_WORK + ANSWER_ROW_WORK * lists_.n_rows();
        // The choices become undecided again; the node tests them again and finds the answer.
        for (Index k = n_decided(); k < count(question_); ++k) chosen_[question_[k].list] = -1;
        if (!choices.empty()) return add_core(std::move(choices), exact_cores_);
        answer_ = weights.size() > 0 ? Verdict::feasible : Verdict::infeasible;
        answer_weights_.assign(weights.begin(), weights.end());
    }

    Index least_open() const {
        Index least = INFINITE_COST;
        for (Index d = 0; state_ != State::closed && d <= depth; ++d) least = std::min(least, open_bound(d));
        return least;
    }

    std::vector<std::tuple<Index, Bytes>> open_nodes() const {
        std::vector<std::tuple<Index, Bytes>> found;
        Bytes excluded = excluded_;
        for (Index d = depth; d >= 0; --d) {
            const Node& node = nodes_[d];
            if (const Index bound = open_bound(d); bound < INFINITE_COST) {
                OpenNode open{{}, -1, {}, node.bound, {}, node.corral};
                for (Index above = 0; above < d; ++above)
                    open.choices.push_back({nodes_[above].branch, chosen_[nodes_[above].branch]});
                if (is_branched(d)) {
                    open.branch = node.branch;
                    open.children.assign(node.children.begin() + node.next, node.children.end());
                }
                for (Index i = 0; i < count(excluded); ++i)
                    if (excluded[i]) open.ruled_out.push_back(static_cast<Row>(i));
                found.emplace_back(bound, packed(open));
            }
            for (Index q = d > 0 ? nodes_[d - 1].trail_end : 0; q < node.trail_end; ++q) excluded[trail_[q]] = false;
        }
        std::reverse(found.begin(), found.end());
        return found;
    }

    void go_on_with(Span<const std::uint8_t> bytes) {
        OpenNode open{{}, -1, {}, 0, {}, Corral(lists_.n_features())};
        unpack(bytes, open);
        check(open);
        std::fill_n(chosen_.begin(), n_open_, Index{-1});
        std::fill(excluded_.begin(), excluded_.end(), std::uint8_t{0});
        for (const Row row : open.ruled_out) excluded_[row] = true;
        trail_.clear();
        depth = count(open.choices);
        make_node(depth);
        for (Index d = 0; d <= depth; ++d) {
            Node& node = nodes_[d];
            node.bound = open.bound;
            node.trail_end = node.next = 0;
            node.children.clear();
            if (d == depth) break;
            node.branch = open.choices[d].list;
            chosen_[node.branch] = open.choices[d].position;
            decided_[n_fixed_ + d] = node.branch;
            enter(d + 1, open.choices[d]);
        }
        node().corral = open.corral;
        answer_ = Verdict::undecided;
        ++visit_;
        phase_ = Phase::bound;
        if (open.branch >= 0) {
            phase_ = Phase::descend;
            node().branch = open.branch;
            node().children = open.children;
        }
        state_ = State::working;
    }

    bool between_nodes() const {
        return state_ == State::working && (phase_ == Phase::bound || phase_ == Phase::descend);
    }
    const LeastNorm& programs() const { return least_norm_; }
    const Reals& best_weights() const { return best_weights_; }

    Index upper = INFINITE_COST;  // cost of the incumbent
    double loss = 1.0;            // of a ratio's incumbent
    Index work = 0, depth = 0, nodes = 0, core_programs = 0;

  private:
    // Work beyond the budget after which a search pauses in the middle of a node, if lists are very many or very long.
    static constexpr Index MOST_IN_NODE = 200'000'000;
    // The work of an exact answer, which takes some milliseconds, and its work for each hypothesis.
    static constexpr Index ANSWER_WORK = 300'000, ANSWER_ROW_WORK = 25;
    static constexpr double CORE_PREFERENCE = 3.0;  // largest factor by which `branch` weighs lists outside all cores
    static constexpr double SHARPNESS = 2.0;        // how fast the weight of a candidate falls with its excess cost

    enum class Phase { bound, look, core, descend };

    struct Node {
        explicit Node(Index n_features) : corral(n_features) {}

        Index bound = 0;
        Index branch = -1;            // the list to branch on
        std::vector<Child> children;  // of this list, the cheapest first
        Index next = 0;               // the child that comes next
        Index trail_end = 0;          // the end of what this node and its ancestors added to the trail
        Corral corral;                // where its linear programs start
    };

    Node& node() { return nodes_[depth]; }
    Index first(Index s) const { return lists_.offsets[s]; }
    Index n_decided() const { return n_fixed_ + depth; }
    bool too_dear(Index bound) const { return bound > upper - granularity_; }
    bool is_branched(Index d) const { return d < depth || phase_ == Phase::descend; }
    Index open_bound(Index d) const {
        const Node& node = nodes_[d];
        if (!is_branched(d)) return node.bound;
        const bool any = node.next < count(node.children);
        return any ? std::max(node.bound, node.children[node.next].bound) : INFINITE_COST;
    }
    void make_node(Index d) {
        while (count(nodes_) <= d) nodes_.emplace_back(lists_.n_features());
    }
    bool exists(const Choice& choice) const {
        const auto [s, position] = choice;
        return 0 <= s && s < lists_.n_lists() && 0 <= position && position < lists_.length(s);
    }
    // Raise ValueError unless the node is one of these lists.
    void check(OpenNode& open) const {
        Bytes decided(lists_.n_lists());
        std::fill(decided.begin() + n_open_, decided.end(), std::uint8_t{1});
        const Index n_nodes = count(open.choices) + (open.branch >= 0);
        bool right = open.branch < n_open_ && n_nodes <= n_open_ && open.corral.is_sound();
        for (const Choice& choice : open.choices) {
            right = right && choice.list < n_open_ && exists(choice);
            if (right) decided[choice.list] = true;
        }
        for (const Child& child : open.children) right = right && exists({open.branch, child.position});
        for (const Row row : open.ruled_out) right = right && 0 <= row && row < lists_.n_rows();
        for (Index k = 0; right && k < open.corral.size; ++k) {
            const Choice other{open.corral.lists()[k], open.corral.others()[k]};
            right = exists(other) && decided[other.list];
        }
        if (!right) throw std::invalid_argument("an open node must be of the lists to search");
    }

    // Take the node through its next phases.
    State step() {
        Node& node = this->node();
        if (phase_ == Phase::bound) {
            // All lists are decided. The witness was recorded when the node was entered, unless this is the root.
            if (depth == n_open_) return depth > 0 ? State::closed : close_root();
            if (!find_costs()) return State::closed;
            phase_ = Phase::look;
        }
        if (phase_ == Phase::look) {
            const State found = look_ahead();
            if (found != State::open) return found;
            node.bound = std::max(node.bound, sum_);
            if (too_dear(node.bound)) return State::closed;
            phase_ = Phase::core;
            core_sum_ = ratio_ ? sum_ : start_core_bound();
            node.bound = std::max(node.bound, core_sum_);
        }
        if (phase_ == Phase::core) {
            const State found = ratio_ ? State::open : core_bound();
            if (found != State::open) return found;
            if (too_dear(node.bound)) return State::closed;
            branch();
            phase_ = Phase::descend;
        }
        return descend();
    }
    // The cheapest row of a list, from a row on, that is not ruled out, the first of equals; -1 if none is left.
    Index cheapest_of(Index s, Index from) const {
        Index best = -1;
        for (Index i = from; i < first(s + 1) && (ratio_ || best < 0); ++i)
            if (!excluded_[i] && (best < 0 || costs_[i] < costs_[best])) best = i;
        return best;
    }
    void rule_out(Index row) {
        excluded_[row] = true;
        trail_.push_back(row);
        ++node().trail_end;
    }
    // Find the costs in a node, their sum and the cheapest row of every list; return whether the node stays open.
    bool find_costs() {
        if (ratio_) return lay_prices();
        sum_ = 0;
        for (Index s = 0; s < n_open_; ++s) {
            const Index row = chosen_[s] < 0 ? cheapest_[s] = cheapest_of(s, first(s)) : first(s) + chosen_[s];
            if (row < 0) return false;
            sum_ += costs_[row];
        }
        return true;
    }
    // Lay a minorant, price the hypotheses, and rule out those that cost too much.
    bool lay_prices() {
        const Span<const double> settled = total_at(depth);
        minorant_.begin(settled);
        for (Index s = 0; s < n_open_; ++s) {
            const auto row = [&](Index i) { return excluded_[first(s) + i] ? -1 : first(s) + i; };
            if (chosen_[s] < 0 && !minorant_.widen(*ratio_, lists_.length(s), row)) return false;
        }
        for (Index k = 0; k < ratio_->n_columns(); ++k)
            minorant_.at[k] = std::min(minorant_.high[k], std::max(minorant_.low[k], target_[k]));
        work += 2 * lists_.n_rows();
        auto [least, useful] = minorant_.lay_in_units(*ratio_, settled, n_open_ - depth);
        for (Index s = 0; least < INFINITE_COST && s < n_open_; ++s) {
            if (chosen_[s] >= 0) continue;
            for (Index i = first(s); i < first(s + 1); ++i)
                if (!excluded_[i]) prices_[i] = useful ? ratio_->cost(minorant_.slopes, i) : 0;
            cheapest_[s] = cheapest_of(s, first(s));
            least += prices_[cheapest_[s]];
        }
        node().bound = std::max(node().bound, least);
        if (node().bound >= upper) return false;
        for (Index s = 0; s < n_open_; ++s) {
            if (chosen_[s] >= 0) continue;
            const Index dearest = upper - least + prices_[cheapest_[s]];
            for (Index i = first(s); i < first(s + 1); ++i)
                if (!excluded_[i] && prices_[i] >= dearest) rule_out(i);
        }
        sum_ = least;
        return true;
    }
    // Rule out the cheapest hypotheses of each undecided list until one is compatible with the decided choices.
    State look_ahead() {
        if (too_dear(sum_)) return State::closed;
        if (answer_ == Verdict::undecided)
            std::stable_sort(order_.begin(), order_.end(), [this](Index a, Index b) { return gain_[a] > gain_[b]; });
        for (const Index s : order_) {
            if (chosen_[s] >= 0) continue;
            while (attained_[cheapest_[s]] != visit_) {
                if (work > stop_in_node_) return State::working;
                const Index row = cheapest_[s];
                const Verdict verdict = test_choice({s, row - first(s)});
                if (verdict == Verdict::undecided) return State::asking;
                chosen_[s] = -1;
                if (verdict == Verdict::feasible) {
                    record_witness();
                    mark_attained();
                    attained_[row] = visit_;
                } else {
                    rule_out(row);
                    const Index next = cheapest_of(s, ratio_ ? first(s) : row + 1);  // of sums, all before are out
                    if (next < 0) return State::closed;
                    const Index rise = costs_[next] - costs_[row];
                    raised_[s] += static_cast<double>(rise);
                    sum_ += rise;
                    cheapest_[s] = next;
                }
                gain_[s] = raised_[s] / static_cast<double>(++tests_[s]);
                if (too_dear(sum_)) return State::closed;
            }
        }
        return State::open;
    }
    // Mark the choices of the last witness: they are compatible with the decided choices.
    void mark_attained() {
        for (Index s = 0; s < n_open_; ++s) attained_[first(s) + selection_[s]] = visit_;
    }
    // Charge the least residual of a core's undecided lists to each; return it, or INFINITE_COST if all are decided.
    Index charge(const Core& core) {
        Index least = INFINITE_COST;
        for (const Choice& choice : core)
            if (chosen_[choice.list] < 0) least = std::min(least, residual_[choice.list]);
        if (least == INFINITE_COST) return least;
        for (const Choice& choice : core) {
            if (chosen_[choice.list] < 0) {
                residual_[choice.list] -= least;
                ++in_core_[choice.list];
            }
        }
        return least;
    }
    bool applies(const Core& core) const {
        return std::all_of(core.begin(), core.end(), [this](const Choice& choice) {
            const auto [s, h] = choice;
            return chosen_[s] >= 0 ? chosen_[s] == h : cheapest_[s] == first(s) + h && residual_[s] > 0;
        });
    }
    // Reset what each list can be charged, from its cheapest row to the next, and charge the known cores that apply;
    // return the bound.
    Index start_core_bound() {
        Index bound = sum_;
        std::fill(in_core_.begin(), in_core_.end(), 0);
        for (Index s = 0; s < n_open_; ++s) {
            const Index row = cheapest_[s];
            if (chosen_[s] < 0) residual_[s] = row + 1 == first(s + 1) ? INFINITE_COST : costs_[row + 1] - costs_[row];
        }
        for (const Core& core : cores_) {
            if (!applies(core)) continue;
            const Index least = charge(core);
            if (least == INFINITE_COST) return least;
            bound = capped_sum(bound, least);
        }
        return bound;
    }
    // Raise the bound by disjoint cores among the cheapest candidates, as core-guided MaxSAT does.
    State core_bound() {
        Node& node = this->node();
        while (!too_dear(node.bound)) {
            if (work > stop_in_node_) return State::working;
            Index n_tested = n_decided();
            for (Index s = 0; s < n_open_; ++s)
                if (chosen_[s] < 0 && residual_[s] > 0) decided_[n_tested++] = s;
            if (n_tested == n_decided()) return State::open;
            for (Index k = n_decided(); k < n_tested; ++k)
                chosen_[decided_[k]] = cheapest_[decided_[k]] - first(decided_[k]);
            trial_ = node.corral;
            ++core_programs;
            const Verdict verdict = test_choices(n_tested, n_decided());
            if (verdict == Verdict::undecided) return State::asking;
            for (Index k = n_decided(); k < n_tested; ++k) chosen_[decided_[k]] = -1;
            if (verdict == Verdict::feasible) {
                record_witness();
                // With every list at its cheapest, the node's bound is attained.
                return n_tested == lists_.n_lists() ? State::closed : State::open;
            }
            if (core_.empty()) return State::open;  // compatible, but at no doubles: the caller notes it
            add_core(core_, cores_);
            const Index least = charge(core_);
            if (least == INFINITE_COST) return State::closed;
            // Cores add to the node's own sum, not to its parent's bound, which may be larger.
            core_sum_ = capped_sum(core_sum_, least);
            node.bound = std::max(node.bound, core_sum_);
        }
        return State::closed;
    }
    // Branch on the undecided list with the fewest candidates below the cut-off, where cheap candidates weigh more.
    //
    // Lists outside all cores weigh more too: the more, the more the cores have raised the bound towards the incumbent.
    void branch() {
        const double slack = static_cast<double>(upper - sum_);
        const double raised = static_cast<double>(core_sum_ - sum_) / std::max(1.0, slack);
        const double outside_cores = 1.0 + (CORE_PREFERENCE - 1.0) * raised;
        double best = INF;
        Index lightest = -1;
        for (Index s = 0; s < n_open_; ++s) {
            if (chosen_[s] >= 0) continue;
            double weight = 0.0;
            for (Index i = first(s); i < first(s + 1); ++i) {
                if (excluded_[i]) continue;
                const double excess = static_cast<double>(costs_[i] - costs_[cheapest_[s]]);
                if (!ratio_ && excess >= slack) break;
                weight += std::exp(-SHARPNESS * excess / slack);
            }
            if (in_core_[s] == 0) weight *= outside_cores;
            if (weight < best) {
                best = weight;
                lightest = s;
            }
        }
        Node& node = this->node();
        node.branch = lightest;
        node.next = 0;
        node.children.clear();
        const Index begin = first(lightest), rest = sum_ - costs_[cheapest_[lightest]];
        for (Index i = begin; i < first(lightest + 1); ++i) {
            if (excluded_[i]) continue;
            if (!too_dear(rest + costs_[i]))
                node.children.push_back({i - begin, rest + costs_[i]});
            else if (!ratio_)
                break;
        }
        if (ratio_)
            std::stable_sort(node.children.begin(), node.children.end(),
                             [](const Child& one, const Child& other) { return one.bound < other.bound; });
    }
    // Enter the next child of the node whose choice is compatible; close the node if none is left below the cut-off.
    State descend() {
        const Index s = node().branch;
        Child child;
        do {
            if (node().next == count(node().children)) return State::closed;
            child = node().children[node().next];
            if (too_dear(child.bound)) return State::closed;
            if (work > stop_in_node_) return State::working;
            const Verdict verdict = test_choice({s, child.position});
            if (verdict == Verdict::undecided) return State::asking;
            ++node().next;
            if (verdict == Verdict::feasible) break;
            chosen_[s] = -1;
        } while (true);
        record_witness();
        ++visit_;
        mark_attained();
        make_node(depth + 1);
        Node &parent = node(), &entered = nodes_[depth + 1];
        entered.trail_end = parent.trail_end;
        entered.bound = std::max(parent.bound, child.bound);
        ++depth;
        enter(depth, {s, child.position});
        if (depth == n_open_) take_selection();
        std::swap(entered.corral, trial_);
        phase_ = Phase::bound;
        ++nodes;
        return State::open;
    }
    // Go back to the parent: restore what was ruled out below it; the list that it branches on is undecided again.
    void retreat() {
        const Index begin = depth > 0 ? nodes_[depth - 1].trail_end : 0;
        for (; count(trail_) > begin; trail_.pop_back()) excluded_[trail_.back()] = false;
        --depth;
        phase_ = Phase::descend;
        answer_ = Verdict::undecided;  // an unused answer belongs to a question of the closed node
        if (depth >= 0) chosen_[node().branch] = -1;
    }
    // Find and record a witness if no list is open.
    State close_root() {
        trial_ = node().corral;
        const Verdict verdict = test_choices(n_fixed_, 0);
        if (verdict == Verdict::undecided) return State::asking;
        if (verdict == Verdict::feasible) {
            record_witness();
            take_selection();
        }
        return State::closed;
    }
    // Note the choice by which the node at this depth is entered.
    void enter(Index d, Choice choice) {
        if (!ratio_) return;
        const Index n = ratio_->n_columns();
        totals_.resize(std::max(count(totals_), (d + 1) * n));
        std::copy_n(totals_.begin() + (d - 1) * n, n, totals_.begin() + d * n);
        ratio_->add(first(choice.list) + choice.position, {totals_.data() + d * n, n});
    }
    Span<const double> total_at(Index d) const {
        return Span<const double>(totals_).part(d * ratio_->n_columns(), (d + 1) * ratio_->n_columns());
    }
    // Decode the witness of a trial into the selection; it becomes the incumbent if certainly better.
    void record_witness() {
        const double* const weights = trial_.point();
        work += lists_.n_rows();
        if (ratio_) {
            const auto [found, clear] =
                decode_total(lists_, *ratio_, weights, selection_.data(), least_norm_.scores(), sums_);
            if (clear) take_if_less(found, sums_);
            return;
        }
        const auto [cost, clear] = decode_clearly(lists_, weights, selection_.data(), least_norm_.scores());
        if (!clear || cost >= upper) return;
        upper = cost;
        best_weights_.assign(weights, weights + lists_.n_features());
    }
    // Take the complete selection of a node, which the witness attains. Differences of features round less than scores
    // far from 0, so decoding alone may leave the selection in doubt.
    void take_selection() {
        if (ratio_) take_if_less(ratio_->loss(total_at(depth)), total_at(depth));
    }
    void take_if_less(double found, Span<const double> total) {
        if (!(found < loss)) return;
        loss = found;
        target_.assign(total.begin(), total.end());
        upper = height_limit(ratio_->kind, loss);
        best_weights_.assign(trial_.point(), trial_.point() + lists_.n_features());
    }
    // Decide whether a choice is compatible with the decided ones, starting from the node's corral.
    Verdict test_choice(Choice choice) {
        trial_ = node().corral;
        chosen_[choice.list] = choice.position;
        decided_[n_decided()] = choice.list;
        return test_choices(n_decided() + 1, n_decided());
    }
    // Decide whether the choices of the first n lists are compatible. If so, the point of trial_ makes them; if not,
    // core_ has a core. `undecided`: exact arithmetic has to answer the question.
    Verdict test_choices(Index n, Index start) {
        const Index rounds = least_norm_.rounds;
        const Span<const Index> lists(decided_.data(), n);
        Verdict verdict = least_norm_.separate(lists, chosen_.data(), start, trial_);
        if (verdict == Verdict::undecided && answer_ == Verdict::undecided) {
            // Near a degenerate core there is often a sound one, which a search from another start may find.
            trial_.restart(best_weights_.data());
            verdict = least_norm_.separate(lists, chosen_.data(), 0, trial_);
        }
        work += (least_norm_.rounds - rounds + 1) * std::max(Index{1}, lists_.n_rows() / 4);
        if (verdict == Verdict::infeasible) {
            core_.clear();
            for (Index k = 0; k < trial_.size; ++k) {
                const Choice choice{trial_.lists()[k], chosen_[trial_.lists()[k]]};
                if (std::find(core_.begin(), core_.end(), choice) == core_.end()) core_.push_back(choice);
            }
            return verdict;
        }
        if (verdict == Verdict::feasible) return verdict;
        const auto chosen = [this](const Choice& choice) { return chosen_[choice.list] == choice.position; };
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
            for (const Index s : lists) question_.push_back({s, chosen_[s]});
            return answer_ = Verdict::undecided;
        }
        verdict = std::exchange(answer_, Verdict::undecided);
        if (verdict == Verdict::feasible) {
            trial_.restart(answer_weights_.data());
        } else {
            core_.clear();
        }
        return verdict;
    }

    Lists lists_;
    Index n_open_, n_fixed_, granularity_;
    Reals best_weights_;
    Phase phase_ = Phase::bound;
    State state_ = State::working;
    Index stop_ = 0, stop_in_node_ = 0;  // work at which to pause, between nodes or anywhere
    Index sum_ = 0;                      // cost of the decided choices and the cheapest candidates of all other lists
    Index core_sum_ = 0;                 // that, raised by disjoint cores
    Index visit_ = 1;                    // the number of the node that was entered last
    std::vector<Node> nodes_;            // by depth
    Indices trail_;                      // rows that were ruled out, from the root down
    Indices chosen_;                     // [S] position of the choice, or -1
    Indices decided_;                    // the decided lists in order
    Indices cheapest_;                   // [S] row of the cheapest candidate of each undecided list
    Indices selection_;                  // choices of the last witness
    Bytes excluded_;                     // [M] whether a row is ruled out
    LeastNorm least_norm_;
    Corral trial_;      // of the last linear program
    Indices attained_;  // [M] the last visit at which a witness chose the hypothesis
    Indices residual_;  // [S] what a list can still be charged
    Indices in_core_;   // [S] number of cores of this node that the list is in
    Core core_;         // of the last infeasible trial
    Cores cores_, exact_cores_;
    Indices tests_;                        // [S] number of linear programs that looked ahead in the list
    Indices order_;                        // lists by gain
    Reals raised_;                         // [S] by how much these programs raised bounds
    Reals gain_;                           // [S] by how much a program raised the bound, on average
    std::vector<Choice> question_;         // the choices that the answer is about
    Verdict answer_ = Verdict::undecided;  // undecided: there is none
    Reals answer_weights_;
    Span<const Index> costs_;  // [M] in the present node
    // Of a ratio: prices_ [M], the storage of costs_; the sums [K] of the incumbent and of a witness; and the sums
    // [depth + 1, K] of the decided lists at each depth.
    std::optional<Ratio> ratio_;
    Minorant minorant_;
    Indices prices_;
    Reals target_, sums_, totals_;
};

}  // namespace lpmert
