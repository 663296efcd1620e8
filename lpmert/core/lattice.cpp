// What one pass over the links of a lattice or hypergraph tells of all its hypotheses.
//
// Source of the least edits: E. W. Myers and W. Miller, Approximate matching of regular expressions, 1989, for a graph
// without cycles.
#include "lattice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "binding.hpp"

namespace lpmert::lattices {

namespace {

LPMERT_CLONES
Reals largest_sums(const Links& links, Rows<const double> lengths) {
    check_size(lengths.rows(), links.size(), "lengths");
    const Index n = lengths.columns();
    Reals best(links.nodes * n, -INF);
    std::fill(best.begin(), best.begin() + n, 0.0);
    for (Index k = 0; k < links.size(); ++k) {
        const double *const own = lengths[k].begin(), *const one = best.data() + links.sources[k] * n,
                            *const other = best.data() + links.seconds[k] * n;
        double* const target = best.data() + links.targets[k] * n;
        for (Index d = 0; d < n; ++d) target[d] = larger(one[d] + other[d] + own[d], target[d]);
    }
    return {best.end() - n, best.end()};
}

Reals best_through(const Links& links, Span<const double> scores) {
    check_size(scores.size(), links.size(), "scores");
    Reals to(links.nodes), from(links.nodes), best(links.size());
    sum_so_far<double>(links, 1, to.data(), [&](Index k) { return scores[k]; });
    sum_to_come<double>(links, 1, scores.begin(), to.data(), from.data());
    for (Index k = 0; k < links.size(); ++k)
        best[k] = to[links.sources[k]] + to[links.seconds[k]] + scores[k] + from[links.targets[k]];
    return best;
}

double log10_paths(const Links& links) {
    struct Count {  // mantissa times 2 to the power of exponent, both whole numbers at first
        double mantissa = 0.0, exponent = 0.0;
    };
    const auto scaled = [](double x, double by) { return std::ldexp(x, static_cast<int>(std::max(by, -4096.0))); };
    std::vector<Count> counts(links.nodes);
    counts[0].mantissa = 1.0;
    for (Index k = 0; k < links.size(); ++k) {
        const Count one = counts[links.sources[k]], other = counts[links.seconds[k]];
        Count& all = counts[links.targets[k]];
        const double exponent = one.exponent + other.exponent;
        if (all.mantissa == 0.0 || exponent > all.exponent) {
            all.mantissa = scaled(all.mantissa, all.exponent - exponent);
            all.exponent = exponent;
        }
        all.mantissa += scaled(one.mantissa * other.mantissa, exponent - all.exponent);
        for (; all.mantissa >= 2.0; all.mantissa *= 0.5) all.exponent += 1.0;
    }
    return std::log10(counts.back().mantissa) + counts.back().exponent * std::log10(2.0);
}

LPMERT_CLONES
Index least_edits(const Links& links, Span<const Node> words, Span<const Node> reference) {
    check_size(words.size(), links.size(), "words");
    const Index width = reference.size() + 1, far = links.size() + width;
    if (2 * far > std::numeric_limits<Node>::max()) throw std::invalid_argument("words and reference are too many");
    std::vector<Node> all(links.nodes * width, static_cast<Node>(far));
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

void check_within(Span<const Index> numbers, Index end, const char* name) {
    if (!std::all_of(numbers.begin(), numbers.end(), [=](Index number) { return number >= 0 && number < end; }))
        throw std::invalid_argument(std::string(name) + " must be from 0 to below " + std::to_string(end));
}

struct Reader {
    Span<const Index> spelled, ends;
    Rows<const Index> follow;
    Span<const Index> depth;

    static constexpr Members<Span<const Index>, Span<const Index>, Rows<const Index>, Span<const Index>> members{
        {"spelled", "ends", "follow", "depth"}};
};

// Lemma L5 of proofs/lattices.md.
Indices most_matches(const Links& links, Span<const Node> words, Reader reader, Index n_orders) {
    const auto& [spelled, ends, follow, depth] = reader;
    check_size(words.size(), links.size(), "words");
    check_size(follow.rows(), depth.size(), "follow");
    if (depth.size() < 1 || n_orders < 1) throw std::invalid_argument("depth must have an item, n_orders be positive");
    check_within(depth, n_orders + 1, "depth");
    for (Index state = 0; state < follow.rows(); ++state) check_within(follow[state], depth.size(), "follow");
    check_within(spelled, follow.columns(), "spelled");
    check_within(ends, spelled.size() + 1, "ends");
    if (std::any_of(words.begin(), words.end(), [n_words = ends.size() - 1](Node word) { return word >= n_words; }))
        throw std::invalid_argument("words must be below the number of words that are spelled");
    // Of each node from first[node] on: states of the automaton that paths lead to, and the most n-grams on these.
    Indices states{0}, counts(n_orders), first{0, 1}, best(n_orders), most(n_orders);
    Indices place(depth.size(), -1);  // of a state at the node at hand
    Index k = 0;
    for (Index v = 1; v < links.nodes; ++v) {
        for (; k < links.size() && links.targets[k] == v; ++k) {
            const Node word = words[k];
            const Index end = first[links.sources[k] + 1];
            for (Index i = first[links.sources[k]]; i < end; ++i) {
                Index state = states[i];
                std::copy_n(counts.begin() + i * n_orders, n_orders, best.begin());
                for (Index t = word < 0 ? 0 : ends[word]; word >= 0 && t < ends[word + 1]; ++t) {
                    state = follow[state][spelled[t]];
                    for (Index o = 0; o < depth[state]; ++o) best[o] += 1;
                }
                if (place[state] < 0) {
                    place[state] = count(states);
                    states.push_back(state);
                    counts.resize(counts.size() + best.size());
                }
                Index* const own = counts.data() + place[state] * n_orders;
                for (Index o = 0; o < n_orders; ++o) own[o] = std::max(own[o], best[o]);
            }
        }
        for (Index i = first.back(); i < count(states); ++i) place[states[i]] = -1;
        first.push_back(count(states));
    }
    for (Index i = first[links.nodes - 1] * n_orders; i < count(counts); ++i)
        most[i % n_orders] = std::max(most[i % n_orders], counts[i]);
    return most;
}

// Nodes are not numbered yet as in `Links`.
void mark_useful(Span<const Index> sources, Span<const Index> targets, Index start, Index end, Span<bool> useful) {
    check_size(sources.size(), targets.size(), "sources");
    check_within(sources, useful.size(), "sources");
    check_within(targets, useful.size(), "targets");
    if (std::min(start, end) < 0 || std::max(start, end) >= useful.size())
        throw std::invalid_argument("start and end must be nodes");
    std::vector<char> leading(useful.size());
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

}  // namespace

void bind_lattice(nb::module_& module) {
    nb::class_<Links> links(module, "Links");
    define_init<Span<const Node>, Span<const Node>, Span<const Node>, Index>(links, "sources", "seconds", "targets",
                                                                             "nodes");
    define(links, "largest_sums", &largest_sums, "lengths");
    define(links, "best_through", &best_through, "scores");
    define(links, "log10_paths", &log10_paths);
    define(links, "least_edits", &least_edits, "words", "reference");
    define(links, "most_matches", &most_matches, "words", "reader", "n_orders");
    define(module, "mark_useful", &mark_useful, "sources", "targets", "start", "end", "useful");
}

}  // namespace lpmert::lattices
