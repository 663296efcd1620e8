// Dynamic programs over the links of a lattice or hypergraph: largest sums, the number of hypotheses, the least edits
// to a reference, and the upper envelope of all hypotheses on a line.
//
// On the line w + t d, a hypothesis scores intercept + t slope. A partial hypothesis that is best at its node for no t
// is part of no best hypothesis (lemma L1 of proofs/lattices.md), so each node keeps only its envelope.
//
// Sources: E. W. Myers and W. Miller, Approximate matching of regular expressions, 1989, for a graph without cycles
// (least edits); Macherey, Och, Thayer and Uszkoreit, Lattice-based Minimum Error Rate Training for Statistical Machine
// Translation, EMNLP 2008 (envelope); Kumar, Macherey, Dyer and Och, Efficient Minimum Error Rate Training and Minimum
// Bayes-Risk Decoding for Translation Hypergraphs and Lattices, ACL 2009 (envelope of hypergraphs).
#include "lattice.hpp"

#include "binding.hpp"
#include "envelope.hpp"

namespace lpmert::lattices {

namespace {

LPMERT_CLONES
Reals largest_sums(const Links& links, Rows<const double> lengths) {
    check_size(lengths.rows(), links.size(), "lengths");
    const Index n = lengths.columns();
    Reals best(links.nodes * n, -INF);
    std::fill(best.begin(), best.begin() + n, 0.0);
    for (Index k = 0; k < links.size(); ++k) {
        const double *const length = lengths[k].begin(), *const one = best.data() + links.sources[k] * n,
                            *const other = best.data() + links.seconds[k] * n;
        double* const target = best.data() + links.targets[k] * n;
        for (Index d = 0; d < n; ++d) target[d] = std::max(target[d], one[d] + other[d] + length[d]);
    }
    return {best.end() - n, best.end()};
}

double log10_paths(const Links& links) {
    Reals logs(links.nodes, -INF);
    logs[0] = 0.0;
    for (Index k = 0; k < links.size(); ++k) {
        double& all = logs[links.targets[k]];
        const double through = logs[links.sources[k]] + logs[links.seconds[k]], most = std::max(all, through);
        if (most > -INF) all = most + std::log1p(std::exp(std::min(all, through) - most));
    }
    return logs.back() / std::log(10.0);
}

Reals best_through(const Links& links, Span<const double> scores) {
    check_size(scores.size(), links.size(), "scores");
    Reals to(LANES * links.nodes), from(to.size()), repeated(LANES * links.size());  // blocks of equal numbers
    Reals best(links.size());
    for (Index k = 0; k < links.size(); ++k) store(broadcast(scores[k]), repeated.data() + LANES * k);
    sum_so_far(links, LANES, to.data(), [&](Index k) { return load(repeated.data() + LANES * k); });
    sum_to_come(links, LANES, repeated.data(), to.data(), from.data());
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
        Node* __restrict const edits = all.data() + v * width;
        for (; k < links.size() && links.targets[k] == v; ++k) {
            const Node* __restrict const before = all.data() + links.sources[k] * width;
            const Node word = words[k];
            if (word < 0) {  // a silent link
                for (Index j = 0; j < width; ++j) edits[j] = std::min(edits[j], before[j]);
                continue;
            }
            edits[0] = std::min(edits[0], before[0] + 1);
            const Node* const said = reference.begin();
            for (Index j = 1; j < width; ++j) {
                const Node changed = before[j - 1] + (word == said[j - 1] ? 0 : 1);
                edits[j] = std::min(edits[j], std::min(before[j] + 1, changed));
            }
        }
        for (Index j = 1; j < width; ++j) edits[j] = std::min(edits[j], edits[j - 1] + 1);
    }
    return all.back();
}

// Lines of partial hypotheses; the origins refer to other lines.
struct Lines {
    Reals intercepts, slopes;
    std::vector<Origin> origins;

    Index size() const { return count(slopes); }
    void clear() { intercepts.clear(), slopes.clear(), origins.clear(); }
    void add(double intercept, double slope, Origin origin) {
        intercepts.push_back(intercept), slopes.push_back(slope), origins.push_back(origin);
    }
};

std::tuple<Reals, Reals, Reals, Indices, Indices> find_graph_envelope(const Links& links, Span<const double> intercepts,
                                                                      Span<const double> slopes) {
    check_size(intercepts.size(), links.size(), "intercepts");
    check_size(slopes.size(), links.size(), "slopes");
    Lines found, candidates;  // the envelopes of one node after the other; sums of lines that lead to the present node
    Reals starts{-INF};       // the t from which each line found is the envelope of its node
    Indices first{0};         // of each node, its first line
    lines::Envelope envelope;
    found.add(0.0, 0.0, {0, 0, -1});  // of node 0, which is also the second node of links that leave one
    Index k = 0;
    for (Index node = 1; node < links.nodes; ++node) {
        first.push_back(found.size());
        candidates.clear();
        for (; k < links.size() && links.targets[k] == node; ++k) {
            // The envelope of the sums of two lines, one of each of two nodes, plus the line of the link.
            Index one = first[links.sources[k]], other = first[links.seconds[k]];
            const Index one_end = first[links.sources[k] + 1], other_end = first[links.seconds[k] + 1];
            while (one < one_end && other < other_end) {
                candidates.add((found.intercepts[one] + found.intercepts[other]) + intercepts[k],
                               (found.slopes[one] + found.slopes[other]) + slopes[k], {one, other, k});
                const double next = one + 1 < one_end ? starts[one + 1] : INF,
                             beside = other + 1 < other_end ? starts[other + 1] : INF;
                if (one + 1 < one_end && (other + 1 == other_end || next <= beside))
                    ++one;
                else
                    ++other;
            }
        }
        if (candidates.size() == 0) continue;
        const lines::RoundedPoints points{candidates.intercepts.data(), candidates.slopes.data()};
        const auto keep = [&](double at, Row i) {
            found.add(points.x(i), points.y(i), candidates.origins[i]);
            starts.push_back(at);
        };
        envelope.upper(
            points, candidates.size(), [&](Row i) { keep(-INF, i); }, [&](double at, Row, Row i) { keep(at, i); });
    }
    const Index begin = links.nodes > 1 ? first.back() : 0;
    const auto last = [begin](const Reals& items) { return Reals(items.begin() + begin, items.end()); };
    Indices ways, ends{0};
    for (Index line = begin; line < found.size(); ++line) {
        append_way(found.origins, line, ways);
        ends.push_back(count(ways));
    }
    return {last(found.intercepts), last(found.slopes), last(starts), std::move(ways), std::move(ends)};
}

}  // namespace

void bind_lattice(nb::module_& module) {
    nb::class_<Links> links(module, "Links");
    define_init<Span<const Node>, Span<const Node>, Span<const Node>, Index>(links, "sources", "seconds", "targets",
                                                                             "nodes");
    links.def("largest_sums", &largest_sums, "lengths"_a, unlocked);
    links.def("best_through", &best_through, "scores"_a, unlocked);
    links.def("log10_paths", &log10_paths, unlocked);
    links.def("least_edits", &least_edits, "words"_a, "reference"_a, unlocked);
    module.def("find_graph_envelope", &find_graph_envelope, "links"_a, "intercepts"_a, "slopes"_a, unlocked);
}

}  // namespace lpmert::lattices
