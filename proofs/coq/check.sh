#!/usr/bin/env bash
# Compiles the proofs beside this script and prints the axioms on which the theorems of every file rest. Fails where these
# are more than those of Coq's own real numbers. With --independent, coqchk checks the compiled files again; that is slow.
set -euo pipefail
cd "$(dirname "$0")"

allowed='ClassicalDedekindReals\.sig_(forall|not)_dec|FunctionalExtensionality\.functional_extensionality_dep|Classical_Prop\.classic'
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

cp ./*.v "$build"
cd "$build"
count=0
modules=()
for file in $(coqdep -sort -Q . Lpmert ./*.v); do
    coqc -q -Q . Lpmert "$file"
    module=$(basename "$file" .v)
    modules+=("Lpmert.$module")
    # All theorems in one tuple: the axioms of each would take a walk through the library of its own.
    theorems=$(sed -nE "s/^ *(Theorem|Corollary) ([A-Za-z_0-9']+).*/$module.\2/p" "$file")
    printf 'From Lpmert Require %s.\nGoal True. idtac "%s". Abort.\n' "$module" "$module"
    printf 'Definition of_%s := (tt%s). Print Assumptions of_%s.\n' "$module" "${theorems:+$(printf ', @%s' $theorems)}" "$module"
    count=$((count + $(wc -w <<<"$theorems")))
done >print_axioms
mv print_axioms Axioms.v
coqc -q -Q . Lpmert Axioms.v | grep -E '^[^ ]' | tee axioms

# An axiom's name begins a line; its type follows on that line or on the next ones.
names=$(IFS='|' && echo "${modules[*]#Lpmert.}")
if grep -vE "^($names|Axioms:|Closed under the global context|($allowed)( :.*)?)\$" axioms >others; then
    echo "axioms that are not allowed:" >&2
    cat others >&2
    exit 1
fi
echo "$count theorems rest on nothing but Coq's real numbers"
if [ "${1:-}" = --independent ]; then
    coqchk -silent -Q . Lpmert "${modules[@]}"
fi
