# Sourced by the scripts beside it: where the project is, which Python runs it, where LLVM is.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

if [ -n "${PYTHON:-}" ]; then
  python=$(command -v "$PYTHON") || { echo "PYTHON=$PYTHON: no such program" >&2; exit 1; }
elif [ -n "${VIRTUAL_ENV:-}" ]; then
  python=$VIRTUAL_ENV/bin/python
else
  python=$root/.venv/bin/python
fi

build=${TORCH_TILE_BUILD_DIR:-$root/build}
llvm=${TORCH_TILE_LLVM_DIR:-/usr/lib/llvm-22}
jobs=${JOBS:-$(nproc)}

# Objects are shared between checkouts, whatever their path.
# The second line lets it serve files that use precompiled headers, and reads those (0.7 GB) once, not for each file.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-10G}
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros} CCACHE_INODECACHE=${CCACHE_INODECACHE:-1}

# What compiles the project, and nothing else: programs that it starts (Inductor, tests) keep the caller's CC and CXX.
# LLVM's clang, which tests need too, reads precompiled headers of MLIR in a fraction of a second, GCC takes as long as for
# the headers themselves: a fresh build takes half the time. CC and CXX name another compiler.
cc=${CC:-cc} cxx=${CXX:-c++}
if [ -z "${CC:-}${CXX:-}" ] && [ -x "$llvm/bin/clang++" ]; then cc=$llvm/bin/clang cxx=$llvm/bin/clang++; fi
export CCACHE_PCH_EXTSUM=${CCACHE_PCH_EXTSUM:-1}

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s\n' "$@" >&2; exit 1; }
