// Scores and decoding of lists, and their hypotheses that may win for some weights, found by a cover of the weight
// space with cones.
//
// A hypothesis that another one beats at all rays of a cone, by more than rounding, is beaten everywhere in the cone
// (lemma K1 of proofs/cones.md). A hypothesis that is beaten in every cone of the cover wins nowhere.
#include "lists.hpp"

#include "binding.hpp"

namespace lpmert {

LPMERT_CLONES
void score_blocks(const double* columns, Index n, Index length, const double* weights, double* scores) {
    Index i = 0;
    for (; i + 8 * LANES <= length; i += 8 * LANES) combine_blocks<8>(0.0, weights, columns + i, n, length, scores + i);
    for (; i + 2 * LANES <= length; i += 2 * LANES) combine_blocks<2>(0.0, weights, columns + i, n, length, scores + i);
    for (; i + LANES <= length; i += LANES) combine_blocks<1>(0.0, weights, columns + i, n, length, scores + i);
    if (i < length) combine_blocks<1>(0.0, weights, columns + length - LANES, n, length, scores + length - LANES);
}

Lists::Lists(Rows<const double> rows_, Span<const Index> offsets_, Span<const Index> costs_, Span<const double> reach_,
             Span<const double> spread_, Span<const double> cap_)
    : rows(rows_), offsets(offsets_), costs(costs_), reach(reach_), spread(spread_), cap(cap_) {
    const Index n = rows.columns();
    check_size(costs.size(), rows.rows(), "costs");
    check_size(reach.size(), n, "reach");
    check_size(spread.size(), n, "spread");
    if (rows.rows() > std::numeric_limits<Row>::max()) throw std::invalid_argument("rows must be fewer than 2^31");
    if (cap.size() > 0) check_size(cap.size(), n + 1, "cap");
    check_offsets(offsets, rows.rows(), "offsets");
    Reals transposed(rows.rows() * n);
    for (Index s = 0; s < n_lists(); ++s)
        for (Index i = 0; i < length(s); ++i)
            for (Index d = 0; d < n; ++d) transposed[offsets[s] * n + d * length(s) + i] = row(offsets[s] + i)[d];
    columns_owner = std::make_shared<const Reals>(std::move(transposed));
    columns = *columns_owner;
}

double rounding_bound(const Lists& lists, const double* weights) {
    double total = 0.0, off = 0.0;
    const Index n_features = lists.n_features();
    for (Index d = 0; d < n_features; ++d) {
        total += std::abs(weights[d]) * lists.reach[d];
        off += std::abs(weights[d]) * lists.spread[d];
    }
    return 2.0 * static_cast<double>(n_features + 3) * (EPSILON * total + TINY) + 2.0 * off;
}

bool in_cap(const Lists& lists, const double* weights) {
    if (lists.cap.size() == 0) return true;
    const Index n_features = lists.n_features();
    double along = 0.0, norm = 0.0;
    for (Index d = 0; d < n_features; ++d) {
        along += lists.cap[d] * weights[d];
        norm += weights[d] * weights[d];
    }
    return along >= (lists.cap[n_features] + 4.0 * static_cast<double>(n_features) * EPSILON) * std::sqrt(norm);
}

LPMERT_CLONES
Decoded decode_clearly(const Lists& lists, const double* weights, Index* selection, double* scores) {
    const double bound = rounding_bound(lists, weights);
    Decoded found{0, true};
    for (Index s = 0; s < lists.n_lists(); ++s) {
        const Index length = lists.length(s);
        score_list(lists, s, weights, scores);
        const Index best = largest(scores, length);
        selection[s] = best;
        found.cost = capped_sum(found.cost, lists.costs[lists.offsets[s] + best]);
        if (found.clear) {
            const double top = scores[best];
            scores[best] = -INF;
            found.clear = top - largest_score(scores, length) > bound;
        }
    }
    return found;
}

namespace {

// Score the lists of rows [M, D] at weights [D], and call each(list, scores, position of the first best hypothesis).
template <class Each>
void score_lists(Rows<const double> rows, Span<const Index> offsets, Span<const double> weights, Each each) {
    check_offsets(offsets, rows.rows(), "offsets");
    check_size(weights.size(), rows.columns(), "weights");
    Reals scores;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        scores.clear();
        for (Index i = offsets[s]; i < offsets[s + 1]; ++i) {
            const double* const row = rows[i].data();
            double score = 0.0;
            for (Index d = 0; d < weights.size(); ++d) score += row[d] * weights.data()[d];
            scores.push_back(score);
        }
        each(s, scores.data(), std::max_element(scores.begin(), scores.end()) - scores.begin());
    }
}

Indices decode(Rows<const double> features, Span<const Index> offsets, Span<const double> weights) {
    Indices selection;
    score_lists(features, offsets, weights,
                [&](Index s, const double*, Index best) { selection.push_back(offsets[s] + best); });
    return selection;
}

std::tuple<Index, Index, bool> decoded_cost(Rows<const double> features, Span<const Index> offsets,
                                            Span<const Index> costs, Span<const double> weights, double bound) {
    check_size(costs.size(), features.rows(), "costs");
    Index cost = 0, worst = 0;
    bool clear = true;
    score_lists(features, offsets, weights, [&](Index s, const double* scores, Index best) {
        const Span<const Index> of_list = costs.part(offsets[s], offsets[s + 1]);
        cost = capped_sum(cost, of_list[best]);
        worst = capped_sum(worst, dearest_within(bound, scores, best, of_list, clear));
    });
    return {cost, worst, clear};
}

std::tuple<Index, bool> checked_decode(const Lists& lists, Span<const double> weights, Span<Index> selection) {
    check_size(weights.size(), lists.n_features(), "weights");
    check_size(selection.size(), lists.n_lists(), "selection");
    Reals scores(lists.longest());
    const auto [cost, clear] = decode_clearly(lists, weights.data(), selection.data(), scores.data());
    return {cost, clear};
}

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

void bind_lists(nb::module_& module) {
    nb::class_<Lists> lists(module, "Lists");
    define_init<Rows<const double>, Span<const Index>, Span<const Index>, Span<const double>, Span<const double>,
                Span<const double>>(lists, "rows", "offsets", "costs", "reach", "spread", "cap");
    lists.def("decode_clearly", &checked_decode, "weights"_a, "selection"_a, unlocked);
    module.def("possible_winners", &possible_winners, "features"_a, "offsets"_a, unlocked);
    module.def("decode", &decode, "features"_a, "offsets"_a, "weights"_a, unlocked);
    module.def("decoded_cost", &decoded_cost, "features"_a, "offsets"_a, "costs"_a, "weights"_a, "bound"_a, unlocked);
}

using Bind = void(nb::module_&);

Bind bind_lattice, bind_line_search, bind_lists, bind_ranking, bind_reading, bind_searches, bind_sparse;

}  // namespace lpmert

// Each file binds its own functions at its end.
NB_MODULE(_core, module) {
    using namespace lpmert;
    // The C++ runtime allocates a thread's exception state at the first throw. If the first throw is a std::bad_alloc,
    // this allocation fails too, and the process aborts. So the importing thread throws once while there is memory.
    try {
        throw std::bad_alloc();
    } catch (const std::bad_alloc&) {
    }
    module.attr("INFINITE_COST") = INFINITE_COST;
    for (const auto bind :
         {bind_lists, bind_ranking, bind_lattice, bind_searches, bind_line_search, bind_reading, bind_sparse})
        bind(module);
}
