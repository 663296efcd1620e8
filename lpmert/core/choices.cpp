// The search over selections as Python has it.
#include <nanobind/stl/pair.h>

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

// Call a function of Python; raises ValueError unless what it returns is of these lists.
Answer answered(const nb::callable& decide, const Core& choices, const Corral& trial, const Lists& lists) {
    const nb::gil_scoped_acquire lock;
    Matrix<Index> asked{{}, 2};
    for (const auto& [list, position] : choices) asked.append({list, position});
    const auto given = nb::cast<std::pair<Array, Array>>(
        decide(border::give(std::move(asked)), nb::cast(&trial, nb::rv_policy::reference)));
    const auto weights = vector<const double>(given.first, "weights");
    const auto core = matrix<const Index>(given.second, "core");
    if (weights.size() > 0) check_size(weights.size(), lists.n_features(), "weights");
    if (core.rows() > 0) check_size(core.columns(), 2, "core");
    Answer answer{{weights.begin(), weights.end()}, {}};
    for (Index k = 0; k < core.rows(); ++k) {
        const auto [s, position] = answer.core.emplace_back(Choice{core[k][0], core[k][1]});
        if (s < 0 || s >= lists.n_lists() || position < 0 || position >= lists.length(s))
            throw std::invalid_argument("core must name lists, and positions in them");
    }
    return answer;
}

template <class Search>
void bind(nb::class_<Search>& search) {
    search.def(
        "search",
        [](Search& self, Index budget, const nb::callable& decide) {
            const auto exactly = [&](const Core& choices, const Corral& trial) {
                return answered(decide, choices, trial, self.tree.lists);
            };
            return unlocked([&] { return self.search(budget, exactly) == State::done; });
        },
        nb::arg("budget"), nb::arg("decide"));
    define(search, "aim", &Search::aim, "cost");
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
    define_attribute(search, "least_open", &Search::least_open);
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
