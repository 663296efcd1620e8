#!/usr/bin/env bash
# Installs with apt the browser in which the pages of `--report` are tried. Where that takes a password, where there is
# no apt, or where it fails, it is left to you: the tests that need it are skipped, and say so.
set -euo pipefail

if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then
    exit 0
fi
left="install chromium to have pages tried in a browser"
if ! command -v apt-get >/dev/null || ! { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
    echo "no browser; $left" >&2
    exit 0
fi
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
if ! { "${as_root[@]}" apt-get update -q &&
    timeout 600 "${as_root[@]}" apt-get install -y -q --no-install-recommends chromium; }; then
    echo "apt could not install chromium; $left" >&2
fi
