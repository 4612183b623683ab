#!/usr/bin/env bash
# fresh.sh [setup|changed]: `make demo` and `make test` on bare Debian systems, as somebody who has just cloned the
# project runs them. `setup`: only the set-up that both begin with. `changed`: the set-up, unless it has passed on this
# machine with the same scripts, requirements and build files. Needs root, debootstrap and mounts; without them it
# prints the reason and stops with status 0 (1 with FRESH_REQUIRED=1).
#
#   plain    no language settings; root installs, after a user without sudo was told what to ask for
#   german   German messages; a user with sudo installs
#
# A system holds make, git and ca-certificates (and sudo), the committed state of this checkout, and this machine's
# package sources and settings of pip. It lies in build/fresh, or where FRESH_DIR says, and is removed at the end.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
part=${1:-all}
case $part in setup | changed | all) ;; *) die "usage: fresh.sh [setup|changed]" ;; esac
work=${FRESH_DIR:-$build/fresh}
suite=bookworm

skip() {
  echo "fresh systems not tried: $*"
  exit "${FRESH_REQUIRED:-0}"
}
# Passes are remembered by content: a fresh clone has no history that says what the previous run saw.
passed=${XDG_CACHE_HOME:-$HOME/.cache}/torch-tile/fresh-$(git ls-files -s -- .ci Makefile pyproject.toml CMakeLists.txt \
  cmake 'csrc/*CMakeLists.txt' | sha256sum | cut -c1-16)
if [ "$part" = changed ]; then
  if [ -e "$passed" ]; then
    echo "fresh systems not tried: set-up has passed on them with these files"
    exit 0
  fi
  part=setup
fi

[ "$(id -u)" = 0 ] || skip "making one needs root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed (apt-get install debootstrap)"
# Mounts of an own namespace end with this process, however it ends: nothing that removes a system meets them.
if [ -z "${FRESH_NAMESPACE:-}" ]; then
  unshare --mount --propagation private true 2>/dev/null || skip "this machine allows no mount namespaces"
  export FRESH_NAMESPACE=1
  exec unshare --mount --propagation private bash "${BASH_SOURCE[0]}" "$@"
fi
[ -z "$(git status --porcelain)" ] || echo "note: changes that are not committed are not in the fresh systems"

mkdir -p "$work/archives/partial" "$work/ccache"
times=()
timed() { # timed NAME COMMAND...: runs it and keeps how long it took
  local name=$1 start=$SECONDS
  shift
  say "$name"
  "$@" || die "fresh systems: '$name' failed"
  times+=("$(printf '%-48s %3d min %02d s' "$name" $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60)))")
}

# --- the bare system, kept as an archive ---
make_base() {
  local base=$work/base-$suite.tar mirror keyring
  if [ -e "$base" ]; then return; fi
  # The address that this machine's apt has for the suite.
  mirror=$(apt-get indextargets --format '$(CODENAME) $(LABEL) $(REPO_URI)' 2>/dev/null |
    awk -v suite=$suite '$1 == suite && $2 == "Debian" && !found { print $3; found = 1 }')
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  debootstrap --variant=minbase --include=make,git,ca-certificates ${keyring:+--keyring="$keyring"} \
    $suite "$work/base" "${mirror:-http://deb.debian.org/debian}" >"$work/debootstrap.log" 2>&1 ||
    skip "debootstrap failed: $(tail -n 3 "$work/debootstrap.log")"
  tar -C "$work/base" --one-file-system -cf "$base.partial" .
  mv "$base.partial" "$base"
  rm -rf --one-file-system "$work/base"
}

# copy_outside FILE...: files and folders of this machine, at the same place in the system.
copy_outside() {
  local path
  for path in "$@"; do
    [ -e "$path" ] || continue
    mkdir -p "$system$(dirname "$path")"
    cp -aL "$path" "$system$(dirname "$path")/"
  done
}

take_apt_settings() {
  rm -rf "$system"/etc/apt/sources.list "$system"/etc/apt/sources.list.d
  copy_outside /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/trusted.gpg /etc/apt/trusted.gpg.d \
    /etc/apt/keyrings /etc/apt/auth.conf /etc/apt/auth.conf.d
  # shellcheck disable=SC2046
  copy_outside $(sed -n 's/^Signed-By: *//p; s/.*signed-by=\([^] ]*\).*/\1/p' /etc/apt/sources.list \
    /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null | sort -u)
  # Proxies, certificates and time-outs; not what this machine does after an installation.
  apt-config dump | sed -n '/^Acquire::\(http\|https\|ftp\|Check\|Retries\)/p' >"$system/etc/apt/apt.conf.d/90outside"
}

