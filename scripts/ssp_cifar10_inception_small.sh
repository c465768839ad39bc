#!/bin/bash
# Inception-BN-28-small on CIFAR-10 under SSP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 12 12 ib0 --preset mxnet-g-cifar10 --kv-store dist_ssync \
  --batch-size 45 --lr 0.1 --lr-factor 0.94 --num-epochs 1 --staleness 1 "$@"
