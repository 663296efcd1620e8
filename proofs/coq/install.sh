#!/usr/bin/env bash
# Installs Coq with apt where it is missing. Where that takes a password, or there is no apt, it is left to you: the tests
# that need Coq are skipped without it.
set -euo pipefail

if command -v coqc; then
    exit 0
fi
if ! command -v apt-get >/dev/null || ! { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
    echo "Coq is missing; install it, version 8.16, to have the proofs checked" >&2
    exit 0
fi
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -y -q --no-install-recommends coq
