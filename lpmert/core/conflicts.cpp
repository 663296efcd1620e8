#include "conflicts.hpp"

#include <algorithm>
#include <cmath>

#include "propagation.hpp"
#include "vectors.hpp"

namespace lpmert::cells {

namespace {

constexpr Index BLOCK = 128;          // items compared with another one at once
constexpr Index VECTOR = 16;          // of these in registers
constexpr float NO_GAIN = 1e-30F;     // a gain that is none counts as so little: it makes up for no loss
constexpr Index BUCKETS = 128;        // items of a box are put in order of height as far as so many buckets tell
constexpr double SHARE = 0.35;        // besides equal shares, so much of one item and the rest of the other are tried
constexpr float NEARLY = -2e-6F;      // margins in single precision that double precision may find to be none
constexpr double HOPE = 0.6;          // share of what is needed that an estimate from a sample has to promise at least
constexpr double ALIKE = 1.0 / 16.0;  // difference of heights up to which levels of a list are one item
constexpr float GONE = -8.0F;         // height of an item that has nothing left: nothing makes up for it
constexpr Index SAMPLE = 256;         // of many items of a box, about so many tell whether conflicts may do

constexpr double INF = std::numeric_limits<double>::infinity();

// Charge conflicts between n items in order of height until the charges exceed what is needed; possible: what all items
// that pay at the centre have left, as every charge is to one of them; INFINITE_COST says nothing. Return the sum of
// the charges.
template <class Items>
Index charge(Items& items, Index n, Index possible, Index needed, Index& compared) {
    Index total = 0;
    const auto lose = [&](Index amount) { possible -= possible < INFINITE_COST ? amount : 0; };
    for (Index i = n - 1; i > 0; --i) {
        if (total > needed || plus(total, possible) <= needed) break;
        if (!items.pays_at_centre(i)) continue;
        lose(items.left(i));
        for (Index begin = items.first_partner(i); begin < i; begin += BLOCK) {
            if (items.left(i) == 0 || total > needed) break;
            const Index end = std::min(i, begin + BLOCK);
            compared += end - begin;
            if (!items.compare(i, begin, end)) continue;
            for (Index j = begin; j < end; ++j) {
                if (!items.promises(j, begin) || items.left(j) == 0 || !items.pays(i, j, begin)) continue;
                const Index amount = std::min(items.left(i), items.left(j));
                total += amount;
                items.name(i, j);
                if (items.pays_at_centre(j)) lose(amount);
                items.take(i, amount);
                items.take(j, amount);
                if (items.left(i) == 0 || total > needed) break;
            }
        }
    }
    return total;
}

}  // namespace

// ---- cones

bool one_pays(const double* first, const double* second, double share, double other, Span<const double> errors) {
    for (Index d = 0; d < errors.size(); ++d) {
        const double x = share * first[d], y = other * second[d];
        const double off = 2.0 * errors[d] * (share + other) + 2.0 * EPSILON * (std::abs(x) + std::abs(y));
        if (!(off * (1.0 + 8.0 * EPSILON) <= x + y && x + y < INF)) return false;
    }
    return true;
}

Conflicts<Cones>::Conflicts(const Lists& lists, const Settings& settings, const Cones&)
    : n_features_(lists.n_features()), stride_(std::min(lists.n_lists(), settings.conflict_lists) + VECTOR) {
    const auto size = static_cast<std::size_t>(stride_), n = static_cast<std::size_t>(n_features_);
    gains_.resize(n * size);
    for (auto* const items : {&sizes_, &heights_}) items->resize(size);
    for (auto* const items : {&steps_, &order_, &left_}) items->resize(size);
    scaled_.resize(n * size);
    low_.resize(static_cast<std::size_t>(BLOCK));
    high_.resize(static_cast<std::size_t>(BLOCK));
}

// The gain of a list: of the best row at the centre that costs more, over all of the least cost.
void Conflicts<Cones>::collect(const Cone& cone) {
    n_ = 0;
    for (Index a = 0; a < cone.n_lists(); ++a) {
        const Index begin = cone.ends[a], end = cone.ends[a + 1];
        Index middle = begin + 1;
        while (middle < end && cone.costs[middle] == cone.costs[begin]) ++middle;
        if (middle == end) continue;
        double top = -INF;
        Index best = middle;
        for (Index i = middle; i < end; ++i) {
            double sum = 0.0;
            for (Index d = 0; d < n_features_; ++d) sum += cone.score(i)[d];
            if (sum > top) {
                top = sum;
                best = i;
            }
        }
        double total = 0.0, size = 0.0, most = 0.0;
        for (Index d = 0; d < n_features_; ++d) {
            double ceiling = cone.score(begin)[d];
            for (Index i = begin + 1; i < middle; ++i) ceiling = std::max(ceiling, cone.score(i)[d]);
            const double lead = cone.score(best)[d] - ceiling;
            gains_[n_ * n_features_ + d] = lead;
            total += lead;
            size = std::max(size, std::abs(lead));
            most = std::max(most, lead);
        }
        if (!(most > 0.0)) continue;
        steps_[n_] = cone.costs[middle] - cone.costs[begin];
        sizes_[n_] = size;
        heights_[n_++] = total / size;
    }
}

// Whether the items that pay at the centre, and those at each ray, pay more than is needed: charges are no more than
// what is paid at any weights.
bool Conflicts<Cones>::can_pay(Index needed) const {
    for (Index d = -1; d < n_features_; ++d) {
        Index paid = 0;
        for (Index k = 0; k < n_; ++k)
            if ((d < 0 ? heights_[k] : gain(k)[d]) >= 0.0) paid = plus(paid, steps_[k]);
        if (paid <= needed) return false;
    }
    return true;
}

// Put the items in order of height, with all of their steps left; return what those have that pay at the centre.
Index Conflicts<Cones>::sort() {
    for (Index k = 0; k < n_; ++k) order_[k] = k;
    std::sort(order_.begin(), order_.begin() + n_,
              [this](Index a, Index b) { return heights_[a] != heights_[b] ? heights_[a] < heights_[b] : a < b; });
    Index possible = 0;
    for (Index x = 0; x < n_; ++x) {
        const Index k = order_[x];
        left_[x] = steps_[k];
        if (heights_[k] > 0.0) possible = plus(possible, steps_[k]);
        for (Index d = 0; d < n_features_; ++d) scaled_[d * stride_ + x] = static_cast<float>(gain(k)[d] / sizes_[k]);
    }
    return possible;
}

Index Conflicts<Cones>::run(const Cone& cone, Index needed, Counts& counts) {
    errors_ = cone.errors;
    collect(cone);
    counts.work += cone.n_rows();
    return can_pay(needed) ? charge(*this, n_, sort(), needed, counts.work) : 0;
}

namespace {

// Fill low and high: multiples of item i's gain between them make up for the losses of items begin .. end at every ray.
LPMERT_CLONES
bool multiples(const float* scaled, Index stride, Index n_features, Index i, Index begin, Index end, float* low,
               float* high) {
    const Index n = end - begin;
    std::fill_n(low, n, 0.0F);
    std::fill_n(high, n, std::numeric_limits<float>::infinity());
    for (Index d = 0; d < n_features; ++d) {
        const float own = scaled[d * stride + i], factor = -1.0F / (own >= 0.0F ? std::max(own, NO_GAIN) : own);
        const float* const others = scaled + d * stride + begin;
        if (own >= 0.0F) {
            for (Index j = 0; j < n; ++j) low[j] = others[j] * factor > low[j] ? others[j] * factor : low[j];
        } else {
            for (Index j = 0; j < n; ++j) high[j] = others[j] * factor < high[j] ? others[j] * factor : high[j];
        }
    }
    int found = 0;
    for (Index j = 0; j < n; ++j) found |= low[j] <= high[j];
    return found != 0;
}

}  // namespace

bool Conflicts<Cones>::compare(Index i, Index begin, Index end) {
    return multiples(scaled_.data(), stride_, n_features_, i, begin, end, low_.data(), high_.data());
}

bool Conflicts<Cones>::pays(Index i, Index j, Index begin) const {
    const Index first = order_[i], second = order_[j];
    const double low = low_[j - begin], high = high_[j - begin];
    const double multiple = high == INF ? 2.0 * low + 1.0 : 0.5 * (low + high);
    const double share = multiple / sizes_[first], other = 1.0 / sizes_[second], larger = std::max(share, other);
    return one_pays(gain(first), gain(second), share / larger, other / larger, errors_);
}

void Conflicts<Cones>::take(Index j, Index amount) {
    left_[j] -= amount;
    if (left_[j] > 0) return;
    for (Index d = 0; d < n_features_; ++d) scaled_[d * stride_ + j] = -1.0F;  // no other makes up for such losses
}

// ---- boxes

bool one_pays_in_box(const double* first, const double* second, double share, double other, const double* centre,
                     const double* radius, Index n_features, double rounding, double off) {
    double lead = 0.0, reach = 0.0, mass = 0.0;
    for (Index d = 0; d < n_features; ++d) {
        const double x = share * first[d], y = other * second[d], both = x + y;
        lead += both * centre[d];
        reach += std::abs(both) * radius[d];
        mass += std::abs(x) + std::abs(y);
    }
    double error = static_cast<double>(n_features + 6) * EPSILON * mass + TINY;
    if (share == 1.0 && other == 1.0) error *= rounding;
    error += (share + other) * off;
    return lead - (reach + error) >= 0.0;
}

Conflicts<Boxes>::Conflicts(Index n_features, Index n_items, Index n_pairs)
    : n_features_(n_features), stride_(n_items + 1 + VECTOR), most_pairs_(n_pairs) {
    const auto size = static_cast<std::size_t>(stride_), n = static_cast<std::size_t>(n_features);
    gains_.resize(n * size);
    for (auto* const items : {&sizes_, &heights_}) items->resize(size);
    for (auto* const items : {&steps_, &order_, &left_}) items->resize(size);
    starts_.resize(static_cast<std::size_t>(BUCKETS + 1));
    scaled_.resize(n * size);
    level_.resize(size);
    margins_.resize(static_cast<std::size_t>(3 * BLOCK));
}

Conflicts<Boxes>::Conflicts(const Lists& lists, const Settings& settings, const Boxes& boxes)
    : Conflicts(lists.n_features(), settings.levels * std::min(lists.n_lists(), settings.conflict_lists), 0) {
    levels_ = settings.levels;
    precision_ = boxes.precision();
    const auto longest = static_cast<std::size_t>(std::max(lists.longest(), PROPAGATION_BLOCK));
    for (auto* const items : {&scores_, &lead_, &reach_}) items->resize(longest);
    later_.resize(longest);
}

void Conflicts<Boxes>::begin(Span<const double> centre, Span<const double> radius, double rounding, double off) {
    centre_ = centre;
    radius_ = radius;
    rounding_ = rounding;
    off_ = off;
    n_ = 0;
    pairs_.clear();
}

bool Conflicts<Boxes>::add(Index step) {
    const double* const own = gain(n_);
    double lead = 0.0, reach = 0.0;
    for (Index d = 0; d < n_features_; ++d) {
        lead += own[d] * centre_[d];
        reach += std::abs(own[d]) * radius_[d];
    }
    if (!(0.0 < reach && reach < INF) || !(std::abs(lead) <= 2.0 * reach)) return false;
    sizes_[n_] = reach;
    heights_[n_] = lead / reach;
    steps_[n_++] = step;
    return true;
}

// By how much rows low .. high may be ahead of one of them in a box, at most; never less than 0.0.
double Conflicts<Boxes>::allowance(const Box& box, Index low, Index high, Index ahead) const {
    double most = 0.0;
    for (Index i = low; i < high; ++i) {
        if (i == ahead) continue;
        double lead = 0.0, reach = 0.0, mass = 0.0;
        for (Index d = 0; d < n_features_; ++d) {
            const double gain = box.features[d][i] - box.features[d][ahead];
            lead += gain * centre_[d];
            reach += std::abs(gain) * radius_[d];
            mass += std::abs(gain);
        }
        const double error = rounding_ * (static_cast<double>(n_features_ + 6) * EPSILON * mass + TINY) + off_;
        most = std::max(most, lead + (reach + error));
    }
    return most;
}

// Score rows low .. high at the centre, and find for each of them the best from there on, both counted from low.
void Conflicts<Boxes>::rank(const Box& box, Index low, Index high) {
    score_at_centre(box.features, low, high, box, scores_.data());
    Index best = high - low - 1;
    for (Index i = high - low - 1; i >= 0; --i) {
        if (scores_[i] > scores_[best]) best = i;
        later_[i] = best;
    }
}

// Add an item for each level of costs of a list of more hypotheses. It is paid where the best of those that cost more
// is above all that cost no more; levels of nearly the same height are one item, paid where the last of them is.
void Conflicts<Boxes>::add_levels(const Box& box, Index low, Index high, Index face) {
    rank(box, low, high);
    const Index first = n_, n = high - low;
    Index cheap = 0, end = 0;
    double beyond = -1.0, top = 0.0;  // what others of the cheaper rows may be ahead; negative if there are none
    while (n_ - first < levels_) {
        const Index before = end, ahead = cheap, cost = box.costs[low + end];
        while (end < n && box.costs[low + end] == cost) {
            if (scores_[end] > scores_[cheap]) cheap = end;
            ++end;
        }
        if (end == n) break;  // as hypotheses of different statistics may cost the same, this may be the first level
        if (end > 1) {
            const double more = allowance(box, low + (cheap == ahead ? before : 0), low + end, low + cheap);
            beyond = cheap == ahead ? std::max(beyond, more) : more;
        }
        double* const own = next_gain();
        const Index best = later_[end];
        for (Index d = 0; d < n_features_; ++d) own[d] = box.features[d][low + best] - box.features[d][low + cheap];
        if (beyond >= 0.0) {
            // All others are at most the one and this, and the face's weight is 1 or -1 all over the box.
            const double gain = own[face];
            own[face] = gain - centre_[face] * (beyond + rounding_ * EPSILON * (std::abs(gain) + beyond));
        }
        if (!add(box.costs[low + end] - cost)) break;
        const Index k = n_ - 1;
        const double height = heights_[k];
        if (height < -1.0) {
            --n_;
            break;  // and the next ones are lower still
        }
        if (k > first && top - height < ALIKE && (height >= 0.0) == (top >= 0.0)) {
            std::copy(own, own + n_features_, gain(k - 1));
            sizes_[k - 1] = sizes_[k];
            heights_[k - 1] = heights_[k];
            steps_[k - 1] = plus(steps_[k - 1], steps_[k]);
            --n_;
        } else {
            top = height;
        }
    }
}

void Conflicts<Boxes>::collect(const Box& box) {
    begin(box.centre, box.radius, rounding_of(precision_.places, box.centre.data(), box.radius.data(), n_features_),
          precision_.off);
    for (Index first = 0; first < box.n_pairs(); first += PROPAGATION_BLOCK) {
        const Index last = std::min(first + PROPAGATION_BLOCK, box.n_pairs());
        measure(box.gains, first, last, box, lead_.data(), reach_.data());
        for (Index p = first; p < last; ++p) {
            const double lead = lead_[p - first], reach = reach_[p - first];
            // Two hypotheses of different statistics may cost the same.
            if (box.steps[p] == 0 || !(0.0 < reach && reach < INF) || !(std::abs(lead) <= 2.0 * reach)) continue;
            for (Index d = 0; d < n_features_; ++d) gain(n_)[d] = box.gains[d][p];
            sizes_[n_] = reach;
            heights_[n_] = lead / reach;
            steps_[n_++] = box.steps[p];
        }
    }
    const Index face = box.face();
    for (Index a = 0; a < box.n_row_lists(); ++a) add_levels(box, box.ends[a], box.ends[a + 1], face);
}

namespace {

Index bucket(double height) {
    return std::clamp<Index>(static_cast<Index>((height + 1.0) * (0.5 * static_cast<double>(BUCKETS))), 0, BUCKETS - 1);
}

// Write the margins of item i with items begin .. end, in three shares; return whether any is not negative, nearly.
LPMERT_CLONES
bool margins_with(const float* scaled, const float* level, Index stride, Index n_axes, Index i, Index begin, Index end,
                  float* margins) {
    constexpr auto odds = static_cast<float>(SHARE / (1.0 - SHARE));
    const float own = level[i];
    for (Index block = begin; block < end; block += VECTOR) {
        float even[VECTOR], more[VECTOR], less[VECTOR];
        for (Index j = 0; j < VECTOR; ++j) {
            const float other = level[block + j];
            even[j] = own + other;
            more[j] = own + odds * other;
            less[j] = odds * own + other;
        }
        for (Index d = 0; d < n_axes; ++d) {
            const float x = scaled[d * stride + i], odd = odds * x;
            const float* const others = scaled + d * stride + block;
            for (Index j = 0; j < VECTOR; ++j) {
                even[j] -= std::abs(x + others[j]);
                more[j] -= std::abs(x + odds * others[j]);
                less[j] -= std::abs(odd + others[j]);
            }
        }
        float* const kept = margins + 3 * (block - begin);
        // One loop for each, which compilers turn into vector instructions.
        for (Index j = 0; j < VECTOR; ++j) kept[j] = even[j];
        for (Index j = 0; j < VECTOR; ++j) kept[VECTOR + j] = more[j];
        for (Index j = 0; j < VECTOR; ++j) kept[2 * VECTOR + j] = less[j];
    }
    const Index n = 3 * ((end - begin + VECTOR - 1) / VECTOR * VECTOR);
    int found = 0;
    for (Index j = 0; j < n; ++j) found |= margins[j] >= NEARLY;
    return found != 0;
}

struct Margins {
    float even, more, less;
};

Margins margins_at(const std::vector<float>& margins, Index j) {
    const float* const kept = margins.data() + 3 * (j - j % VECTOR) + j % VECTOR;
    return {kept[0], kept[VECTOR], kept[2 * VECTOR]};
}

}  // namespace

Index Conflicts<Boxes>::first_partner(Index i) const { return starts_[bucket(-level_[i])]; }

bool Conflicts<Boxes>::compare(Index i, Index begin, Index end) {
    return margins_with(scaled_.data(), level_.data(), stride_, n_axes_, i, begin, end, margins_.data());
}

bool Conflicts<Boxes>::promises(Index j, Index begin) const {
    const auto [even, more, less] = margins_at(margins_, j - begin);
    return std::max(even, std::max(more, less)) >= NEARLY;
}

// Whether of two items one pays everywhere, in the shares that seem best.
bool Conflicts<Boxes>::pays(Index i, Index j, Index begin) const {
    const auto [even, more, less] = margins_at(margins_, j - begin);
    const Index first = order_[i], second = order_[j];
    double share = 1.0, other = 1.0;
    if (more > even && more >= less)
        other = SHARE / (1.0 - SHARE);
    else if (less > even)
        share = SHARE / (1.0 - SHARE);
    share *= sizes_[second];
    other *= sizes_[first];
    const double larger = std::max(share, other);
    return one_pays_in_box(gain(first), gain(second), share / larger, other / larger, centre_.begin(), radius_.begin(),
                           n_features_, rounding_, off_);
}

void Conflicts<Boxes>::take(Index j, Index amount) {
    left_[j] -= amount;
    if (left_[j] == 0) level_[j] = GONE;
}

// Put the items in order of height, as far as buckets tell, with all of their steps left.
void Conflicts<Boxes>::sort() {
    std::fill(starts_.begin(), starts_.end(), 0);
    for (Index k = 0; k < n_; ++k) ++starts_[bucket(heights_[k]) + 1];
    for (Index q = 1; q <= BUCKETS; ++q) starts_[q] += starts_[q - 1];
    for (Index k = 0; k < n_; ++k) order_[starts_[bucket(heights_[k])]++] = k;
    for (Index q = BUCKETS; q > 0; --q) starts_[q] = starts_[q - 1];
    starts_[0] = 0;
    n_axes_ = 0;
    for (Index d = 0; d < n_features_; ++d) n_axes_ += radius_[d] > 0.0;
    for (Index x = 0; x < n_; ++x) {
        const Index k = order_[x];
        left_[x] = steps_[k];
        level_[x] = static_cast<float>(heights_[k]);
        Index axis = 0;
        for (Index d = 0; d < n_features_; ++d)
            if (radius_[d] > 0.0)
                scaled_[stride_ * axis++ + x] = static_cast<float>(gain(k)[d] * radius_[d] / sizes_[k]);
    }
}

Index Conflicts<Boxes>::charge_items(Index needed, Index& compared) {
    Index possible = 0;
    for (Index k = 0; k < n_; ++k)
        if (heights_[k] >= 0.0) possible = plus(possible, steps_[k]);
    if (possible <= needed) return 0;
    sort();
    return charge(*this, n_, possible, needed, compared);
}

void Conflicts<Boxes>::swap(Index x, Index y) {
    if (x == y) return;
    std::swap_ranges(gain(x), gain(x) + n_features_, gain(y));
    std::swap(sizes_[x], sizes_[y]);
    std::swap(heights_[x], heights_[y]);
    std::swap(steps_[x], steps_[y]);
}

Index Conflicts<Boxes>::run(const Box& box, Index needed, Counts& counts) {
    collect(box);
    counts.work += box.n_survivors();
    const Index n = n_, stride = n / SAMPLE;
    if (stride > 1) {
        // Of many items, a sample tells whether it is worth while: pairs grow with the square of their number.
        for (Index k = 0; k < n / stride; ++k) swap(k, k * stride);
        n_ = n / stride;
        const auto enough = static_cast<Index>(HOPE * static_cast<double>(needed) / static_cast<double>(stride));
        const Index total = charge_items(enough, counts.work);
        n_ = n;
        if (total <= enough) return total;
    }
    return charge_items(needed, counts.work);
}

}  // namespace lpmert::cells
