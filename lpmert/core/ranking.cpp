// Ranking of judged documents: metrics at k such as DCG and average precision, exactly in the plane, and by branch and
// bound over cones of weights (lemmas O1 to O6 of proofs/ranking.md).
//
// In a cone, the rank of a document is at least the number of documents that lead it everywhere. A query's bound fills
// each position with the document of largest gain that these ranks allow (O1). A cone is split on an edge where two
// documents tie. The new ray is an exact mixture of the two old rays, with a share that is a double; its weights are
// rounded, within a bound that grows with the level of the ray (O2).
#include <map>
#include <optional>

#include "binding.hpp"
#include "envelope.hpp"

namespace lpmert {

namespace {

constexpr double UNIT = 0x1p40;       // units of a query's best value
constexpr double CLEAR = 0x1p-49;     // times the sum of two rounded shares: more than the error of their difference
constexpr Index ROUNDING = 2;         // units, more than all rounding errors in the value of a query
constexpr Index TOLERANCE = 4;        // units a query by which the bound of a closed node may exceed the incumbent
constexpr Index MOST_LEVELS = 10000;  // of a ray; deeper nodes are left to exact arithmetic
constexpr Index BINS = 64;            // of the directions of a quadrant

// Two documents of a query with different gains: the number of a relevant document, and the row of its rival.
struct Pair {
    Row document, rival;
};

// A ray of a cone: an axis (level 0), or a mixture of two rays of lower levels.
struct Ray {
    Reals weights;  // rounded
    Index level = 0;
};

// A node: a cone, its undecided pairs, the rival's lead at each ray [pair, ray] (NaN if rounding may hide it), the
// number of documents that certainly lead each relevant one (ahead), and the bounds of the queries.
struct Node {
    std::vector<std::shared_ptr<const Ray>> rays;
    std::vector<Pair> pairs;
    std::vector<float> leads;
    std::vector<Row> ahead;
    Indices bounds;
    Index total = 0, number = 0;

    std::size_t bytes() const {
        return pairs.size() * sizeof(Pair) + leads.size() * sizeof(float) + ahead.size() * sizeof(Row) +
               bounds.size() * sizeof(Index);
    }
};

// A direction of the plane at which two documents tie; from `first` to `second`, x rises and y falls.
struct Event {
    double at;  // the share of y, rounded
    Row first, second;
    Index what;  // the relevant document whose rank changes, or the change of the sum in units
};

// What Python passes; see `Ranking` in the stub.
struct Judged {
    Rows<const double> features;
    Span<const Index> offsets;
    Span<const double> gains, discounts, merits, scales;
    double least;
};

// The methods that Python calls are documented in the stub.
class Ranking : Judged {
    Index dimensions, k;
    Indices rows, starts{0};  // relevant documents of each query that counts, by falling gain
    std::vector<Row> query;   // of each of these
    std::multimap<Index, Node> open_by_bound;
    std::size_t open_bytes = 0;
    Index best = -1, proposed = -1;  // values of the incumbent, and of the best candidate
    Index counted = 0;               // queries that count
    Reals candidate;                 // weights that look better than all before
    std::optional<Node> leaf;        // to be closed by exact arithmetic
    Node part;                       // being opened; its memory is reused
    Matrix<Index> splits{{}, 4};
    Reals split_shares;

  public:
    Index closed = 0, nodes = 0;

