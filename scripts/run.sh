# shellcheck shell=bash
# Functions for the run scripts, which source this file. A run script works in the directory from which it is called: it
# looks for data/, hosts, groups and data_sharding there and makes runs/ there. DTRAIN names another program than the one
# in build/. If a flag is given twice, the last one counts, so flags given to a script override its own.
set -euo pipefail

scripts=$(dirname "${BASH_SOURCE[0]}")
program=$scripts/../build/cmd/dtrain
# In an unpacked package, and where dtrain is installed.
case $(realpath "$scripts") in */share/dtrain/scripts) program=$scripts/../../../bin/dtrain ;; esac
program=${DTRAIN:-$program}
if [ ! -x "$program" ]; then
  printf 'error [not found] %s does not exist: run scripts/quickstart, or name the program in DTRAIN\n' "$program" >&2
  exit 7
fi

# last_value 'NAME...' FLAGS...: prints the value of the last flag with one of these names (--gpus 0, --gpus=0, -n2);
# prints nothing if there is none.
last_value() {
  local names=$1 name value=''
  shift
  while [ $# -gt 0 ]; do
    for name in $names; do
      case $1 in
        "$name") value=${2:-} ;;
        "$name="*) value=${1#*=} ;;
        "$name"*) [ ${#name} -gt 2 ] || value=${1#"$name"} ;;
      esac
    done
    shift
  done
  printf '%s\n' "$value"
}

# dry_run FLAGS...: true if the flags say --dry-run.
dry_run() { [[ " $* " == *' --dry-run '* || " $* " == *' --dry-run=1 '* ]]; }

# usable_gpus: prints the number of GPUs of this host that the program can use.
usable_gpus() {
  local bin
  bin=$(dirname "$(realpath "$program")")
  if [ -e "$bin/dtrain_cuda.so" ] || [ -e "$bin/../lib/dtrain/dtrain_cuda.so" ] && command -v nvidia-smi >/dev/null; then
    { nvidia-smi -L 2>/dev/null || true; } | awk '/^GPU/ { n++ } END { print n + 0 }'
  else
    echo 0
  fi
}

# choose_devices FLAGS...: sets `devices` to the flags for a worker's devices and prints them. They are at most two GPUs,
# as in all of MXNet-G's scripts, or else the CPU. The CPU needs no flag, so a host file may still name GPUs. Devices that
# FLAGS name are not changed.
choose_devices() {
  local gpus
  devices=()
  if [ -n "$(last_value '--gpus --gpu --cpus' "$@")" ]; then
    echo "devices: as given"
    return
  fi
  gpus=$(usable_gpus)
  if [ "$gpus" = 0 ]; then
    echo "devices: the CPU (this host has no GPU that dtrain can use; --gpus 0,1 names GPUs of the workers' hosts)"
  else
    if [ "$gpus" = 1 ]; then devices=(--gpus 0); else devices=(--gpus "0,1"); fi
    echo "devices: GPUs ${devices[1]} of each worker's host"
  fi
}

# place_on_hosts W S INTERFACE FLAGS...: sets `job` to the flags of a job with W workers and S servers. The job runs over
# ssh on the hosts of the file `hosts` and uses this network interface. With --launcher local it runs on this host and
# needs neither.
place_on_hosts() {
  local workers=$1 servers=$2 place=(--launcher ssh -H hosts -i "$3") launcher
  shift 3
  launcher=$(last_value --launcher "$@")
  [ "${launcher:-ssh}" = ssh ] || place=()
  choose_devices "$@"
  job=("${place[@]}" -n "$workers" -s "$servers" "${devices[@]}" "$@")
}

# run_on_hosts W S INTERFACE FLAGS...: runs that job. Like all of MXNet-G's scripts, it records when each accuracy was
# reached.
run_on_hosts() {
  place_on_hosts "${@:1:3}" --log-time-to 0.1 "${@:4}"
  exec "$program" "${job[@]}"
}

# run_here FLAGS...: runs dtrain with these flags on this host.
run_here() {
  choose_devices "$@"
  exec "$program" "${devices[@]}" "$@"
}

# run_mnist_lenet RATE FLAGS...: trains LeNet on MNIST with 2 workers and 2 servers on this host, batch 64, for 10 epochs,
# from epoch 8 on with a tenth of the learning rate. RATE is 0.05, or 0.05/W for schemes in which each worker's gradient is
# an update of its own.
run_mnist_lenet() {
  local rate=$1 workers steps=(--lr-step-epochs 8)
  shift
  if [ "$rate" = 0.05/W ]; then
    workers=$(last_value '-n --num-workers' "$@")
    rate=$(awk -v w="${workers:-2}" 'BEGIN { print 0.05 / (w > 0 ? w : 1) }')
  fi
  # --lr-factor takes either epochs or a list of steps: if the user gives epochs, this script's steps are dropped.
  [ -z "$(last_value --lr-factor-epoch "$@")" ] || steps=()
  run_here --preset mnist --network lenet -n 2 -s 2 --launcher local --batch-size 64 --num-epochs 10 \
    --lr "$rate" --lr-factor 0.1 "${steps[@]}" "$@"
}
