#!/usr/bin/env bash
# generate_docs.sh [--check]: docs/generated from the .td files, the tables of options and of Inductor's, the docstrings of the language and the diagrams. --check fails where they are stale.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
out=docs/generated
if [ "${1:-}" = --check ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
mkdir -p "$out"
tblgen=$llvm/bin/mlir-tblgen
[ -x "$tblgen" ] || tblgen=$(command -v mlir-tblgen-22 || command -v mlir-tblgen) || die "mlir-tblgen of LLVM 22 not found; make setup installs it"
include=(-I csrc -I "$("${tblgen%mlir-tblgen*}llvm-config" --includedir 2>/dev/null || echo "$llvm/include")")

"$tblgen" -gen-dialect-doc -dialect=graph "${include[@]}" csrc/compiler/graph/ir/GraphOps.td >"$out/graph-dialect.md"
"$tblgen" -gen-dialect-doc -dialect=tile "${include[@]}" csrc/compiler/tile/ir/TileOps.td >"$out/tile-dialect.md"
{
  echo "# Passes"
  for file in csrc/compiler/graph/transforms csrc/compiler/fusion csrc/compiler/tile/build csrc/compiler/tile/transforms; do
    printf '\n## %s\n\n' "$file"
    "$tblgen" -gen-pass-doc "${include[@]}" "$file/Passes.td"
  done
} >"$out/passes.md"
"$python" - >"$out/config.md" <<'PY'
from torch_tile import config

print("# Knobs\n")
print("For one call `torch.compile(..., options={name: value})`, for the process `torch_tile.config.set(name, value)` or the")
print("environment variable. Options given to torch.compile win.\n")
print("| name | type | default | environment | what it does |")
print("|---|---|---|---|---|")
for name, kind, default, environment, doc in config.table():
    print(f"| `{name}` | {kind} | {default} | {environment} | {doc} |")
PY
"$python" -c "from torch_tile import inductor_options; print(inductor_options.page())" >"$out/inductor-options.md"
"$python" -m torch_tile.language.reference >"$out/language.md"
"$python" .ci/draw_diagrams.py "$out"
# tablegen leaves spaces at line ends.
sed -i 's/[[:space:]]*$//' "$out"/graph-dialect.md "$out"/tile-dialect.md "$out"/passes.md

if [ "$out" != docs/generated ]; then
  for file in graph-dialect tile-dialect passes config inductor-options language; do
    diff -u "docs/generated/$file.md" "$out/$file.md" >/dev/null || die "docs/generated/$file.md is stale: run .ci/generate_docs.sh"
  done
  for file in "$out"/*.svg; do
    cmp -s "docs/generated/${file##*/}" "$file" || die "docs/generated/${file##*/} is stale: run .ci/generate_docs.sh"
  done
fi