    // The n-th document with a gain, counted from the first place, adds its gain times its discount times merits[n].
    Ranking(Rows<const double> features_, Span<const Index> offsets_, Span<const double> gains_,
            Span<const double> discounts_, Span<const double> merits_, Span<const double> scales_, double least_)
        : Judged{features_, offsets_, gains_, discounts_, merits_, scales_, least_},
          dimensions(features.columns()),
          k(discounts.size()) {
        check_offsets(offsets, features.rows(), "offsets");
        check_size(gains.size(), features.rows(), "gains");
        check_size(merits.size(), k, "merits");
        check_size(scales.size(), offsets.size() - 1, "scales");
        if (features.rows() > std::numeric_limits<Row>::max()) throw std::invalid_argument("too many documents");
        for (const double value : features.items())
            if (!(std::abs(value) <= 1.0)) throw std::invalid_argument("features must be at most 1");
        for (Index q = 0; q < scales.size(); ++q) {
            counted += scales[q] > 0.0;
            for (Index d = offsets[q]; d < offsets[q + 1] && scales[q] > 0.0; ++d)
                if (gains[d] > 0.0) rows.push_back(d);
            std::stable_sort(rows.begin() + starts[q], rows.end(),
                             [&](Index a, Index b) { return gains[a] > gains[b]; });
            starts.push_back(count(rows));
            query.resize(rows.size(), static_cast<Row>(q));
        }
    }

    const Indices& relevant() const { return rows; }

    Index worth_of(Index q, Span<const Index> ahead) const {
        if (q < 0 || q >= scales.size()) throw std::invalid_argument("no such query");
        check_size(ahead.size(), count(rows), "ahead");
        return worth(q, ahead);
    }

    Index value(Span<const double> weights) const {
        check_size(weights.size(), dimensions, "weights");
        Reals scores(gains.size());
        double size = 0.0;
        for (const double w : weights) size += std::abs(w);
        for (Index d = 0; d < gains.size(); ++d)
            for (Index j = 0; j < dimensions; ++j) scores[d] += weights[j] * features[d][j];
        std::vector<Row> ahead(rows.size());
        for_pairs([&](Index document, Index rival) {
            const double lead = scores[rival] - scores[rows[document]], doubt = 1e-14 * size;
            ahead[document] += lead > doubt || (lead >= -doubt && gains[rival] < gains[rows[document]]);
        });
        Index total = 0;
        for (Index q = 0; q < scales.size(); ++q) total += worth(q, ahead);
        return total;
    }

    Matrix<Index> compared() const {
        Matrix<Index> found{{}, 2};
        for_pairs([&](Index document, Index rival) {
            const Index d = rows[document];
            if (!std::equal(features[d].begin(), features[d].end(), features[rival].begin())) found.append({d, rival});
        });
        return found;
    }

    // The sweep over the directions of a quadrant (O3).
    std::tuple<Matrix<Index>, Indices> sweep(Span<const double> x, Span<const double> y) const {
        check_size(x.size(), gains.size(), "x");
        check_size(y.size(), gains.size(), "y");
        const auto earlier = [&](const Event& a, const Event& b) {
            if (std::abs(a.at - b.at) > CLEAR * (a.at + b.at)) return a.at < b.at;
            const auto vertex = [&](Row d) { return Vertex{x[d], y[d]}; };
            return turn(vertex(a.first), vertex(a.second), vertex(b.first), vertex(b.second)) > 0;
        };
        Index total = 0;
        std::vector<Event> events, changes, jumps;
        std::vector<Row> ahead(rows.size());
        for (Index q = 0; q < scales.size(); ++q) {
            if (starts[q] == starts[q + 1]) continue;
            changes.clear();
            for (Index document = starts[q]; document < starts[q + 1]; ++document)
                ahead[document] = add_changes(x, y, q, document, earlier, events, changes);
            std::sort(changes.begin(), changes.end(), earlier);
            Index before = worth(q, ahead);
            total += before;
            for (std::size_t i = 0; i < changes.size();) {
                const Event at = changes[i];
                for (; i < changes.size() && !earlier(at, changes[i]); ++i) {
                    const Index document = changes[i].what;
                    ahead[document] += changes[i].first == rows[document] ? -1 : 1;
                }
                const Index after = worth(q, ahead);
                if (after != before) jumps.push_back({at.at, at.first, at.second, after - before});
                before = after;
            }
        }
        std::sort(jumps.begin(), jumps.end(), earlier);
        Matrix<Index> ties{{}, 2};
        Indices values{total};
        for (std::size_t i = 0; i < jumps.size();) {
            const Event at = jumps[i];
            for (; i < jumps.size() && !earlier(at, jumps[i]); ++i) total += jumps[i].what;
            if (total == values.back()) continue;
            ties.append({at.first, at.second});
            values.push_back(total);
        }
        return {std::move(ties), std::move(values)};
    }

