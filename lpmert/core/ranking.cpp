// How well weights rank judged documents: DCG and its kin at k, along the events of the plane and over cones of
// weights.
//
// Lemmas O1 to O4 of proofs/ranking.md. A document's rank is at least the number of those that lead it everywhere in a
// cone; positions are filled with the largest gain that these ranks allow. A cone is cut on an edge where a pair
// changes places, at a share of its two rays that is a double: the new ray is that exact mixture, and its scores are
// the mixtures of theirs, each rounding within a bound that is counted in levels.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "binding.hpp"

namespace lpmert {

namespace {

constexpr double UNIT = 0x1p40;          // values are whole numbers of this part of a query's best
constexpr double LEVEL_ERROR = 0x1p-51;  // of a score at most 1: three roundings, and room
constexpr Index ROUNDING = 2;            // units that no sum of roundings in a query's value reaches
constexpr Index TOLERANCE = 4;           // units a query by which a bound may exceed the incumbent and be closed

// A relevant document and another one of its query with a different gain.
struct Pair {
    Index query, document, rival;
};

// A ray of a cone: that of an axis, or the exact mixture share * first + (1 - share) * second.
struct Ray {
    std::vector<double> weights, scores;  // rounded; scores only of documents that the cone still compares
    Index level = 0, axis = 0;
    double share = 0.0;
    std::shared_ptr<const Ray> first, second;

    // What a lead must exceed or equal to be sure: twice the error of a score.
    double doubt() const { return 2 * LEVEL_ERROR * static_cast<double>(level); }
    double lead(const Pair& pair) const { return scores[pair.rival] - scores[pair.document]; }
};

using Rays = std::vector<std::shared_ptr<const Ray>>;

// What is known in a cone: undecided pairs, how many documents surely lead each relevant one, and the bounds.
struct State {
    std::vector<Pair> pairs;
    std::vector<Index> ahead, bounds;
    Index total = 0;
};

struct Node {
    Rays rays;
    std::shared_ptr<const State> state;
};

class Ranking {
    std::vector<double> features, gains, discounts, scales;
    Indices offsets;
    Index dimensions;
    bool first_only;
    std::vector<Indices> relevant;  // of each query that counts, by falling gain
    std::vector<Node> stack;
    std::vector<Pair> pairs;
    Indices never_behind;  // of each document, how many with equal features and a smaller gain
    Index best = -1, proposed = -1, counted = 0;
    std::shared_ptr<const State> root;
    std::vector<double> candidate;
    Node leaf_node;
    bool has_leaf = false;

    const double* row(Index i) const { return features.data() + i * dimensions; }

  public:
    Index closed = 0, nodes = 0;

    Ranking(Rows<const double> features_, Span<const Index> offsets_, Span<const double> gains_,
            Span<const double> discounts_, Span<const double> scales_, bool first_only_)
        : features(features_.items().begin(), features_.items().end()),
          gains(gains_.begin(), gains_.end()),
          discounts(discounts_.begin(), discounts_.end()),
          scales(scales_.begin(), scales_.end()),
          offsets(offsets_.begin(), offsets_.end()),
          dimensions(features_.columns()),
          first_only(first_only_),
          relevant(scales.size()),
          never_behind(gains.size()) {
        check_offsets(offsets_, features_.rows(), "offsets");
        check_size(gains_.size(), features_.rows(), "gains");
        check_size(scales_.size(), offsets_.size() - 1, "scales");
        for (const double value : features)
            if (!(std::abs(value) <= 1.0)) throw std::invalid_argument("features must be at most 1");
        for (Index q = 0; q < scales_.size(); ++q) {
            if (scales[q] <= 0.0) continue;
            ++counted;
            for (Index d = offsets[q]; d < offsets[q + 1]; ++d) {
                if (gains[d] <= 0.0) continue;
                relevant[q].push_back(d);
                for (Index e = offsets[q]; e < offsets[q + 1]; ++e) {
                    if (gains[e] == gains[d]) continue;
                    if (!std::equal(row(d), row(d) + dimensions, row(e)))
                        pairs.push_back({q, d, e});
                    else if (gains[e] < gains[d])
                        ++never_behind[d];
                }
            }
            std::stable_sort(relevant[q].begin(), relevant[q].end(),
                             [&](Index a, Index b) { return gains[a] > gains[b]; });
        }
    }

