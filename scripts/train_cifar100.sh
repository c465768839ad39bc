#!/bin/bash
# ResNet-110 on CIFAR-100, as cifar10; MXNet has none, in one process on this host.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_here --preset cifar100 "$@"
