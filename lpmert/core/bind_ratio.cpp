// Ratio metrics as Python sees them: losses, heights, and linear bounds of heights.
#include <nanobind/stl/pair.h>

#include "bound.hpp"

namespace lpmert {

namespace {

// Sums [K] that a kind of metric with these parameters takes, checked.
Span<const double> sums_of(Index kind, Span<const double> parameters, const Array& sums, const char* name) {
    const Span<const double> checked = vector<double>(sums, name);
    check_kind(kind, parameters.size(), checked.size());
    return checked;
}

double loss_of(Index kind, const Array& parameters, const Array& total) {
    const Span<const double> factors = vector<double>(parameters, "parameters");
    const Span<const double> sums = sums_of(kind, factors, total, "total");
    return loss_of_total(kind, factors, sums.data(), sums.size());
}

void losses_of_totals(Index kind, const Array& parameters, const Array& totals, const Writable& losses) {
    const Span<const double> factors = vector<double>(parameters, "parameters");
    const Rows<const double> sums = matrix<double>(totals, "totals");
    const Span<double> found = vector<double>(losses, "losses");
    check_kind(kind, factors.size(), sums.columns());
    check_size(found.size(), sums.rows(), "losses");
    for (Index i = 0; i < sums.rows(); ++i) found[i] = loss_of_total(kind, factors, sums[i].data(), sums.columns());
}

double lay_minorant(Index kind, const Array& parameters, const Array& low, const Array& high, const Array& at,
                    const Writable& slopes) {
    const Span<const double> factors = vector<double>(parameters, "parameters");
    const Span<double> written = vector<double>(slopes, "slopes");
    Minorant minorant(written.size());
    const auto take = [&](std::vector<double>& own, const Array& given, const char* name) {
        const Span<const double> sums = sums_of(kind, factors, given, name);
        check_size(sums.size(), written.size(), name);
        own.assign(sums.begin(), sums.end());
    };
    take(minorant.low, low, "low");
    take(minorant.high, high, "high");
    take(minorant.at, at, "at");
    const double constant = minorant.lay(kind, factors);
    std::copy(minorant.slopes.begin(), minorant.slopes.end(), written.begin());
    return constant;
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
    module.def(
        "height_of_all",
        [](const BoundRatio& bound, const Array& offsets, const Writable& at, const Writable& low, const Writable& high,
           const Writable& costs) {
            const Ratio& ratio = bound.ratio;
            const Span<double> laid = vector<double>(at, "at"), least = vector<double>(low, "low"),
                               most = vector<double>(high, "high");
            const Span<Index> prices = vector<Index>(costs, "costs");
            const Span<const Index> ends = vector<Index>(offsets, "offsets");
            for (const Span<double> sums : {laid, least, most})
                check_size(sums.size(), ratio.n_columns(), "at, low, high");
            check_offsets(ends, ratio.statistics.rows(), "offsets");
            check_size(prices.size(), ratio.statistics.rows(), "costs");
            Minorant minorant(ratio.n_columns());
            std::copy(laid.begin(), laid.end(), minorant.at.begin());
            const Index height = height_of_all(ends, ratio, minorant, prices.begin());
            std::copy(minorant.low.begin(), minorant.low.end(), least.begin());
            std::copy(minorant.high.begin(), minorant.high.end(), most.begin());
            return height;
        },
        nb::arg("ratio"), nb::arg("offsets"), nb::arg("at"), nb::arg("low"), nb::arg("high"), nb::arg("costs"));
    module.def(
        "lay_in_units",
        [](const BoundRatio& bound, const Array& low, const Array& high, const Array& at, const Array& settled,
           Index n_open, const Writable& slopes) {
            const Ratio& ratio = bound.ratio;
            const auto sums = [&](const Array& array, const char* name) {
                const Span<const double> checked = vector<double>(array, name);
                check_size(checked.size(), ratio.n_columns(), name);
                return std::vector<double>(checked.begin(), checked.end());
            };
            Minorant minorant(ratio.n_columns());
            minorant.low = sums(low, "low");
            minorant.high = sums(high, "high");
            minorant.at = sums(at, "at");
            const Span<double> written = vector<double>(slopes, "slopes");
            check_size(written.size(), ratio.n_columns(), "slopes");
            const auto laid = minorant.lay_in_units(ratio, sums(settled, "settled").data(), n_open);
            std::copy(minorant.slopes.begin(), minorant.slopes.end(), written.begin());
            return laid;
        },
        nb::arg("ratio"), nb::arg("low"), nb::arg("high"), nb::arg("at"), nb::arg("settled"), nb::arg("n_open"),
        nb::arg("slopes"));
    module.def(
        "cheapest_of_lists",
        [](const Array& values, const Array& lengths, double multiplier, const Array& offsets, const Writable& rows,
           const Writable& costs) {
            const Span<const double> own = vector<double>(values, "values"), long_ = vector<double>(lengths, "lengths");
            const Span<const Index> ends = vector<Index>(offsets, "offsets");
            const Span<Index> cheapest = vector<Index>(rows, "rows");
            const Span<double> least = vector<double>(costs, "costs");
            check_size(long_.size(), own.size(), "lengths");
            check_offsets(ends, own.size(), "offsets");
            check_size(cheapest.size(), ends.size() - 1, "rows");
            check_size(least.size(), ends.size() - 1, "costs");
            cheapest_of_lists(own, long_, multiplier, ends, cheapest, least);
        },
        nb::arg("values"), nb::arg("lengths"), nb::arg("multiplier"), nb::arg("offsets"), nb::arg("rows"),
        nb::arg("costs"));
    module.def("height_limit", &height_limit, nb::arg("kind"), nb::arg("loss"));
}

}  // namespace lpmert
