#!/bin/bash
# inception-bn-28-small on CIFAR-10, bulk synchronous, as MXNet-G's script of this name: 12 workers and 12 servers, batch
# 45, lr 0.1, times 0.94 after every epoch, 1 epoch. Flags given to this script win.
#
# Its 12 hosts need the ssh launcher, which this version does not have. On this host:
#   scripts/bsp_cifar10_inception_small.sh -n 2 -s 2 --launcher local
# --data-dir is a folder with train.rec and test.rec; README.md says how `dtrain im2rec` makes them.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case " $* " in
  *' --launcher local '* | *' --launcher=local '*) ;;
  *)
    echo "error [usage] the 12 hosts of this script come with '--launcher ssh -H FILE', which this version cannot do yet;" >&2
    echo "  on this host: scripts/bsp_cifar10_inception_small.sh -n 2 -s 2 --launcher local" >&2
    exit 2
    ;;
esac
echo "device: the CPU (this version has no other)"
exec "$(dtrain_program)" --preset mxnet-g-cifar10 --network inception-bn-28-small -n 12 -s 12 --kv-store dist_sync \
  --data-dir data/cifar10 --batch-size 45 --lr 0.1 --lr-factor 0.94 --num-epochs 1 "$@"
