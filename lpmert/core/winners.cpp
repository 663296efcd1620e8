// Hypotheses that win nowhere in a part of the weight space, as another one of their list is at least as good there.
//
// Who is beaten at all rays of a cone by one and the same hypothesis, by more than rounding, is beaten by it everywhere
// in it (lemma K1 of proofs/cones.md).
#include "binding.hpp"
#include "lists.hpp"

namespace lpmert {

namespace {

// The cover has two to this power cones at most; with more features nearly all hypotheses win somewhere anyway.
constexpr Index CONES = 10;

// A cone of the cover: rays [D, D], the rows that may win in it, their scores [n, D] at the rays, and how often it was
// split from an orthant. All rays have entries that are multiples of a power of two, and absolute values that sum to 1.
struct CoverCone {
    Reals rays;
    Indices rows;
    Reals scores;
    Index splits = 0;
};

// Marks the rows of one list after the other that may win in a cone of the cover.
class Cover {
    Rows<const double> features;
    Index n;
    std::vector<CoverCone> open;

    // The best row at a ray, for k = D at the sum of all.
    Index best_at(const CoverCone& cone, Index k) const {
        Index best = 0;
        double highest = -std::numeric_limits<double>::infinity();
        const auto n_rows = count(cone.rows);
        const double* own = cone.scores.data();
        for (Index i = 0; i < n_rows; ++i, own += n) {
            const double score = k < n ? own[k] : std::accumulate(own, own + n, 0.0);
            if (score > highest) best = i, highest = score;
        }
        return best;
    }

    // Drop the rows that one of the best at the rays and in the middle beats at all rays by more than `least`.
    void propagate(CoverCone& cone, double least) const {
        for (Index k = 0; k <= n; ++k) {
            const Index best = best_at(cone, k);
            const Reals top(cone.scores.begin() + best * n, cone.scores.begin() + (best + 1) * n);
            const auto n_rows = count(cone.rows);
            Index left = 0;
            for (Index i = 0; i < n_rows; ++i) {
                const double* const own = cone.scores.data() + i * n;
                Index d = 0;
                while (d < n && top[d] - own[d] > least) ++d;
                if (d == n) continue;
                cone.rows[left] = cone.rows[i];
                std::copy_n(own, n, cone.scores.begin() + left * n);
                ++left;
            }
            cone.rows.resize(left);
            cone.scores.resize(left * n);
        }
    }

    // Split a cone between the two rays that are the farthest apart; return the other part.
    CoverCone split(CoverCone& cone) const {
        Index first = 0, second = 1;
        double longest = -1.0;
        for (Index a = 0; a < n; ++a) {
            for (Index b = a + 1; b < n; ++b) {
                double distance = 0.0;
                for (Index d = 0; d < n; ++d) {
                    const double step = cone.rays[a * n + d] - cone.rays[b * n + d];
                    distance += step * step;
                }
                if (distance > longest) first = a, second = b, longest = distance;
            }
        }
        ++cone.splits;
        CoverCone other = cone;
        for (Index d = 0; d < n; ++d) {
            double& one = cone.rays[first * n + d];
            double& two = other.rays[second * n + d];
            one = two = 0.5 * (one + two);
        }
        for (Index i = 0; i < count(cone.rows); ++i) {
            double& one = cone.scores[i * n + first];
            double& two = other.scores[i * n + second];
            one = two = 0.5 * (one + two);
        }
        return other;
    }

  public:
    std::vector<char> kept;

    explicit Cover(Rows<const double> features_)
        : features(features_), n(features_.columns()), kept(features_.rows()) {}

    void mark(Index begin, Index end) {
        const Index most = CONES - n;
        double reach = 0.0;
        for (Index i = begin; i < end; ++i)
            for (const double value : features[i]) reach = std::max(reach, std::abs(value));
        // beyond what scores of weights are rounded by, here and where they are decoded
        const double least = 8.0 * static_cast<double>(n + most + 8) * EPSILON * reach;
        for (Index orthant = 0; orthant < Index{1} << n; ++orthant) {
            CoverCone start;
            const auto sign = [&](Index k) { return (orthant >> k) & 1 ? -1.0 : 1.0; };
            start.rays.assign(n * n, 0.0);
            for (Index k = 0; k < n; ++k) start.rays[k * n + k] = sign(k);
            for (Index i = begin; i < end; ++i) {
                start.rows.push_back(i);
                for (Index k = 0; k < n; ++k) start.scores.push_back(sign(k) * features[i][k]);
            }
            open.push_back(std::move(start));
            while (!open.empty()) {
                CoverCone cone = std::move(open.back());
                open.pop_back();
                propagate(cone, least);
                const auto known = [&](Index row) { return kept[row] != 0; };
                if (std::all_of(cone.rows.begin(), cone.rows.end(), known)) continue;
                if (cone.rows.size() == 1 || cone.splits == most) {
                    for (const Index row : cone.rows) kept[row] = true;
                    continue;
                }
                CoverCone other = split(cone);
                open.push_back(std::move(cone));
                open.push_back(std::move(other));
            }
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
        if (!covered || cover.kept[i]) found.push_back(i);
    return found;
}

}  // namespace

void bind_winners(nb::module_& module) { define(module, "possible_winners", &possible_winners, "features", "offsets"); }

}  // namespace lpmert
