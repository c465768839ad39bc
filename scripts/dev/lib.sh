# shellcheck shell=bash
# Functions that the scripts share. Scripts source this file, which changes into the project's directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# All clones can use the same compiler cache, because only the directory's name differs in their compiler commands and sources.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD

note() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# system_name: prints the name of this system, such as "Debian GNU/Linux 12 (bookworm)".
system_name() {
  # shellcheck source=/dev/null
  (. "${DPKG_ROOT:-}/etc/os-release" 2>/dev/null && echo "${PRETTY_NAME:-}") || echo "an unknown system"
}

# release: prints the release of Debian whose packages dtrain is tested with, 12 or 13; on another system the one that is next
# to it.
release() {
  (
    # shellcheck source=/dev/null
    . "${DPKG_ROOT:-}/etc/os-release" 2>/dev/null || true
    if [ "${ID:-}" = debian ] && [ "${VERSION_ID:-13}" -le 12 ]; then echo 12; else echo 13; fi
  )
}

# configure DIR [MESON OPTION...]: makes the build directory, or sets these options of an existing one and brings it up to
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

# show_progress LOG: copies ninja's output, in which each line begins with "DONE/ALL ", to the log, and says how far the build
# is: all the time on a terminal, otherwise after each tenth of a build that takes longer than half a minute.
show_progress() {
  local line done_files all tenth=0 started=$SECONDS said=$SECONDS
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    [[ $line =~ ^([0-9]+)/([0-9]+)\  ]] || continue
    done_files=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    if [ -t 1 ]; then
      printf '\r== built %d of %d files, %d:%02d minutes ' "$done_files" "$all" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
    elif [ $((10 * done_files / all)) -gt "$tenth" ] && [ $((SECONDS - said)) -ge 30 ]; then
      tenth=$((10 * done_files / all)) said=$SECONDS
      note "built $done_files of $all files after $(minutes_since "$started") minutes"
    fi
  done
  if [ -t 1 ]; then printf '\r\033[K'; fi
}

# compile DIR [TARGET...]: builds, and says how far it is. If the build fails, prints the compiler's errors.
compile() {
  local dir=$1 log=$1/compile.log
  shift
  : >"$log"
  if ! NINJA_STATUS='%f/%t ' ninja -C "$dir" "$@" 2>&1 | show_progress "$log"; then
    grep -E -A 12 'FAILED|error:|ERROR' "$log" | head -n 60 || tail -n 40 "$log"
    return 1
  fi
}

# targets_of DIR TEST...: prints the files that these tests need built. Fails if meson does not know one of the tests.
targets_of() {
  meson introspect "$1" --tests --targets | python3 -c '
import json, os, sys
known, build = json.load(sys.stdin), os.path.realpath(sys.argv[1])
def within(file):  # a target may be a link to a file that is not in the build
    return os.path.relpath(os.path.join(os.path.realpath(os.path.dirname(file)), os.path.basename(file)), build)
targets = {target["id"]: target["filename"] for target in known["targets"]}
tests = {test["name"]: test for test in known["tests"]}
files = set()
for name in sys.argv[2:]:
    for target in tests[name]["depends"]:
        files.update(within(file) for file in targets[target])
print(*sorted(files))' "$@"
}

# targets_without DIR TEST...: prints all files that are built by default or that a test needs, except for those that only
# these tests need.
targets_without() {
  meson introspect "$1" --tests --targets | python3 -c '
import json, os, sys
known, build, left_out = json.load(sys.stdin), os.path.realpath(sys.argv[1]), set(sys.argv[2:])
def within(file):  # a target may be a link to a file that is not in the build
    return os.path.relpath(os.path.join(os.path.realpath(os.path.dirname(file)), os.path.basename(file)), build)
needed = {target for test in known["tests"] if test["name"] not in left_out for target in test["depends"]}
without = {target for test in known["tests"] if test["name"] in left_out for target in test["depends"]} - needed
for target in known["targets"]:
    if target["id"] in needed or target["build_by_default"] and target["id"] not in without:
        print(*map(within, target["filename"]))' "$@"
}

# names_in_rooms DIR ROOM...: of the tests on standard input, one in a line, prints those whose program or script lies in
# the directory test/ROOM of one of these rooms.
names_in_rooms() {
  # The names go to python as arguments, because its standard input is what meson prints.
  local names
  mapfile -t names
  meson introspect "$1" --tests | python3 -c '
import json, os, sys
build, end = os.path.realpath(sys.argv[1]), sys.argv.index("--")
rooms, names = set(sys.argv[2:end]), sys.argv[end + 1:]
def room(command):
    for word in command:
        for root in (build, os.getcwd()):
            path = os.path.relpath(os.path.realpath(word), root).split(os.sep)
            if path[0] == "test" and len(path) > 2:
                return path[1]
known = {test["name"]: room(test["cmd"]) for test in json.load(sys.stdin)}
print(*(name for name in names if known.get(name) in rooms), sep="\n")' "$@" -- "${names[@]}"
}

# make_headers DIR: makes the headers that the build generates, which tools that parse the sources need.
make_headers() {
  ninja -C "$1" -t targets all 2>/dev/null | sed -n 's/^\(proto\/[^:]*\.pb\.h\):.*/\1/p' | xargs -r ninja -C "$1" >/dev/null
}

# configure_style: makes build-style, in which nothing is compiled: compile_commands.json there has a command for each file,
# and the headers that the build generates, for tools that parse the sources.
configure_style() {
  [ -f build-style/compile_commands.json ] || configure build-style -Dunity=off -Dwarning_level=2
  make_headers build-style
}

# minutes SECONDS: prints the seconds in minutes, such as "1.5".
minutes() { awk -v s="$1" 'BEGIN { printf "%.1f", s / 60 }'; }

# minutes_since START: prints the minutes since the shell's variable SECONDS was START.
minutes_since() { minutes $((SECONDS - $1)); }
