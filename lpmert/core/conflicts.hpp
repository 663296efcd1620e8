// Conflicts between lists: of two lists that pull in opposite directions, one does not choose its cheapest hypothesis.
//
// An item is a list and a step of its costs. Its gain is the lead of a hypothesis above the step over all below it; the
// list pays the step wherever the gain is not negative. If a mixture of the gains of two items is negative nowhere in a
// node, then at all weights of the node one of the two lists pays (lemma K7 of proofs/cones.md, B4 of proofs/boxes.md).
// So the node's bound rises by the smaller of the two steps. This charge is deducted from both, so that charges add up.
//
// Single precision finds candidate pairs. Double precision decides each, with a bound on its rounding error.
#pragma once

#include "box.hpp"
#include "cone.hpp"

namespace lpmert::cells {

inline constexpr Index BLOCK = 128;       // items that are compared with another one at once
inline constexpr Index VECTOR = 16;       // of these, items in registers
inline constexpr float NO_GAIN = 1e-30F;  // stands for a gain of 0, which makes up for no loss
inline constexpr Index BUCKETS = 128;     // of heights, by which items of a box are sorted
inline constexpr double SHARE = 0.35;     // tried shares of two items: equal, SHARE and the rest, the rest and SHARE
inline constexpr float NEARLY = -2e-6F;   // least margin in single precision that may be 0 in double precision
inline constexpr double HOPE = 0.6;       // least share of the needed charges that an estimate from a sample promises
inline constexpr float GONE = -8.0F;      // height of an item with nothing left: no other makes up for it
inline constexpr Index SAMPLE = 256;      // about how many items of a box such an estimate compares

// Charge conflicts between items, in order of falling height, until the charges exceed the sum that is needed; return
// the sum of the charges. possible: what the items that pay at the centre have left, as every charge is to one of them;
// INFINITE_COST if unknown.
template <class ItemSet>
Index charge(ItemSet& items, Index possible, Index needed, Index& compared) {
    Index total = 0;
    const auto lower_possible = [&](Index amount) { possible -= possible < INFINITE_COST ? amount : 0; };
    for (Index i = items.n - 1; i > 0; --i) {
        if (total > needed || capped_sum(total, possible) <= needed) break;
        if (!items.pays_at_centre(i)) continue;
        lower_possible(items.left[i]);
        for (Index begin = items.first_partner(i); begin < i; begin += BLOCK) {
            if (items.left[i] == 0 || total > needed) break;
            const Index end = std::min(i, begin + BLOCK);
            compared += end - begin;
            if (!items.compare(i, begin, end)) continue;
            for (Index j = begin; j < end; ++j) {
                if (!items.may_conflict(j, begin) || items.left[j] == 0 || !items.pays(i, j, begin)) continue;
                const Index amount = std::min(items.left[i], items.left[j]);
                total += amount;
                items.record(i, j);
                if (items.pays_at_centre(j)) lower_possible(amount);
                items.deduct(i, amount);
                items.deduct(j, amount);
                if (items.left[i] == 0 || total > needed) break;
            }
        }
    }
    return total;
}

// The bucket of a height; heights beyond -1 and 1 go to the outermost buckets.
inline Index bucket(double height) {
    return std::clamp<Index>(static_cast<Index>((height + 1.0) * (0.5 * static_cast<double>(BUCKETS))), 0, BUCKETS - 1);
}

// The margins of an item with another one in equal shares, with more of the other, and with less.
inline std::tuple<float, float, float> margins_at(const std::vector<float>& margins, Index j) {
    const float* const even = margins.data() + 3 * (j - j % VECTOR) + j % VECTOR;
    return {even[0], even[VECTOR], even[2 * VECTOR]};
}

// Items, in any order: gains [n, D]; sizes: bounds on a gain; heights: the gain at the centre by its size; steps: what
// an item can be charged. The same items in order of height: order: the item's number; left: what it has not been
// charged yet; scaled [D, n]: gains by size.
struct Items {
    Items(Index n_features_, Index n_items) : n_features(n_features_), stride(n_items + VECTOR) {
        gains.resize(n_features * stride);
        for (auto* const numbers : {&sizes, &heights}) numbers->resize(stride);
        for (auto* const numbers : {&steps, &order, &left}) numbers->resize(stride);
        scaled.resize(n_features * stride);
    }

    Span<double> gain(Index k) { return {gains.data() + k * n_features, n_features}; }
    Span<const double> gain(Index k) const { return {gains.data() + k * n_features, n_features}; }

