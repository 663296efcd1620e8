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
    define(search, "search", &Search::search, "budget");
    define(search, "aim", &Search::aim, "cost", "loss");
    define(search, "answer", &Search::answer, "weights", "core");
    define(search, "open_nodes", &Search::open_nodes);
    define(search, "go_on_with", &Search::go_on_with, "node");
    define(search, "spend", &Search::spend, "work");
    define_attribute(search, "found", [](const Search& self) {
        return std::make_tuple(self.tree.upper, self.loss.loss, self.tree.best_weights);
    });
    define_attribute(search, "work", [](const Search& self) { return self.tree.work; });
    define_attribute(search, "nodes", &Search::nodes);
    define_attribute(search, "depth", [](const Search& self) { return self.tree.depth; });
    define_attribute(search, "programs", [](const Search& self) { return self.programs().programs; });
    define_attribute(search, "rounds", [](const Search& self) { return self.programs().rounds; });
    define_attribute(search, "core_programs", &Search::core_programs);
    define_attribute(search, "between_nodes", &Search::between_nodes);
    define_attribute(search, "least_open", &Search::least_open);
    define_attribute(search, "question", [](const Search& self) { return pairs_of(self.question()); });
    search.def_prop_ro("trial", &Search::trial, nb::rv_policy::reference_internal);
}

nb::object choices_search(const Lists& lists, const nb::object& ratio, Index n_fixed, const Array& weights,
                          const nb::tuple& settings) {
    const Settings own = border::Parameter<Settings>::take(settings, "settings");
    const auto from = vector<const double>(weights, "weights");
    const auto search = [&](auto loss) {
        auto made = std::make_unique<ChoicesSearch<decltype(loss)>>(lists, n_fixed, INFINITE_COST, from, own, loss);
        return nb::cast(made.release(), nb::rv_policy::take_ownership);
    };
    if (ratio.is_none()) return search(Sums());
    return search(Ratios(border::Parameter<Ratio>::take(nb::cast<nb::tuple>(ratio), "ratio"), lists, from));
}

}  // namespace

void bind_choices(nb::module_& module) {
    bind_search<Sums>(module, "SumChoices");
    bind_search<Ratios>(module, "RatioChoices");
    module.def("choices_search", &choices_search, nb::arg("lists"), nb::arg("ratio").none(), nb::arg("n_fixed"),
               nb::arg("weights"), nb::arg("settings"), nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
}

}  // namespace lpmert
