#!/bin/bash
# Inception-BN on ImageNet under BSP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 1 1 ib0 --preset mxnet-g-imagenet --kv-store dist_sync \
  --batch-size 30 --lr 0.5 --lr-factor 0.98 --num-epochs 200 "$@"
