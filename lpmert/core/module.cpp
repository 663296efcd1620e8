// The extension module: each family binds its own functions.
#include "lists.hpp"

namespace lpmert {

void bind_cells(nanobind::module_& module);
void bind_choices(nanobind::module_& module);
void bind_circle(nanobind::module_& module);
void bind_descent(nanobind::module_& module);
void bind_graph_envelope(nanobind::module_& module);
void bind_lattices(nanobind::module_& module);
void bind_least_norm(nanobind::module_& module);
void bind_line_search(nanobind::module_& module);
void bind_plane(nanobind::module_& module);
void bind_reading(nanobind::module_& module);
void bind_ratio(nanobind::module_& module);
void bind_sparse(nanobind::module_& module);
void bind_winners(nanobind::module_& module);

}  // namespace lpmert

NB_MODULE(_core, module) {
    module.attr("INFINITE_COST") = lpmert::INFINITE_COST;
    lpmert::bind_ratio(module);
    lpmert::bind_lattices(module);
    lpmert::bind_least_norm(module);
    lpmert::bind_cells(module);
    lpmert::bind_choices(module);
    lpmert::bind_circle(module);
    lpmert::bind_descent(module);
    lpmert::bind_graph_envelope(module);
    lpmert::bind_line_search(module);
    lpmert::bind_plane(module);
    lpmert::bind_reading(module);
    lpmert::bind_sparse(module);
    lpmert::bind_winners(module);
}
