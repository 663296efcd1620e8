// Conflicts of lists: of two that pull in opposite directions, one does not have its cheapest hypothesis.
//
// An item is a list and a step of its costs, which it pays wherever its gain, the lead of what costs more over all that
// costs less, is not negative. Where a mixture of two items' gains is negative nowhere in a node, all its weights make
// one of the two pay (lemma K7 of proofs/cones.md, B4 of proofs/boxes.md): the bound rises by the smaller of their
// steps, which is taken off both, so that what items are charged adds up. Pairs are found in single precision; each is
// then decided in double precision, with a bound on its rounding.
#pragma once

#include "box.hpp"
#include "cone.hpp"

namespace lpmert::cells {

// Whether share times one gain [D] and other times another are surely at least 0 together at every ray; gains are
// differences of scores that are off by errors [D] each, share and other in 0 .. 1.
bool one_pays(const double* first, const double* second, double share, double other, Span<const double> errors);

// Whether they are in the whole box. share, other: in 0 .. 1, one of them 1; rounding: 0.0 if sums of gains are exact,
// else 1.0; off: of Precision.
bool one_pays_in_box(const double* first, const double* second, double share, double other, const double* centre,
                     const double* radius, Index n_features, double rounding, double off);

// Items, in no order. gains [n, D]; sizes: what a gain is at most; heights: what it is at the centre, as a share of
// that; steps: what an item pays. By positions in order of height: order: which item it is; left: what it has not been
// charged yet; scaled [D, n]: gains by size.
struct Items {
    Items(Index n_features, Index n_items);

    double* gain(Index k) { return gains.data() + k * n_features; }
    const double* gain(Index k) const { return gains.data() + k * n_features; }

    Index n_features, stride, n = 0;
    std::vector<double> gains, sizes, heights;
    std::vector<Index> steps, order, left;
    std::vector<float> scaled;
};

template <class Shape>
class Conflicts;

// Items of a cone: of each open list the step from its least cost to the next.
template <>
class Conflicts<Cones> : public Items {
  public:
    Conflicts(const Lists& lists, const Settings& settings, const Cones& cones);

    // By how much conflicts raise the bound of a cone; they need not do more than exceed what is needed.
    Index run(const Cone& cone, Index needed, Counts& counts);

    // What `charge` asks; i, j: positions in order of height.
    bool pays_at_centre(Index i) const { return heights[order[i]] > 0.0; }
    Index first_partner(Index) const { return 0; }
    bool compare(Index i, Index begin, Index end);
    bool promises(Index j, Index begin) const { return low_[j - begin] <= high_[j - begin]; }
    bool pays(Index i, Index j, Index begin) const;
    void take(Index j, Index amount);
    void name(Index, Index) {}

  private:
    void collect(const Cone& cone);
    bool can_pay(Index needed) const;
    Index sort();

    Span<const double> errors_;
    std::vector<float> low_, high_;
};

// Items of a box: several levels of the costs of each list may be charged.
template <>
class Conflicts<Boxes> : public Items {
  public:
    Conflicts(const Lists& lists, const Settings& settings, const Boxes& boxes);
    // Room for so many items of so many features, given one by one, and for naming so many pairs of them.
    Conflicts(Index n_features, Index n_items, Index n_pairs);

    Index run(const Box& box, Index needed, Counts& counts);

    // Begin with items of a box, given one by one; rounding: 0.0 if sums of gains are exact, else 1.0.
    void begin(Span<const double> centre, Span<const double> radius, double rounding, double off);
    double* next_gain() { return gain(n); }
    // Add the next one; return whether it is of any use.
    bool add(Index step);
    // Charge conflicts between the items until the charges exceed what is needed; return their sum.
    Index charge_items(Index needed, Index& compared);
    const std::vector<std::pair<Index, Index>>& pairs() const { return pairs_; }

    // What `charge` asks.
    bool pays_at_centre(Index i) const { return level_[i] >= 0.0F; }
    Index first_partner(Index i) const;
    bool compare(Index i, Index begin, Index end);
    bool promises(Index j, Index begin) const;
    bool pays(Index i, Index j, Index begin) const;
    void take(Index j, Index amount);
    void name(Index i, Index j) {
        if (count(pairs_) < most_pairs_) pairs_.emplace_back(order[i], order[j]);
    }

  private:
    bool add(double lead, double reach, Index step);
    void collect(const Box& box);
    void add_levels(const Box& box, Index low, Index high, Index face);
    double allowance(const Box& box, Index low, Index high, Index ahead) const;
    void swap(Index x, Index y);
    void sort();

    Index n_axes_ = 0, most_pairs_ = 0, levels_ = 1;
    const Boxes* boxes_ = nullptr;
    Span<const double> centre_, radius_;
    double rounding_ = 1.0, off_ = 0.0;
    View values_;
    std::vector<Index> starts_, later_;
    std::vector<float> level_, margins_;
    std::vector<double> lead_, reach_;
    std::vector<std::pair<Index, Index>> pairs_;
};

}  // namespace lpmert::cells