    void open(Span<const double> signs) {
        check_size(signs.size(), dimensions, "signs");
        Node node;
        for (Index j = 0; j < dimensions; ++j) {
            Ray ray{Reals(dimensions)};
            ray.weights[j] = signs[j] < 0.0 ? -1.0 : 1.0;
            node.rays.push_back(std::make_shared<const Ray>(std::move(ray)));
        }
        node.ahead.resize(rows.size());
        node.bounds.resize(scales.size());
        std::vector<float> leads(dimensions);
        Index last = -1;
        std::size_t first = 0;  // the first pair of this document
        for_pairs([&](Index document, Index rival) {
            const Pair pair{static_cast<Row>(document), static_cast<Row>(rival)};
            if (document != last) first = node.pairs.size();
            last = document;
            if (node.ahead[document] >= k) return;
            for (Index j = 0; j < dimensions; ++j) leads[j] = rounded_lead(*node.rays[j], pair);
            const bool leading = std::all_of(leads.begin(), leads.end(), [](float lead) { return lead >= 0; });
            const bool trailing = std::all_of(leads.begin(), leads.end(), [](float lead) { return lead <= 0; });
            if (leading && trailing)
                node.ahead[document] += gains[rival] < gains[rows[document]];
            else if (leading)
                ++node.ahead[document];
            else if (!trailing) {
                node.pairs.push_back(pair);
                node.leads.insert(node.leads.end(), leads.begin(), leads.end());
            }
            if (node.ahead[document] < k) return;
            node.pairs.resize(first);  // out of reach (O5), as are most documents of long lists
            node.leads.resize(first * static_cast<std::size_t>(dimensions));
        });
        for (Index q = 0; q < scales.size(); ++q) node.total += node.bounds[q] = worth(q, node.ahead);
        node.number = nodes++;
        push(std::move(node));
    }

    void raise(Index units) { best = std::max(best, units); }
    Index open_nodes() const { return static_cast<Index>(open_by_bound.size()); }
    Index open_bound() const {
        return std::max(leaf ? leaf->total : 0, open_by_bound.empty() ? 0 : open_by_bound.rbegin()->first);
    }

    // If open nodes take too much memory, those with the least bound come first, as they are closed soonest.
    Reals advance(Index budget, Index bytes) {
        candidate.clear();
        while (budget > 0 && !open_by_bound.empty() && !leaf && candidate.empty()) {
            const auto next =
                open_bytes > static_cast<std::size_t>(bytes) ? open_by_bound.begin() : std::prev(open_by_bound.end());
            Node node = std::move(next->second);
            open_bytes -= node.bytes();
            open_by_bound.erase(next);
            budget -= 1 + static_cast<Index>(node.pairs.size());
            if (node.total <= cut_off())
                closed = std::max(closed, node.total);
            else
                branch(std::move(node));
        }
        return candidate;
    }

    bool needs_exact() const { return leaf.has_value(); }

    std::tuple<Matrix<Index>, Reals> recorded() const { return {splits, split_shares}; }

