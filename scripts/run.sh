# shellcheck shell=bash
# What the run scripts share; sourced by them. They work in the folder that they are called from: data/, hosts, groups
# and data_sharding are looked for there, and runs/ is made there. DTRAIN names another program than that of the build
# beside them. Of a flag given twice the last one wins, so that flags given to a script win over its own.
set -euo pipefail

program=${DTRAIN:-$(dirname "${BASH_SOURCE[0]}")/../build/cmd/dtrain}
if [ ! -x "$program" ]; then
  printf 'error [not found] %s is not there: run scripts/quickstart, or name the program in DTRAIN\n' "$program" >&2
  exit 7
fi

# last_value 'NAME...' FLAGS...: what the last flag of these names has behind it (--gpus 0, --gpus=0, -n2); nothing if
# none is there.
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

# dry_run FLAGS...: whether nothing is to run.
dry_run() { [[ " $* " == *' --dry-run '* || " $* " == *' --dry-run=1 '* ]]; }

# usable_gpus: how many this host has that the program can use.
usable_gpus() {
  if [ -e "$(dirname "$program")/dtrain_cuda.so" ] && command -v nvidia-smi >/dev/null; then
    { nvidia-smi -L 2>/dev/null || true; } | awk '/^GPU/ { n++ } END { print n + 0 }'
  else
    echo 0
  fi
}

# choose_devices FLAGS...: sets `devices` to the flags for a worker's devices, and says which. GPUs if there are any, two
# at most, as in all of MXNet-G's scripts; else the CPU, which needs no flag: a host file may still name GPUs. What is
# given by hand stays as it is.
choose_devices() {
  local gpus
  devices=()
  if [ -n "$(last_value '--gpus --gpu --cpus' "$@")" ]; then
    echo "devices: as given"
    return
  fi
  gpus=$(usable_gpus)
  if [ "$gpus" = 0 ]; then
    echo "devices: the CPU (this host has no GPU that dtrain can use; --gpus 0,1 names those of a worker's host)"
  else
    if [ "$gpus" = 1 ]; then devices=(--gpus 0); else devices=(--gpus "0,1"); fi
    echo "devices: GPUs ${devices[1]} of each worker's host"
  fi
}

# place_on_hosts W S INTERFACE FLAGS...: sets `job` to the flags of a job on the hosts of the file `hosts`, started by
# ssh, that talk over this interface. With --launcher local it is a job on this host, which has neither.
place_on_hosts() {
  local workers=$1 servers=$2 place=(--launcher ssh -H hosts -i "$3") launcher
  shift 3
  launcher=$(last_value --launcher "$@")
  [ "${launcher:-ssh}" = ssh ] || place=()
  choose_devices "$@"
  job=("${place[@]}" -n "$workers" -s "$servers" "${devices[@]}" "$@")
}

# run_on_hosts W S INTERFACE FLAGS...: runs that job. MXNet-G's scripts all write down when which accuracy was reached.
run_on_hosts() {
  place_on_hosts "${@:1:3}" --log-time-to 0.1 "${@:4}"
  exec "$program" "${job[@]}"
}

# run_here FLAGS...: runs on this host.
run_here() {
  choose_devices "$@"
  exec "$program" "${devices[@]}" "$@"
}

# run_mnist_lenet RATE FLAGS...: LeNet on MNIST with 2 workers and 2 servers on this host, batch 64, 10 epochs, a tenth
# of the rate from epoch 8 on. RATE: 0.05, or 0.05/W where each worker's gradient is an update of its own.
run_mnist_lenet() {
  local rate=$1 workers steps=(--lr-step-epochs 8)
  shift
  if [ "$rate" = 0.05/W ]; then
    workers=$(last_value '-n --num-workers' "$@")
    rate=$(awk -v w="${workers:-2}" 'BEGIN { print 0.05 / (w > 0 ? w : 1) }')
  fi
  # The two companions of --lr-factor exclude each other: one that is given replaces this script's.
  [ -z "$(last_value --lr-factor-epoch "$@")" ] || steps=()
  run_here --preset mnist --network lenet -n 2 -s 2 --launcher local --batch-size 64 --num-epochs 10 \
    --lr "$rate" --lr-factor 0.1 "${steps[@]}" "$@"
}
