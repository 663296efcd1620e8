// What one pass over the links of a lattice or hypergraph tells of all its hypotheses.
//
// Source of the least edits: E. W. Myers and W. Miller, Approximate matching of regular expressions, 1989, for a graph
// without cycles.
#include "lattice.hpp"

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
        for (Index d = 0; d < n; ++d) target[d] = std::max(target[d], one[d] + other[d] + own[d]);
    }
    return {best.end() - n, best.end()};
}

double log10_paths(const Links& links) {
    Reals logs(links.nodes, -INF);
    logs[0] = 0.0;
    for (Index k = 0; k < links.size(); ++k) {
        double& all = logs[links.targets[k]];
        const double own = logs[links.sources[k]] + logs[links.seconds[k]], most = std::max(all, own);
        if (most > -INF) all = most + std::log1p(std::exp(std::min(all, own) - most));
    }
    return logs.back() / std::log(10.0);
}

Reals best_through(const Links& links, Span<const double> scores) {
    check_size(scores.size(), links.size(), "scores");
    Reals to(LANES * links.nodes), from(to.size()), own(LANES * links.size()), best(links.size());  // blocks of equals
    for (Index k = 0; k < links.size(); ++k) store(every(scores[k]), own.data() + LANES * k);
    sum_so_far(links, LANES, to.data(), [&](Index k) { return load(own.data() + LANES * k); });
    sum_to_come(links, LANES, own.data(), to.data(), from.data());
    for (Index k = 0; k < links.size(); ++k)
        best[k] =
            to[LANES * links.sources[k]] + to[LANES * links.seconds[k]] + scores[k] + from[LANES * links.targets[k]];
    return best;
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

}  // namespace

void bind_lattice(nb::module_& module) {
    nb::class_<Links> links(module, "Links");
    define_init<Span<const Node>, Span<const Node>, Span<const Node>, Index>(links, "sources", "seconds", "targets",
                                                                             "nodes");
    define(links, "largest_sums", &largest_sums, "lengths");
    define(links, "best_through", &best_through, "scores");
    define(links, "log10_paths", &log10_paths);
    define(links, "least_edits", &least_edits, "words", "reference");
}

}  // namespace lpmert::lattices