# Settings of pip go into one file; the files and indexes on this machine's disk that they name come along.
take_pip_settings() {
  local entry name value word words
  echo "[global]" >"$system/etc/pip.conf"
  while IFS= read -r entry; do
    name=${entry%%=*} value=${entry#*=}
    name=${name##*.} value=${value:1:-1}
    words=()
    for word in $(printf '%b' "$value"); do
      case $word in
      file:///* | /*)
        local path=${word#file://}
        case $name in
        cert | client-cert | constraint | requirement)
          mkdir -p "$system/etc/pip"
          cp -L "$path" "$system/etc/pip/"
          word=/etc/pip/$(basename "$path")
          ;;
        *) # a package index: seen, not copied
          path=${path%/simple*}
          if [ -d "$path" ]; then
            mkdir -p "$system$path"
            mount --bind "$path" "$system$path"
            mount -o remount,bind,ro "$system$path"
          fi
          ;;
        esac
        ;;
      esac
      words+=("$word")
    done
    case $name in
    cert | client-cert | constraint | requirement | proxy | index-url | extra-index-url | find-links | trusted-host | \
      no-index | timeout | default-timeout | retries) echo "$name = ${words[*]}" >>"$system/etc/pip.conf" ;;
    esac
  done < <(python3 -m pip config list 2>/dev/null | sort -t. -k2 | awk -F'[.=]' '!seen[$2]++')
}

open_system() { # open_system NAME: an unpacked system, mounted; its path is in $system
  system=$work/$1
  rm -rf --one-file-system "$system"
  mkdir -p "$system"
  tar -C "$system" -xf "$work/base-$suite.tar"
  mount --bind "$system" "$system" # so that chroot meets a mount point
  mount -t proc proc "$system/proc"
  mount --rbind /sys "$system/sys"
  mount --rbind /dev "$system/dev"
  copy_outside /etc/resolv.conf /etc/hosts
  take_apt_settings
  take_pip_settings
  # Packages are downloaded once for all systems.
  mkdir -p "$system/var/cache/apt/archives" "$system/ccache"
  mount --bind "$work/archives" "$system/var/cache/apt/archives"
  mount --bind "$work/ccache" "$system/ccache"
  chmod 777 "$work/ccache"
}

close_system() {
  umount -R "$system"
  rm -rf --one-file-system "$system"
}

outside=()
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY JOBS CI; do
  if [ -n "${!name:-}" ]; then outside+=("$name=${!name}"); fi
done
inside() { # inside USER [NAME=VALUE...] COMMAND: in the user's clone, with nothing of this environment
  local user=$1 home
  shift
  home=$(chroot "$system" getent passwd "$user" | cut -d: -f6)
  local settings=(HOME="$home" USER="$user" CCACHE_DIR=/ccache CCACHE_UMASK=000 "${language[@]}" "${outside[@]}"
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  # shellcheck disable=SC2016
  env -i "${settings[@]}" chroot --userspec="$user" "$system" /bin/sh -c 'cd "$HOME/torch-tile" && eval "$1"' sh "$1"
}
clone_for() { # clone_for USER
  local home
  home=$(chroot "$system" getent passwd "$1" | cut -d: -f6)
  rm -rf --one-file-system "$system$home/torch-tile"
  git clone --quiet --depth 1 "file://$root" "$system$home/torch-tile"
  chroot "$system" chown -R "$1:" "$home/torch-tile"
}
commands() { # commands USER: what the README says, or what it begins with
  if [ "$part" = setup ]; then
    timed "$variant: make setup, as $1" inside "$1" "make setup"
  else
    timed "$variant: make demo, as $1" inside "$1" "make demo"
    timed "$variant: make test, as $1" inside "$1" "make test"
  fi
}

is_told_what_is_missing() {
  local text
  if text=$(inside stranger "make setup" 2>&1); then
    echo "$text"
    die "set-up expected to stop for a user who may not install packages"
  fi
  [[ $text = *"Ask an administrator to run:"*"apt-get install"*"llvm-22-dev"* ]] || die "no such message in:" "$text"
}

say "a bare $suite"
make_base

variant=plain language=(LC_ALL=C)
open_system plain
chroot "$system" useradd --create-home --shell /bin/sh stranger
clone_for stranger
timed "plain: a user without sudo is told what is missing" is_told_what_is_missing
clone_for root
rm -rf "$work"/ccache/*
commands root
# With the packages there, that user needs nobody.
timed "plain: make setup, as stranger" inside stranger "make setup"
close_system

variant=german language=(LANG=de_DE.UTF-8)
open_system german
chroot "$system" sh -c "apt-get update && apt-get install -y --no-install-recommends sudo locales &&
  localedef -i de_DE -f UTF-8 de_DE.UTF-8" >"$work/german.log" 2>&1 || die "preparing failed: $(tail -n 3 "$work/german.log")"
chroot "$system" useradd --create-home --shell /bin/sh stranger
echo "stranger ALL=(ALL) NOPASSWD: ALL" >"$system/etc/sudoers.d/stranger"
clone_for stranger
commands stranger
close_system

mkdir -p "$(dirname "$passed")"
touch "$passed"
say "passed on fresh systems"
printf '  %s\n' "${times[@]}"
