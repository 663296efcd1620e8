// The hypotheses of a list that may win for some weights, found by a cover of the weight space with cones.
//
// A hypothesis that another one beats at all rays of a cone, by more than rounding, is beaten everywhere in the cone
// (lemma K1 of proofs/cones.md). A hypothesis that is beaten in every cone of the cover wins nowhere.
#include "binding.hpp"
#include "lists.hpp"
#include "vectors.hpp"

namespace lpmert {

namespace {

// The cover has at most 2^CONES cones. With more than CONES features, nearly all hypotheses win somewhere anyway.
constexpr Index CONES = 10;

// A cone of the cover: its rays [D, D], the rows [n] that may win in it, and their scores [D, n] at the rays; the
// columns of scores may be longer. The entries of a ray are multiples of a power of two, and their absolute values sum
// to 1.
struct CoverCone {
    Reals rays;
    Indices rows;
    std::array<Reals, CONES> scores;
};

// Marks the rows that may win in some cone of the cover, list by list.
class Cover {
    Rows<const double> features;
    Index n, most;
    double least = 0.0;             // least lead beyond the rounding of scores, here and in decoding
    std::vector<CoverCone> levels;  // the current cone, and those that it is a part of
    Reals leads;                    // [n] of the best row at a ray

    // Whether all rows of a cone are marked already.
    bool known(const CoverCone& cone) const {
        return std::all_of(cone.rows.begin(), cone.rows.end(), [&](Index row) { return marked[row] != 0; });
    }
    // Drop the rows that a winner at a ray, or in the middle, beats at all rays by more than `least`.
    void propagate(CoverCone& cone) {
        for (Index k = 0; k <= n; ++k) {
            const Index n_rows = count(cone.rows);
            leads_of(cone, k);
            Index left = 0;
            for (Index i = 0; i < n_rows; ++i) {
                if (leads[i] > least) continue;
                if (left < i) {
                    cone.rows[left] = cone.rows[i];
                    for (Index d = 0; d < n; ++d) cone.scores[d][left] = cone.scores[d][i];
                }
                ++left;
            }
            cone.rows.resize(left);
        }
    }

    // Compute the least lead over all rays of the best row at ray k, or in the middle for k = D, over each row.
    LPMERT_CLONES void leads_of(const CoverCone& cone, Index k) {
        const Index n_rows = count(cone.rows);
        double* const lead = leads.data();
        const double* best = lead;
        if (k < n) {
            best = cone.scores[k].data();
        } else {
            std::fill_n(lead, n_rows, 0.0);
            for (Index d = 0; d < n; ++d)
                for (Index i = 0; i < n_rows; ++i) lead[i] += cone.scores[d][i];
        }
        const Index top = std::max_element(best, best + n_rows) - best;
        std::fill_n(lead, n_rows, INF);
        for (Index d = 0; d < n; ++d) {
            const double* const scores = cone.scores[d].data();
            const double score = scores[top];
            for (Index i = 0; i < n_rows; ++i) lead[i] = std::min(lead[i], score - scores[i]);
        }
    }

    // The two rays that are the farthest apart.
    std::pair<Index, Index> longest_edge(const CoverCone& cone) const {
        std::pair<Index, Index> found{0, 1};
        double longest = -1.0;
        for (Index a = 0; a < n; ++a) {
            for (Index b = a + 1; b < n; ++b) {
                double distance = 0.0;
                for (Index d = 0; d < n; ++d) {
                    const double step = cone.rays[a * n + d] - cone.rays[b * n + d];
                    distance += step * step;
                }
                if (distance > longest) found = {a, b}, longest = distance;
            }
        }
        return found;
    }

    // Mark the rows that may win in the cone of a level; split the cone while that is open.
    void search(Index level) {
        CoverCone& cone = levels[level];
        if (known(cone)) return;
        propagate(cone);
        if (known(cone)) return;
        if (cone.rows.size() == 1 || level == most) {
            for (const Index row : cone.rows) marked[row] = true;
            return;
        }
        const auto [first, second] = longest_edge(cone);
        for (const Index replaced : {first, second}) {
            CoverCone& half = levels[level + 1];
            half.rays = cone.rays;
            half.rows = cone.rows;
            for (Index d = 0; d < n; ++d) {
                half.rays[replaced * n + d] = 0.5 * (cone.rays[first * n + d] + cone.rays[second * n + d]);
                half.scores[d].resize(std::max(half.scores[d].size(), half.rows.size()));
                if (d != replaced) std::copy_n(cone.scores[d].begin(), half.rows.size(), half.scores[d].begin());
            }
            for (Index i = 0; i < count(half.rows); ++i)
                half.scores[replaced][i] = 0.5 * (cone.scores[first][i] + cone.scores[second][i]);
            search(level + 1);
        }
    }

  public:
    std::vector<char> marked;  // [M] whether a row may win

    explicit Cover(Rows<const double> features_)
        : features(features_),
          n(features_.columns()),
          most(CONES - n),
          levels(std::max<Index>(most, 0) + 1),
          marked(features_.rows()) {}

    // Mark the rows of the list begin .. end that may win.
    void mark(Index begin, Index end) {
        double reach = 0.0;
        for (Index i = begin; i < end; ++i)
            for (const double value : features[i]) reach = std::max(reach, std::abs(value));
        least = 8.0 * static_cast<double>(n + most + 8) * (EPSILON * reach + TINY);
        CoverCone& whole = levels[0];
        leads.resize(std::max<std::size_t>(leads.size(), end - begin));
        for (Index orthant = 0; orthant < Index{1} << n; ++orthant) {
            const auto sign = [&](Index k) { return (orthant >> k) & 1 ? -1.0 : 1.0; };
            whole.rays.assign(n * n, 0.0);
            for (Index k = 0; k < n; ++k) whole.rays[k * n + k] = sign(k);
            whole.rows.resize(end - begin);
            std::iota(whole.rows.begin(), whole.rows.end(), begin);
            for (Index k = 0; k < n; ++k) {
                whole.scores[k].resize(end - begin);
                for (Index i = begin; i < end; ++i) whole.scores[k][i - begin] = sign(k) * features[i][k];
            }
            search(0);
        }
    }
};

Indices possible_winners(Rows<const double> features, Span<const Index> offsets) {
    check_offsets(offsets, features.rows(), "offsets");
    const bool covered = features.columns() >= 2 && features.columns() <= CONES;
    Cover cover(features);
    Indices found;
    for (Index s = 0; covered && s + 1 < offsets.size(); ++s) cover.mark(offsets[s], offsets[s + 1]);
    for (Index i = 0; i < features.rows(); ++i)
        if (!covered || cover.marked[i]) found.push_back(i);
    return found;
}

}  // namespace

void bind_winners(nb::module_& module) {
    module.def("possible_winners", &possible_winners, "features"_a, "offsets"_a, unlocked);
}

}  // namespace lpmert
