// The extension module: each family binds its own functions.
#include "lists.hpp"

namespace lpmert {

void bind_cells(nb::module_& module);
void bind_choices(nb::module_& module);
void bind_least_norm(nb::module_& module);
void bind_lists(nb::module_& module);
void bind_ranking(nb::module_& module);
void bind_ratio(nb::module_& module);
void bind_reading(nb::module_& module);
void bind_sparse(nb::module_& module);
void bind_winners(nb::module_& module);

namespace lattices {
void bind_dominance(nb::module_& module);
void bind_lattice(nb::module_& module);
void bind_lattice_paths(nb::module_& module);
}  // namespace lattices

namespace lines {
void bind_circle(nb::module_& module);
void bind_descent(nb::module_& module);
void bind_graph_envelope(nb::module_& module);
void bind_line_search(nb::module_& module);
void bind_plane(nb::module_& module);
}  // namespace lines

}  // namespace lpmert

NB_MODULE(_core, module) {
    using namespace lpmert;
    // The C++ runtime allocates a thread's exception state at its first throw. Where that first throw is a
    // std::bad_alloc, the allocation fails too and the process aborts: the importing thread has its state before memory
    // can be short.
    try {
        throw std::bad_alloc();
    } catch (const std::bad_alloc&) {
    }
    module.attr("INFINITE_COST") = INFINITE_COST;
    for (const auto bind : {bind_lists, bind_ratio, bind_ranking, lattices::bind_lattice, lattices::bind_lattice_paths,
                            lattices::bind_dominance, bind_least_norm, bind_cells, bind_choices,
                            lines::bind_line_search, lines::bind_circle, lines::bind_descent,
                            lines::bind_graph_envelope, lines::bind_plane, bind_reading, bind_sparse, bind_winners})
        bind(module);
}