    Index n_features, stride, n = 0;
    Reals gains, sizes, heights;
    Indices steps, order, left;
    std::vector<float> scaled;
};

template <class Shape>
class Conflicts;

// Conflicts in a cone. The items are the steps of the open lists from the least cost to the next.
template <>
class Conflicts<Cones> : public Items {
  public:
    Conflicts(const Lists& lists, const Settings& settings, const Cones&)
        : Items(lists.n_features(), std::min(lists.n_lists(), settings.conflict_lists)), low_(BLOCK), high_(low_) {}

    // Return by how much conflicts raise the own bound of a cone; stop beyond what is needed.
    Index run(const Cone& cone, Index needed, Counts& counts) {
        errors_ = cone.errors;
        collect(cone);
        counts.work += cone.n_rows();
        return can_pay(needed) ? charge(*this, sort(), needed, counts.work) : 0;
    }

    // The interface of `charge`. i, j: positions in order of height.
    bool pays_at_centre(Index i) const { return heights[order[i]] > 0.0; }
    Index first_partner(Index) const { return 0; }
    // Find for each of items begin .. end the multiples low .. high of item i's gain that make up for its losses at
    // every ray; return whether there are any.
    LPMERT_CLONES bool compare(Index i, Index begin, Index end) {
        const Index n = end - begin;
        float *const low = low_.data(), *const high = high_.data();
        std::fill_n(low, n, 0.0F);
        std::fill_n(high, n, std::numeric_limits<float>::infinity());
        for (Index d = 0; d < n_features; ++d) {
            const float* const row = scaled.data() + d * stride;
            const float value = row[i], factor = -1.0F / (value >= 0.0F ? std::max(value, NO_GAIN) : value);
            const float* const others = row + begin;
            if (value >= 0.0F) {
                for (Index j = 0; j < n; ++j) low[j] = others[j] * factor > low[j] ? others[j] * factor : low[j];
            } else {
                for (Index j = 0; j < n; ++j) high[j] = others[j] * factor < high[j] ? others[j] * factor : high[j];
            }
        }
        int found = 0;
        for (Index j = 0; j < n; ++j) found |= low[j] <= high[j];
        return found != 0;
    }
    bool may_conflict(Index j, Index begin) const { return low_[j - begin] <= high_[j - begin]; }
    // Whether the mixture of two gains, in the shares that seem best, is certainly at least 0 at every ray. Gains are
    // differences of scores, each with an error of at most errors [D].
    bool pays(Index i, Index j, Index begin) const {
        const Index first = order[i], second = order[j];
        const double low = low_[j - begin], high = high_[j - begin];
        const double multiple = high == INF ? 2.0 * low + 1.0 : 0.5 * (low + high);
        double share = multiple / sizes[first], other = 1.0 / sizes[second];
        const double larger = std::max(share, other);
        share /= larger;
        other /= larger;
        for (Index d = 0; d < n_features; ++d) {
            const double x = share * gain(first)[d], y = other * gain(second)[d];
            const double lost = gain(first)[d] == 0.0 && gain(second)[d] == 0.0 ? 0.0 : TINY;  // by underflow
            const double off = 2.0 * errors_[d] * (share + other) + 2.0 * EPSILON * (std::abs(x) + std::abs(y)) + lost;
            if (!(off * (1.0 + 8.0 * EPSILON) <= x + y && x + y < INF)) return false;
        }
        return true;
    }
    void deduct(Index j, Index amount) {
        left[j] -= amount;
        if (left[j] > 0) return;
        for (Index d = 0; d < n_features; ++d) scaled[d * stride + j] = -1.0F;  // no other makes up for such losses
    }
    void record(Index, Index) {}

