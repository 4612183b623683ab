#!/usr/bin/env bash
# lint.sh [--fix] [--no-tidy]: format, style, types and layers. Every check runs; the failures are listed at the end.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
fix= tidy=1
for argument in "$@"; do
  case $argument in
  --fix) fix=1 ;;
  --no-tidy) tidy= ;;
  *) die "usage: lint.sh [--fix] [--no-tidy]" ;;
  esac
done
failed=()

check() { # check NAME COMMAND...
  local name=$1
  shift
  echo "-- $name"
  "$@" || failed+=("$name")
}
tool() { # tool NAME: the program of LLVM 22, under any of its names
  local candidate version
  for candidate in "$1-22" "$llvm/bin/$1" "$1"; do
    version=$("$candidate" --version 2>/dev/null) || continue
    if [[ $version = *"version 22"* ]]; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}
absent() { # a missing tool is a failure in CI, a notice elsewhere
  echo "-- $1: not installed (make lint installs it)"
  [ -z "${CI:-}" ] || failed+=("$1")
}

mapfile -t cpp < <(git ls-files --cached --others --exclude-standard -- 'csrc/*.cpp' 'csrc/*.h' 'tests/*.cpp' 'tests/*.h')
if format=$(tool clang-format); then
  if [ -n "$fix" ]; then
    check clang-format "$format" -i "${cpp[@]}"
  else
    check clang-format "$format" --dry-run -Werror "${cpp[@]}"
  fi
else
  absent clang-format
fi

if [ -n "$tidy" ] && [ -e "$build/compile_commands.json" ]; then
  base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || echo HEAD)
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'csrc/*.cpp')
  if [ ${#changed[@]} -eq 0 ]; then
    echo "-- clang-tidy: no file changed since $base"
  elif clang_tidy=$(tool clang-tidy); then
    check clang-tidy "$clang_tidy" -p "$build" --quiet ${fix:+--fix} "${changed[@]}"
  else
    absent clang-tidy
  fi
fi

if "$python" -c "import ruff" 2>/dev/null; then
  if [ -n "$fix" ]; then
    check "ruff format" "$python" -m ruff format --quiet .
    check "ruff check" "$python" -m ruff check --quiet --fix .
  else
    check "ruff format" "$python" -m ruff format --check --quiet .
    check "ruff check" "$python" -m ruff check --quiet .
  fi
else
  absent ruff
fi
if "$python" -c "import mypy" 2>/dev/null; then
  check mypy "$python" -m mypy --strict torch_tile
else
  absent mypy
fi
check layers "$python" .ci/check_layers.py
check "lines of prose" "$python" .ci/check_prose.py
if [ -x "$llvm/bin/mlir-tblgen" ]; then
  check "generated docs" bash .ci/generate_docs.sh --check
else
  absent mlir-tblgen
fi

if [ ${#failed[@]} -gt 0 ]; then
  say "lint failed: $(IFS=,; echo "${failed[*]}")"
  exit 1
fi
say "lint passed"
