#!/bin/bash
# ResNet-164 on CIFAR-10 under SSP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 34 34 ib0 --preset mxnet-g-resnet-cifar10 --depth 164 --kv-store dist_ssync \
  --batch-size 20 --num-epochs 300 --staleness 0 "$@"
