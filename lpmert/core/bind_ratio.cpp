// Ratio metrics as Python sees them: losses, heights, and linear bounds of heights.
#include <nanobind/stl/pair.h>

#include "bound.hpp"

namespace lpmert {

namespace {

double loss_of(Index kind, const Array& parameters, const Array& total) {
    const Span<const double> factors = vector<double>(parameters, "parameters");
    const Span<const double> sums = vector<double>(total, "total");
    check_kind(kind, factors.size(), sums.size());
    return loss_of_total(kind, factors, sums.data(), sums.size());
}

void losses_of_totals(Index kind, const Array& parameters, const Array& totals, const Writable& losses) {
    const Span<const double> factors = vector<double>(parameters, "parameters");
    const Rows<const double> sums = matrix<double>(totals, "totals");
    const Span<double> found = vector<double>(losses, "losses", sums.rows());
    check_kind(kind, factors.size(), sums.columns());
    for (Index i = 0; i < sums.rows(); ++i) found[i] = loss_of_total(kind, factors, sums[i].data(), sums.columns());
}

// A minorant on the box low, high [K], laid at `at` [K].
Minorant minorant_of(Index n_columns, const Array& low, const Array& high, const Array& at) {
    Minorant minorant(n_columns);
    const auto take = [&](std::vector<double>& own, const Array& given, const char* name) {
        const Span<const double> sums = vector<double>(given, name, n_columns);
        own.assign(sums.begin(), sums.end());
    };
    take(minorant.low, low, "low");
    take(minorant.high, high, "high");
    take(minorant.at, at, "at");
    return minorant;
}

double lay_minorant(Index kind, const Array& parameters, const Array& low, const Array& high, const Array& at,
                    const Writable& slopes) {
    const Span<const double> factors = vector<double>(parameters, "parameters");
    const Span<double> written = vector<double>(slopes, "slopes");
    check_kind(kind, factors.size(), written.size());
    Minorant minorant = minorant_of(written.size(), low, high, at);
    const double constant = minorant.lay(kind, factors);
    std::copy(minorant.slopes.begin(), minorant.slopes.end(), written.begin());
    return constant;
}

std::pair<Index, bool> lay_in_units(const BoundRatio& bound, const Array& low, const Array& high, const Array& at,
                                    const Array& settled, Index n_open, const Writable& slopes) {
    const Index n = bound.ratio.n_columns();
    Minorant minorant = minorant_of(n, low, high, at);
    const Span<double> written = vector<double>(slopes, "slopes", n);
    const auto laid = minorant.lay_in_units(bound.ratio, vector<double>(settled, "settled", n).data(), n_open);
    std::copy(minorant.slopes.begin(), minorant.slopes.end(), written.begin());
    return laid;
}

// Return (the best height, low, high, where it is laid, costs); see ratio.hpp.
nb::tuple best_height_of(const BoundRatio& bound, const Array& offsets, const Array& at, Index tangents) {
    const Ratio& ratio = bound.ratio;
    const Span<const Index> ends = vector<Index>(offsets, "offsets");
    const Span<const double> first = vector<double>(at, "at", ratio.n_columns());
    check_offsets(ends, ratio.statistics.rows(), "offsets");
    Minorant minorant(ratio.n_columns());
    std::copy(first.begin(), first.end(), minorant.at.begin());
    std::vector<Index> costs;
    const Index height = best_height(ends, ratio, minorant, tangents, costs);
    return nb::make_tuple(height, owned(std::move(minorant.low)), owned(std::move(minorant.high)),
                          owned(std::move(minorant.at)), owned(std::move(costs)));
}

void find_cheapest(const Array& values, const Array& lengths, double multiplier, const Array& offsets,
                   const Writable& rows, const Writable& costs) {
    const Span<const double> own = vector<double>(values, "values");
    const Span<const double> sizes = vector<double>(lengths, "lengths", own.size());
    const Span<const Index> ends = vector<Index>(offsets, "offsets");
    check_offsets(ends, own.size(), "offsets");
    cheapest_of_lists(own, sizes, multiplier, ends, vector<Index>(rows, "rows", ends.size() - 1),
                      vector<double>(costs, "costs", ends.size() - 1));
}

}  // namespace

void bind_ratio(nb::module_& module) {
    nb::class_<BoundRatio>(module, "Ratio")
        .def(nb::init<Index, Array, Array, Array, Array, Array>(), nb::arg("kind"), nb::arg("parameters"),
             nb::arg("statistics"), nb::arg("constant"), nb::arg("reach"), nb::arg("classes"));
    module.def("loss_of_total", &loss_of, nb::arg("kind"), nb::arg("parameters"), nb::arg("total"));
    module.def("losses_of_totals", &losses_of_totals, nb::arg("kind"), nb::arg("parameters"), nb::arg("totals"),
               nb::arg("losses"), nb::call_guard<nb::gil_scoped_release>());
    module.def("height_of_loss", &height_of_loss, nb::arg("kind"), nb::arg("loss"));
    module.def("loss_of_height", &loss_of_height, nb::arg("kind"), nb::arg("height"));
    module.def("lay_minorant", &lay_minorant, nb::arg("kind"), nb::arg("parameters"), nb::arg("low"), nb::arg("high"),
               nb::arg("at"), nb::arg("slopes"));
    module.def("lay_in_units", &lay_in_units, nb::arg("ratio"), nb::arg("low"), nb::arg("high"), nb::arg("at"),
               nb::arg("settled"), nb::arg("n_open"), nb::arg("slopes"));
    module.def("best_height", &best_height_of, nb::arg("ratio"), nb::arg("offsets"), nb::arg("at"),
               nb::arg("tangents"));
    module.def("cheapest_of_lists", &find_cheapest, nb::arg("values"), nb::arg("lengths"), nb::arg("multiplier"),
               nb::arg("offsets"), nb::arg("rows"), nb::arg("costs"));
    module.def("height_limit", &height_limit, nb::arg("kind"), nb::arg("loss"));
}

}  // namespace lpmert
