#!/usr/bin/env bash
# docs.sh [serve]: the documentation site in build/site, or served on localhost:8000. A warning is an error.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
if [ ! -x "$python" ]; then
  say "making the virtual environment ${python%/bin/python}"
  python3 -m venv "${python%/bin/python}"
fi
stamp=$build/.docs-$(printf '%s\n' "$python" "$(cat .ci/requirements-docs.txt)" | cksum | cut -d' ' -f1)
if [ ! -e "$stamp" ] || ! "$python" -c "import material" 2>/dev/null; then
  say "installing what the site needs"
  "$python" -m pip --disable-pip-version-check install --quiet --quiet -r .ci/requirements-docs.txt
  mkdir -p "$build" && touch "$stamp"
fi
export NO_MKDOCS_2_WARNING=1
if [ "${1:-}" = serve ]; then exec "$python" -m mkdocs serve; fi
"$python" -m mkdocs build --strict --quiet --clean --site-dir "$build/site"
echo "the site is in $build/site: open $build/site/index.html"
