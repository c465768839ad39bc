#!/bin/bash
# ResNet-50 on ImageNet, with the defaults of MXNet 1.x's train_imagenet.py, in one process on this host.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_here --preset imagenet "$@"
