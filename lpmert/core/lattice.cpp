// Lattices and hypergraphs as graphs of links: dynamic programs over all their hypotheses, and the hypotheses that may
// win in a cone of weights.
//
// Every link leads to a larger node than those it leaves, and links are sorted by the node they lead to. A link of a
// lattice leaves one node; a link of a hypergraph may leave two. A hypothesis is a path, or a tree of links, from node
// 0 to the last node. The best sum of hypotheses through a link is the best sum to the nodes it leaves, plus its own
// score, plus the best sum from the node it leads to (lemma L2 of proofs/lattices.md): two passes find all of these.
//
// A partial hypothesis that is best at its node nowhere on a line, or that others beat at every ray of a cone, is part
// of no best hypothesis there, because every continuation adds the same to all of them (L1). So on a line each node
// keeps the envelope of its partial hypotheses. In a cone, it keeps its labels: the partial paths that are not beaten,
// among the links through which a path may be as good as the best known paths at some ray (L2).
//
// Sources: E. W. Myers and W. Miller, Approximate matching of regular expressions, 1989, for a graph without cycles
// (least edits); Macherey, Och, Thayer and Uszkoreit, Lattice-based Minimum Error Rate Training for Statistical Machine
// Translation, EMNLP 2008 (envelope); Kumar, Macherey, Dyer and Och, Efficient Minimum Error Rate Training and Minimum
// Bayes-Risk Decoding for Translation Hypergraphs and Lattices, ACL 2009 (envelope of hypergraphs).
#include "binding.hpp"
#include "dominance.hpp"
#include "envelope.hpp"

