// Lattices and hypergraphs as graphs of links: passes over all links that tell of all hypotheses.
//
// Links are sorted by the node they lead to, all to a larger one, from node 0 to the last node; in hypergraphs some
// leave two nodes, and node 0 stands for none. A hypothesis is a path, or a tree of links. Best sums over all of them
// are found as in lemma L2 of proofs/lattices.md: the best sum to a node, a link's own, and the best one from there.
#pragma once

#include "vectors.hpp"

namespace lpmert::lattices {

using Node = std::int32_t;

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

// Fill a block of best [n, stride] with the largest sums of scores from node 0 to each node; score(k): those of link k.
template <class Score>
LPMERT_INLINE void sum_so_far(const Links& links, Index stride, double* best, Score&& score) {
    const Node *const sources = links.sources.begin(), *const seconds = links.seconds.begin(),
                      *const targets = links.targets.begin();
    for (Index v = 0; v < links.nodes; ++v) store(every(v == 0 ? 0.0 : -INF), best + v * stride);
    for (Index k = 0; k < links.size(); ++k) {
        const Block before = load(best + sources[k] * stride) + load(best + seconds[k] * stride);
        double* const target = best + targets[k] * stride;
        store(larger(before + score(k), load(target)), target);
    }
}

// Fill a block of to_come [n, stride] with the largest sums of what is around each node, by scores [L, stride] of
// links.
LPMERT_INLINE void sum_to_come(const Links& links, Index stride, const double* scores, const double* so_far,
                               double* to_come) {
    const Node *const sources = links.sources.begin(), *const seconds = links.seconds.begin(),
                      *const targets = links.targets.begin();
    const Index last = links.nodes - 1;
    for (Index v = 0; v <= last; ++v) store(every(v == last ? 0.0 : -INF), to_come + v * stride);
    for (Index k = links.size(); k-- > 0;) {
        const Index source = sources[k] * stride, second = seconds[k] * stride;
        const Block after = load(to_come + targets[k] * stride) + load(scores + k * stride);
        store(larger(after + load(so_far + second), load(to_come + source)), to_come + source);
        if (second > 0) store(larger(after + load(so_far + source), load(to_come + second)), to_come + second);
    }
}

}  // namespace lpmert::lattices
