#!/usr/bin/env bash
# Installs what the project needs and nothing that is there already. `setup.sh lint` adds the formatters.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
torch_version=2.13.0
torch_oldest=2.11

# One stamp per interpreter and set of requirements: the second run returns here.
stamp=$build/.setup-$(printf '%s\n' "$python" "$llvm" "${1:-}" "$torch_version" "$(cat .ci/requirements.txt .ci/setup.sh)" | cksum | cut -d' ' -f1)
if [ -e "$stamp" ] && [ -x "$python" ]; then exit 0; fi

# --- system packages: asked for by what they provide, so a hand-installed LLVM or CMake counts ---
missing=()
need() { # need PACKAGE COMMAND...: PACKAGE is missing unless COMMAND succeeds
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
have() { command -v "$1"; }
header() { echo "#include <$1>" | "${CXX:-g++}" -E -x c++ -; }

need g++ have "${CXX:-g++}"
need cmake have cmake
need ninja-build have ninja
need ccache have ccache
need git have git
need llvm-22-dev test -x "$llvm/bin/llvm-config"
need llvm-22-tools test -x "$llvm/bin/FileCheck"
need libmlir-22-dev test -e "$llvm/lib/cmake/mlir/MLIRConfig.cmake"
need mlir-22-tools test -x "$llvm/bin/mlir-tblgen"
need lld-22 test -x "$llvm/bin/ld.lld"
need clang-22 test -x "$llvm/bin/clang" # builds the project, and GPU code for the CPU in tests
need libclang-rt-22-dev test -e "$llvm/lib/clang/22/lib/linux/libclang_rt.tsan-$(uname -m).a" # for a unit test
need zlib1g-dev header zlib.h
need libzstd-dev header zstd.h
need libgtest-dev header gtest/gtest.h
if [ ! -x "$python" ]; then
  need python3-venv python3 -c "import ensurepip, venv"
  need python3-dev python3 -c "import os, sysconfig; assert os.path.exists(sysconfig.get_path('include') + '/Python.h')"
fi
if [ "${1:-}" = lint ]; then
  need clang-format-22 have clang-format-22
  need clang-tidy-22 have clang-tidy-22
fi

if [ ${#missing[@]} -gt 0 ]; then
  command="apt-get install -y --no-install-recommends ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    die "missing, and this system has no apt-get: ${missing[*]}" \
      "install what these Debian packages hold; an LLVM elsewhere is named by TORCH_TILE_LLVM_DIR=/prefix"
  elif [ "$(id -u)" = 0 ]; then
    sudo=()
  elif sudo -n true 2>/dev/null; then
    sudo=(sudo -n env DEBIAN_FRONTEND=noninteractive)
  else
    die "these system packages are missing: ${missing[*]}" \
      "This user may not install packages. Ask an administrator to run:" "  sudo apt-get update" "  sudo $command"
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  mkdir -p "$build"
  log=$build/setup.log
  "${sudo[@]}" apt-get update -qq
  unknown=()
  for package in "${missing[@]}"; do
    # The question itself, answered by exit status: the text of apt-cache policy is translated, and a pipe may break.
    apt-get install --simulate --no-install-recommends -y "$package" >/dev/null 2>&1 || unknown+=("$package")
  done
  if [ ${#unknown[@]} -gt 0 ]; then
    # shellcheck disable=SC1091
    die "this system's package sources do not have: ${unknown[*]}" \
      "LLVM 22 comes with Debian's security updates; it can also be had from https://apt.llvm.org:" \
      "  deb http://apt.llvm.org/$(. /etc/os-release && echo "${VERSION_CODENAME:-unstable}")/ llvm-toolchain-$(. /etc/os-release && echo "${VERSION_CODENAME:-unstable}")-22 main" \
      "then: $command"
  fi
  "${sudo[@]}" $command >"$log" 2>&1 || die "$(tail -n 20 "$log")" "apt-get failed: the whole of its output is in $log"
fi

# --- Python ---
if [ ! -x "$python" ]; then
  # A torch that the system's Python already has is used rather than downloaded again.
  system=()
  if python3 -c "import torch" 2>/dev/null; then system=(--system-site-packages); fi
  say "making the virtual environment ${python%/bin/python}"
  python3 -m venv "${system[@]}" "${python%/bin/python}"
fi
"$python" - <<'PY' || die "make a virtual environment (python3 -m venv) and name its python with PYTHON=, or leave PYTHON out"
import os, sys, sysconfig
if sys.version_info < (3, 10):
    sys.exit(f"Python 3.10 or newer expected, got {sys.version.split()[0]} at {sys.executable}")
if sys.prefix == sys.base_prefix and os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")):
    sys.exit(f"{sys.executable} belongs to the system, which installs its packages itself")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    sys.exit(f"Python.h expected in {sysconfig.get_path('include')}: install python3-dev or the headers of this Python")
PY
# Errors are printed, warnings about one of several package indexes are not.
pip=("$python" -m pip --disable-pip-version-check --retries 2)
"$python" -m pip --version >/dev/null 2>&1 || die "$python has no pip; run: $python -m ensurepip"

torch_is_new_enough() {
  "$python" - "$torch_oldest" <<'PY'
import importlib.metadata, sys
try:
    have = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    sys.exit(1)
number = lambda text: tuple(int(part) for part in text.split("+")[0].split(".")[:2])
sys.exit(number(have) < number(sys.argv[1]))
PY
}
if ! torch_is_new_enough; then
  # PyTorch's index has CPU builds ("+cpu"), which sort above the plain ones and are a tenth of their size.
  cpu_builds=https://download.pytorch.org/whl/cpu
  indexes=()
  if timeout 5 "$python" -c "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=4)" \
    "$cpu_builds/torch/" >/dev/null 2>&1; then
    indexes=(--extra-index-url "$cpu_builds")
  fi
  say "installing torch $torch_version"
  "${pip[@]}" install -qq "torch==$torch_version" "${indexes[@]}"
fi
say "installing Python packages"
"${pip[@]}" install -qq -r .ci/requirements.txt
torch_is_new_enough || die "torch $torch_oldest or newer expected after installing the requirements"

mkdir -p "$build"
rm -f "$build"/.setup-*
touch "$stamp"
