#!/bin/bash
# ResNet-34 on ImageNet under BSP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 5 5 eth1 --preset mxnet-g-resnet-imagenet --depth 34 --kv-store dist_sync \
  --batch-size 25 --num-epochs 1 "$@"
