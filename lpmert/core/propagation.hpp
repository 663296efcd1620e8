// Propagation: drop the hypotheses that another one beats everywhere in a node, settle lists, and add up the bound.
//
// A strictly best hypothesis is never beaten, so that it survives wherever it wins (K1 of proofs/cones.md, B1 of
// proofs/boxes.md). A list whose survivors all cost the same is settled (K3). First the best hypothesis at the centre
// is compared with all others, then these with the cheapest, on which the bound rests: dropping others only saves time.
// Propagation stops as soon as the bound exceeds its limit.
//
// The least leads of hypotheses over each other are computed in one sweep over the columns of a block of rows; what is
// within rounding of a tie is then decided by `beats` of the shape.
#pragma once

#include "box.hpp"
#include "cone.hpp"

namespace lpmert::cells {

// Pairs of hypotheses that are compared within a list, about: too many comparisons cost more time than they save.
inline constexpr Index MOST_COMPARED = 1'000'000;

// Pairs or rows that are looked at together: what is computed of them stays in the fastest cache.
inline constexpr Index PROPAGATION_BLOCK = 512;

template <class T>
void gather(const T* source, const Buffer<Row>& chosen, Index n, T* target) {
    for (Index j = 0; j < n; ++j) target[j] = source[chosen[j]];
}

template <class Shape>
class Propagation {
    using Node = typename Shape::Node;

  public:
    Propagation(const Lists& lists, const Shape& shape)
        : shape_(shape), n_features_(lists.n_features()), values_(n_features_) {
        const Index size = std::max(PROPAGATION_BLOCK, lists.longest());
        scores_.resize(size);
        varied_.resize(size);
        best_.resize(size);
    }

    // Fill a half, whose geometry is known, with what is left of its node.
    template <class Loss>
    void run(const Node& node, Node& half, Loss& loss, Index limit) {
        half.age = node.age;
        half.total = node.total;
        half.centre_cost = 0;
        half.closed = false;
        extra_ = n_pairs_ = 0;
        shape_.view(node, values_);
        loss.begin();
        Index own = node.own;  // the least costs of lists that are yet to come stand for these
        if constexpr (Shape::has_pairs) own = prune_pairs(node, half, loss, own, limit);
        if (own <= limit) own = prune_rows(node, half, loss, own, limit);
        if (own <= limit) {
            half.centre_cost = std::max(half.centre_cost, plus(own, extra_));
            keep(node, half);
            own = loss.reprice(half, own, limit);
        }
        half.own = own;
        half.bound = std::max(own, node.bound);
    }

