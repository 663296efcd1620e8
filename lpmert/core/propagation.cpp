#include "propagation.hpp"

#include <cmath>

#include "vectors.hpp"

namespace lpmert::cells {

// Sums are added up feature by feature, whatever the width of vectors.

LPMERT_CLONES
void measure(const Columns& columns, Index begin, Index end, const Box& box, double* lead, double* reach) {
    const Index n = end - begin;
    for (Index j = 0; j < n; ++j) lead[j] = reach[j] = 0.0;
    for (Index d = 0; d < box.n_features(); ++d) {
        const double* const values = columns[d] + begin;
        const double c = box.centre[d], r = box.radius[d];
        for (Index j = 0; j < n; ++j) {
            lead[j] += values[j] * c;
            reach[j] += std::abs(values[j]) * r;
        }
    }
}

LPMERT_CLONES
void score_at_centre(const Columns& columns, Index begin, Index end, const Box& box, double* scores) {
    const Index n = end - begin;
    for (Index j = 0; j < n; ++j) scores[j] = 0.0;
    for (Index d = 0; d < box.n_features(); ++d) {
        const double* const values = columns[d] + begin;
        const double c = box.centre[d];
        for (Index j = 0; j < n; ++j) scores[j] += values[j] * c;
    }
}

LPMERT_CLONES
void vary(const Columns& columns, Index begin, Index end, const Box& box, const Row* best, double* reach) {
    const Index n = end - begin;
    for (Index j = 0; j < n; ++j) reach[j] = 0.0;
    for (Index d = 0; d < box.n_features(); ++d) {
        const double* const values = columns[d] + begin;
        const double r = box.radius[d];
        if (r > 0.0)
            for (Index j = 0; j < n; ++j) reach[j] += std::abs(values[best[j]] - values[j]) * r;
    }
}

LPMERT_CLONES
void least_leads(const Columns& columns, Index i, Index low, Index high, const Box& box, const double* scores,
                 double* margins) {
    const Index n = high - low;
    const double own = scores[i - low];
    for (Index j = 0; j < n; ++j) margins[j] = scores[j] - own;
    for (Index d = 0; d < box.n_features(); ++d) {
        const double* const values = columns[d] + low;
        const double x = columns[d][i], r = box.radius[d];
        if (r > 0.0)
            for (Index j = 0; j < n; ++j) margins[j] -= std::abs(values[j] - x) * r;
    }
}

Propagation<Boxes>::Propagation(const Lists& lists, const Boxes& boxes, double) : boxes_(boxes) {
    const auto size = static_cast<std::size_t>(std::max(PROPAGATION_BLOCK, lists.longest()));
    lead_.resize(size);
    reach_.resize(size);
    best_.resize(size);
}

void Propagation<Boxes>::find_best(const Box& box, Index a, Index b) {
    for (Index s = a; s < b; ++s) {
        const Index low = box.ends[s] - block_, high = box.ends[s + 1] - block_;
        Index best = low;
        for (Index i = low + 1; i < high; ++i)
            if (lead_[i] > lead_[best]) best = i;
        std::fill(best_.begin() + low, best_.begin() + high, static_cast<Row>(best));
    }
}

// Whether the best row of low .. high leads at the centre by more than rounding errors.
bool Propagation<Boxes>::leads_clearly(const Box& box, Index best, Index low, Index high) const {
    for (Index i = low; i < high; ++i) {
        const double lead = lead_[best - block_] - lead_[i - block_];
        if (i != best && !(lead > box.row_reaches[best] + box.row_reaches[i])) return false;
    }
    return true;
}

// Whether row k of start .. end is beaten in the whole box by another one that is not dropped; but for the best one.
// Margins over it stand in reach_.
bool Propagation<Boxes>::is_beaten(const Box& box, const Box& half, Index start, Index left, Index k, Index end,
                                   Index best, Index low) {
    const Index i = rows_[k];
    const double* const margins = reach_.data() + (low - block_);
    for (Index q = start; q < end; ++q) {
        const Index j = rows_[q];
        const bool may = margins[j - low] >= -2.0 * (box.row_reaches[i] + box.row_reaches[j]);
        if (may && j != best && q != k && (q < left || q > k) &&
            beats_in_box(box.features, j, i, half, rounding_, boxes_.precision().off))
            return true;
    }
    return false;
}

// Drop rows start .. end (positions among low .. high) that another one beats in the whole box; return the new end.
Index Propagation<Boxes>::drop_beaten(const Box& box, const Box& half, Index start, Index end, Index best, Index low,
                                      Index high) {
    const double* const scores = lead_.data() + (low - block_);
    double* const margins = reach_.data() + (low - block_);
    Index ahead = start;  // the cheapest row that is best at the centre: mostly none beats it, nor any other of these
    for (Index k = start; k < end && box.costs[rows_[k]] == box.costs[rows_[start]]; ++k)
        if (scores[rows_[k] - low] > scores[rows_[ahead] - low]) ahead = k;
    if (rows_[ahead] == best) return end;
    least_leads(box.features, rows_[ahead], low, high, half, scores, margins);
    if (!is_beaten(box, half, start, start, ahead, end, best, low)) return end;
    Index left = start;
    for (Index k = start; k < end; ++k) {
        const Index i = rows_[k];
        const bool cheapest = left == start || box.costs[i] == box.costs[rows_[start]];
        if (left == k && !cheapest) return end;  // none was dropped
        bool beaten = false;
        if (cheapest && i != best && (k - start) * (end - start) <= MOST_COMPARED) {
            least_leads(box.features, i, low, high, half, scores, margins);
            beaten = is_beaten(box, half, start, left, k, end, best, low);
        }
        if (!beaten) rows_[left++] = static_cast<Row>(i);
    }
    return left;
}

namespace {

template <class T>
void take(const T* source, const Row* chosen, Index n, T* target) {
    for (Index j = 0; j < n; ++j) target[j] = source[chosen[j]];
}

}  // namespace

// Copy what is left to the half, with the lists that have become pairs behind the pairs.
void Propagation<Boxes>::keep(const Box& box, Box& half) const {
    const Index n = box.n_features(), n_rows = ends_.back();
    half.resize_pairs(n, n_pairs_ + count(made_));
    for (Index d = 0; d < n; ++d) take(box.gains[d], pairs_.data(), n_pairs_, half.gains[d]);
    take(box.reaches.data(), pairs_.data(), n_pairs_, half.reaches.data());
    take(box.steps.data(), pairs_.data(), n_pairs_, half.steps.data());
    take(box.cheap.data(), pairs_.data(), n_pairs_, half.cheap.data());
    take(box.dear.data(), pairs_.data(), n_pairs_, half.dear.data());
    Index p = n_pairs_;
    for (const auto& [low, high] : made_) {
        const auto gain = [&, i = low, j = high](Index d) { return box.features[d][j] - box.features[d][i]; };
        half.set_pair(p++, box.ids[low], box.ids[high], box.costs[high] - box.costs[low], gain, boxes_.precision().off);
    }
    half.resize_rows(n, n_rows);
    for (Index d = 0; d < n; ++d) take(box.features[d], rows_.data(), n_rows, half.features[d]);
    take(box.row_reaches.data(), rows_.data(), n_rows, half.row_reaches.data());
    half.ids.assign(ids_.data(), ids_.data() + n_rows);
    half.costs.assign(costs_.data(), costs_.data() + n_rows);
    half.ends = ends_;
}

}  // namespace lpmert::cells