    // The node that doubles cannot decide.
    std::tuple<Index, Matrix<Index>, Reals, Matrix<Index>, Indices, Index, Index> take_leaf() {
        if (!leaf) throw std::invalid_argument("no node needs exact arithmetic");
        const Node node = std::move(*leaf);
        leaf.reset();
        Index root = node.number;
        Matrix<Index> path{{}, 3}, undecided{{}, 4};
        Reals shares;
        while (splits.rows() > 0 && root >= splits.items[1]) {  // every split numbers two nodes
            const Index k = (root - splits.items[1]) / 2;
            const Index* const split = splits.items.data() + 4 * k;
            path.append({split[2], split[3], split[root == split[1] ? 3 : 2]});
            shares.push_back(split_shares[k]);
            root = split[0];
        }
        Index rest = node.total, last = -1;
        for (const Pair& pair : node.pairs) {  // pairs are sorted by query
            const Index q = query[pair.document];
            undecided.append({q, pair.document, rows[pair.document], pair.rival});
            if (q != last) rest -= node.bounds[q];
            last = q;
        }
        Indices ahead(node.ahead.begin(), node.ahead.end());
        return {root, std::move(path), std::move(shares), std::move(undecided), std::move(ahead), rest, node.number};
    }

  private:
    // Call function(number of a relevant document, row of a document of its query with another gain) for all of them.
    template <class Function>
    void for_pairs(Function function) const {
        for (Index document = 0; document < count(rows); ++document) {
            const Index q = query[document];
            for (Index rival = offsets[q]; rival < offsets[q + 1]; ++rival)
                if (gains[rival] != gains[rows[document]]) function(document, rival);
        }
    }

    // The largest value of a query, in units, rounded up, if at least ahead[d] others lead relevant document d (O1).
    template <class Counts>
    Index worth(Index q, const Counts& ahead) const {
        const Index begin = starts[q], size = starts[q + 1] - begin;
        if (size == 0) return 0;
        static thread_local Indices ranks;
        ranks.assign(ahead.begin() + begin, ahead.begin() + begin + size);
        for (Index from = 0, to = 0; from < size; from = to) {
            while (to < size && gains[rows[begin + to]] == gains[rows[begin + from]]) ++to;
            std::sort(ranks.begin() + from, ranks.begin() + to);
            for (Index i = from; i < to; ++i) ranks[i] += i - from;
        }
        double sum = 0.0;
        for (Index position = 0, placed = 0; position < k && placed < size && merits[placed] > 0.0; ++position) {
            const auto next = std::find_if(ranks.begin(), ranks.end(), [&](Index rank) { return rank <= position; });
            if (next == ranks.end()) continue;
            *next = std::numeric_limits<Index>::max();
            sum += gains[rows[begin + (next - ranks.begin())]] * discounts[position] * merits[placed++];
        }
        return static_cast<Index>(sum * scales[q] * UNIT) + ROUNDING;
    }

