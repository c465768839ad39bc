#!/bin/bash
# mlp on MNIST, with the defaults of MXNet 1.x's train_mnist.py, in one process on this host.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_here --preset mnist "$@"
