// The hypotheses of a lattice that may win in a cone of weights, of all its paths, and the links that these use.
//
// A link counts if a path through it may be as good as the best paths known, at some ray (lemma L2 of
// proofs/lattices.md). A partial path that others into the same node beat at every ray wins nowhere in the cone,
// whatever follows: that adds the same to all (L1). What nobody beats are labels; those of the last node are the
// hypotheses that may win.
#pragma once

#include "dominance.hpp"
#include "lattice.hpp"

namespace lpmert::lattices {

// One lattice: its links with features [L, D] whose sums are exact, and the most links of a hypothesis.
struct Lattice {
    Links links;
    Rows<const double> features;
    Index most_links;
};

// A part of the weight space: rays [R, D], and what scores of paths of the lattice may be there [R].
struct Cone {
    Rows<const double> rays;
    Span<const double> reach;
};

// What a look at the links found: how many there were before, the links of the best path at the first mix, last first,
// and the features [m, D] of the best path at each.
struct Look {
    Index before = 0;
    std::vector<Node> middle;
    std::vector<double> best;
};

// What listing hypotheses took: whether they found room, the work, and the links done.
struct Listing {
    bool whole;
    Index work, done;
};

class PathFinder {
  public:
    // labels: room for so many.
    explicit PathFinder(Index labels) : most_labels_(labels) {}

    // Keep of some paths [P, D] those that no others beat; their scores are `leading`.
    void lead(const Cone& cone, Rows<const double> paths);
    // Find best paths at mixes [m, R] of the rays, and through which of the links that have marks a path may win. known
    // [P, D]: whole paths that rule out others, too.
    Look look_through(const Lattice& lattice, Span<const std::uint8_t> marks, const Cone& cone,
                      Rows<const double> mixes, Rows<const double> known);
    // List the hypotheses through the links that are left, unless that is too much work.
    Listing list(Index most_work);

    // The scores [P, R] of the whole paths that no others beat.
    Rows<const double> leading() const { return {leading_.data(), n_leading_, dominance_.n_rays()}; }
    // The links that are left, by their numbers.
    Span<const Node> left() const { return chosen_; }
    // The hypotheses listed: their features [n, D], and the links of each, last first, appended.
    Rows<const double> listed() const { return {labels_.row(listed_), end_ - listed_, labels_.n_features}; }
    void append_way(Index hypothesis, std::vector<Node>& links) const;

  private:
    struct Origin {
        Index first, second, link;  // the labels that a label came from, and by which link; 0: the start
    };

    Links links() const { return {sources_, seconds_, targets_, nodes_}; }
    void gather(const Lattice& lattice, Span<const std::uint8_t> marks);
    void survey();
    void sift(Rows<const double> paths);
    void walk(Index mix, double* features, std::vector<Node>* way) const;
    void keep();
    Index hopeless(const double* most, Index likely) const;
    bool frontier(Index most_work, Listing& listing);
    Index close_ranks(Index begin, Index end);

    Index most_labels_, nodes_ = 0, stride_ = 0;  // stride: the rays in whole blocks
    Dominance dominance_;
    Paths whole_, labels_;
    std::vector<Origin> origins_;
    std::vector<Index> first_;  // of each node, its first label
    Index listed_ = 0, end_ = 0, n_leading_ = 0;
    // Of the links that are left: numbers, nodes, features, and scores at the rays.
    std::vector<Node> chosen_, sources_, seconds_, targets_;
    std::vector<double> features_, scores_;
    // The rays, block by block, feature by feature; at each the best scores of paths to each node, and from it.
    std::vector<double> columns_, so_far_, to_come_;
    std::vector<double> best_;  // at some mixes, the best scores of paths to each node,
    std::vector<Index> last_;   // and the links that these end with
    std::vector<double> leading_, slack_, most_;
};

}  // namespace lpmert::lattices
