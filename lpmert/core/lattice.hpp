// Lattices and hypergraphs as graphs of links, and the best sums over all their hypotheses.
//
// Every link leads to a larger node than those it leaves, and links are sorted by the node they lead to. A link of a
// lattice leaves one node; a link of a hypergraph may leave two. A hypothesis is a path, or a tree of links, from node
// 0 to the last node. The best sum of hypotheses through a link is the best sum to the nodes it leaves, plus its own
// score, plus the best sum from the node it leads to (lemma L2 of proofs/lattices.md). Two passes over the links find
// all of these.
#pragma once

#include "vectors.hpp"

namespace lpmert::lattices {

using Node = std::int32_t;

// sources, seconds [L]: the nodes that a link leaves, second 0 if it leaves one; targets [L]: the node it leads to.
struct Links {
    Span<const Node> sources, seconds, targets;
    Index nodes = 0;

    Links() = default;
    // Raises ValueError unless the links are sorted as described above.
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

// How a partial hypothesis was made: by a link (-1 at the start), from one partial hypothesis or two (second 0 if one).
struct Origin {
    Index first, second, link;
};

// Append the links of a partial hypothesis to a way: each before those of the partial hypotheses that it came from.
template <class Ways>
void append_way(const std::vector<Origin>& origins, Index hypothesis, Ways& links) {
    Indices waiting{hypothesis};
    while (!waiting.empty()) {
        const Origin& origin = origins[waiting.back()];
        waiting.pop_back();
        if (origin.link < 0) continue;
        links.push_back(static_cast<typename Ways::value_type>(origin.link));
        waiting.push_back(origin.second);
        waiting.push_back(origin.first);
    }
}

// Fill a block of best [n, stride] with the largest sums of scores to each node; score(k): the scores of link k.
template <class Score>
LPMERT_INLINE void sum_so_far(const Links& links, Index stride, double* best, Score&& score) {
    const Node *const sources = links.sources.begin(), *const seconds = links.seconds.begin(),
                      *const targets = links.targets.begin();
    for (Index v = 0; v < links.nodes; ++v) store(broadcast(v == 0 ? 0.0 : -INF), best + v * stride);
    for (Index k = 0; k < links.size(); ++k) {
        const Block before = load(best + sources[k] * stride) + load(best + seconds[k] * stride);
        double* const target = best + targets[k] * stride;
        store(larger(before + score(k), load(target)), target);
    }
}

// Fill a block of to_come [n, stride] with the largest sums outside of each node: of links of hypotheses through it
// that do not lead to it. scores [L, stride] of links; so_far: from `sum_so_far`.
LPMERT_INLINE void sum_to_come(const Links& links, Index stride, const double* scores, const double* so_far,
                               double* to_come) {
    const Node *const sources = links.sources.begin(), *const seconds = links.seconds.begin(),
                      *const targets = links.targets.begin();
    const Index last = links.nodes - 1;
    for (Index v = 0; v <= last; ++v) store(broadcast(v == last ? 0.0 : -INF), to_come + v * stride);
    for (Index k = links.size(); k-- > 0;) {
        const Index source = sources[k] * stride, second = seconds[k] * stride;
        const Block after = load(to_come + targets[k] * stride) + load(scores + k * stride);
        store(larger(after + load(so_far + second), load(to_come + source)), to_come + source);
        if (second > 0) store(larger(after + load(so_far + source), load(to_come + second)), to_come + second);
    }
}

}  // namespace lpmert::lattices
