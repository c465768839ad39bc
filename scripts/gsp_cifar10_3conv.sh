#!/bin/bash
# 3conv on CIFAR-10 under GSP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 40 40 ib0 --preset mxnet-g-cifar10 --network 3conv --kv-store dist_gsync \
  --batch-size 5 --lr 0.001 --lr-factor 0.94 --num-epochs 5 "$@"
