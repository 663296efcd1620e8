// The extension module: each family binds its own functions.
#include <nanobind/nanobind.h>

namespace lpmert {

void bind_circle(nanobind::module_& module);
void bind_descent(nanobind::module_& module);
void bind_graph_envelope(nanobind::module_& module);
void bind_line_search(nanobind::module_& module);
void bind_plane(nanobind::module_& module);

}  // namespace lpmert

NB_MODULE(_core, module) {
    lpmert::bind_circle(module);
    lpmert::bind_descent(module);
    lpmert::bind_graph_envelope(module);
    lpmert::bind_line_search(module);
    lpmert::bind_plane(module);
}
