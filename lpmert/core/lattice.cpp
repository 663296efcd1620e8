#include "lattice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lpmert::lattices {

LPMERT_CLONES
std::vector<double> largest_sums(const Links& links, Rows<const double> lengths) {
    const Index n = lengths.columns();
    std::vector<double> best(static_cast<std::size_t>(links.nodes * n), -INF);
    std::fill(best.begin(), best.begin() + n, 0.0);
    for (Index k = 0; k < links.size(); ++k) {
        const double *const own = lengths[k].begin(), *const one = best.data() + links.sources[k] * n,
                            *const other = best.data() + links.seconds[k] * n;
        double* const target = best.data() + links.targets[k] * n;
        for (Index d = 0; d < n; ++d) target[d] = larger(one[d] + other[d] + own[d], target[d]);
    }
    return {best.end() - n, best.end()};
}

std::vector<double> best_through(const Links& links, Span<const double> scores) {
    std::vector<double> so_far(static_cast<std::size_t>(links.nodes)), to_come(so_far), through(so_far);
    sum_so_far<double>(links, 1, so_far.data(), [&](Index k) { return scores[k]; });
    sum_to_come<double>(links, 1, scores.begin(), so_far.data(), to_come.data());
    through.resize(static_cast<std::size_t>(links.size()));
    const Span<double> to(so_far), from(to_come), best(through);
    for (Index k = 0; k < links.size(); ++k)
        best[k] = to[links.sources[k]] + to[links.seconds[k]] + scores[k] + from[links.targets[k]];
    return through;
}

std::vector<Index> near_best(const Links& links, Rows<const double> features, Span<const double> weights,
                             double share) {
    std::vector<double> scores(static_cast<std::size_t>(links.size())), so_far(static_cast<std::size_t>(links.nodes)),
        to_come(so_far);
    double largest = 0.0;
    sum_so_far<double>(links, 1, so_far.data(), [&](Index k) {
        const Span<const double> row = features[k];
        double score = 0.0, size = 0.0;
        for (Index d = 0; d < weights.size(); ++d) {
            const double product = row[d] * weights[d];
            score += product;
            size += std::abs(product);
        }
        largest = std::max(largest, size);
        return Span<double>(scores)[k] = score;
    });
    sum_to_come<double>(links, 1, scores.data(), so_far.data(), to_come.data());
    const Span<const double> own(scores), to(so_far), from(to_come);
    const double least = to[links.nodes - 1] - share * largest;
    std::vector<Index> found;
    for (Index k = 0; k < links.size(); ++k) {
        if (to[links.sources[k]] + to[links.seconds[k]] + own[k] + from[links.targets[k]] >= least) found.push_back(k);
    }
    return found;
}

double log10_paths(const Links& links) {
    struct Count {  // mantissa times 2 to the power of exponent, both whole numbers at first
        double mantissa, exponent;
    };
    const auto scaled = [](double x, double by) { return std::ldexp(x, static_cast<int>(std::max(by, -4096.0))); };
    std::vector<Count> counts(static_cast<std::size_t>(links.nodes), {0.0, 0.0});
    const Span<Count> known(counts);
    known[0].mantissa = 1.0;
    for (Index k = 0; k < links.size(); ++k) {
        const Count one = known[links.sources[k]], other = known[links.seconds[k]];
        Count& all = known[links.targets[k]];
        const double exponent = one.exponent + other.exponent;
        if (all.mantissa == 0.0 || exponent > all.exponent) {
            all.mantissa = scaled(all.mantissa, all.exponent - exponent);
            all.exponent = exponent;
        }
        all.mantissa += scaled(one.mantissa * other.mantissa, exponent - all.exponent);
        for (; all.mantissa >= 2.0; all.mantissa *= 0.5) all.exponent += 1.0;
    }
    const Count& last = known[links.nodes - 1];
    return std::log10(last.mantissa) + last.exponent * std::log10(2.0);
}