  private:
    // Add the items of the open lists. A gain is the lead of the best of the dearer rows at the centre over all rows of
    // the least cost.
    void collect(const Cone& cone) {
        n = 0;
        for (Index a = 0; a < cone.n_row_lists(); ++a) {
            const Index begin = cone.ends[a], end = cone.ends[a + 1];
            Index middle = begin + 1;
            while (middle < end && cone.costs[middle] == cone.costs[begin]) ++middle;
            if (middle == end) continue;
            double top = -INF;
            Index best = middle;
            for (Index i = middle; i < end; ++i) {
                double sum = 0.0;
                for (Index d = 0; d < n_features; ++d) sum += cone.values[d][i];
                if (sum > top) {
                    top = sum;
                    best = i;
                }
            }
            double total = 0.0, size = 0.0, most = 0.0;
            for (Index d = 0; d < n_features; ++d) {
                const double* const scores = cone.values[d];
                const double lead = scores[best] - *std::max_element(scores + begin, scores + middle);
                gain(n)[d] = lead;
                total += lead;
                size = std::max(size, std::abs(lead));
                most = std::max(most, lead);
            }
            if (!(most > 0.0)) continue;
            steps[n] = cone.costs[middle] - cone.costs[begin];
            sizes[n] = size;
            heights[n++] = total / size;
        }
    }
    // Whether charges can exceed what is needed. They are at most what items pay at any weights, so also at the centre
    // and at each ray.
    bool can_pay(Index needed) const {
        for (Index d = -1; d < n_features; ++d) {
            Index paid = 0;
            for (Index k = 0; k < n; ++k)
                if ((d < 0 ? heights[k] : gain(k)[d]) >= 0.0) paid = capped_sum(paid, steps[k]);
            if (paid <= needed) return false;
        }
        return true;
    }
    // Sort the items by height, with nothing charged yet; return the sum of the steps of those that pay at the centre.
    Index sort() {
        std::iota(order.begin(), order.begin() + n, Index{0});
        std::sort(order.begin(), order.begin() + n,
                  [this](Index a, Index b) { return heights[a] != heights[b] ? heights[a] < heights[b] : a < b; });
        Index possible = 0;
        for (Index x = 0; x < n; ++x) {
            const Index k = order[x];
            left[x] = steps[k];
            if (heights[k] > 0.0) possible = capped_sum(possible, steps[k]);
            for (Index d = 0; d < n_features; ++d) scaled[d * stride + x] = static_cast<float>(gain(k)[d] / sizes[k]);
        }
        return possible;
    }

    Span<const double> errors_;
    std::vector<float> low_, high_;
};

// Conflicts in a box. A list may have several items, for steps between several levels of its costs.
template <>
class Conflicts<Boxes> : public Items {
  public:
    Conflicts(const Lists& lists, const Settings& settings, const Boxes& boxes)
        : Conflicts(lists.n_features(), settings.levels * std::min(lists.n_lists(), settings.conflict_lists), 0) {
        levels_ = settings.levels;
        boxes_ = &boxes;
        const Index longest = std::max(lists.longest(), PROPAGATION_BLOCK);
        for (auto* const numbers : {&lead_, &reach_}) numbers->resize(longest);
        later_.resize(longest);
    }
    // Memory for items that are added one by one, and for recording this many charged pairs.
    Conflicts(Index n_features_, Index n_items, Index n_pairs)
        : Items(n_features_, n_items + 1),
          most_pairs_(n_pairs),
          values_(n_features),
          starts_(BUCKETS + 1),
          level_(sizes.size()),
          margins_(3 * BLOCK) {}

    Index run(const Box& box, Index needed, Counts& counts) {
        collect(box);
        counts.work += box.n_survivors();
        const Index all = n, share = n / SAMPLE;
        if (share > 1) {
            // The number of pairs grows with the square of that of items, so a sample tells whether to compare all.
            for (Index k = 0; k < all / share; ++k) swap(k, k * share);
            n = all / share;
            const auto enough = static_cast<Index>(HOPE * static_cast<double>(needed) / static_cast<double>(share));
            const Index total = charge_items(enough, counts.work);
            n = all;
            if (total <= enough) return total;
        }
        return charge_items(needed, counts.work);
    }

    // Begin with a box, to which items are added one by one. rounding: 0.0 if sums of gains are exact, else 1.0.
    void begin(Span<const double> centre, Span<const double> radius, double rounding, double off) {
        centre_ = centre;
        radius_ = radius;
        rounding_ = rounding;
        off_ = off;
        n = 0;
        pairs_.clear();
    }
    Span<double> next_gain() { return gain(n); }
    // Add the item whose gain was written into next_gain(); return whether it can take part in a conflict.
    bool add(Index step) {
        Products products;
        for (Index d = 0; d < n_features; ++d) products.add(gain(n)[d], 0.0, centre_[d], radius_[d]);
        return add(products.lead, products.reach, step);
    }
    // Charge conflicts until the charges exceed what is needed; return their sum.
    Index charge_items(Index needed, Index& compared) {
        Index possible = 0;
        for (Index k = 0; k < n; ++k)
            if (heights[k] >= 0.0) possible = capped_sum(possible, steps[k]);
        if (possible <= needed) return 0;
        sort();
        return charge(*this, possible, needed, compared);
    }
    const std::vector<std::pair<Index, Index>>& pairs() const { return pairs_; }

