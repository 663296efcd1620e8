// Dominance of paths in a cone: a path that others beat at every ray wins nowhere in the cone, whatever follows it
// (lemma L1 of proofs/lattices.md).
//
// A single path may beat another one; or several may beat it together, each in its part of the cone. Then a mixture of
// them beats it at every ray, which a small matrix game of paths against rays finds. The features of paths and their
// differences are exact; rays have an error of at most half a unit in the last place. A path is dropped only if
// rounding leaves no doubt.
#pragma once

#include "lists.hpp"

namespace lpmert {

// The share of the cone's middle in the points at which the game is played: near a ray, paths that tie at it differ.
inline constexpr double INWARDS = 0x1p-20;

// The work of solving a game, in paths looked at.
inline constexpr Index GAME_WORK = 20;

// Whether a path certainly scores at least as much as another one at a ray, and whether at most as much. The difference
// of their features is exact, so the error is relative to this difference, not to the scores.
inline std::pair<bool, bool> compare_at(const double* one, const double* other, const double* ray, Index n) {
    double total = 0.0, size = 0.0;
    for (Index d = 0; d < n; ++d) {
        const double product = (one[d] - other[d]) * ray[d];
        total += product;
        size += std::abs(product);
    }
    const double error = static_cast<double>(n + 2) * EPSILON * size;
    return {size == 0.0 || total > error, size == 0.0 || total < -error};
}

// Paths: features [D] each, scores [R] at the rays, and whether they are beaten (dead).
struct Paths {
    Index n_features = 0, n_rays = 0;
    Reals features, scores;
    std::vector<char> dead;

    Index capacity() const { return count(dead); }
    double* row(Index i) { return features.data() + i * n_features; }
    double* score(Index i) { return scores.data() + i * n_rays; }
    // Begin with paths of other sizes.
    void begin(Index features_, Index rays_) {
        if (features_ == n_features && rays_ == n_rays) return;
        n_features = features_, n_rays = rays_;
        features.clear(), scores.clear(), dead.clear();
    }
    // Make room for this many paths, or for more.
    void make_room(Index wanted) {
        if (wanted <= capacity()) return;
        const Index size = std::max(wanted, 2 * capacity());
        features.resize(size * n_features);
        scores.resize(size * n_rays);
        dead.resize(size);
    }
    void move(Index from, Index to) {
        std::copy_n(row(from), n_features, row(to));
        std::copy_n(score(from), n_rays, score(to));
        dead[to] = dead[from];
    }
};

class Dominance {
  public:
    // Set the cone, of linearly independent rays [R, D]. reach [R]: the largest magnitude of a path's score at each.
    void begin(Rows<const double> rays, Span<const double> reach) {
        n_rays_ = rays.rows(), n_features_ = rays.columns();
        rays_.clear(), tolerance_.clear();
        for (Index r = 0; r < n_rays_; ++r) {
            rays_.insert(rays_.end(), rays[r].begin(), rays[r].end());
            tolerance_.push_back(2.0 * static_cast<double>(n_features_ + 3) * EPSILON * reach[r]);
        }
    }
    Index n_rays() const { return n_rays_; }
    Index n_features() const { return n_features_; }

    // Fill the scores of a path.
    void measure(Paths& paths, Index i) const {
        double* const scores = paths.score(i);
        const double* const row = paths.row(i);
        for (Index r = 0; r < n_rays_; ++r) {
            double score = 0.0;
            for (Index d = 0; d < n_features_; ++d) score += row[d] * rays_[r * n_features_ + d];
            scores[r] = score;
        }
    }
    // Compare path n with paths begin .. n - 1; return one that beats it, or -1. Mark those dead that it beats. likely:
    // the path to try first, as one that beat a path often beats the next.
    Index compare_with_all(Paths& paths, Index begin, Index n, Index likely) const {
        const Span<char> dead(paths.dead);
        if (likely >= begin && !dead[likely] && beats(paths, likely, n) == 1) return likely;
        for (Index j = begin; j < n; ++j) {
            if (dead[j]) continue;
            const int verdict = beats(paths, j, n);
            if (verdict == 1) return j;
            if (verdict == -1) dead[j] = 1;
        }
        dead[n] = 0;
        return -1;
    }
    // Mark the living paths of begin .. end dead that a mixture of others beats; return how many paths were looked at.
    Index drop_mixed(Paths& paths, Index begin, Index end) {
        const Index most_cuts = 2 * n_rays_ + 4;
        cuts_.resize(most_cuts * n_rays_);
        shares_.resize(most_cuts);
        chosen_.resize(most_cuts);
        x_.resize(n_rays_);
        sure_.assign(end - begin, 0);
        const Span<char> dead(paths.dead);
        Index work = 0;
        for (Index i = begin; i < end; ++i)
            if (!dead[i] && !sure_[i - begin]) dead[i] = beaten_by_mixture(paths, begin, end, i, work);
        return work;
    }
    // Measure the first n paths, and mark all dead that others beat.
    void drop_beaten(Paths& paths, Index n) {
        Index likely = -1;
        for (Index i = 0; i < n; ++i) {
            measure(paths, i);
            likely = compare_with_all(paths, 0, i, likely);
            paths.dead[i] = likely >= 0;
        }
        drop_mixed(paths, 0, n);
    }