LPMERT_CLONES
Index least_edits(const Links& links, Span<const Node> words, Span<const Node> reference) {
    const Index width = reference.size() + 1, far = links.size() + width;
    if (2 * far > std::numeric_limits<Node>::max()) throw std::invalid_argument("words and reference are too many");
    std::vector<Node> all(static_cast<std::size_t>(links.nodes * width), static_cast<Node>(far));
    std::iota(all.begin(), all.begin() + width, Node{0});
    Index k = 0;
    for (Index v = 1; v < links.nodes; ++v) {
        Node* __restrict const own = all.data() + v * width;
        for (; k < links.size() && links.targets[k] == v; ++k) {
            const Node* __restrict const before = all.data() + links.sources[k] * width;
            const Node word = words[k];
            if (word < 0) {
                for (Index j = 0; j < width; ++j) own[j] = std::min(own[j], before[j]);
                continue;
            }
            own[0] = std::min(own[0], before[0] + 1);
            const Node* const said = reference.begin();
            for (Index j = 1; j < width; ++j) {
                const Node changed = before[j - 1] + (word == said[j - 1] ? 0 : 1);
                own[j] = std::min(own[j], std::min(before[j] + 1, changed));
            }
        }
        for (Index j = 1; j < width; ++j) own[j] = std::min(own[j], own[j - 1] + 1);
    }
    return all.back();
}

std::vector<Index> most_matches(const Links& links, Span<const Node> words, const Reader& reader, Index n_orders) {
    // Of each node from first[node] on: states of the automaton that paths lead to, and the most n-grams on these.
    std::vector<Index> states{0}, counts(static_cast<std::size_t>(n_orders), 0), first{0, 1};
    std::vector<Index> places(static_cast<std::size_t>(reader.depth.size()), -1), read(counts), most(counts);
    const Span<Index> place(places), best(read), all(most);  // place: of a state at the node at hand, or -1
    const auto at = [](std::vector<Index>& items, Index i) -> Index& { return Span<Index>(items)[i]; };
    Index k = 0;
    for (Index v = 1; v < links.nodes; ++v) {
        for (; k < links.size() && links.targets[k] == v; ++k) {
            const Node word = words[k];
            const Index end = at(first, links.sources[k] + 1);
            for (Index i = at(first, links.sources[k]); i < end; ++i) {
                Index state = at(states, i);
                std::copy_n(counts.begin() + i * n_orders, n_orders, best.begin());
                for (Index t = word < 0 ? 0 : reader.ends[word]; word >= 0 && t < reader.ends[word + 1]; ++t) {
                    state = reader.follow[state][reader.spelled[t]];
                    for (Index o = 0; o < reader.depth[state]; ++o) best[o] += 1;
                }
                if (place[state] < 0) {
                    place[state] = static_cast<Index>(states.size());
                    states.push_back(state);
                    counts.resize(counts.size() + read.size(), 0);
                }
                const Span<Index> own =
                    Span<Index>(counts).part(place[state] * n_orders, (place[state] + 1) * n_orders);
                for (Index o = 0; o < n_orders; ++o) own[o] = std::max(own[o], best[o]);
            }
        }
        for (Index i = first.back(); i < static_cast<Index>(states.size()); ++i) place[at(states, i)] = -1;
        first.push_back(static_cast<Index>(states.size()));
    }
    for (Index i = at(first, links.nodes - 1) * n_orders; i < static_cast<Index>(counts.size()); ++i)
        all[i % n_orders] = std::max(all[i % n_orders], at(counts, i));
    return most;
}

void mark_useful(Span<const Index> sources, Span<const Index> targets, Index start, Index end, Span<bool> useful) {
    std::vector<char> ahead(static_cast<std::size_t>(useful.size()), 0);
    const Span<char> leading(ahead);
    leading[end] = 1;
    for (Index k = targets.size(); k-- > 0;) {
        if (leading[targets[k]]) leading[sources[k]] = 1;
    }
    std::fill(useful.begin(), useful.end(), false);
    useful[start] = leading[start] != 0;
    for (Index k = 0; k < targets.size(); ++k) {
        if (useful[sources[k]] && leading[targets[k]]) useful[targets[k]] = true;
    }
}

}  // namespace lpmert::lattices
