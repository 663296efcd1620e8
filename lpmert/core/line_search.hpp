// Line searches on lists, for sums of costs and for ratio metrics alike.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "arrays.hpp"
#include "envelope.hpp"
#include "loss.hpp"
#include "sweep.hpp"

namespace lpmert::lines {

// The lists of a problem: columns [D, M] of features, and offsets [S + 1] of the lists' rows.
struct Lists {
    Rows<const double> columns;
    Span<const Index> offsets;

    Index count() const { return offsets.size() - 1; }
    Index rows() const { return columns.columns(); }
    Index dimension() const { return columns.rows(); }
    Index begin(Index s) const { return offsets[s]; }
    Index end(Index s) const { return offsets[s + 1]; }
};

// Write weights [D] times columns [D, M] into scores [M].
void combine(Rows<const double> columns, Span<const double> weights, Span<double> scores);

// Return the Euclidean norm of a vector [d].
double norm(Span<const double> vector);

// Return the first of the rows begin..end - 1 with the best score.
Index best_row(Span<const double> scores, Index begin, Index end);

// Which interval of a line is taken, by the numbers that Python has for them.
enum class Interval { MIDPOINT, WIDEST, SMOOTHED };

struct Choice {
    Interval interval;
    double smoothing;
};

// A piece of a circle, in radians, and what it costs.
struct Piece {
    double begin, end, level;
};

// An event that Python sees: where a list changes its choice, and from which row to which.
struct Turn {
    double at;
    Index leaving, entering;
};

// What line searches on the same lists share. Not for several threads at a time.
template <class Loss>
class LineSearch {
  public:
    using Level = typename Loss::Level;

    LineSearch(Lists lists_, Loss loss);

    // Make the intercepts the scores at weights [D], unless they are these already.
    void score(Span<const double> weights);
    // The same for the slopes of lines or circles in a direction [D].
    void turn_to(Span<const double> direction) { combine(lists.columns, direction, slopes); }
    // Return the level of decoding at the intercepts, the first hypothesis of a list on ties.
    Level level();
    // Return the best step on the line intercepts + t slopes.
    Found<Level> step(double low, double high, double scale, Choice choice);
    // Make ready for steps along coordinates from these intercepts; the first time, the rows are sorted by each
    // feature.
    void prepare_coordinates();
    Found<Level> coordinate_step(Index d, double low, double high, double scale, Choice choice);
    // The events of the line, one list after the other, and the first choice of each list [S].
    void turns(std::vector<Index>& start, std::vector<Turn>& found);
    // The pieces, within low..high, -pi <= low <= 0 <= high <= pi, of the circle cos(t) intercepts + sin(t) slopes.
    // Neighbouring pieces may have the same level; their order is not that of the angles.
    void pieces(double low, double high, std::vector<Piece>& found);

    // Move to cosine times the intercepts plus sine times the slopes, at these weights up to rounding.
    void move(double cosine, double sine) {
        for (std::size_t i = 0; i < intercepts.size(); ++i) intercepts[i] = cosine * intercepts[i] + sine * slopes[i];
        scored.clear();
    }

    const Lists lists;
    std::vector<double> intercepts, slopes;

  private:
    template <class First, class Next>
    void each_event(First&& first, Next&& next);
    Found<Level> chosen(double low, double high, double scale, Choice choice);

    std::vector<double> scored;
    std::vector<Row> orders;   // [D, M]: the rows of each list, sorted by each feature
    std::vector<double> tops;  // [S]: the greatest intercept of each list
    Sweep<Loss> right, left;
    Envelope envelope;
};

extern template class LineSearch<SumOfCosts>;
extern template class LineSearch<LossOfSums>;

// A line search as Python holds it, with the arrays that it refers to.
struct BoundLineSearch {
    std::vector<Array> arrays;
    std::variant<LineSearch<SumOfCosts>, LineSearch<LossOfSums>> search;
    Span<const Cost> costs;

    const Lists& lists() const {
        return std::visit([](const auto& own) -> const Lists& { return own.lists; }, search);
    }
    // An argument of Python's that has an item for each feature; raises ValueError.
    template <class Given>
    auto vector_of(const Given& array, const char* name) const {
        const auto items = vector<double>(array, name);
        check_size(items.size(), lists().dimension(), name);
        return items;
    }
};

}  // namespace lpmert::lines