    // The most that a query is worth where each document has at least so many others before it (O1), in units, up.
    Index worth(Index q, const Indices& ahead) const {
        const Indices& own = relevant[q];
        std::vector<Index> ranks;
        ranks.reserve(own.size());
        for (const Index d : own) ranks.push_back(ahead[d]);
        for (std::size_t begin = 0, end = 0; begin < own.size(); begin = end) {
            while (end < own.size() && gains[own[end]] == gains[own[begin]]) ++end;
            std::sort(ranks.begin() + static_cast<Index>(begin), ranks.begin() + static_cast<Index>(end));
            for (std::size_t i = begin; i < end; ++i) ranks[i] += static_cast<Index>(i - begin);
        }
        double sum = 0.0;
        for (Index position = 0; position < static_cast<Index>(discounts.size()); ++position) {
            for (std::size_t i = 0; i < own.size(); ++i) {
                if (ranks[i] > position) continue;
                ranks[i] = INT64_MAX;
                sum += gains[own[i]] * discounts[position];
                if (first_only) position = static_cast<Index>(discounts.size());
                break;
            }
        }
        return static_cast<Index>(sum * scales[q] * UNIT) + ROUNDING;
    }

    Index worth_of(Index q, Span<const Index> ahead) {
        if (q < 0 || q >= static_cast<Index>(scales.size())) throw std::invalid_argument("no such query");
        check_size(ahead.size(), static_cast<Index>(gains.size()), "ahead");
        return worth(q, Indices(ahead.begin(), ahead.end()));
    }

    Index total_worth(const Indices& ahead) const {
        Index total = 0;
        for (std::size_t q = 0; q < scales.size(); ++q)
            if (scales[q] > 0.0) total += worth(static_cast<Index>(q), ahead);
        return total;
    }

    // What weights reach, in units; leads that rounding may hide count as ties, and ties against the better document.
    Index value(Span<const double> weights) {
        check_size(weights.size(), dimensions, "weights");
        std::vector<double> scores(gains.size());
        double size = 0.0;
        for (const double w : weights) size += std::abs(w);
        for (std::size_t d = 0; d < gains.size(); ++d)
            for (Index j = 0; j < dimensions; ++j) scores[d] += weights[j] * row(static_cast<Index>(d))[j];
        Indices ahead = never_behind;
        for (const Pair& pair : pairs)
            ahead[pair.document] += scores[pair.rival] - scores[pair.document] >= -1e-14 * size;
        return total_worth(ahead);
    }

    // The relevant documents and those that they are compared with, two rows a pair.
    Indices compared() {
        Indices rows;
        for (const Pair& pair : pairs) rows.insert(rows.end(), {pair.document, pair.rival});
        return rows;
    }

