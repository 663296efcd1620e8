#!/usr/bin/env bash
# Compiles the proofs beside this script and prints the axioms on which their theorems rest. Fails where these are more
# than those of Coq's own real numbers. With --independent, coqchk checks the compiled files again; that is slow. BUILD
# names a folder for the compiled files, if they are to be kept.
set -euo pipefail
cd "$(dirname "$0")"

allowed='ClassicalDedekindReals\.sig_(forall|not)_dec|FunctionalExtensionality\.functional_extensionality_dep|Classical_Prop\.classic'
build=${BUILD:-$(mktemp -d)}
[ -n "${BUILD:-}" ] || trap 'rm -rf "$build"' EXIT

cp ./*.v "$build"
cd "$build"
rm -f Axioms.v
modules=()
theorems=()
for file in $(coqdep -sort -Q . Lpmert ./*.v); do
    coqc -q -Q . Lpmert "$file"
    module=$(basename "$file" .v)
    modules+=("$module")
    # shellcheck disable=SC2207 -- names of theorems hold no spaces
    theorems+=($(sed -nE "s/^ *(Theorem|Corollary) ([A-Za-z_0-9']+).*/$module.\2/p" "$file"))
done

# All theorems in one tuple: Coq walks through its library once for each question about axioms.
{
    echo "From Lpmert Require ${modules[*]}."
    echo "Definition theorems := (tt$(printf ', @%s' "${theorems[@]}"))."
    echo "Print Assumptions theorems."
} >Axioms.v
coqc -q -Q . Lpmert Axioms.v | grep -E '^[^ ]' | tee axioms

# An axiom's name begins a line; its type follows on that line or on the next ones.
if grep -vE "^(Axioms:|Closed under the global context|($allowed)( :.*)?)\$" axioms >others; then
    echo "axioms that are not allowed:" >&2
    cat others >&2
    exit 1
fi
echo "${#theorems[@]} theorems rest on nothing but Coq's real numbers"
if [ "${1:-}" = --independent ]; then
    coqchk -silent -Q . Lpmert "${modules[@]/#/Lpmert.}"
fi
