#!/bin/bash
# LeNet on MNIST under GSP, with 2 servers and 2 workers on this host. The file groups has the groups; without it each
# worker is a group. If `dtrain plan` has written groups and data_sharding, there are as many workers as these files have.
source "$(dirname "${BASH_SOURCE[0]}")/run.sh"
workers=()
if [ -f groups ] && [ -f data_sharding ] && [ -z "$(last_value '-n --num-workers --groups-file' "$@")" ]; then
  workers=(-n "$(grep -cvE '^[[:space:]]*(#|$)' data_sharding)")
  echo "workers: ${workers[1]}, as in the file data_sharding"
fi
run_mnist_lenet 0.05 --kv-store dist_gsync --ungrouped own "${workers[@]}" "$@"
