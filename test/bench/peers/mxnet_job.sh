#!/usr/bin/env bash
# Runs mxnet_lenet.py as a dist_sync job with 2 workers and 2 servers on this host, one compute thread per worker, and
# prints the job's samples/s.
#   PYTHON=/path/to/python test/bench/peers/mxnet_job.sh --data-dir DIR [--num-epochs N] ...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export DMLC_NUM_WORKER=2 DMLC_NUM_SERVER=2 DMLC_PS_ROOT_URI=127.0.0.1 DMLC_PS_ROOT_PORT=$((20000 + RANDOM % 10000))
export OMP_NUM_THREADS=1 MXNET_CPU_WORKER_NTHREADS=1
out=$(mktemp -d)
trap 'rm -rf "$out"; kill $(jobs -p) 2>/dev/null || true' EXIT
for role in scheduler server server; do
  DMLC_ROLE=$role "${PYTHON:-python3}" "$here/mxnet_lenet.py" --kv-store dist_sync "$@" > /dev/null 2>&1 &
done
for worker in 0 1; do
  DMLC_ROLE=worker "${PYTHON:-python3}" "$here/mxnet_lenet.py" --kv-store dist_sync "$@" > "$out/$worker" 2>&1 &
done
wait
grep -h 'Validation-accuracy\|Time cost' "$out/0" || true
cat "$out"/0 "$out"/1 | awk '/samples_per_s/ { total += $4 } END { printf "mxnet job samples_per_s %.1f\n", total }'
