#!/bin/bash
# LeNet on MNIST under BSP, with 2 workers and 2 servers on this host.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_mnist_lenet 0.05 --kv-store dist_sync "$@"
