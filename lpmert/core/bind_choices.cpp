#include <nanobind/stl/pair.h>

#include "bound.hpp"
#include "choice_losses.hpp"
#include "packing.hpp"

namespace lpmert {

namespace {

Owned<Index> pairs_of(const std::vector<Choice>& choices) {
    std::vector<Index> items;
    for (const Choice& choice : choices) items.insert(items.end(), {choice.list, choice.position});
    return owned(std::move(items), {choices.size(), 2});
}

std::vector<Choice> choices_of(const Array& pairs, const Lists& lists, const char* name) {
    const Rows<const Index> rows = matrix<Index>(pairs, name);
    std::vector<Choice> choices;
    for (Index k = 0; k < rows.rows(); ++k) {
        check_size(rows.columns(), 2, name);
        const Choice choice{rows[k][0], rows[k][1]};
        if (choice.list < 0 || choice.list >= lists.n_lists() || choice.position < 0 ||
            choice.position >= lists.length(choice.list))
            throw std::invalid_argument(std::string(name) + " must name lists, and positions in them");
        choices.push_back(choice);
    }
    return choices;
}

void check(const OpenNode& open, const Tree& tree) {
    const Lists& lists = tree.lists;
    const auto in = [](Index i, Index n) { return 0 <= i && i < n; };
    bool right = static_cast<Index>(open.pointer.size()) == lists.n_lists() && open.branch < tree.n_open &&
                 static_cast<Index>(open.choices.size()) <= tree.n_open && open.corral.is_sound();
    for (Index s = 0; right && s < lists.n_lists(); ++s) right = in(open.pointer[s], lists.length(s));
    std::vector<std::uint8_t> decided(static_cast<std::size_t>(lists.n_lists()));
    for (Index s = tree.n_open; right && s < lists.n_lists(); ++s) decided[s] = true;
    for (const Choice& choice : open.choices) {
        right = right && in(choice.list, tree.n_open) && in(choice.position, lists.length(choice.list));
        if (right) decided[choice.list] = true;
    }
    for (const Child& child : open.children)
        right = right && open.branch >= 0 && in(child.position, lists.length(open.branch));
    for (const Row row : open.out) right = right && in(row, lists.n_rows());
    for (Index k = 0; right && k < open.corral.size; ++k) {
        const Index s = open.corral.lists()[k];
        right = in(s, lists.n_lists()) && decided[s] && in(open.corral.others()[k], lists.length(s));
    }
    if (!right) throw std::invalid_argument("an open node must be of the lists to search");
}

template <class Loss>
void bind(nb::class_<ChoicesSearch<Loss>>& bound) {
    using Search = ChoicesSearch<Loss>;
    bound
        .def(
            "search", [](Search& self, Index budget) { return static_cast<int>(self.search(budget)); },
            nb::arg("budget"), nb::call_guard<nb::gil_scoped_release>())
        .def_prop_rw(
            "work", [](Search& self) { return self.tree.work; },
            [](Search& self, Index work) { self.tree.work = work; })
        .def_prop_ro(
            "best_weights", [](Search& self) { return owned(self.tree.best_weights); }, nb::rv_policy::automatic)
        .def_prop_ro("nodes", [](Search& self) { return self.nodes; })
        .def_prop_ro("depth", [](Search& self) { return self.tree.depth; })
        .def_prop_ro("programs", [](Search& self) { return self.programs().programs; })
        .def_prop_ro("rounds", [](Search& self) { return self.programs().rounds; })
        .def_prop_ro("core_programs", [](Search& self) { return self.core_programs; })
        .def_prop_ro("witnesses", &Search::n_witnesses)
        .def_prop_ro("nbytes", &Search::bytes)
        .def_prop_ro("between_nodes", &Search::between_nodes)
        .def_prop_ro("least_open", &Search::least_open)
        .def_prop_ro("trial", &Search::trial, nb::rv_policy::reference_internal)
        .def_prop_ro(
            "question", [](Search& self) { return pairs_of(self.question()); }, nb::rv_policy::automatic)
        .def(
            "answer_attainable",
            [](Search& self, const Array& weights) {
                self.answer_attainable(weights_of(weights, self.tree.lists.n_features()));
            },
            nb::arg("weights"))
        .def("answer_unattainable", &Search::answer_unattainable)
        .def(
            "answer_core",
            [](Search& self, const Array& core) { self.answer_core(choices_of(core, self.tree.lists, "core")); },
            nb::arg("core"))
        .def_prop_ro(
            "gains", [](Search& self) { return std::make_pair(owned(self.asked), owned(self.raised)); },
            nb::rv_policy::automatic)
        .def(
            "expect",
            [](Search& self, const Array& asked, const Array& raised) {
                const Index n = self.tree.lists.n_lists();
                self.expect(vector<Index>(asked, "asked", n).begin(), vector<double>(raised, "raised", n).begin());
            },
            nb::arg("asked"), nb::arg("raised"))
        .def("open_nodes",
             [](const Search& self) {
                 nb::list found;
                 for (const OpenNode& open : self.open_nodes())
                     found.append(nb::make_tuple(open.bound, owned(packed(open))));
                 return found;
             })
        .def(
            "go_on_with",
            [](Search& self, const Array& node) {
                OpenNode open(self.tree.lists.n_features());
                unpack(node, open);
                check(open, self.tree);
                self.go_on_with(open);
            },
            nb::arg("node"));
}

}  // namespace

void bind_choices(nb::module_& module) {
    nb::class_<Settings>(module, "ChoiceSettings")
        .def(nb::init<Index, double, bool, bool, bool, Index, Index>(), nb::arg("granularity"), nb::arg("sharpness"),
             nb::arg("look_ahead"), nb::arg("use_cores"), nb::arg("use_witnesses"), nb::arg("pool_size"),
             nb::arg("kept_cores"));
    using SumSearch = ChoicesSearch<Sums>;
    nb::class_<SumSearch> sums(module, "SumChoices");
    sums.def(
            "__init__",
            [](SumSearch* self, const BoundLists& bound, Index n_fixed, Index cost, const Array& weights,
               const Settings& settings) {
                const double* const first = weights_of(weights, bound.lists.n_features());
                new (self) SumSearch(bound.lists, n_fixed, cost, first, settings, Sums());
            },
            nb::arg("lists"), nb::arg("n_fixed"), nb::arg("cost"), nb::arg("weights"), nb::arg("settings"),
            nb::keep_alive<1, 2>())
        .def_prop_rw(
            "cost", [](SumSearch& self) { return self.tree.upper; },
            [](SumSearch& self, Index cost) { self.tree.upper = cost; });
    bind(sums);
    using RatioSearch = ChoicesSearch<Ratios>;
    nb::class_<RatioSearch> ratios(module, "RatioChoices");
    ratios
        .def(
            "__init__",
            [](RatioSearch* self, const BoundLists& bound, const BoundRatio& ratio, Index n_fixed, double loss,
               const Array& total, const Array& weights, const Settings& settings) {
                const Span<const double> at = vector<double>(total, "total", ratio.ratio.n_columns());
                const double* const first = weights_of(weights, bound.lists.n_features());
                check_rows(bound.lists, ratio.ratio);
                new (self) RatioSearch(bound.lists, n_fixed, height_limit(ratio.ratio.kind, loss), first, settings,
                                       Ratios(ratio.ratio, bound.lists.n_rows(), loss, at.begin()));
            },
            nb::arg("lists"), nb::arg("ratio"), nb::arg("n_fixed"), nb::arg("loss"), nb::arg("total"),
            nb::arg("weights"), nb::arg("settings"), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def_prop_rw(
            "loss", [](RatioSearch& self) { return self.loss.loss; },
            [](RatioSearch& self, double loss) { self.loss.aim(self.tree, loss); });
    bind(ratios);
}

}  // namespace lpmert