    // Add the events in a quadrant at which the rank of a document changes among the first k (O5); return the number of
    // documents ahead before the first of them, at most k.
    template <class Earlier>
    Row add_changes(Span<const double> x, Span<const double> y, Index q, Index document, Earlier earlier,
                    std::vector<Event>& events, std::vector<Event>& changes) const {
        const Index d = rows[document];
        Index always = 0;
        std::array<Index, BINS + 2> rises{}, falls{}, before{};  // bins 1 to BINS are used
        const auto bin = [](const Event& event) {
            return 1 + std::min(static_cast<Index>(event.at * static_cast<double>(BINS)), BINS - 1);
        };
        events.clear();
        for (Index e = offsets[q]; e < offsets[q + 1] && always < k; ++e) {
            const double dx = x[e] - x[d], dy = y[e] - y[d];
            if (gains[e] == gains[d] || (dx <= 0.0 && dy <= 0.0 && (dx < 0.0 || dy < 0.0 || gains[e] > gains[d])))
                continue;
            if (dx >= 0.0 && dy >= 0.0) {
                ++always;
                continue;
            }
            const double at = std::abs(dx) / (std::abs(dx) + std::abs(dy));
            const Row from = static_cast<Row>(dx > 0.0 ? d : e), to = static_cast<Row>(dx > 0.0 ? e : d);
            events.push_back({at, from, to, document});
            ++(dx > 0.0 ? falls : rises)[bin(events.back())];
        }
        if (always >= k) return static_cast<Row>(k);
        before[0] = before[1] = always;
        for (Index b = 1; b <= BINS; ++b) before[0] = before[1] += falls[b];
        for (Index b = 1; b <= BINS; ++b) before[b + 1] = before[b] + rises[b] - falls[b];
        std::array<Index, BINS + 2> run{};  // the first bin of the run that a bin is in, 0 if left out
        for (Index b = 1; b <= BINS; ++b)
            if (before[b - 1] - falls[b - 1] - falls[b] - falls[b + 1] < k) run[b] = run[b - 1] > 0 ? run[b - 1] : b;
        events.erase(std::remove_if(events.begin(), events.end(), [&](const Event& e) { return run[bin(e)] == 0; }),
                     events.end());
        std::sort(events.begin(), events.end(), earlier);
        Index current = 0, ahead = 0;
        for (const Event& event : events) {
            if (run[bin(event)] != current) current = run[bin(event)], ahead = before[current];
            const Index was = ahead;
            ahead += event.first == d ? -1 : 1;
            if (std::min(was, ahead) < k) changes.push_back(event);
        }
        return static_cast<Row>(std::min(before[1], k));
    }

    // The cut-off: nodes with a bound of at most this are closed.
    Index cut_off() const { return best + TOLERANCE * counted; }

    // The rounding error of a lead at a ray of this level (O2): a lead at least as large is certain.
    double doubt(Index level) const {
        if (level > MOST_LEVELS) return INF;
        return level == 0 ? 0.0 : HALF_ULP * static_cast<double>(8 * level + 3 * (dimensions + 1));
    }
    double lead(const Ray& ray, const Pair& pair) const {
        const double* const document = features[rows[pair.document]].data();
        const double* const rival = features[pair.rival].data();
        double sum = 0.0;
        for (Index j = 0; j < dimensions; ++j) sum += ray.weights[j] * (rival[j] - document[j]);
        return sum;
    }
    // A lead that is too small for any cell of the cone (O6) becomes 0, and counts for both documents.
    float rounded_lead(const Ray& ray, const Pair& pair) const {
        const double found = lead(ray, pair), unsure = doubt(ray.level);
        if (std::abs(found) + unsure < least) return 0.0F;
        if (std::abs(found) < unsure) return std::numeric_limits<float>::quiet_NaN();
        const float rounded = static_cast<float>(found);
        return rounded == 0.0F && found != 0.0 ? std::copysign(FLT_MIN, rounded) : rounded;
    }

    void push(Node node) {
        open_bytes += node.bytes();
        const Index total = node.total;
        open_by_bound.emplace(total, std::move(node));
    }

    // Drop the pairs of documents that at least k others lead: they decide nothing (O5).
    void drop_out_of_reach(Node& node) const {
        std::size_t left = 0;
        for (std::size_t i = 0; i < node.pairs.size(); ++i) {
            if (node.ahead[node.pairs[i].document] >= k) continue;
            std::copy_n(node.leads.begin() + static_cast<Index>(i) * dimensions, dimensions,
                        node.leads.begin() + static_cast<Index>(left) * dimensions);
            node.pairs[left++] = node.pairs[i];
        }
        node.pairs.resize(left);
        node.leads.resize(left * static_cast<std::size_t>(dimensions));
    }

