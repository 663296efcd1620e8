#include "lattice_paths.hpp"

#include <algorithm>

namespace lpmert::lattices {

namespace {

// Mixes of rays for which best paths are looked for in one pass over the links.
constexpr Index ABREAST = 4 * LANES;

// Labels of a node among which those are looked for that mixtures of others beat; and so on whenever they double.
constexpr Index CROWD = 12;

// Share of the work that may be done before the first link, and how much faster it may be done than links are.
constexpr double AT_FIRST = 0.15, AHEAD = 3.0;

// The scores of links at a block of rays, which are kept: features [L, D], columns [D] of blocks.
struct Scorer {
    const double* features;
    Index n_features;
    const double* columns;
    Index stride;
    double* scores;

    LPMERT_INLINE Block operator()(Index k) const {
        const double* const row = features + k * n_features;
        Block score = every(0.0);
        for (Index d = 0; d < n_features; ++d) score = score + every(row[d]) * load(columns + d * LANES);
        store(score, scores + k * stride);
        return score;
    }
};

// Fill the scores of the links at a block of rays, and the best ones of paths to each node, and from it.
LPMERT_CLONES
void survey_block(const Links& links, const Scorer& scorer, double* so_far, double* to_come) {
    sum_so_far<Block>(links, scorer.stride, so_far, scorer);
    sum_to_come<Block>(links, scorer.stride, scorer.scores, so_far, to_come);
}

// What `best_paths` reads and writes: scores [L, stride] of the links; columns [R, ABREAST]: mixes; best and last [n,
// ABREAST] of each node.
struct Pass {
    const double* scores;
    Index stride, n_rays;
    const double* columns;
    double* best;
    Index* last;
};

template <Index wide>
LPMERT_INLINE void best_paths(const Links& links, const Pass& pass) {
    constexpr Index width = wide * LANES;
    for (Index v = 0; v < links.nodes; ++v) {
        std::fill_n(pass.best + v * ABREAST, width, v == 0 ? 0.0 : -INF);
        std::fill_n(pass.last + v * ABREAST, width, Index{-1});
    }
    for (Index k = 0; k < links.size(); ++k) {
        const double *const one = pass.best + links.sources.begin()[k] * ABREAST, *const other =
                                                                                      pass.best +
                                                                                      links.seconds.begin()[k] *
                                                                                          ABREAST;
        const double* const scores = pass.scores + k * pass.stride;
        double sums[width];
        for (Index b = 0; b < wide; ++b) {
            Block sum = load(one + b * LANES) + load(other + b * LANES);
            for (Index r = 0; r < pass.n_rays; ++r)
                sum = sum + every(scores[r]) * load(pass.columns + r * ABREAST + b * LANES);
            store(sum, sums + b * LANES);
        }
        double* const best = pass.best + links.targets.begin()[k] * ABREAST;
        Index* const last = pass.last + links.targets.begin()[k] * ABREAST;
        for (Index m = 0; m < width; ++m) {
            const bool better = sums[m] > best[m];
            best[m] = better ? sums[m] : best[m];
            last[m] = better ? k : last[m];
        }
    }
}

LPMERT_CLONES
void best_paths_at(const Links& links, const Pass& pass, Index width) {
    switch (blocks(width) / LANES) {
        case 1:
            return best_paths<1>(links, pass);
        case 2:
            return best_paths<2>(links, pass);
        case 3:
            return best_paths<3>(links, pass);
        default:
            return best_paths<4>(links, pass);
    }
}

}  // namespace

void PathFinder::lead(const Cone& cone, Rows<const double> paths) {
    slack_.clear(), listed_ = end_ = 0;
    dominance_.begin(cone.rays, cone.reach);
    sift(paths);
}

// Keep of some paths those that no others beat.
void PathFinder::sift(Rows<const double> paths) {
    whole_.begin(dominance_.n_features(), dominance_.n_rays());
    whole_.make_room(paths.rows());
    if (paths.rows() > 0) std::copy_n(paths[0].begin(), paths.rows() * paths.columns(), whole_.row(0));
    dominance_.sift(whole_, paths.rows());
    leading_.clear();
    n_leading_ = 0;
    for (Index p = 0; p < paths.rows(); ++p) {
        if (whole_.dead[static_cast<std::size_t>(p)]) continue;
        leading_.insert(leading_.end(), whole_.score(p), whole_.score(p) + whole_.n_rays);
        ++n_leading_;
    }
}

Look PathFinder::look_through(const Lattice& lattice, Span<const std::uint8_t> marks, const Cone& cone,
                              Rows<const double> mixes, Rows<const double> known) {
    const Index n_rays = cone.rays.rows(), n_features = cone.rays.columns();
    slack_.clear(), listed_ = end_ = 0;
    dominance_.begin(cone.rays, cone.reach);
    nodes_ = lattice.links.nodes;
    stride_ = blocks(n_rays);
    columns_.assign(static_cast<std::size_t>(std::max(stride_ * n_features, ABREAST * n_rays)), 0.0);
    for (Index r = 0; r < n_rays; ++r) {
        double* const own = columns_.data() + r / LANES * LANES * n_features + r % LANES;
        for (Index d = 0; d < n_features; ++d) own[d * LANES] = cone.rays[r][d];
    }
    gather(lattice, marks);
    Look look;
    look.before = links().size();
    survey();
    Index* const last = room_for(last_, nodes_ * ABREAST);
    const Pass pass{scores_.data(), stride_, n_rays, columns_.data(), room_for(best_, nodes_ * ABREAST), last};
    look.best.assign(static_cast<std::size_t>(mixes.rows() * n_features), 0.0);
    for (Index begin = 0; begin < mixes.rows(); begin += ABREAST) {
        const Index width = std::min(ABREAST, mixes.rows() - begin);
        std::fill_n(columns_.begin(), ABREAST * n_rays, 0.0);
        for (Index m = 0; m < width; ++m) {
            for (Index r = 0; r < n_rays; ++r) columns_.data()[r * ABREAST + m] = mixes[begin + m][r];
        }
        best_paths_at(links(), pass, width);
        for (Index m = 0; m < width; ++m)
            walk(m, look.best.data() + (begin + m) * n_features, begin + m == 0 ? &look.middle : nullptr);
    }
    std::vector<double> all;
    if (known.rows() > 0) all.assign(known[0].begin(), known[0].begin() + known.rows() * n_features);
    all.insert(all.end(), look.best.begin(), look.best.end());
    sift({all.data(), known.rows() + mixes.rows(), n_features});
    // What two sums of products along a path may differ by (L2).
    const double factor = 4.0 * static_cast<double>(lattice.most_links + n_features + 5) * EPSILON;
    for (const double most : cone.reach) slack_.push_back(factor * most);
    most_.resize(static_cast<std::size_t>(n_rays));
    keep();
    return look;
}

// Copy the links that have marks to the work space.
void PathFinder::gather(const Lattice& lattice, Span<const std::uint8_t> marks) {
    chosen_.clear(), sources_.clear(), seconds_.clear(), targets_.clear(), features_.clear();
    for (Index k = 0; k < lattice.links.size(); ++k) {
        if (!(marks[k >> 3] & (128 >> (k & 7)))) continue;
        chosen_.push_back(static_cast<Node>(k));
        sources_.push_back(lattice.links.sources[k]);
        seconds_.push_back(lattice.links.seconds[k]);
        targets_.push_back(lattice.links.targets[k]);
        const Span<const double> row = lattice.features[k];
        features_.insert(features_.end(), row.begin(), row.end());
    }
}

void PathFinder::survey() {
    const Index n_features = dominance_.n_features();
    double* const scores = room_for(scores_, links().size() * stride_);
    double* const so_far = room_for(so_far_, nodes_ * stride_);
    double* const to_come = room_for(to_come_, nodes_ * stride_);
    for (Index r = 0; r < stride_; r += LANES)
        survey_block(links(), {features_.data(), n_features, columns_.data() + r * n_features, stride_, scores + r},
                     so_far + r, to_come + r);
}

// Add up the features [D] of the best path at a mix, and write down its links where they are wanted.
void PathFinder::walk(Index mix, double* features, std::vector<Node>* way) const {
    const Index n_features = dominance_.n_features();
    const Links left = links();
    std::vector<Node> waiting{static_cast<Node>(nodes_ - 1)};
    while (!waiting.empty()) {
        const Index k = Span<const Index>(last_)[waiting.back() * ABREAST + mix];
        waiting.pop_back();
        if (k < 0) throw std::invalid_argument("marks must leave whole paths");
        for (Index d = 0; d < n_features; ++d) features[d] += Span<const double>(features_)[k * n_features + d];
        if (way != nullptr) way->push_back(Span<const Node>(chosen_)[k]);
        if (left.seconds[k] > 0) waiting.push_back(left.seconds[k]);
        if (left.sources[k] > 0) waiting.push_back(left.sources[k]);
    }
}

// Keep the links through which a path may win in the cone.
void PathFinder::keep() {
    const Index n_rays = dominance_.n_rays(), n_features = dominance_.n_features(), before = links().size();
    const Links all = links();
    Index n = 0, likely = 0;
    for (Index k = 0; k < before; ++k) {
        const Node source = all.sources[k], second = all.seconds[k], target = all.targets[k];
        const double *const one = so_far_.data() + source * stride_, *const other = so_far_.data() + second * stride_,
                            *const after = to_come_.data() + target * stride_,
                            *const own = scores_.data() + k * stride_;
        double* const most = most_.data();
        for (Index r = 0; r < n_rays; ++r) most[r] = one[r] + other[r] + own[r] + after[r] + slack_.data()[r];
        const Index path = hopeless(most, likely);
        if (path >= 0) {
            likely = path;
            continue;
        }
        const auto to = static_cast<std::size_t>(n++);
        chosen_[to] = chosen_[static_cast<std::size_t>(k)];
        sources_[to] = source, seconds_[to] = second, targets_[to] = target;
        std::copy_n(features_.data() + k * n_features, n_features, features_.data() + (n - 1) * n_features);
    }
    const auto left = static_cast<std::size_t>(n);
    chosen_.resize(left), sources_.resize(left), seconds_.resize(left), targets_.resize(left);
}

// Which of the leading paths is better at every ray than the most [R] that can be reached, or -1. likely: which one is
// looked at first.
Index PathFinder::hopeless(const double* most, Index likely) const {
    const Index n_rays = dominance_.n_rays();
    for (Index turn = -1; turn < n_leading_; ++turn) {
        const Index p = turn < 0 ? likely : turn;
        if (p >= n_leading_) continue;
        const double* const scores = leading_.data() + p * n_rays;
        Index r = 0;
        while (r < n_rays && most[r] < scores[r]) ++r;
        if (r == n_rays) return p;
    }
    return -1;
}

Listing PathFinder::list(Index most_work) {
    if (slack_.empty()) throw std::invalid_argument("look through links first");
    Listing listing{false, 0, 0};
    listing.whole = frontier(most_work, listing);
    return listing;
}

// Find the labels of all nodes; false where they find no room, or comparing them is too much work.
//
// Of labels with the same features the first one stays: that which came by an earlier link, or from earlier labels.
bool PathFinder::frontier(Index most_work, Listing& listing) {
    const Index n_rays = dominance_.n_rays(), n_features = dominance_.n_features();
    const Links left = links();
    Index n = 1, path = 0, &work = listing.work, &k = listing.done;
    listed_ = end_ = 0;
    labels_.begin(n_features, n_rays);
    labels_.make_room(CROWD);
    origins_.assign(1, {0, 0, -1});
    std::fill_n(labels_.row(0), n_features, 0.0);
    std::fill_n(labels_.score(0), n_rays, 0.0);
    labels_.dead[0] = 0;
    first_.assign({0, 1});
    double* const most = most_.data();
    for (Index v = 1; v < nodes_; ++v) {
        const Index begin = n;
        Index likely = -1, crowd = begin + CROWD;
        for (; k < left.size() && left.targets[k] == v; ++k) {
            const Span<const Index> first(first_);
            const Index one_end = first[left.sources[k] + 1], other_end = first[left.seconds[k] + 1];
            const double* const own = features_.data() + k * n_features;
            const double share = AT_FIRST + AHEAD * static_cast<double>(k) / static_cast<double>(left.size());
            const double most_now = static_cast<double>(most_work) * std::min(1.0, share);
            for (Index i = first[left.sources[k]]; i < one_end; ++i) {
                for (Index j = first[left.seconds[k]]; j < other_end; ++j) {
                    if (n >= crowd) {
                        work += dominance_.drop_mixed(labels_, begin, n);
                        n = close_ranks(begin, n);
                        crowd = std::max(begin + CROWD, 2 * n - begin);
                        likely = -1;
                    }
                    if (n >= most_labels_ || static_cast<double>(work) > most_now) return false;
                    labels_.make_room(n + 1);
                    const double *const one = labels_.row(i), *const other = labels_.row(j);
                    double* const row = labels_.row(n);
                    for (Index d = 0; d < n_features; ++d) row[d] = one[d] + other[d] + own[d];
                    dominance_.measure(labels_, n);
                    const double *const scores = labels_.score(n), *const after = to_come_.data() + v * stride_;
                    for (Index r = 0; r < n_rays; ++r) most[r] = scores[r] + after[r] + slack_.data()[r];
                    ++work;
                    const Index found = hopeless(most, path);
                    if (found >= 0) {
                        path = found;
                        continue;
                    }
                    const Index winner = dominance_.compare_with_all(labels_, begin, n, likely);
                    if (winner >= 0) {
                        work += winner == likely ? 1 : winner - begin;
                        likely = winner;
                    } else {
                        work += n - begin;
                        origins_.resize(static_cast<std::size_t>(n));
                        origins_.push_back({i, j, k});
                        ++n;
                    }
                }
            }
        }
        n = close_ranks(begin, n);
        if (n > begin + 2) {
            work += dominance_.drop_mixed(labels_, begin, n);
            n = close_ranks(begin, n);
        }
        first_.push_back(n);
    }
    listed_ = Span<const Index>(first_)[nodes_ - 1];
    end_ = n;
    return true;
}

// Take the dead among the labels begin .. end out, in place; return the new end.
Index PathFinder::close_ranks(Index begin, Index end) {
    Index n = begin;
    for (Index i = begin; i < end; ++i) {
        if (labels_.dead[static_cast<std::size_t>(i)]) continue;
        if (i != n) {
            labels_.move(i, n);
            origins_[static_cast<std::size_t>(n)] = origins_[static_cast<std::size_t>(i)];
        }
        ++n;
    }
    return n;
}

void PathFinder::append_way(Index hypothesis, std::vector<Node>& way) const {
    std::vector<Index> waiting{listed_ + hypothesis};
    while (!waiting.empty()) {
        const Origin& origin = origins_[static_cast<std::size_t>(waiting.back())];
        waiting.pop_back();
        if (origin.link >= 0) way.push_back(Span<const Node>(chosen_)[origin.link]);
        if (origin.second > 0) waiting.push_back(origin.second);
        if (origin.first > 0) waiting.push_back(origin.first);
    }
}

}  // namespace lpmert::lattices
