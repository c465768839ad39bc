#!/bin/bash
# ResNet-110 on CIFAR-10, with the defaults of MXNet 1.x's train_cifar10.py, in one process on this host.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_here --preset cifar10 "$@"
