#!/bin/bash
# ResNet-20 on CIFAR-10 under GSP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 5 5 eth1 --preset mxnet-g-resnet-cifar10 --depth 20 --kv-store dist_gsync \
  --batch-size 25 --lr 0.05 --num-epochs 1 --savemodel "$@"
