#!/bin/bash
# ResNet-164 on CIFAR-10 under BSP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 37 37 ib0 --preset mxnet-g-resnet-cifar10 --depth 164 --kv-store dist_sync \
  --batch-size 20 --num-epochs 300 "$@"
