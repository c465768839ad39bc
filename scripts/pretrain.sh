#!/bin/bash
# Measures the workers' speeds with the flags of MXNet-G's script of this name and writes the files groups and
# data_sharding for the gsp_ scripts; see docs/mxnet.md. It measures some batches only; pretrain_1epoch.sh takes a whole epoch.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
place_on_hosts 10 10 ib0 --preset mxnet-g-cifar10 --kv-store dist_async \
  --batch-size 25 --lr 0.1 --lr-factor 0.94 --num-epochs 1 "$@"
exec "$program" plan "${job[@]}"
