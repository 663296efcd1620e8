// The extension module: each family binds its own functions.
#include <nanobind/nanobind.h>

namespace lpmert {

void bind_line_search(nanobind::module_& module);

}  // namespace lpmert

NB_MODULE(_core, module) { lpmert::bind_line_search(module); }
