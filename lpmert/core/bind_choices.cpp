#include <nanobind/stl/pair.h>

#include "bound.hpp"
#include "losses.hpp"

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

template <class Loss>
nb::list open_nodes(const ChoicesSearch<Loss>& self) {
    nb::list found;
    for (OpenNode& open : self.open_nodes()) {
        std::vector<Index> children;
        for (const Child& child : open.children) children.insert(children.end(), {child.position, child.bound});
        found.append(nb::make_tuple(pairs_of(open.choices), owned(std::move(open.pointer)), open.branch,
                                    owned(std::move(children), {open.children.size(), 2}), open.own, open.bound,
                                    owned(std::move(open.out)), open.corral.size, owned(open.corral.items().first),
                                    owned(open.corral.items().second)));
    }
    return found;
}

template <class Loss>
void go_on_with(ChoicesSearch<Loss>& self, const Array& choices, const Array& pointer, Index branch,
                const Array& children, Index own, const Array& out, Index size, const Array& numbers,
                const Array& names) {
    const Lists& lists = self.tree.lists;
    OpenNode open{choices_of(choices, lists, "choices"), {}, branch, {}, own, own, {}, Corral(lists.n_features())};
    const Span<const Index> cheapest = vector<Index>(pointer, "pointer");
    check_size(cheapest.size(), lists.n_lists(), "pointer");
    for (Index s = 0; s < lists.n_lists(); ++s) {
        if (cheapest[s] < 0 || cheapest[s] >= lists.length(s))
            throw std::invalid_argument("pointer must hold positions in the lists");
    }
    open.pointer.assign(cheapest.begin(), cheapest.end());
    const bool fixed = std::any_of(open.choices.begin(), open.choices.end(),
                                   [&](const Choice& choice) { return choice.list >= self.tree.n_open; });
    if (fixed || static_cast<Index>(open.choices.size()) > self.tree.n_open || branch >= self.tree.n_open)
        throw std::invalid_argument("choices and branch must be of the lists to search");
    const Rows<const Index> rows = matrix<Index>(children, "children");
    for (Index k = 0; k < rows.rows(); ++k) {
        check_size(rows.columns(), 2, "children");
        if (branch < 0 || rows[k][0] < 0 || rows[k][0] >= lists.length(branch))
            throw std::invalid_argument("children must be positions in the list of the branch");
        open.children.push_back({rows[k][0], rows[k][1]});
    }
    const Span<const std::uint8_t> excluded = vector<std::uint8_t>(out, "out");
    check_size(excluded.size(), static_cast<Index>(self.loss.out().size()), "out");
    open.out.assign(excluded.begin(), excluded.end());
    open.corral.take(size, vector<double>(numbers, "numbers"), vector<Index>(names, "names"));
    for (Index k = 0; k < size; ++k) {
        const Index s = open.corral.lists()[k], other = open.corral.others()[k];
        const bool decided = std::any_of(open.choices.begin(), open.choices.end(),
                                         [s](const Choice& choice) { return choice.list == s; });
        if (s < 0 || s >= lists.n_lists() || !(decided || s >= self.tree.n_open) || other < 0 ||
            other >= lists.length(s))
            throw std::invalid_argument("names must be of decided lists, and of positions in them");
    }
    self.go_on_with(open);
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
                const Span<const Index> times = vector<Index>(asked, "asked");
                const Span<const double> sums = vector<double>(raised, "raised");
                check_size(times.size(), self.tree.lists.n_lists(), "asked");
                check_size(sums.size(), self.tree.lists.n_lists(), "raised");
                self.expect(times.begin(), sums.begin());
            },
            nb::arg("asked"), nb::arg("raised"))
        .def("open_nodes", &open_nodes<Loss>)
        .def("go_on_with", &go_on_with<Loss>, nb::arg("choices"), nb::arg("pointer"), nb::arg("branch"),
             nb::arg("children"), nb::arg("own"), nb::arg("out"), nb::arg("size"), nb::arg("numbers"),
             nb::arg("names"));
}

}  // namespace

void bind_choices(nb::module_& module) {
    nb::class_<Settings>(module, "ChoiceSettings")
        .def(
            "__init__",
            [](Settings* self, Index granularity, double sharpness, bool look_ahead, bool use_cores, bool use_witnesses,
               Index pool_size, Index kept_cores) {
                new (self)
                    Settings{granularity, sharpness, look_ahead, use_cores, use_witnesses, pool_size, kept_cores};
            },
            nb::arg("granularity"), nb::arg("sharpness"), nb::arg("look_ahead"), nb::arg("use_cores"),
            nb::arg("use_witnesses"), nb::arg("pool_size"), nb::arg("kept_cores"));
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
                const Span<const double> sums_ = vector<double>(total, "total");
                const double* const first = weights_of(weights, bound.lists.n_features());
                check_rows(bound.lists, ratio.ratio);
                check_size(sums_.size(), ratio.ratio.n_columns(), "total");
                new (self) RatioSearch(bound.lists, n_fixed, height_limit(ratio.ratio.kind, loss), first, settings,
                                       Ratios(ratio.ratio, bound.lists.n_rows(), loss, sums_.begin()));
            },
            nb::arg("lists"), nb::arg("ratio"), nb::arg("n_fixed"), nb::arg("loss"), nb::arg("total"),
            nb::arg("weights"), nb::arg("settings"), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def_prop_rw(
            "loss", [](RatioSearch& self) { return self.loss.loss; },
            [](RatioSearch& self, double loss) { self.loss.aim(self.tree, loss); });
    bind(ratios);
}

}  // namespace lpmert
