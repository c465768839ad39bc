#!/bin/bash
# DFN-MR ("cross") on CIFAR-100 under ASP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 37 35 ib0 --preset mxnet-g-cifar100 --network cross --kv-store dist_async \
  --batch-size 20 --lr 0.1 --lr-factor 0.94 --num-epochs 200 "$@"