    // Units after each group of events (O3): an event enters row 2 i + 1 of `compared` where the rival of pair i takes
    // the lead, and row 2 i where it loses it; other rows, those of axes, change nothing.
    Indices curve(Span<const Index> start, Span<const Index> entering, Span<const Index> ends) {
        check_size(start.size(), static_cast<Index>(pairs.size()), "start");
        Indices ahead = never_behind, values, reached(scales.size()), changed;
        for (std::size_t i = 0; i < pairs.size(); ++i) ahead[pairs[i].document] += start[static_cast<Index>(i)] % 2;
        Index total = 0, event = 0;
        for (std::size_t q = 0; q < scales.size(); ++q)
            if (scales[q] > 0.0) total += reached[q] = worth(static_cast<Index>(q), ahead);
        for (const Index end : ends) {
            if (end > entering.size()) throw std::invalid_argument("ends must be within the events");
            changed.clear();
            for (; event < end; ++event) {
                const Index entered = entering[event];
                if (entered < 0) throw std::invalid_argument("events must be rows");
                if (entered / 2 >= static_cast<Index>(pairs.size())) continue;
                const Pair& pair = pairs[entered / 2];
                ahead[pair.document] += entered % 2 == 1 ? 1 : -1;
                changed.push_back(pair.query);
            }
            std::sort(changed.begin(), changed.end());
            changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
            for (const Index q : changed) {
                total -= reached[q];
                total += reached[q] = worth(q, ahead);
            }
            values.push_back(total);
        }
        return values;
    }

    // Open the cone of the axes with these signs.
    void open(Span<const double> signs) {
        check_size(signs.size(), dimensions, "signs");
        Node node;
        for (Index j = 0; j < dimensions; ++j) {
            Ray ray;
            ray.axis = signs[j] < 0.0 ? -1 - j : j;
            ray.weights.assign(dimensions, 0.0);
            ray.weights[j] = signs[j] < 0.0 ? -1.0 : 1.0;
            for (std::size_t d = 0; d < gains.size(); ++d)
                ray.scores.push_back(ray.weights[j] * row(static_cast<Index>(d))[j]);
            node.rays.push_back(std::make_shared<const Ray>(std::move(ray)));
        }
        if (!root) {
            State state;
            state.pairs = pairs;
            state.ahead = never_behind;
            for (std::size_t q = 0; q < scales.size(); ++q)
                state.bounds.push_back(scales[q] > 0.0 ? worth(static_cast<Index>(q), never_behind) : 0);
            for (const Index bound : state.bounds) state.total += bound;
            root = std::make_shared<const State>(std::move(state));
        }
        node.state = root;
        stack.push_back(std::move(node));
    }

    void raise(Index units) { best = std::max(best, units); }
    Index open_nodes() const { return static_cast<Index>(stack.size()); }
    Index open_bound() const {
        Index bound = has_leaf ? leaf_node.state->total : 0;
        for (const Node& node : stack) bound = std::max(bound, node.state->total);
        return bound;
    }

    // Explore at most so many nodes, less if one needs exact arithmetic, or weights look better than all before.
    // Returns these weights, or none.
    std::vector<double> advance(Index budget) {
        candidate.clear();
        while (budget-- > 0 && !stack.empty() && !has_leaf && candidate.empty()) {
            Node node = std::move(stack.back());
            stack.pop_back();
            explore(std::move(node));
        }
        return candidate;
    }

    bool needs_exact() const { return has_leaf; }

    // The node that doubles cannot decide: rays as parents, axis and share, in an order in which parents come first;
    // those of the cone; undecided pairs; ahead; units of the queries without such pairs, and of all.
    std::tuple<Matrix<Index>, std::vector<double>, Indices, Matrix<Index>, Indices, Index, Index> take_leaf() {
        if (!has_leaf) throw std::invalid_argument("no node needs exact arithmetic");
        std::vector<const Ray*> order;
        const auto number = [&](const Ray* ray) {
            return static_cast<Index>(std::find(order.begin(), order.end(), ray) - order.begin());
        };
        for (const auto& ray : leaf_node.rays) list(ray.get(), order);
        Matrix<Index> links{{}, 3}, undecided{{}, 3};
        std::vector<double> shares;
        for (const Ray* ray : order) {
            links.items.insert(links.items.end(), {ray->first ? number(ray->first.get()) : -1,
                                                   ray->second ? number(ray->second.get()) : -1, ray->axis});
            shares.push_back(ray->share);
        }
        Indices own;
        for (const auto& ray : leaf_node.rays) own.push_back(number(ray.get()));
        const State& state = *leaf_node.state;
        Index rest = state.total, last = -1;
        for (const Pair& pair : state.pairs) {  // pairs are sorted by query
            undecided.items.insert(undecided.items.end(), {pair.query, pair.document, pair.rival});
            if (pair.query != last) rest -= state.bounds[pair.query];
            last = pair.query;
        }
        has_leaf = false;
        return {std::move(links), std::move(shares), std::move(own), std::move(undecided), state.ahead, rest,
                state.total};
    }

