// Propagation: drop the hypotheses that another one beats everywhere in a node, settle lists, and add up the bound.
//
// A strictly best hypothesis is never beaten, so that it survives wherever it wins (K1 of proofs/cones.md, B1 of
// proofs/boxes.md). A list whose survivors all cost the same is settled (K3). First the best hypothesis at the centre
// is compared with all others, then these with the cheapest, on which the bound rests: dropping others only saves time.
// Propagation stops as soon as the bound exceeds its limit.
#pragma once

#include <algorithm>

#include "box.hpp"
#include "cone.hpp"

namespace lpmert::cells {

// Pairs of hypotheses that are compared within a list, about: too many comparisons cost more time than they save.
inline constexpr Index MOST_COMPARED = 1'000'000;

// Whether one row of scores [D] is at least another at every ray, beyond the errors of both.
inline bool beats_at_rays(const double* winner, const double* loser, const std::vector<double>& errors) {
    for (Index d = 0; d < count(errors); ++d)
        if (!(winner[d] - loser[d] - 2.0 * errors[d] >= 0.0)) return false;
    return true;
}

template <class Shape>
class Propagation;

template <>
class Propagation<Cones> {
  public:
    Propagation(const Lists&, const Cones& cones, double largest) : cones_(cones), largest_(largest) {}

    // Fill a half, whose geometry is known, with what is left of its cone.
    template <class Loss>
    void run(const Cone& cone, Cone& half, Loss& loss, Index limit);

  private:
    double* score(Index i) { return scores_.data() + i * n_features_; }
    void move(Index source, Index target);
    Index drop_beaten(Index start, Index end, Index best, const std::vector<double>& errors);

    const Cones& cones_;
    double largest_;
    Index n_features_ = 0;
    // Survivors of the cone at hand, before their number is known.
    Buffer<double> scores_;
    Buffer<Row> ids_;
    Buffer<Index> costs_;
};

template <class Loss>
void Propagation<Cones>::run(const Cone& cone, Cone& half, Loss& loss, Index limit) {
    const Index n = n_features_ = cone.n_features(), replaced = cones_.replaced();
    const double* const middle = cones_.middle();
    scores_.resize(std::max(scores_.size(), cone.scores.size()));
    ids_.resize(std::max(ids_.size(), cone.ids.size()));
    costs_.resize(std::max(costs_.size(), cone.costs.size()));
    double tolerance = 4.0 * static_cast<double>(n * n) * EPSILON * largest_;
    for (const double error : half.errors) tolerance += 2.0 * error;
    half.age = cone.age;
    half.total = cone.total;
    half.centre_cost = 0;
    half.closed = false;
    half.ends.assign(1, 0);
    loss.begin();
    bool clear = true;
    Index own = cone.own, extra = 0, kept = 0;  // the parent's least costs stand for lists that are yet to come
    for (Index a = 0; a < cone.n_lists(); ++a) {
        const Index begin = cone.ends[a], end = cone.ends[a + 1], start = kept;
        double top = -std::numeric_limits<double>::infinity(), second = top;
        Index best = start;
        for (Index i = begin; i < end; ++i, ++kept) {
            double* const target = score(kept);
            std::copy(cone.score(i), cone.score(i) + n, target);
            if (replaced >= 0) target[replaced] = middle[i];
            double sum = 0.0;
            for (Index d = 0; d < n; ++d) sum += target[d];
            ids_[kept] = cone.ids[i];
            costs_[kept] = cone.costs[i];
            second = std::max(second, std::min(top, sum));
            if (sum > top) {
                best = kept;
                top = sum;
            }
        }
        clear = clear && top - second > tolerance;
        const Row winner = ids_[best];
        const Index winner_cost = costs_[best];
        if (kept - start == 2) {
            if (beats_at_rays(score(best), score(2 * start + 1 - best), half.errors)) {
                if (best != start) move(best, start);
                kept = start + 1;
            }
        } else {
            kept = drop_beaten(start, kept, best, half.errors);
        }
        const Index least = costs_[start];
        own += least - cone.costs[begin];
        if (own > limit) break;
        const Standing standing = loss.settle(half, ids_.data(), costs_.data(), start, kept, winner);
        if (standing == Standing::settled) {
            kept = start;
        } else if (standing == Standing::open) {
            extra = plus(extra, winner_cost - least);
            half.ends.push_back(kept);
        } else {
            own = INFINITE_COST;
            break;
        }
    }
    if (own <= limit) {
        half.centre_cost = clear ? std::max(half.centre_cost, plus(own, extra)) : INFINITE_COST;
        half.scores.assign(scores_.data(), score(kept));
        half.ids.assign(ids_.data(), ids_.data() + kept);
        half.costs.assign(costs_.data(), costs_.data() + kept);
        own = loss.reprice(half, own, limit);
    }
    half.own = own;
    half.bound = std::max(own, cone.bound);
}

inline void Propagation<Cones>::move(Index source, Index target) {
    std::copy(score(source), score(source) + n_features_, score(target));
    ids_[target] = ids_[source];
    costs_[target] = costs_[source];
}

// Drop rows start .. end that another one beats, first what row `best` beats; return the new end. Rows keep their
// order.
inline Index Propagation<Cones>::drop_beaten(Index start, Index end, Index best, const std::vector<double>& errors) {
    Index left = start;
    const auto keep = [&](Index i) {
        if (i == best) best = left;
        if (left != i) move(i, left);
        ++left;
    };
    for (Index i = start; i < end; ++i)
        if (i == best || !beats_at_rays(score(best), score(i), errors)) keep(i);
    end = left;
    if (end - start <= 2) return end;
    left = start;
    for (Index i = start; i < end; ++i) {
        const bool cheapest = left == start || costs_[i] == costs_[start];
        if (left == i && !cheapest) return end;  // none was dropped
        bool beaten = false;
        if (cheapest && i != best && (i - start) * (end - start) <= MOST_COMPARED) {
            for (Index j = start; j < end && !beaten; ++j)
                beaten = j != best && j != i && (j < left || j > i) && beats_at_rays(score(j), score(i), errors);
        }
        if (!beaten) keep(i);
    }
    return left;
}

template <>
class Propagation<Boxes> {
  public:
    Propagation(const Lists& lists, const Boxes& boxes, double largest);

