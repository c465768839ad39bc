# shellcheck shell=bash
# Functions that the scripts share. Scripts source this file, which changes into the project's folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# All clones can use the same compiler cache, because only the folder's name differs in their compiler commands and sources.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD

note() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# configure DIR [MESON OPTION...]: makes the build folder, or sets these options of an existing one and brings it up to
# date with the meson.build files.
configure() {
  local dir=$1 log
  shift
  log=$(mktemp)
  if [ ! -f "$dir/build.ninja" ]; then
    meson setup "$dir" "$@" >"$log" 2>&1 || { cat "$log"; rm -f "$log"; return 1; }
  elif [ $# -gt 0 ]; then
    { meson configure "$dir" "$@" && ninja -C "$dir" build.ninja; } >"$log" 2>&1 || { cat "$log"; rm -f "$log"; return 1; }
  fi
  rm -f "$log"
}

# compile DIR [TARGET...]: builds and prints nothing. If the build fails, prints the compiler's errors.
compile() {
  local dir=$1 log=$1/compile.log
  shift
  if ! ninja -C "$dir" "$@" >"$log" 2>&1; then
    grep -E -A 12 'FAILED|error:|ERROR' "$log" | head -n 60 || tail -n 40 "$log"
    return 1
  fi
}

# targets_of DIR TEST...: prints the files that these tests need built. Fails if meson does not know one of the tests.
targets_of() {
  meson introspect "$1" --tests --targets | python3 -c '
import json, os, sys
known, build = json.load(sys.stdin), os.path.realpath(sys.argv[1])
targets = {target["id"]: target["filename"] for target in known["targets"]}
tests = {test["name"]: test for test in known["tests"]}
files = set()
for name in sys.argv[2:]:
    for target in tests[name]["depends"]:
        files.update(os.path.relpath(os.path.realpath(file), build) for file in targets[target])
print(*sorted(files))' "$@"
}

# make_headers DIR: makes the headers that the build generates, which tools that parse the sources need.
make_headers() {
  ninja -C "$1" -t targets all 2>/dev/null | sed -n 's/^\(proto\/[^:]*\.pb\.h\):.*/\1/p' | xargs -r ninja -C "$1" >/dev/null
}

# configure_style: makes build-style, in which nothing is compiled: compile_commands.json there has a command for each file,
# and the headers that the build generates, for tools that parse the sources.
configure_style() {
  [ -f build-style/compile_commands.json ] || configure build-style -Dunity=off
  make_headers build-style
}

# minutes SECONDS: prints the seconds in minutes, such as "1.5".
minutes() { awk -v s="$1" 'BEGIN { printf "%.1f", s / 60 }'; }

# minutes_since START: prints the minutes since the shell's variable SECONDS was START.
minutes_since() { minutes $((SECONDS - $1)); }
