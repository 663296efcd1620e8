// The search over selections as Python has it.
#include "choice_losses.hpp"

namespace lpmert {

namespace {

class SumChoices : public ChoicesSearch<Sums> {
  public:
    SumChoices(const Lists& lists, Index n_fixed, Index cost, Span<const double> weights, Settings settings)
        : ChoicesSearch(lists, n_fixed, cost, weights, settings, Sums()) {}
    void aim(Index cost) { tree.upper = cost; }
    Index cost() const { return tree.upper; }
};

class RatioChoices : public ChoicesSearch<Ratios> {
  public:
    RatioChoices(const Lists& lists, Ratio ratio, Index n_fixed, double loss, Span<const double> total,
                 Span<const double> weights, Settings settings)
        : ChoicesSearch(lists, n_fixed, height_limit(ratio.kind, loss), weights, settings,
                        Ratios(ratio, lists.n_rows(), loss, total)) {}
    void aim(double limit) { loss.aim(tree, limit); }
    double cost() const { return loss.loss; }
};

Matrix<Index> pairs_of(const std::vector<Choice>& choices) {
    Matrix<Index> pairs{{}, 2};
    for (const auto& [list, position] : choices) pairs.append({list, position});
    return pairs;
}

template <class Search>
void bind(nb::class_<Search>& search) {
    define(search, "search", &Search::search, "budget");
    define(search, "aim", &Search::aim, "cost");
    define(search, "answer", &Search::answer, "weights", "core");
    define(search, "open_nodes", &Search::open_nodes);
    define(search, "go_on_with", &Search::go_on_with, "node");
    define(search, "spend", &Search::spend, "work");
    define_attribute(search, "cost", &Search::cost);
    define_attribute(search, "best_weights", [](const Search& self) { return self.tree.best_weights; });
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

}  // namespace

void bind_choices(nb::module_& module) {
    nb::class_<SumChoices> sums(module, "SumChoices");
    define_init<const Lists&, Index, Index, Span<const double>, Settings>(sums, "lists", "n_fixed", "cost", "weights",
                                                                          "settings");
    bind(sums);
    nb::class_<RatioChoices> ratios(module, "RatioChoices");
    define_init<const Lists&, Ratio, Index, double, Span<const double>, Span<const double>, Settings>(
        ratios, "lists", "ratio", "n_fixed", "loss", "total", "weights", "settings");
    bind(ratios);
}

}  // namespace lpmert
