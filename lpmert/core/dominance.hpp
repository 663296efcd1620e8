// Which paths others beat at every ray of a cone: they win nowhere in it, whatever follows (lemma L1 of
// proofs/lattices.md).
//
// One path beats another, or several do together, each in its part of the cone: a mixture of them, which a small matrix
// game of paths against rays finds. Features of paths are exact, and so are differences of two; rays are off by half a
// unit in the last place at most. What rounding leaves open drops nothing.
#pragma once

#include <vector>

#include "lists.hpp"

namespace lpmert::lattices {

// Paths with features [D] each, scores [R] at the rays, and whether they are beaten.
struct Paths {
    Index n_features = 0, n_rays = 0;
    Reals features, scores;
    std::vector<char> dead;

    Index room() const { return count(dead); }
    double* row(Index i) { return features.data() + i * n_features; }
    double* score(Index i) { return scores.data() + i * n_rays; }
    const double* row(Index i) const { return features.data() + i * n_features; }
    const double* score(Index i) const { return scores.data() + i * n_rays; }
    // Begin with paths of other sizes.
    void begin(Index features_, Index rays_);
    // Have room for so many, and more if not.
    void make_room(Index wanted);
    void move(Index from, Index to);
};

class Dominance {
  public:
    // Look at a cone of rays [R, D], linearly independent; reach [R]: what scores of paths may be there.
    void begin(Rows<const double> rays, Span<const double> reach);
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
    // Compare path n with those before it, from `begin`; return which one beats it, or -1. Those it beats are marked
    // dead. likely: which one is looked at first; what beat one path often beats the next.
    Index compare_with_all(Paths& paths, Index begin, Index n, Index likely) const;
    // Mark the living paths begin .. end that a mixture of others beats dead; return how many were looked at.
    Index drop_mixed(Paths& paths, Index begin, Index end);
    // Measure the first n paths, and mark all that others beat dead.
    void sift(Paths& paths, Index n);

  private:
    int beats(const Paths& paths, Index i, Index j) const;
    bool beaten_by_mixture(const Paths& paths, Index begin, Index end, Index loser, Index& looked);
    double value_of_game(Index n_cuts);
    bool surely_beaten(const Paths& paths, Index loser, Index n_cuts) const;

    Index n_rays_ = 0, n_features_ = 0;
    const double* rays_ = nullptr;
    Reals kept_, tolerance_;  // the rays, and what the difference of two scores there may be off by
    // The game: cuts [M, R] of chosen paths [M], their shares [M] in the mixture, the mixture x [R] of rays that
    // answers it; table and basis of a linear program; sure: paths that are known to win somewhere.
    Reals cuts_, shares_, x_, table_;
    Indices chosen_, basis_;
    std::vector<char> sure_;
};

}  // namespace lpmert::lattices
