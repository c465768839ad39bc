#!/bin/bash
# LeNet on MNIST, GSP: the groups of the file groups, else one a worker; 2 servers and 2 workers on this host, or as many
# workers as `dtrain plan` has written groups and data_sharding for.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
workers=()
if [ -f groups ] && [ -f data_sharding ] && [ -z "$(last_value '-n --num-workers --groups-file' "$@")" ]; then
  workers=(-n "$(grep -cvE '^[[:space:]]*(#|$)' data_sharding)")
  echo "workers: ${workers[1]}, as in the file data_sharding"
fi
run_mnist_lenet 0.05 --kv-store dist_gsync --ungrouped own "${workers[@]}" "$@"