  private:
    // Return 1 if path i is at least as good as path j at every ray, -1 if path j is at least as good as path i at
    // every ray and better at one, else 0. Paths that are equal at all rays have the same score at all weights.
    int beats(Paths& paths, Index i, Index j) const {
        bool most = true, least = true;
        const double *const one = paths.score(i), *const other = paths.score(j), *const tolerance = tolerance_.data();
        for (Index r = 0; r < n_rays_; ++r) {
            const double difference = one[r] - other[r];
            if (difference > tolerance[r]) {
                least = false;
            } else if (difference < -tolerance[r]) {
                most = false;
            } else {
                const auto [at_least, at_most] =
                    compare_at(paths.row(i), paths.row(j), rays_.data() + r * n_features_, n_features_);
                most = most && at_least;
                least = least && at_most;
            }
            if (!most && !least) return 0;
        }
        return most ? 1 : -1;
    }
    // Solve the game: return the least value over mixtures x of rays of the largest cut, and write this x and the
    // shares of the cuts. The value is recomputed from the shares, so that it is a lower bound in spite of rounding.
    double value_of_game(Index n_cuts) {
        const Index last = n_rays_ + n_cuts, width = last + 1;
        const Span<const double> cuts = Span<const double>(cuts_).part(0, n_cuts * n_rays_);
        const Span<double> shares(shares_), x(x_);
        std::fill(shares.begin(), shares.begin() + n_cuts, 0.0);
        const auto [least, most] = std::minmax_element(cuts.begin(), cuts.end());
        const double low = *least, scale = *most - low;
        if (scale <= 0.0) return low;
        // As a linear program: with the entries a scaled to [1, 2], find u >= 0 of largest sum with a u <= 1.
        table_.assign((n_cuts + 1) * width, 0.0);
        basis_.resize(n_cuts);
        const Rows<double> table(table_.data(), n_cuts + 1, width);
        const Span<Index> basis(basis_);
        for (Index q = 0; q < n_cuts; ++q) {
            for (Index r = 0; r < n_rays_; ++r) table[q][r] = (cuts[q * n_rays_ + r] - low) / scale + 1.0;
            table[q][n_rays_ + q] = 1.0;
            table[q][last] = 1.0;
            basis[q] = n_rays_ + q;
        }
        const Span<double> prices = table[n_cuts];
        std::fill(prices.begin(), prices.begin() + n_rays_, -1.0);
        for (Index turn = 0; turn < 8 * (n_rays_ + n_cuts); ++turn) {
            const Index entering = std::min_element(prices.begin(), prices.begin() + last) - prices.begin();
            if (prices[entering] >= -1e-11) break;
            Index leaving = -1;
            double ratio = INF;
            for (Index q = 0; q < n_cuts; ++q) {
                const Span<const double> row(table[q]);
                if (row[entering] > 1e-12 && row[last] < ratio * row[entering])
                    ratio = row[last] / row[entering], leaving = q;
            }
            if (leaving < 0) break;
            const Span<double> pivot_row = table[leaving];
            const double scale_of_row = 1.0 / pivot_row[entering];
            for (double& value : pivot_row) value *= scale_of_row;
            basis[leaving] = entering;
            for (Index q = 0; q <= n_cuts; ++q) {
                const double factor = table[q][entering];
                if (q == leaving || factor == 0.0) continue;
                double* const row = table[q].begin();
                for (Index c = 0; c < width; ++c) row[c] -= factor * pivot_row.begin()[c];
            }
        }
        std::fill(x.begin(), x.end(), 0.0);
        double total = 0.0, sum = 0.0;
        for (Index q = 0; q < n_cuts; ++q) {
            if (basis[q] < n_rays_) total += x[basis[q]] = std::max(0.0, table[q][last]);
            shares[q] = prices[n_rays_ + q];
            sum += std::max(0.0, shares[q]);
        }
        if (!(total > 0.0 && sum > 0.0)) return -INF;
        for (double& part : x) part /= total;
        double value = INF;
        for (Index r = 0; r < n_rays_; ++r) {
            double mixed = 0.0;
            for (Index q = 0; q < n_cuts; ++q) mixed += std::max(0.0, shares[q]) * cuts[q * n_rays_ + r];
            value = std::min(value, mixed / sum);
        }
        return value;
    }
    // Whether the mixture of the chosen paths, in the shares of the last game, is certainly at least as good as the
    // loser at every ray. Differences of paths are exact.
    bool surely_beaten(Paths& paths, Index loser, Index n_cuts) const {
        const double* const losing = paths.row(loser);
        bool any = false;
        for (Index r = 0; r < n_rays_; ++r) {
            const double* const ray = rays_.data() + r * n_features_;
            double lead = 0.0, size = 0.0;
            for (Index q = 0; q < n_cuts; ++q) {
                const double share = shares_[q];
                if (!(share > 0.0)) continue;
                any = true;
                const double* const other = paths.row(chosen_[q]);
                for (Index d = 0; d < n_features_; ++d) {
                    const double product = (other[d] - losing[d]) * ray[d] * share;
                    lead += product;
                    size += std::abs(product);
                }
            }
            if (!(lead >= static_cast<double>(n_features_ * n_cuts + 5) * EPSILON * size)) return false;
        }
        return any;
    }
    // Whether a mixture of the other living paths of begin .. end, all with different features, certainly beats a path.
    // Mark paths sure that turn out to win somewhere.
    bool beaten_by_mixture(Paths& paths, Index begin, Index end, Index loser, Index& looked) {
        const auto rays = static_cast<double>(n_rays_);
        const Index most_cuts = 2 * n_rays_ + 4;
        const Span<double> x(x_), cuts(cuts_);
        const Span<Index> chosen(chosen_);
        const Span<char> sure(sure_);
        const double* const own_scores = paths.score(loser);
        std::fill(x.begin(), x.end(), 1.0 / rays);
        for (Index q = 0; q < most_cuts; ++q) {
            looked += GAME_WORK;
            Index best = -1;
            double top = 0.0, loser_score = 0.0;
            for (Index r = 0; r < n_rays_; ++r) {
                x[r] = (1.0 - INWARDS) * x[r] + INWARDS / rays;
                loser_score += x[r] * own_scores[r];
            }
            for (Index j = begin; j < end; ++j) {
                if (j == loser || paths.dead[j]) continue;
                ++looked;
                const double* const scores = paths.score(j);
                double value = 0.0;
                for (Index r = 0; r < n_rays_; ++r) value += x.data()[r] * scores[r];
                if (best < 0 || value > top) top = value, best = j;
            }
            if (best < 0 || top <= loser_score) return false;
            sure[best - begin] = 1;
            if (std::find(chosen.begin(), chosen.begin() + q, best) != chosen.begin() + q) return false;
            chosen[q] = best;
            const double* const scores = paths.score(best);
            double middle = 0.0;
            for (Index r = 0; r < n_rays_; ++r) middle += (scores[r] - own_scores[r]) / rays;
            for (Index r = 0; r < n_rays_; ++r)
                cuts[q * n_rays_ + r] = (1.0 - INWARDS) * (scores[r] - own_scores[r]) + INWARDS * middle;
            if (value_of_game(q + 1) > 0.0) return surely_beaten(paths, loser, q + 1);
        }
        return false;
    }

    Index n_rays_ = 0, n_features_ = 0;
    Reals rays_, tolerance_;  // the rays; bounds on the errors of differences of two scores there
    // The game: cuts [M, R] of the chosen paths [M], their shares [M] in the mixture, the mixture x [R] of rays that
    // answers it; table and basis of its linear program; sure: paths that are known to win somewhere.
    Reals cuts_, shares_, x_, table_;
    Indices chosen_, basis_;
    std::vector<char> sure_;
};

}  // namespace lpmert
