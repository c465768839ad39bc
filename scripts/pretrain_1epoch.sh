#!/bin/bash
# Trains the epoch under ASP with which MXNet-G's pretrain.sh measures the workers, takes their speeds from its logs, and
# writes the files groups and data_sharding; see docs/mxnet.md. scripts/pretrain.sh measures some batches instead.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
# The script's own run directory is made again each time; one that the user names is not overwritten.
again=()
[ -n "$(last_value '--run-dir --log-dir' "$@")" ] || again=(--overwrite)
place_on_hosts 10 10 ib0 --preset mxnet-g-cifar10 --kv-store dist_async \
  --batch-size 25 --lr 0.1 --lr-factor 0.94 --num-epochs 1 --run-dir runs/pretrain "${again[@]}" "$@"
dry_run "$@" && exec "$program" "${job[@]}"
"$program" "${job[@]}"
run_dir=$(last_value '--run-dir --log-dir' "${job[@]}")
exec "$program" plan --from-log "$run_dir" "${job[@]}"