    // Open the part of a node in which a new ray replaces one of its rays. fresh [pair]: leads at the new ray.
    void open_part(const Node& node, Index replaced, const std::shared_ptr<const Ray>& ray,
                   const std::vector<float>& fresh) {
        part.number = nodes++;
        part.ahead = node.ahead;
        part.bounds = node.bounds;
        part.total = node.total;
        part.pairs.clear();
        part.leads.clear();
        Index changed = -1;  // the query whose ranks have changed, but not yet its bound
        const auto update_bound = [&](Index next) {
            if (changed >= 0 && next != changed) {
                const Index bound = std::min(part.bounds[changed], worth(changed, part.ahead));
                part.total += bound - part.bounds[changed];
                part.bounds[changed] = bound;
            }
            changed = next;
        };
        bool reached = false;
        for (std::size_t i = 0; i < node.pairs.size(); ++i) {
            const float* const known = node.leads.data() + static_cast<Index>(i) * dimensions;
            bool leading = fresh[i] >= 0, trailing = fresh[i] <= 0;
            for (Index j = 0; j < dimensions && (leading || trailing); ++j) {
                if (j == replaced) continue;
                leading = leading && known[j] >= 0;
                trailing = trailing && known[j] <= 0;
            }
            if (leading && trailing) return;  // no cell has weights here (O6)
            const Pair pair = node.pairs[i];
            if (leading) {
                update_bound(query[pair.document]);
                reached = ++part.ahead[pair.document] >= k || reached;
            } else if (!trailing) {
                part.pairs.push_back(pair);
                part.leads.insert(part.leads.end(), known, known + dimensions);
                part.leads[part.leads.size() - static_cast<std::size_t>(dimensions - replaced)] = fresh[i];
            }
        }
        update_bound(-1);
        if (part.total <= cut_off()) {
            closed = std::max(closed, part.total);
            return;
        }
        if (reached) drop_out_of_reach(part);
        part.rays = node.rays;
        part.rays[replaced] = ray;
        push(part);
    }

    // Split a node where its most promising pair ties on an edge; if there is none, leave it to exact arithmetic.
    void branch(Node node) {
        const std::size_t chosen = choose(node);
        if (chosen == node.pairs.size()) {
            leaf = std::move(node);
            return;
        }
        const Pair pair = node.pairs[chosen];
        Reals leads;  // 0 for those that count for both (O6): edges are not cut there
        for (Index j = 0; j < dimensions; ++j)
            leads.push_back(
                node.leads[static_cast<Index>(chosen) * dimensions + j] == 0.0F ? 0.0 : lead(*node.rays[j], pair));
        const double unsure = next_doubt(node);
        const auto distance = [&](Index p, Index n) {  // squared
            const Reals &a = node.rays[p]->weights, &b = node.rays[n]->weights;
            return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                                      [](double x, double y) { return (x - y) * (x - y); });
        };
        Index above = -1, below = -1;
        double widest = -1.0, tie = 0.0;
        for (Index p = 0; p < dimensions; ++p) {
            if (leads[p] < 8 * unsure) continue;
            for (Index n = 0; n < dimensions; ++n) {
                if (leads[n] > -8 * unsure) continue;
                const double share = (4 * unsure - leads[n]) / (leads[p] - leads[n]);
                const double width = std::min(share, 1 - share) * distance(p, n);
                if (width > widest) widest = width, above = p, below = n, tie = share;
            }
        }
        // Round the larger share first; the smaller one is then exactly the rest of 1.
        const double share = tie >= 0.5 ? tie : 1 - (1 - tie);
        const auto &first = node.rays[above], &second = node.rays[below];
        Ray mixture{{}, std::max(first->level, second->level) + 1};
        for (Index j = 0; j < dimensions; ++j)
            mixture.weights.push_back(share * first->weights[j] + (1 - share) * second->weights[j]);
        const auto ray = std::make_shared<const Ray>(std::move(mixture));
        std::vector<float> fresh;
        fresh.reserve(node.pairs.size());
        for (const Pair& each : node.pairs) fresh.push_back(rounded_lead(*ray, each));
        splits.append({node.number, nodes, above, below});
        split_shares.push_back(share);
        open_part(node, below, ray, fresh);
        open_part(node, above, ray, fresh);
    }

