// What several families hand to and take from Python: lists, ratio metrics, and arrays of their own.
#pragma once

#include <limits>
#include <memory>
#include <utility>

#include "lists.hpp"
#include "ratio.hpp"

namespace lpmert {

// Lists whose rows are arrays of Python, which live as long.
struct BoundLists {
    BoundLists(const Array& rows, const Array& offsets, const Array& costs, const Array& reach, const Array& spread,
               const Array& cap)
        : kept{rows, offsets, costs, reach, spread, cap} {
        const Rows<const double> checked = matrix<double>(rows, "rows");
        lists.rows = {static_cast<const double*>(rows.data()), checked.rows() * checked.columns()};
        lists.offsets = vector<Index>(offsets, "offsets");
        lists.costs = vector<Index>(costs, "costs", checked.rows());
        lists.reach = vector<double>(reach, "reach", checked.columns());
        lists.spread = vector<double>(spread, "spread", checked.columns());
        lists.cap = vector<double>(cap, "cap");
        if (checked.rows() > std::numeric_limits<Row>::max())
            throw std::invalid_argument("rows must be fewer than 2^31");
        if (lists.cap.size() > 0) check_size(lists.cap.size(), checked.columns() + 1, "cap");
        check_offsets(lists.offsets, checked.rows(), "offsets");
        columns = columns_of(lists.rows, lists.offsets, checked.columns());
        lists.columns = columns;
    }
    BoundLists(const BoundLists&) = delete;

    std::vector<Array> kept;
    std::vector<double> columns;
    Lists lists;
};

// A ratio metric whose numbers are arrays of Python, which live as long.
struct BoundRatio {
    BoundRatio(Index kind, const Array& parameters, const Array& statistics, const Array& constant, const Array& reach,
               const Array& classes)
        : kept{parameters, statistics, constant, reach, classes} {
        ratio.kind = kind;
        ratio.parameters = vector<double>(parameters, "parameters");
        ratio.statistics = matrix<double>(statistics, "statistics");
        ratio.constant = vector<double>(constant, "constant", ratio.statistics.columns());
        ratio.reach = vector<double>(reach, "reach", ratio.statistics.columns());
        ratio.classes = vector<Index>(classes, "classes", ratio.statistics.rows());
        check_kind(kind, ratio.parameters.size(), ratio.n_columns());
    }

    std::vector<Array> kept;
    Ratio ratio;
};

// Weights [D], checked.
inline const double* weights_of(const Array& weights, Index n_features) {
    return vector<double>(weights, "weights", n_features).begin();
}

// Lists with statistics [M, K] for each of their rows, checked.
inline void check_rows(const Lists& lists, const Ratio& ratio) {
    check_size(ratio.statistics.rows(), lists.n_rows(), "statistics");
}

}  // namespace lpmert
