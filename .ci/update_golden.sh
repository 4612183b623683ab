#!/usr/bin/env bash
# Rewrites tests/golden/*.expected from what the compiler prints now; the difference is for review. update_golden.sh [filter]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
TORCH_TILE_UPDATE_GOLDEN=1 "$python" -m pytest -q tests -m "golden" ${1:+-k "$1"}
git --no-pager diff --stat -- tests/golden