    // Fill a half, whose geometry is known, with what is left of its box.
    template <class Loss>
    void run(const Box& box, Box& half, Loss& loss, Index limit);

  private:
    template <class Loss>
    Index prune_pairs(const Box& box, Box& half, Loss& loss, Index own, Index limit);
    template <class Loss>
    Index prune_rows(const Box& box, Box& half, Loss& loss, Index own, Index limit);
    void keep(const Box& box, Box& half) const;
    void find_best(const Box& box, Index a, Index b);
    bool leads_clearly(const Box& box, Index best, Index low, Index high) const;
    bool is_beaten(const Box& box, const Box& half, Index start, Index left, Index k, Index end, Index best, Index low);
    Index drop_beaten(const Box& box, const Box& half, Index start, Index end, Index best, Index low, Index high);

    const Boxes& boxes_;
    double rounding_ = 1.0;
    bool clear_ = true;
    Index extra_ = 0;  // what the winners at the centre cost more than the cheapest
    // Of a block of pairs or rows: leads of pairs or scores at the centre, what they vary by in the box, and for each
    // row the best of its list at the centre, as positions in the block, which begins with row block_.
    Buffer<double> lead_, reach_;
    Buffer<Row> best_;
    Index block_ = 0;
    // What is left: pairs, rows, the hypotheses and costs of these, their lists' ends, and pairs that lists have
    // become.
    Buffer<Row> pairs_, rows_, ids_;
    Buffer<Index> costs_;
    std::vector<Index> ends_;
    std::vector<std::pair<Row, Row>> made_;
    Index n_pairs_ = 0;
};

// Pairs or rows that are looked at together: what is computed of them stays in the fastest cache.
inline constexpr Index PROPAGATION_BLOCK = 512;

// Fill lead with the products of columns begin .. end and the centre, reach with what they vary by in the box.
void measure(const Columns& columns, Index begin, Index end, const Box& box, double* lead, double* reach);
// Fill scores with the products of columns begin .. end and the centre.
void score_at_centre(const Columns& columns, Index begin, Index end, const Box& box, double* scores);
// Fill reach with what the lead of the best row (from begin on) over columns begin .. end varies by in the box.
void vary(const Columns& columns, Index begin, Index end, const Box& box, const Row* best, double* reach);
// Fill margins with the least lead in the box of rows low .. high over row i; scores: at the centre, from low on.
void least_leads(const Columns& columns, Index i, Index low, Index high, const Box& box, const double* scores,
                 double* margins);

template <class Loss>
void Propagation<Boxes>::run(const Box& box, Box& half, Loss& loss, Index limit) {
    rounding_ = rounding_of(boxes_.precision().places, half.centre.data(), half.radius.data(), half.n_features());
    half.age = box.age;
    half.total = box.total;
    half.centre_cost = 0;
    half.closed = false;
    clear_ = true;
    extra_ = 0;
    loss.begin();
    Index own = prune_pairs(box, half, loss, box.own, limit);
    if (own <= limit) own = prune_rows(box, half, loss, own, limit);
    if (own <= limit) {
        half.centre_cost = clear_ ? std::max(half.centre_cost, plus(own, extra_)) : INFINITE_COST;
        keep(box, half);
        own = loss.reprice(half, own, limit);
    }
    half.own = own;
    half.bound = std::max(own, box.bound);
}

// Settle the pairs of which one beats the other; return what the box costs.
template <class Loss>
Index Propagation<Boxes>::prune_pairs(const Box& box, Box& half, Loss& loss, Index own, Index limit) {
    const Index n = box.n_pairs();
    pairs_.resize(std::max(pairs_.size(), static_cast<std::size_t>(n)));
    n_pairs_ = 0;
    for (Index begin = 0; begin < n && own <= limit; begin += PROPAGATION_BLOCK) {
        const Index end = std::min(begin + PROPAGATION_BLOCK, n);
        measure(box.gains, begin, end, half, lead_.data(), reach_.data());
        for (Index p = begin; p < end; ++p) {
            const double lead = lead_[p - begin], error = box.reaches[p], reach = reach_[p - begin] + rounding_ * error;
            if (lead - reach >= 0.0) {
                own = loss.settle_pair(half, plus(own, box.steps[p]), box.dear[p]);
            } else if (-lead - reach >= 0.0) {
                own = loss.settle_pair(half, own, box.cheap[p]);
            } else {
                pairs_[n_pairs_++] = static_cast<Row>(p);
                extra_ = plus(extra_, loss.pair_at_centre(half, box.cheap[p], box.dear[p], box.steps[p], lead, error));
            }
        }
    }
    return own;
}

// Drop rows and settle lists; return what the box costs.
template <class Loss>
Index Propagation<Boxes>::prune_rows(const Box& box, Box& half, Loss& loss, Index own, Index limit) {
    const Index n_lists = box.n_row_lists();
    const double off = boxes_.precision().off;
    for (Buffer<Row>* const room : {&rows_, &ids_}) room->resize(std::max(room->size(), box.ids.size()));
    costs_.resize(std::max(costs_.size(), box.ids.size()));
    made_.clear();
    ends_.assign(1, 0);
    Index row = 0;
    for (Index a = 0, b = 0; a < n_lists && own <= limit; a = b) {
        b = a + 1;
        while (b < n_lists && box.ends[b + 1] - box.ends[a] <= PROPAGATION_BLOCK) ++b;
        block_ = box.ends[a];
        const Index last = box.ends[b];
        score_at_centre(box.features, block_, last, half, lead_.data());
        find_best(box, a, b);
        vary(box.features, block_, last, half, best_.data(), reach_.data());
        for (Index s = a; s < b; ++s) {
            const Index low = box.ends[s], high = box.ends[s + 1], best = block_ + best_[low - block_];
            const double top = lead_[best - block_], error = box.row_reaches[best];
            Index left = row;
            for (Index i = low; i < high; ++i) {
                const double lead = top - lead_[i - block_] - reach_[i - block_], doubt = error + box.row_reaches[i];
                bool beaten = lead > doubt;
                if (!beaten && lead >= -doubt && i != best)
                    beaten = beats_in_box(box.features, best, i, half, rounding_, off);
                rows_[left] = static_cast<Row>(i);  // written in any case: nobody can predict whether it is kept
                left += !beaten;
            }
            if (left - row > 2) left = drop_beaten(box, half, row, left, best, low, high);
            const Index least = box.costs[rows_[row]];
            own = plus(own, least - box.costs[low]);
            for (Index k = row; k < left; ++k) {
                ids_[k] = box.ids[rows_[k]];
                costs_[k] = box.costs[rows_[k]];
            }
            const Standing standing = loss.settle(half, ids_.data(), costs_.data(), row, left, box.ids[best]);
            if (standing == Standing::settled) continue;
            if (standing == Standing::impossible) {
                own = INFINITE_COST;
                continue;
            }
            extra_ = plus(extra_, box.costs[best] - least);
            clear_ = clear_ && leads_clearly(box, best, low, high);
            if (left - row == 2) {
                made_.emplace_back(rows_[row], rows_[row + 1]);
            } else {
                row = left;
                ends_.push_back(row);
            }
        }
    }
    return own;
}

}  // namespace lpmert::cells