  private:
    static void list(const Ray* ray, std::vector<const Ray*>& order) {
        if (std::find(order.begin(), order.end(), ray) != order.end()) return;
        if (ray->first) list(ray->first.get(), order);
        if (ray->second) list(ray->second.get(), order);
        order.push_back(ray);
    }

    Index closing() const { return best + TOLERANCE * counted; }

    void explore(Node node) {
        ++nodes;
        auto next = std::make_shared<State>();
        next->ahead = node.state->ahead;
        next->bounds = node.state->bounds;
        Indices touched;
        std::vector<double> balance;
        std::vector<std::uint8_t> leads;
        for (const Pair& pair : node.state->pairs) {
            if (touched.empty() || touched.back() != pair.query) touched.push_back(pair.query);
            bool leading = true, trailing = true;
            double up = 0.0, down = 0.0, middle = 0.0;
            for (const auto& ray : node.rays) {
                const double lead = ray->lead(pair), doubt = ray->doubt();
                leading = leading && lead >= doubt;
                trailing = trailing && -lead >= doubt;
                up = std::max(up, lead);
                down = std::max(down, -lead);
                middle += lead;
            }
            if (leading)
                ++next->ahead[pair.document];
            else if (!trailing) {
                next->pairs.push_back(pair);
                balance.push_back(std::min(up, down));
                leads.push_back(middle > 0.0);
            }
        }
        for (const Index q : touched) next->bounds[q] = std::min(next->bounds[q], worth(q, next->ahead));
        for (const Index bound : next->bounds) next->total += bound;
        if (next->total <= closing()) {
            closed = std::max(closed, next->total);
            return;
        }
        const auto k = static_cast<Index>(discounts.size());
        Indices ahead = next->ahead;
        std::size_t kept = 0;
        for (std::size_t i = 0; i < next->pairs.size(); ++i) {
            const Pair pair = next->pairs[i];
            if (next->ahead[pair.document] >= k) continue;  // it is out of reach: the pair decides nothing
            ahead[pair.document] += leads[i];
            next->pairs[kept] = pair;
            balance[kept++] = balance[i];
        }
        next->pairs.resize(kept);
        std::vector<double> slack(scales.size());
        Index middle = next->total;
        for (const Index q : touched) {
            const Index loss = next->bounds[q] - worth(q, ahead);
            middle -= loss;
            slack[q] = static_cast<double>(loss) / UNIT;
        }
        if (middle > std::max(best, proposed) + TOLERANCE * counted) {
            candidate.assign(dimensions, 0.0);
            for (const auto& ray : node.rays)
                for (Index j = 0; j < dimensions; ++j) candidate[j] += ray->weights[j];
            proposed = middle;
        }
        node.state = next;
        if (!cut(node, balance, slack)) {
            leaf_node = std::move(node);
            has_leaf = true;
        }
    }

