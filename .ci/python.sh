#!/usr/bin/env bash
# Runs the project's Python, with the arguments given, from the project's folder.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
exec "$python" "$@"
