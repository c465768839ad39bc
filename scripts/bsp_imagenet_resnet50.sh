#!/bin/bash
# ResNet-50 on ImageNet under BSP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 35 35 ib0 --preset mxnet-g-resnet-imagenet --depth 50 --kv-store dist_sync \
  --batch-size 40 --num-epochs 300 "$@"