    // Cut a cone where the most promising pair ties, and leave its parts on the stack; false where none can be cut.
    bool cut(const Node& node, const std::vector<double>& balance, const std::vector<double>& slack) {
        const State& state = *node.state;
        Index level = 0;
        for (const auto& ray : node.rays) level = std::max(level, ray->level + 1);
        const double doubt = 2 * LEVEL_ERROR * static_cast<double>(level);
        const Pair* chosen = nullptr;
        double most = -1.0;
        for (std::size_t i = 0; i < state.pairs.size(); ++i) {
            if (balance[i] < 8 * doubt) continue;
            const Pair& pair = state.pairs[i];
            const double score = (slack[pair.query] + 1e-9) * balance[i] * gains[pair.document] *
                                 discounts[state.ahead[pair.document]] * scales[pair.query];
            if (score > most) {
                most = score;
                chosen = &pair;
            }
        }
        if (!chosen) return false;
        std::size_t above = 0, below = 0;
        double widest = -1.0, tie = 0.0;
        for (std::size_t p = 0; p < node.rays.size(); ++p) {
            const double up = node.rays[p]->lead(*chosen);
            if (up < 8 * doubt) continue;
            for (std::size_t n = 0; n < node.rays.size(); ++n) {
                const double down = node.rays[n]->lead(*chosen);
                if (down > -8 * doubt) continue;
                const double share = (4 * doubt - down) / (up - down);
                const double width = std::min(share, 1 - share) * (1e-13 + angle(*node.rays[p], *node.rays[n]));
                if (width > widest) {
                    widest = width;
                    above = p;
                    below = n;
                    tie = share;
                }
            }
        }
        // The larger share is rounded first: the smaller one is then exactly what is left of 1.
        const double share = tie >= 0.5 ? tie : 1 - (1 - tie);
        const auto ray = mixture(node.rays[above], node.rays[below], share, state.pairs);
        for (const std::size_t replaced : {below, above}) {
            Node part = node;
            part.rays[replaced] = ray;
            stack.push_back(std::move(part));
        }
        return true;
    }

    std::shared_ptr<const Ray> mixture(const std::shared_ptr<const Ray>& first,
                                       const std::shared_ptr<const Ray>& second, double share,
                                       const std::vector<Pair>& compared) const {
        Ray ray;
        ray.first = first;
        ray.second = second;
        ray.share = share;
        ray.level = std::max(first->level, second->level) + 1;
        const double rest = 1 - share;
        const auto mix = [&](double a, double b) { return share * a + rest * b; };
        for (Index j = 0; j < dimensions; ++j) ray.weights.push_back(mix(first->weights[j], second->weights[j]));
        ray.scores.assign(gains.size(), 0.0);
        for (const Pair& pair : compared)
            for (const Index d : {pair.document, pair.rival}) ray.scores[d] = mix(first->scores[d], second->scores[d]);
        return std::make_shared<const Ray>(std::move(ray));
    }

    static double angle(const Ray& a, const Ray& b) {
        double product = 0.0, left = 0.0, right = 0.0;
        for (std::size_t j = 0; j < a.weights.size(); ++j) {
            product += a.weights[j] * b.weights[j];
            left += a.weights[j] * a.weights[j];
            right += b.weights[j] * b.weights[j];
        }
        return 1 - product / std::sqrt(left * right);
    }
};

}  // namespace

void bind_ranking(nb::module_& module) {
    nb::class_<Ranking> ranking(module, "Ranking");
    define_init<Rows<const double>, Span<const Index>, Span<const double>, Span<const double>, Span<const double>,
                bool>(ranking, "features", "offsets", "gains", "discounts", "scales", "first_only");
    define(ranking, "worth", &Ranking::worth_of, "query", "ahead");
    define(ranking, "value", &Ranking::value, "weights");
    define(ranking, "compared", &Ranking::compared);
    define(ranking, "curve", &Ranking::curve, "start", "entering", "ends");
    define(ranking, "open", &Ranking::open, "signs");
    define(ranking, "raise_to", &Ranking::raise, "units");
    define(ranking, "advance", &Ranking::advance, "budget");
    define(ranking, "take_leaf", &Ranking::take_leaf);
    define_attribute(ranking, "needs_exact", &Ranking::needs_exact);
    define_attribute(ranking, "open_nodes", &Ranking::open_nodes);
    define_attribute(ranking, "open_bound", &Ranking::open_bound);
    define_attribute(ranking, "closed", &Ranking::closed);
    define_attribute(ranking, "nodes", &Ranking::nodes);
}

}  // namespace lpmert