  private:
    // Settle the pairs of which one beats the other; return what the node costs.
    template <class Loss>
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
                    own = loss.settle_pair(half, plus(own, node.steps[p]), node.dear[p]);
                } else if (-lead - reach >= 0.0) {
                    own = loss.settle_pair(half, own, node.cheap[p]);
                } else {
                    pairs_[n_pairs_++] = static_cast<Row>(p);
                    const bool dear = lead > 0.0;
                    if (dear) extra_ = plus(extra_, node.steps[p]);
                    loss.choose_at_centre(half, dear ? node.dear[p] : node.cheap[p]);
                }
            }
        }
        return own;
    }
    // Drop rows and settle lists; return what the node costs.
    template <class Loss>
    Index prune_rows(const Node& node, Node& half, Loss& loss, Index own, Index limit) {
        const Index n_lists = node.n_row_lists();
        for (Buffer<Row>* const room : {&rows_, &ids_}) room->resize(std::max(room->size(), node.ids.size()));
        costs_.resize(std::max(costs_.size(), node.ids.size()));
        made_.clear();
        ends_.assign(1, 0);
        Index row = 0;
        for (Index a = 0, b = 0; a < n_lists && own <= limit; a = b) {
            b = a + 1;
            while (b < n_lists && node.ends[b + 1] - node.ends[a] <= PROPAGATION_BLOCK) ++b;
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
                own = plus(own, least - node.costs[low]);
                for (Index k = row; k < left; ++k) {
                    ids_[k] = node.ids[rows_[k]];
                    costs_[k] = node.costs[rows_[k]];
                }
                const Standing standing = loss.settle(half, ids_.data(), costs_.data(), row, left, node.ids[best]);
                if (standing == Standing::settled) continue;
                if (standing == Standing::impossible) {
                    own = INFINITE_COST;
                    continue;
                }
                extra_ = plus(extra_, node.costs[best] - least);
                if (Shape::has_pairs && left - row == 2) {
                    made_.emplace_back(rows_[row], rows_[row + 1]);
                } else {
                    row = left;
                    ends_.push_back(row);
                }
            }
        }
        return own;
    }
    // Whether row k of start .. end is beaten in the whole half by another one that is not dropped; but for the best
    // one.
    bool is_beaten(const Node& node, const Node& half, Index start, Index left, Index k, Index end, Index best,
                   Index low, Index high) {
        const Index i = rows_[k];
        shape_.vary(values_, low, high, half, nullptr, i - low, varied_.data() + (low - block_));
        for (Index q = start; q < end; ++q) {
            const Index j = rows_[q];
            const double lead = Shape::lead(scores_[j - block_] - scores_[i - block_], varied_[j - block_]);
            const bool may = lead >= -2.0 * (shape_.error(node, i) + shape_.error(node, j));
            if (may && j != best && q != k && (q < left || q > k) && shape_.beats(values_, j, i, half)) return true;
        }
        return false;
    }
    // Drop rows start .. end (positions among low .. high) that another one beats in the whole half; return the new
    // end.
    Index drop_beaten(const Node& node, const Node& half, Index start, Index end, Index best, Index low, Index high) {
        const auto beaten = [&](Index left, Index k) {
            return is_beaten(node, half, start, left, k, end, best, low, high);
        };
        if constexpr (Shape::sparing) {
            // Mostly none beats the cheapest row that is best at the centre, nor any other of the cheapest.
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
    // Copy what is left to the half, with the lists that have become pairs behind the pairs.
    void keep(const Node& node, Node& half) const {
        const Index n_rows = ends_.back();
        if constexpr (Shape::has_pairs) {
            half.resize_pairs(n_features_, n_pairs_ + count(made_));
            for (Index d = 0; d < n_features_; ++d) gather(node.gains[d], pairs_, n_pairs_, half.gains[d]);
            gather(node.reaches.data(), pairs_, n_pairs_, half.reaches.data());
            gather(node.steps.data(), pairs_, n_pairs_, half.steps.data());
            gather(node.cheap.data(), pairs_, n_pairs_, half.cheap.data());
            gather(node.dear.data(), pairs_, n_pairs_, half.dear.data());
            Index p = n_pairs_;
            for (const auto& [low, high] : made_) {
                const auto gain = [&, i = low, j = high](Index d) { return values_[d][j] - values_[d][i]; };
                const Index step = node.costs[high] - node.costs[low];
                half.set_pair(p++, node.ids[low], node.ids[high], step, gain, shape_.precision().off);
            }
            half.row_reaches.resize(n_rows);
            gather(node.row_reaches.data(), rows_, n_rows, half.row_reaches.data());
        }
        half.values.resize(n_features_, n_rows);
        for (Index d = 0; d < n_features_; ++d) gather(values_[d], rows_, n_rows, half.values[d]);
        half.ids.assign(ids_.data(), ids_.data() + n_rows);
        half.costs.assign(costs_.data(), costs_.data() + n_rows);
        half.ends = ends_;
    }

    const Shape& shape_;
    Index n_features_;
    View values_;      // the node's columns as the half sees them
    Index extra_ = 0;  // what the winners at the centre cost more than the cheapest
    // Of a block of pairs or rows: leads of pairs or scores at the centre, what leads vary by in the half, and for each
    // row the best of its list at the centre, as positions in the block, which begins with row block_.
    Buffer<double> scores_, varied_;
    Buffer<Row> best_;
    Index block_ = 0;
    // What is left: pairs, rows, the hypotheses and costs of these, their lists' ends, and pairs that lists have
    // become.
    Buffer<Row> pairs_, rows_, ids_;
    Buffer<Index> costs_;
    Indices ends_;
    std::vector<std::pair<Row, Row>> made_;
    Index n_pairs_ = 0;
};

}  // namespace lpmert::cells
