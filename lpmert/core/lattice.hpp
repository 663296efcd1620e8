// Lattices and hypergraphs as graphs of links: passes over all links that tell of all hypotheses.
//
// Links are sorted by the node they lead to, all to a larger one, from node 0 to the last node; in hypergraphs some
// leave two nodes, and node 0 stands for none. A hypothesis is a path, or a tree of links. Best sums over all of them
// are found as in lemma L2 of proofs/lattices.md: the best sum to a node, a link's own, and the best one from there.
#pragma once

#include <limits>
#include <vector>

#include "vectors.hpp"

namespace lpmert::lattices {

using Node = std::int32_t;

inline constexpr double INF = std::numeric_limits<double>::infinity();

// sources, seconds, targets [L]: the nodes that a link leaves, second 0 where that is one, and where it leads.
struct Links {
    Span<const Node> sources, seconds, targets;
    Index nodes = 0;

    Links() = default;
    // Raises ValueError unless the links are as they must be.
    Links(Span<const Node> sources_, Span<const Node> seconds_, Span<const Node> targets_, Index nodes_)
        : sources(sources_), seconds(seconds_), targets(targets_), nodes(nodes_) {
        check_size(sources.size(), size(), "sources");
        check_size(seconds.size(), size(), "seconds");
        bool right = true;
        Node last = 0;
        for (Index k = 0; k < size(); ++k) {
            const Node source = sources[k], second = seconds[k], target = targets[k];
            right &= target >= last && source >= 0 && source < target && second >= 0 && second < target;
            last = target;
        }
        if (nodes < 1) throw std::invalid_argument("nodes must be positive");
        if (!right || last >= nodes)
            throw std::invalid_argument("targets must be sorted, and each link must lead to a larger node");
    }

    Index size() const { return targets.size(); }
};

// Numbers that are handled together: one, or a block of them.
template <class Numbers>
LPMERT_INLINE Numbers get(const double* place) {
    if constexpr (std::is_same_v<Numbers, double>)
        return *place;
    else
        return load(place);
}
template <class Numbers>
LPMERT_INLINE Numbers all(double number) {
    if constexpr (std::is_same_v<Numbers, double>)
        return number;
    else
        return every(number);
}
LPMERT_INLINE void put(double number, double* place) { *place = number; }
LPMERT_INLINE void put(const Block& numbers, double* place) { store(numbers, place); }
LPMERT_INLINE double larger(double a, double b) { return a > b ? a : b; }
using lpmert::larger;

// Fill best [n, stride], or the part of it that is handled together, with the largest sums of scores from node 0 to
// each node; score(k): of link k.
template <class Numbers, class Score>
LPMERT_INLINE void sum_so_far(const Links& links, Index stride, double* best, Score&& score) {
    const Node *const sources = links.sources.begin(), *const seconds = links.seconds.begin(),
                      *const targets = links.targets.begin();
    for (Index v = 0; v < links.nodes; ++v) put(all<Numbers>(v == 0 ? 0.0 : -INF), best + v * stride);
    for (Index k = 0; k < links.size(); ++k) {
        const Numbers before = get<Numbers>(best + sources[k] * stride) + get<Numbers>(best + seconds[k] * stride);
        double* const target = best + targets[k] * stride;
        put(larger(before + score(k), get<Numbers>(target)), target);
    }
}

// Fill to_come [n, stride] with the largest sums of what is around each node, by scores [L, stride] of the links.
template <class Numbers>
LPMERT_INLINE void sum_to_come(const Links& links, Index stride, const double* scores, const double* so_far,
                               double* to_come) {
    const Node *const sources = links.sources.begin(), *const seconds = links.seconds.begin(),
                      *const targets = links.targets.begin();
    const Index last = links.nodes - 1;
    for (Index v = 0; v <= last; ++v) put(all<Numbers>(v == last ? 0.0 : -INF), to_come + v * stride);
    for (Index k = links.size(); k-- > 0;) {
        const Index source = sources[k] * stride, second = seconds[k] * stride;
        const Numbers after = get<Numbers>(to_come + targets[k] * stride) + get<Numbers>(scores + k * stride);
        put(larger(after + get<Numbers>(so_far + second), get<Numbers>(to_come + source)), to_come + source);
        if (second > 0)
            put(larger(after + get<Numbers>(so_far + source), get<Numbers>(to_come + second)), to_come + second);
    }
}

}  // namespace lpmert::lattices
