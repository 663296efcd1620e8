// The extension module. Each file binds its own functions at its end.
#include "binding.hpp"
#include "lists.hpp"

namespace lpmert {

using Bind = void(nb::module_&);

Bind bind_least_norm, bind_lists, bind_ranking, bind_ratio, bind_reading, bind_searches, bind_sparse, bind_winners;

namespace lattices {
Bind bind_lattice, bind_lattice_paths;
}

namespace lines {
Bind bind_circle, bind_line_search;
}

}  // namespace lpmert

NB_MODULE(_core, module) {
    using namespace lpmert;
    // The C++ runtime allocates a thread's exception state at the first throw. If the first throw is a std::bad_alloc,
    // this allocation fails too, and the process aborts. So the importing thread throws once while there is memory.
    try {
        throw std::bad_alloc();
    } catch (const std::bad_alloc&) {
    }
    module.attr("INFINITE_COST") = INFINITE_COST;
    for (const auto bind :
         {bind_lists, bind_ratio, bind_ranking, lattices::bind_lattice, lattices::bind_lattice_paths, bind_least_norm,
          bind_searches, lines::bind_line_search, lines::bind_circle, bind_reading, bind_sparse, bind_winners})
        bind(module);
}
