#!/bin/bash
# Inception-BN-28-small on CIFAR-10 under ASP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 12 12 eth1 --preset mxnet-g-cifar10 --kv-store dist_async \
  --batch-size 45 --lr 0.1 --lr-factor 0.94 --num-epochs 1 "$@"