    // The interface of `charge`.
    bool pays_at_centre(Index i) const { return level_[i] >= 0.0F; }
    Index first_partner(Index i) const { return starts_[bucket(-level_[i])]; }
    // Write the margins of item i with items begin .. end in three shares; return whether any is nearly 0, or positive.
    LPMERT_CLONES bool compare(Index i, Index begin, Index end) {
        const float* const level = level_.data();
        float* const margins = margins_.data();
        constexpr auto odds = static_cast<float>(SHARE / (1.0 - SHARE));
        const float height = level[i];
        for (Index block = begin; block < end; block += VECTOR) {
            float even[VECTOR], more[VECTOR], less[VECTOR];
            for (Index j = 0; j < VECTOR; ++j) {
                const float other = level[block + j];
                even[j] = height + other;
                more[j] = height + odds * other;
                less[j] = odds * height + other;
            }
            for (Index d = 0; d < n_axes_; ++d) {
                const float x = scaled[d * stride + i], odd = odds * x;
                const float* const others = scaled.data() + d * stride + block;
                for (Index j = 0; j < VECTOR; ++j) {
                    even[j] -= std::abs(x + others[j]);
                    more[j] -= std::abs(x + odds * others[j]);
                    less[j] -= std::abs(odd + others[j]);
                }
            }
            float* const found = margins + 3 * (block - begin);
            // Three loops, as compilers vectorise each of them.
            for (Index j = 0; j < VECTOR; ++j) found[j] = even[j];
            for (Index j = 0; j < VECTOR; ++j) found[VECTOR + j] = more[j];
            for (Index j = 0; j < VECTOR; ++j) found[2 * VECTOR + j] = less[j];
        }
        const Index n = 3 * ((end - begin + VECTOR - 1) / VECTOR * VECTOR);
        int found = 0;
        for (Index j = 0; j < n; ++j) found |= margins[j] >= NEARLY;
        return found != 0;
    }
    bool may_conflict(Index j, Index begin) const {
        const auto [even, more, less] = margins_at(margins_, j - begin);
        return std::max(even, std::max(more, less)) >= NEARLY;
    }
    // Whether the mixture of two gains, in the shares that seem best, is certainly at least 0 in the whole box.
    bool pays(Index i, Index j, Index begin) const {
        const auto [even, more, less] = margins_at(margins_, j - begin);
        const Index first = order[i], second = order[j];
        double share = 1.0, other = 1.0;
        if (more > even && more >= less)
            other = SHARE / (1.0 - SHARE);
        else if (less > even)
            share = SHARE / (1.0 - SHARE);
        share *= sizes[second];
        other *= sizes[first];
        const double larger = std::max(share, other);
        share /= larger;
        other /= larger;
        Products products;
        for (Index d = 0; d < n_features; ++d) {
            const double x = share * gain(first)[d], y = other * gain(second)[d];
            products.add(x + y, std::abs(x) + std::abs(y), centre_[d], radius_[d]);
        }
        const bool exact = share == 1.0 && other == 1.0;
        return products.are_at_least(products.error(n_features + 6, exact ? rounding_ : 1.0) + (share + other) * off_);
    }
    void deduct(Index j, Index amount) {
        left[j] -= amount;
        if (left[j] == 0) level_[j] = GONE;
    }
    void record(Index i, Index j) {
        if (count(pairs_) < most_pairs_) pairs_.emplace_back(order[i], order[j]);
    }

