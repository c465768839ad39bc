#!/bin/bash
# LeNet on MNIST under SSP, at most 3 steps apart, with 2 workers and 2 servers on this host.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
run_mnist_lenet 0.05/W --kv-store dist_ssync --staleness 3 "$@"
