#!/bin/bash
# Inception-BN-28-small on CIFAR-10 under GSP, with the flags of MXNet-G's script of this name; see
# docs/mxnet.md. First `dtrain plan` measures the workers and writes the files groups and data_sharding, then the job runs.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
place_on_hosts 10 10 eth1 --preset mxnet-g-cifar10 --kv-store dist_gsync \
  --batch-size 45 --lr 0.1 --lr-factor 0.94 --num-epochs 1 --data-allocator 1 --log-time-to 0.1 "$@"
dry_run "$@" || "$program" plan "${job[@]}"
exec "$program" "${job[@]}"
