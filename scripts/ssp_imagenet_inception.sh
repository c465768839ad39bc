#!/bin/bash
# Inception-BN on ImageNet under SSP, with the flags of MXNet-G's script of this name; see docs/mxnet.md.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_on_hosts 37 37 ib0 --preset mxnet-g-imagenet --kv-store dist_ssync \
  --batch-size 30 --lr 0.5 --lr-factor 0.98 --num-epochs 200 --staleness 0 "$@"
