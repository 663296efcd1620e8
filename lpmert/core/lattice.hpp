// Lattices and hypergraphs as graphs of links: what one pass over all links tells of all hypotheses.
//
// Links are sorted by the node they lead to, all to a larger one, from node 0 to the last node; in hypergraphs some
// leave two nodes, and node 0 stands for none. A hypothesis is a path, or a tree of links. Best sums over all of them
// are found as in lemma L2 of proofs/lattices.md: the best sum to a node, a link's own, and the best one from there.
//
// Source of the least edits: E. W. Myers and W. Miller, Approximate matching of regular expressions, 1989, for a graph
// without cycles.
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

// Make room for so many items, whatever they are.
template <class T>
T* room_for(std::vector<T>& items, Index count) {
    if (static_cast<Index>(items.size()) < count) items.resize(static_cast<std::size_t>(count));
    return items.data();
}

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

// The largest sums [D] of lengths [L, D] over all hypotheses.
std::vector<double> largest_sums(const Links& links, Rows<const double> lengths);

// The largest sums [L] of scores [L] over the hypotheses through each link.
std::vector<double> best_through(const Links& links, Span<const double> scores);

// The links of hypotheses that come within rounding of the best one at weights [D]. share: of the largest score of a
// link, were all its terms positive, by which rounding may be off.
std::vector<Index> near_best(const Links& links, Rows<const double> features, Span<const double> weights, double share);

// The decimal logarithm of the number of hypotheses, but for rounding.
double log10_paths(const Links& links);

// The least edits that turn the words of a path into a reference [R]; words [L] below 0 are silent.
Index least_edits(const Links& links, Span<const Node> words, Span<const Node> reference);

// How to read the words of links: word w has the tokens spelled[ends[w]:ends[w + 1]]. follow [Q, A], depth [Q]: the
// automaton of Aho and Corasick whose state is the longest end of what was read that occurs in a reference, at most N
// tokens, its length being its depth.
struct Reader {
    Span<const Index> spelled, ends;
    Rows<const Index> follow;
    Span<const Index> depth;
};

// For each order the most n-grams of references on a path; words [L] of the links, below 0 for none (lemma L5).
std::vector<Index> most_matches(const Links& links, Span<const Node> words, const Reader& reader, Index n_orders);

// Mark the nodes on ways from start to end; links are sorted by target.
void mark_useful(Span<const Index> sources, Span<const Index> targets, Index start, Index end, Span<bool> useful);

}  // namespace lpmert::lattices
