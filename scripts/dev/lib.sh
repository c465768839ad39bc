# shellcheck shell=bash
# What the scripts share. Sourced by bash scripts; changes into the project's folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# What the compiler cache holds serves every clone: nothing else in a command depends on the folder.
export CCACHE_NOHASHDIR=1

note() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# configure DIR [MESON OPTION...]: makes the build folder, or gives an existing one these options.
configure() {
  local dir=$1 log
  shift
  log=$(mktemp)
  if [ ! -f "$dir/build.ninja" ]; then
    meson setup "$dir" "$@" >"$log" 2>&1 || { cat "$log"; rm -f "$log"; return 1; }
  elif [ $# -gt 0 ]; then
    meson configure "$dir" "$@" >"$log" 2>&1 || { cat "$log"; rm -f "$log"; return 1; }
  fi
  rm -f "$log"
}

# compile DIR [TARGET...]: quiet unless it fails; then the end of what the compiler said.
compile() {
  local dir=$1 log=$1/compile.log
  shift
  if ! ninja -C "$dir" "$@" >"$log" 2>&1; then
    grep -E -A 12 'FAILED|error:|ERROR' "$log" | head -n 60 || tail -n 40 "$log"
    return 1
  fi
}

# minutes SECONDS: "1.5".
minutes() { awk -v s="$1" 'BEGIN { printf "%.1f", s / 60 }'; }

# "1.5" minutes since SECONDS was $1.
minutes_since() { minutes $((SECONDS - $1)); }
