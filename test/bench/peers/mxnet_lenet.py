"""The LeNet job of the comparison in docs/reference/speed.md in MXNet 1.9.1: the same network, data, batch and optimizer as

    dtrain -n 2 -s 2 --network lenet --data-dir DIR --kv-store dist_sync --batch-size 64

mxnet_job.sh starts its processes. Prints MXNet's own log lines and ends with `worker R samples_per_s X`, timed over the
epochs after the first. Needs PyPI's mxnet==1.9.1 and numpy==1.23.5.
"""
import argparse
import gzip
import logging
import os
import struct
import time

import numpy as np

np.bool = bool  # MXNet 1.9.1 uses the name that later numpy releases dropped
import mxnet as mx


def read_idx(path):
    with gzip.open(path, "rb") as file:
        _, _, dims, count = struct.unpack(">HBBI", file.read(8))
        shape = (count,) + tuple(struct.unpack(">I", file.read(4))[0] for _ in range(dims - 1))
        return np.frombuffer(file.read(), dtype=np.uint8).reshape(shape)


def lenet():
    x = mx.sym.Variable("data")
    for filters in (20, 50):
        x = mx.sym.Convolution(x, kernel=(5, 5), num_filter=filters)
        x = mx.sym.Activation(x, act_type="tanh")
        x = mx.sym.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2))
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=500)
    x = mx.sym.Activation(x, act_type="tanh")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=10), name="softmax")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--kv-store", default="local")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--num-epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)-15s %(message)s")
    kv = mx.kvstore.create(args.kv_store)  # reached only by workers: elsewhere the import above does not return
    images = read_idx(os.path.join(args.data_dir, "train-images-idx3-ubyte.gz"))[:, None].astype(np.float32) / 255
    labels = read_idx(os.path.join(args.data_dir, "train-labels-idx1-ubyte.gz")).astype(np.float32)
    val_images = read_idx(os.path.join(args.data_dir, "t10k-images-idx3-ubyte.gz"))[:, None].astype(np.float32) / 255
    val_labels = read_idx(os.path.join(args.data_dir, "t10k-labels-idx1-ubyte.gz")).astype(np.float32)
    share = slice(len(images) * kv.rank // kv.num_workers, len(images) * (kv.rank + 1) // kv.num_workers)
    train = mx.io.NDArrayIter(images[share], labels[share], args.batch_size, shuffle=True)
    validation = mx.io.NDArrayIter(val_images, val_labels, args.batch_size)
    ends = []
    mx.mod.Module(lenet(), context=mx.cpu()).fit(
        train, eval_data=validation, eval_metric="acc", kvstore=kv, num_epoch=args.num_epochs, optimizer="sgd",
        optimizer_params={"learning_rate": args.lr, "momentum": 0.9, "wd": 1e-4},
        initializer=mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2),
        batch_end_callback=lambda p: ends.append((p.epoch, p.nbatch, time.time())))
    by_epoch = {}
    for epoch, batch, when in ends:
        by_epoch.setdefault(epoch, []).append((batch, when))
    timed = [((e[-1][0] - e[0][0]) * args.batch_size, e[-1][1] - e[0][1]) for k, e in by_epoch.items() if k > 0]
    print("worker %d samples_per_s %.1f" % (kv.rank, sum(t[0] for t in timed) / sum(t[1] for t in timed)), flush=True)


if __name__ == "__main__":
    main()
