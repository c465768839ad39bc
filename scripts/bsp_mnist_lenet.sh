#!/bin/bash
# LeNet on MNIST, bulk synchronous: 2 workers and 2 servers on this host, batch 64, 10 epochs, lr 0.05, a tenth of it
# from epoch 8 on. Flags given to this script win: scripts/bsp_mnist_lenet.sh --data-dir /data/mnist --num-epochs 2
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The two companions of --lr-factor exclude each other: one that is given replaces this script's.
case " $* " in
  *' --lr-factor-epoch'*) steps=() ;;
  *) steps=(--lr-step-epochs 8) ;;
esac
exec "$(dtrain_program)" --preset mnist --network lenet -n 2 -s 2 --launcher local --kv-store dist_sync \
  --data-dir data/mnist --batch-size 64 --lr 0.05 --lr-factor 0.1 "${steps[@]}" --num-epochs 10 "$@"
