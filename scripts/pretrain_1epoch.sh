#!/bin/bash
# The epoch under ASP from which MXNet-G's pretrain.sh takes the workers' speeds, and then the files groups and
# data_sharding from its logs; see README.md. pretrain.sh needs some batches for the same.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
# The epoch's own directory is made anew each time; another one is the user's.
again=()
[ -n "$(last_value '--run-dir --log-dir' "$@")" ] || again=(--overwrite)
place_on_hosts 10 10 ib0 --preset mxnet-g-cifar10 --kv-store dist_async \
  --batch-size 25 --lr 0.1 --lr-factor 0.94 --num-epochs 1 --run-dir runs/pretrain "${again[@]}" "$@"
dry_run "$@" && exec "$program" "${job[@]}"
"$program" "${job[@]}"
run_dir=$(last_value '--run-dir --log-dir' "${job[@]}")
exec "$program" plan --from-log "$run_dir" "${job[@]}"
