#include "arrays.hpp"

namespace lpmert {

namespace {

// Write weights [D] times transposed [D, M] into scores [M].
void combine(const Array& transposed, const Array& weights, const Writable& scores) {
    constexpr Index BLOCK = 1024;  // scores that stay in the first-level cache while the features are added up
    const Rows<const double> features = matrix<double>(transposed, "transposed");
    const Span<const double> factors = vector<double>(weights, "weights");
    const Span<double> sums = vector<double>(scores, "scores");
    check_size(factors.size(), features.rows(), "weights");
    check_size(sums.size(), features.columns(), "scores");
    for (Index begin = 0; begin < sums.size(); begin += BLOCK) {
        const Span<double> block = sums.part(begin, std::min(begin + BLOCK, sums.size()));
        for (double& sum : block) sum = 0.0;
        for (Index d = 0; d < factors.size(); ++d) {
            const double* const column = features[d].begin() + begin;
            for (Index i = 0; i < block.size(); ++i) block[i] += factors[d] * column[i];
        }
    }
}

}  // namespace

void bind_line_search(nb::module_& module) {
    module.def("combine", &combine, nb::arg("transposed"), nb::arg("weights"), nb::arg("scores"),
               nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace lpmert
