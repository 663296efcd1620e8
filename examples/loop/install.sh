#!/usr/bin/env bash
# Installs with apt what the decoders of this folder need. Where that takes a password, or there is no apt, it is left to
# you: the tests that need them are skipped.
set -euo pipefail

packages=(flite sox mecab mecab-utils mecab-ipadic manpages-ja)
if dpkg -s "${packages[@]}" >/dev/null 2>&1; then
    exit 0
fi
if ! command -v apt-get >/dev/null || ! { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
    echo "missing some of ${packages[*]}; install them to have the loop tried with real decoders" >&2
    exit 0
fi
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${packages[@]}"