    // The rounding error of a lead at a new ray of a node.
    double next_doubt(const Node& node) const {
        Index level = 0;
        for (const auto& ray : node.rays) level = std::max(level, ray->level + 1);
        return doubt(level);
    }

    // Return the pair to branch on, or the number of pairs if there is none. The middle may become the candidate.
    std::size_t choose(const Node& node) {
        static thread_local std::vector<float> balance;
        std::vector<Row> ahead = node.ahead;
        balance.clear();
        for (std::size_t i = 0; i < node.pairs.size(); ++i) {
            float up = 0.0F, down = 0.0F, middle = 0.0F;
            for (Index j = 0; j < dimensions; ++j) {
                const float lead = node.leads[i * static_cast<std::size_t>(dimensions) + static_cast<std::size_t>(j)];
                up = std::max(up, lead);  // not changed by a NaN
                down = std::max(down, -lead);
                middle += lead == lead ? lead : 0.0F;
            }
            balance.push_back(std::min(up, down));
            ahead[node.pairs[i].document] += middle > 0.0F;
        }
        const auto unsure = static_cast<float>(9 * next_doubt(node));  // 8 as in `branch`, and rounding to floats
        Index value = node.total, last = -1;
        std::size_t chosen = node.pairs.size();
        double most = -1.0, slack = 0.0;
        for (std::size_t i = 0; i < node.pairs.size(); ++i) {
            const Pair pair = node.pairs[i];
            const Index q = query[pair.document];
            if (q != last) {
                const Index loss = node.bounds[q] - worth(q, ahead);
                value -= loss;
                slack = static_cast<double>(loss) / UNIT + 1e-9;
                last = q;
            }
            if (balance[i] < unsure) continue;
            // Measured: the query with the most to lose comes first; how evenly a pair splits the node matters less.
            const double score = slack * slack * slack * std::sqrt(static_cast<double>(balance[i])) *
                                 gains[rows[pair.document]] * discounts[node.ahead[pair.document]] * scales[q];
            if (score > most) most = score, chosen = i;
        }
        if (value > std::max(best, proposed) + TOLERANCE * counted) {
            candidate.assign(dimensions, 0.0);
            for (const auto& ray : node.rays)
                for (Index j = 0; j < dimensions; ++j) candidate[j] += ray->weights[j];
            proposed = value;
        }
        return chosen;
    }
};

}  // namespace

void bind_ranking(nb::module_& module) {
    nb::class_<Ranking> ranking(module, "Ranking");
    define_init<Rows<const double>, Span<const Index>, Span<const double>, Span<const double>, Span<const double>,
                Span<const double>, double>(ranking, "features", "offsets", "gains", "discounts", "merits", "scales",
                                            "least");
    ranking.def("worth", &Ranking::worth_of, "query"_a, "ahead"_a, unlocked);
    ranking.def("value", &Ranking::value, "weights"_a, unlocked);
    ranking.def("compared", &Ranking::compared, unlocked);
    ranking.def("sweep", &Ranking::sweep, "x"_a, "y"_a, unlocked);
    ranking.def("open", &Ranking::open, "signs"_a, unlocked);
    ranking.def("raise_to", &Ranking::raise, "units"_a, unlocked);
    ranking.def("advance", &Ranking::advance, "budget"_a, "bytes"_a, unlocked);
    ranking.def("take_leaf", &Ranking::take_leaf, unlocked);
    ranking.def("recorded", &Ranking::recorded, unlocked);
    ranking.def_prop_ro("relevant", &Ranking::relevant);
    ranking.def_prop_ro("needs_exact", &Ranking::needs_exact);
    ranking.def_prop_ro("open_nodes", &Ranking::open_nodes);
    ranking.def_prop_ro("open_bound", &Ranking::open_bound);
    ranking.def_ro("closed", &Ranking::closed);
    ranking.def_ro("nodes", &Ranking::nodes);
}

}  // namespace lpmert