  private:
    bool add(double lead, double reach, Index step) {
        if (!(0.0 < reach && reach < INF) || !(std::abs(lead) <= 2.0 * reach)) return false;
        sizes[n] = reach;
        heights[n] = lead / reach;
        steps[n++] = step;
        return true;
    }
    void collect(const Box& box) {
        begin(box.centre, box.radius, boxes_->rounding(box), boxes_->precision().off);
        boxes_->view(box, values_);
        for (Index first = 0; first < box.n_pairs(); first += PROPAGATION_BLOCK) {
            const Index last = std::min(first + PROPAGATION_BLOCK, box.n_pairs());
            measure(box.gains, first, last, box, lead_.data(), reach_.data());
            for (Index p = first; p < last; ++p) {
                if (box.steps[p] == 0) continue;  // hypotheses of different statistics may have the same price
                for (Index d = 0; d < n_features; ++d) gain(n)[d] = box.gains[d][p];
                add(lead_[p - first], reach_[p - first], box.steps[p]);
            }
        }
        const Index face = box.face();
        for (Index a = 0; a < box.n_row_lists(); ++a) add_levels(box, box.ends[a], box.ends[a + 1], face);
    }
    // Add an item for each cost level of a list of more than two hypotheses. The list pays it where the best of the
    // dearer hypotheses is above all others.
    void add_levels(const Box& box, Index low, Index high, Index face) {
        const Index first = n, size = high - low;
        score_columns(values_, low, high, centre_.data(), lead_.data());
        for (Index i = size - 1, best = i; i >= 0; --i) {
            if (lead_[i] > lead_[best]) best = i;
            later_[i] = best;  // the best of rows i .. size - 1 at the centre
        }
        Index cheap = 0, end = 0;
        double beyond = -1.0;  // by how much other cheaper rows may lead row `cheap`; negative if there are none
        while (n - first < levels_) {
            const Index before = end, ahead = cheap, cost = box.costs[low + end];
            while (end < size && box.costs[low + end] == cost) {
                if (lead_[end] > lead_[cheap]) cheap = end;
                ++end;
            }
            if (end == size)
                break;  // possibly at the first level: hypotheses of different statistics may cost the same
            if (end > 1) {
                const double more = allowance(box, low + (cheap == ahead ? before : 0), low + end, low + cheap);
                beyond = cheap == ahead ? std::max(beyond, more) : more;
            }
            const Span<double> lead = next_gain();
            const Index best = later_[end];
            for (Index d = 0; d < n_features; ++d) lead[d] = box.values[d][low + best] - box.values[d][low + cheap];
            if (beyond >= 0.0) {
                // No cheaper row leads `cheap` by more than `beyond`, and the face's weight is 1 or -1.
                const double gain = lead[face];
                lead[face] = gain - centre_[face] * (beyond + rounding_ * EPSILON * (std::abs(gain) + beyond));
            }
            if (!add(box.costs[low + end] - cost)) break;
            if (heights[n - 1] < -1.0) {
                --n;
                break;  // the next levels are lower still
            }
        }
    }
    // An upper bound, at least 0.0, on the leads of rows low .. high over one of them in a box.
    double allowance(const Box& box, Index low, Index high, Index ahead) const {
        double most = 0.0;
        for (Index i = low; i < high; ++i) {
            if (i == ahead) continue;
            const Products products = lead_in_box(box.values, i, ahead, box);
            const double error = products.error(n_features + 6, rounding_) + off_;
            most = std::max(most, products.lead + (products.reach + error));
        }
        return most;
    }
    void swap(Index x, Index y) {
        if (x == y) return;
        std::swap_ranges(gain(x).begin(), gain(x).end(), gain(y).begin());
        std::swap(sizes[x], sizes[y]);
        std::swap(heights[x], heights[y]);
        std::swap(steps[x], steps[y]);
    }
    // Sort the items by the buckets of their heights, with nothing charged yet.
    void sort() {
        std::fill(starts_.begin(), starts_.end(), 0);
        for (Index k = 0; k < n; ++k) ++starts_[bucket(heights[k]) + 1];
        for (Index q = 1; q <= BUCKETS; ++q) starts_[q] += starts_[q - 1];
        for (Index k = 0; k < n; ++k) order[starts_[bucket(heights[k])]++] = k;
        for (Index q = BUCKETS; q > 0; --q) starts_[q] = starts_[q - 1];
        starts_[0] = 0;
        n_axes_ = 0;
        for (Index d = 0; d < n_features; ++d) n_axes_ += radius_[d] > 0.0;
        for (Index x = 0; x < n; ++x) {
            const Index k = order[x];
            left[x] = steps[k];
            level_[x] = static_cast<float>(heights[k]);
            Index axis = 0;
            for (Index d = 0; d < n_features; ++d)
                if (radius_[d] > 0.0)
                    scaled[stride * axis++ + x] = static_cast<float>(gain(k)[d] * radius_[d] / sizes[k]);
        }
    }

    Index n_axes_ = 0, most_pairs_ = 0, levels_ = 1;
    const Boxes* boxes_ = nullptr;
    Span<const double> centre_, radius_;
    double rounding_ = 1.0, off_ = 0.0;
    View values_;
    Indices starts_, later_;
    std::vector<float> level_, margins_;
    Reals lead_, reach_;
    std::vector<std::pair<Index, Index>> pairs_;
};

}  // namespace lpmert::cells
