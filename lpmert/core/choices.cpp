// The search over selections as Python has it.
#include "choice_losses.hpp"

namespace lpmert {

namespace {

Matrix<Index> pairs_of(const std::vector<Choice>& choices) {
    Matrix<Index> pairs{{}, 2};
    for (const auto& [list, position] : choices) pairs.append({list, position});
    return pairs;
}

template <class Loss>
void bind_search(nb::module_& module, const char* name) {
    using Search = ChoicesSearch<Loss>;
    nb::class_<Search> search(module, name);
    search.def(
        "search", [](Search& self, Index budget) { return static_cast<Index>(self.search(budget)); }, "budget"_a,
        unlocked);
    search.def("aim", &Search::aim, "cost"_a, "loss"_a, unlocked);
    search.def("answer", &Search::answer, "weights"_a, "core"_a, unlocked);
    search.def("open_nodes", &Search::open_nodes, unlocked);
    search.def("go_on_with", &Search::go_on_with, "node"_a, unlocked);
    search.def_prop_ro("found", [](const Search& self) {
        return std::make_tuple(self.tree.upper, self.loss.loss, self.tree.best_weights);
    });
    search.def_prop_ro("work", [](const Search& self) { return self.tree.work; });
    search.def_ro("nodes", &Search::nodes);
    search.def_prop_ro("depth", [](const Search& self) { return self.tree.depth; });
    search.def_prop_ro("programs", [](const Search& self) { return self.programs().programs; });
    search.def_prop_ro("rounds", [](const Search& self) { return self.programs().rounds; });
    search.def_ro("core_programs", &Search::core_programs);
    search.def_prop_ro("between_nodes", &Search::between_nodes);
    search.def_prop_ro("least_open", &Search::least_open);
    search.def_prop_ro("question", [](const Search& self) { return pairs_of(self.question()); });
    search.def_prop_ro("trial", &Search::trial);
}

nb::object choices_search(const Lists& lists, const std::optional<Ratio>& ratio, Index n_fixed,
                          Span<const double> weights, const Settings& settings) {
    const auto search = [&](auto loss) {
        using Search = ChoicesSearch<decltype(loss)>;
        return nb::cast(std::make_unique<Search>(lists, n_fixed, INFINITE_COST, weights, settings, loss));
    };
    return ratio ? search(Ratios(*ratio, lists, weights)) : search(Sums());
}

}  // namespace

void bind_choices(nb::module_& module) {
    bind_search<Sums>(module, "SumChoices");
    bind_search<Ratios>(module, "RatioChoices");
    module.def("choices_search", &choices_search, "lists"_a, "ratio"_a.none(), "n_fixed"_a, "weights"_a, "settings"_a,
               nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
}

}  // namespace lpmert
