#!/bin/bash
# ResNet-50 on ImageNet under ASP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 37 37 ib0 --preset mxnet-g-resnet-imagenet --depth 50 --kv-store dist_async \
  --batch-size 30 --num-epochs 300 "$@"
