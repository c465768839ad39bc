#!/bin/bash
# ResNet-110 on CIFAR-100, in one process on this host. MXNet has no such script; the defaults are those for CIFAR-10.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_here --preset cifar100 "$@"