namespace lpmert {

namespace {

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

// Fill a block of best [n, stride] with the largest sums of scores [L, stride] to each node.
LPMERT_INLINE void sum_so_far(const Links& links, Index stride, const double* scores, double* best) {
    const Node *const sources = links.sources.begin(), *const seconds = links.seconds.begin(),
                      *const targets = links.targets.begin();
    for (Index v = 0; v < links.nodes; ++v) store(broadcast(v == 0 ? 0.0 : -INF), best + v * stride);
    for (Index k = 0; k < links.size(); ++k) {
        const Block before = load(best + sources[k] * stride) + load(best + seconds[k] * stride);
        double* const target = best + targets[k] * stride;
        store(larger(before + load(scores + k * stride), load(target)), target);
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
    sum_so_far(links, LANES, repeated.data(), to.data());
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
    Envelope envelope;
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
        const RoundedPoints points{candidates.intercepts.data(), candidates.slopes.data()};
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

// Mixtures of rays for which one pass over the links finds the best paths.
constexpr Index ABREAST = 4 * LANES;

// At so many labels of a node, and whenever they have doubled, labels that mixtures of others beat are dropped.
constexpr Index CROWD = 12;

// After a share of the links, at most AT_FIRST + AHEAD * share of the work may be done.
constexpr double AT_FIRST = 0.15, AHEAD = 3.0;

// Fill the scores of the links at a block of rays, and the best scores of paths to each node and from it. features
// [L, D]; columns [D]: the block of rays by feature.
LPMERT_CLONES
void survey_block(const Links& links, Rows<const double> features, const double* columns, Index stride, double* scores,
                  double* so_far, double* to_come) {
    const Index n_features = features.columns();
    const double* row = features.items().data();
    for (Index k = 0; k < links.size(); ++k, row += n_features) {
        Block score = broadcast(0.0);
        for (Index d = 0; d < n_features; ++d) score = score + broadcast(row[d]) * load(columns + d * LANES);
        store(score, scores + k * stride);
    }
    sum_so_far(links, stride, scores, so_far);
    sum_to_come(links, stride, scores, so_far, to_come);
}

// Fill best and last [n, ABREAST] with the best score of a path to each node, and the last link of that path. scores
// [L, stride] of the links at the rays; columns [R, ABREAST]: mixtures of rays.
LPMERT_CLONES
void best_paths(const Links& links, const double* scores, Index stride, Index n_rays, const double* columns,
                double* best, Index* last) {
    for (Index v = 0; v < links.nodes; ++v) {
        std::fill_n(best + v * ABREAST, ABREAST, v == 0 ? 0.0 : -INF);
        std::fill_n(last + v * ABREAST, ABREAST, Index{-1});
    }
    for (Index k = 0; k < links.size(); ++k, scores += stride) {
        const double* const one = best + links.sources.begin()[k] * ABREAST;
        const double* const other = best + links.seconds.begin()[k] * ABREAST;
        double sums[ABREAST];
        for (Index b = 0; b < ABREAST; b += LANES) {
            Block sum = load(one + b) + load(other + b);
            for (Index r = 0; r < n_rays; ++r) sum = sum + broadcast(scores[r]) * load(columns + r * ABREAST + b);
            store(sum, sums + b);
        }
        double* const top = best + links.targets.begin()[k] * ABREAST;
        Index* const by = last + links.targets.begin()[k] * ABREAST;
        for (Index m = 0; m < ABREAST; ++m) {
            const bool better = sums[m] > top[m];
            top[m] = better ? sums[m] : top[m];
            by[m] = better ? k : by[m];
        }
    }
}

using Look = std::tuple<Index, std::vector<Node>, std::vector<Node>, Matrix<double>, Matrix<double>>;

// Finds the hypotheses that may win in a cone, for one lattice after the other.
class PathFinder {
    Index most_labels, nodes = 0, stride = 0;  // stride: number of rays in whole blocks
    Dominance dominance;
    Paths whole, labels;          // whole paths that are known; labels
    std::vector<Origin> origins;  // of the labels
    Indices first;                // of each node, its first label
    // The links that are left: numbers, nodes, features, and scores at the rays.
    std::vector<Node> chosen, sources, seconds, targets;
    Reals features, scores;
    // The rays, block by block and feature by feature; the best scores at each ray of paths to each node, and from it.
    Reals columns, so_far, to_come;
    Reals best;              // the best scores, at some mixtures, of paths to each node
    Indices last;            // the last links of these paths
    Matrix<double> leading;  // the scores [P, R] of the whole paths that no others beat
    Reals slack;             // [R] bounds on the rounding errors of scores of paths, empty before `look_through`
    Reals most;              // [R] work space: upper bounds on scores

    Index n_rays() const { return dominance.n_rays(); }
    Index n_features() const { return dominance.n_features(); }
    Links links() const {
        Links left;
        left.sources = sources, left.seconds = seconds, left.targets = targets, left.nodes = nodes;
        return left;
    }

    // Fill `leading` with the scores of the paths [P, D] that no others beat.
    void find_leading(Span<const double> paths) {
        const Index n = paths.size() / n_features();
        whole.begin(n_features(), n_rays());
        whole.make_room(n);
        std::copy(paths.begin(), paths.end(), whole.features.begin());
        dominance.drop_beaten(whole, n);
        leading = {{}, n_rays()};
        for (Index p = 0; p < n; ++p)
            if (!whole.dead[p]) leading.items.insert(leading.items.end(), whole.score(p), whole.score(p) + n_rays());
    }

    // Copy the marked links to the work space, and fill their scores and the best scores of paths.
    void survey(const Links& all, Rows<const double> rows, Span<const std::uint8_t> marks, Rows<const double> rays) {
        chosen.clear(), sources.clear(), seconds.clear(), targets.clear(), features.clear();
        for (Index k = 0; k < all.size(); ++k) {
            if (!(marks[k >> 3] & (128 >> (k & 7)))) continue;
            chosen.push_back(static_cast<Node>(k));
            sources.push_back(all.sources[k]);
            seconds.push_back(all.seconds[k]);
            targets.push_back(all.targets[k]);
            features.insert(features.end(), rows[k].begin(), rows[k].end());
        }
        nodes = all.nodes;
        stride = blocks(n_rays());
        columns.assign(std::max(stride * n_features(), ABREAST * n_rays()), 0.0);
        for (Index r = 0; r < n_rays(); ++r) {
            double* const column = columns.data() + r / LANES * LANES * n_features() + r % LANES;
            for (Index d = 0; d < n_features(); ++d) column[d * LANES] = rays[r][d];
        }
        scores.resize(links().size() * stride), so_far.resize(nodes * stride), to_come.resize(nodes * stride);
        for (Index r = 0; r < stride; r += LANES)
            survey_block(links(), {features.data(), links().size(), n_features()}, columns.data() + r * n_features(),
                         stride, scores.data() + r, so_far.data() + r, to_come.data() + r);
    }

    // Add up the features [D] of the best path at a mixture; append its links, last first, unless `way` is null.
    void walk(Index mix, double* sums, std::vector<Node>* way) const {
        std::vector<Node> waiting{static_cast<Node>(nodes - 1)};
        while (!waiting.empty()) {
            const Index k = last[waiting.back() * ABREAST + mix];
            waiting.pop_back();
            if (k < 0) throw std::invalid_argument("marks must leave whole paths");
            for (Index d = 0; d < n_features(); ++d) sums[d] += features[k * n_features() + d];
            if (way != nullptr) way->push_back(chosen[k]);
            if (seconds[k] > 0) waiting.push_back(seconds[k]);
            if (sources[k] > 0) waiting.push_back(sources[k]);
        }
    }

    // Return a leading path that is better at every ray than the upper bounds `most`, or -1; try path `likely` first.
    Index hopeless(Index likely) const {
        const double* const upper = most.data();
        const Index n = n_rays(), paths = leading.rows();
        for (Index turn = -1; turn < paths; ++turn) {
            const Index p = turn < 0 ? likely : turn;
            if (p >= paths) continue;
            const double* const known = leading.items.data() + p * n;
            Index r = 0;
            while (r < n && upper[r] < known[r]) ++r;
            if (r == n) return p;
        }
        return -1;
    }

    // Keep the links through which a path may win in the cone.
    void keep_links() {
        Index n = 0, likely = 0;
        const Index before = links().size(), n_rays_ = n_rays(), n_features_ = n_features();
        for (Index k = 0; k < before; ++k) {
            const double* const one = so_far.data() + sources[k] * stride;
            const double* const other = so_far.data() + seconds[k] * stride;
            const double* const after = to_come.data() + targets[k] * stride;
            const double* const score = scores.data() + k * stride;
            double* const upper = most.data();
            for (Index r = 0; r < n_rays_; ++r) upper[r] = one[r] + other[r] + score[r] + after[r] + slack.data()[r];
            const Index path = hopeless(likely);
            if (path >= 0) {
                likely = path;
                continue;
            }
            chosen[n] = chosen[k], sources[n] = sources[k], seconds[n] = seconds[k], targets[n] = targets[k];
            std::copy_n(features.data() + k * n_features_, n_features_, features.data() + n * n_features_);
            ++n;
        }
        chosen.resize(n), sources.resize(n), seconds.resize(n), targets.resize(n);
    }

    // Remove the dead labels of begin .. end in place; return the new end.
    Index remove_dead(Index begin, Index end) {
        Index n = begin;
        for (Index i = begin; i < end; ++i) {
            if (labels.dead[i]) continue;
            if (i != n) {
                labels.move(i, n);
                origins[n] = origins[i];
            }
            ++n;
        }
        return n;
    }

    // Find the labels of all nodes; return false if they are too many, or comparing them is too much work. k: the
    // number of links done.
    //
    // Of labels with the same features, the first one is kept: the one by an earlier link, or from earlier labels.
    bool frontier(Index most_work, Index& work, Index& k) {
        const Index n_rays_ = n_rays(), n_features_ = n_features();
        const Links left = links();
        Index n = 1, path = 0;
        labels.begin(n_features_, n_rays_);
        labels.make_room(CROWD);
        origins.assign(1, {0, 0, -1});
        std::fill_n(labels.row(0), n_features_, 0.0);
        std::fill_n(labels.score(0), n_rays_, 0.0);
        labels.dead[0] = 0;
        first.assign({0, 1});
        double* const upper = most.data();
        for (Index v = 1; v < nodes; ++v) {
            const Index begin = n;
            Index likely = -1, crowd = begin + CROWD;
            for (; k < left.size() && left.targets[k] == v; ++k) {
                const Index one_end = first[left.sources[k] + 1], other_end = first[left.seconds[k] + 1];
                const double* const of_link = features.data() + k * n_features_;
                const double share = AT_FIRST + AHEAD * static_cast<double>(k) / static_cast<double>(left.size());
                const double most_now = static_cast<double>(most_work) * std::min(1.0, share);
                for (Index i = first[left.sources[k]]; i < one_end; ++i) {
                    for (Index j = first[left.seconds[k]]; j < other_end; ++j) {
                        if (n >= crowd) {
                            work += dominance.drop_mixed(labels, begin, n);
                            n = remove_dead(begin, n);
                            crowd = std::max(begin + CROWD, 2 * n - begin);
                            likely = -1;
                        }
                        if (n >= most_labels || static_cast<double>(work) > most_now) return false;
                        labels.make_room(n + 1);
                        const double *const one = labels.row(i), *const other = labels.row(j);
                        double* const row = labels.row(n);
                        for (Index d = 0; d < n_features_; ++d) row[d] = one[d] + other[d] + of_link[d];
                        dominance.measure(labels, n);
                        const double *const at_rays = labels.score(n), *const after = to_come.data() + v * stride;
                        for (Index r = 0; r < n_rays_; ++r) upper[r] = at_rays[r] + after[r] + slack.data()[r];
                        ++work;
                        const Index found = hopeless(path);
                        if (found >= 0) {
                            path = found;
                            continue;
                        }
                        const Index winner = dominance.compare_with_all(labels, begin, n, likely);
                        if (winner >= 0) {
                            work += winner == likely ? 1 : winner - begin;
                            likely = winner;
                        } else {
                            work += n - begin;
                            origins.resize(n);
                            origins.push_back({i, j, k});
                            ++n;
                        }
                    }
                }
            }
            n = remove_dead(begin, n);
            if (n > begin + 2) {
                work += dominance.drop_mixed(labels, begin, n);
                n = remove_dead(begin, n);
            }
            first.push_back(n);
        }
        return true;
    }

  public:
    // most_labels: the most labels of a lattice.
    explicit PathFinder(Index most_labels_) : most_labels(most_labels_) {}

    Look look_through(const Links& all, Rows<const double> rows, Index most_links, Span<const std::uint8_t> marks,
                      Rows<const double> rays, Span<const double> reach, Rows<const double> mixes,
                      Rows<const double> known) {
        check_size(rows.rows(), all.size(), "features");
        check_size(rows.columns(), rays.columns(), "features of a link");
        check_size(marks.size(), (all.size() + 7) / 8, "marks");
        check_size(mixes.columns(), rays.rows(), "a mix");
        if (all.nodes < 2) throw std::invalid_argument("links must lead to a node");
        check_size(reach.size(), rays.rows(), "reach");
        check_size(known.columns(), rays.columns(), "a known path");
        if (rays.rows() < 1) throw std::invalid_argument("rays must have a row");
        slack.clear();
        dominance.begin(rays, reach);
        survey(all, rows, marks, rays);
        const Index before = links().size();
        last.resize(nodes * ABREAST), best.resize(nodes * ABREAST);
        std::vector<Node> middle;
        Matrix<double> winners{Reals(mixes.rows() * n_features()), n_features()};
        for (Index done = 0; done < mixes.rows(); done += ABREAST) {
            const Index width = std::min(ABREAST, mixes.rows() - done);
            std::fill_n(columns.begin(), ABREAST * n_rays(), 0.0);
            for (Index m = 0; m < width; ++m)
                for (Index r = 0; r < n_rays(); ++r) columns.data()[r * ABREAST + m] = mixes[done + m][r];
            best_paths(links(), scores.data(), stride, n_rays(), columns.data(), best.data(), last.data());
            for (Index m = 0; m < width; ++m)
                walk(m, winners.items.data() + (done + m) * n_features(), done + m == 0 ? &middle : nullptr);
        }
        Reals paths(known.items().begin(), known.items().end());
        paths.insert(paths.end(), winners.items.begin(), winners.items.end());
        find_leading(paths);
        // By how much two sums of products along a path may differ (L2).
        const double factor = 4.0 * static_cast<double>(most_links + n_features() + 5) * EPSILON;
        for (const double score : reach) slack.push_back(factor * score);
        most.resize(n_rays());
        keep_links();
        return {before, chosen, std::move(middle), std::move(winners), leading};
    }

    std::tuple<bool, Index, Index, Matrix<double>, std::vector<Node>, Indices> list(Index most_work) {
        if (slack.empty()) throw std::invalid_argument("look through links first");
        Index work = 0, done = 0;
        const bool found = frontier(most_work, work, done);
        const Index begin = found ? first[nodes - 1] : 0, end = found ? first[nodes] : 0;
        std::vector<Node> ways;
        Indices ends{0};
        for (Index i = begin; i < end; ++i) {
            append_way(origins, i, ways);
            ends.push_back(count(ways));
        }
        for (Node& link : ways) link = chosen[link];
        Matrix<double> listed{{labels.row(begin), labels.row(end)}, n_features()};
        return {found, work, done, std::move(listed), std::move(ways), std::move(ends)};
    }
};

std::tuple<Indices, Indices, Matrix<double>, Indices> narrow(Rows<const double> features, Span<const Index> numbers,
                                                             Span<const Index> ends, Span<const Index> ids,
                                                             Rows<const double> rays, Rows<const double> reach) {
    check_offsets(ends, ids.size(), "ends");
    check_size(ends.size() - 1, numbers.size(), "ends, less one,");
    check_size(reach.columns(), rays.rows(), "reach of a lattice");
    check_size(rays.columns(), features.columns(), "a ray");
    if (rays.rows() < 1) throw std::invalid_argument("rays must have a row");
    check_within(numbers, reach.rows(), "numbers");
    check_within(ids, features.rows(), "ids");
    Dominance dominance;
    Paths paths;
    Indices left{0}, found, middle;
    Matrix<double> left_scores{{}, rays.rows()};
    paths.begin(rays.columns(), rays.rows());
    for (Index a = 0; a < numbers.size(); ++a) {
        const Span<const Index> rows = ids.part(ends[a], ends[a + 1]);
        paths.make_room(rows.size());
        for (Index i = 0; i < rows.size(); ++i) std::copy_n(features[rows[i]].begin(), rays.columns(), paths.row(i));
        dominance.begin(rays, reach[numbers[a]]);
        dominance.drop_beaten(paths, rows.size());
        double top = -INF;
        middle.push_back(rows[0]);
        for (Index i = 0; i < rows.size(); ++i) {
            if (paths.dead[i]) continue;
            const double* const scores = paths.score(i);
            const double score = std::accumulate(scores, scores + rays.rows(), 0.0);
            if (score > top) top = score, middle.back() = rows[i];
            left_scores.items.insert(left_scores.items.end(), scores, scores + rays.rows());
            found.push_back(rows[i]);
        }
        left.push_back(count(found));
    }
    return {std::move(left), std::move(found), std::move(left_scores), std::move(middle)};
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
    nb::class_<PathFinder> finder(module, "PathFinder");
    define_init<Index>(finder, "labels");
    finder.def("look_through", &PathFinder::look_through, "links"_a, "features"_a, "most_links"_a, "marks"_a, "rays"_a,
               "reach"_a, "mixes"_a, "known"_a, unlocked);
    finder.def("list", &PathFinder::list, "most_work"_a, unlocked);
    module.def("narrow", &narrow, "features"_a, "numbers"_a, "ends"_a, "ids"_a, "rays"_a, "reach"_a, unlocked);
}

}  // namespace lpmert
