"""One and five steps of each optimizer, in dtrain and in MXNet 1.9.1, from one checkpoint on the same batches.

    python mxnet_steps.py --dtrain build/cmd/dtrain [--results FILE]

MXNet draws the weights of LeNet and saves them as a checkpoint. Both programs continue with it, each with an epoch of 1
and of 5 batches, and their weights are compared, array by array: the norm of the difference divided by the norm of the
array.

The optimizers that divide by the size of the gradient turn a rounding error in an element whose gradient is almost 0
into a difference of any size. How large this effect is, MXNet shows itself: it does the same steps with oneDNN and
without.
An optimizer passes if dtrain is within 1e-5 of MXNet, or within 3 times the distance between MXNet's own two results.
Ends with code 1 if one does not pass. Needs PyPI's mxnet==1.9.1 and numpy==1.23.5.
"""
import argparse
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

import measuring

np.bool = bool  # MXNet 1.9.1 uses the name that later numpy releases dropped
import mxnet as mx

from mxnet_lenet import lenet

# LBSGD keeps the first gradient of all by reference, so the second one replaces it in the sum. Here it is a copy.
add_gradient = mx.optimizer.LBSGD._cumulate_gradient
mx.optimizer.LBSGD._cumulate_gradient = lambda self, grad, index: add_gradient(self, grad.copy(), index)

BATCH = 64
STEPS = (1, 5)
BOUND = 1e-5
OWN_NOISE_FACTOR = 3
RATE = "0.01"
MOMENTUM = ["--lr", RATE, "--mom", "0.9"]
DECAY = 1e-4

# The name, further flags of dtrain, and further parameters of MXNet's class. All have --wd 1e-4.
OPTIMIZERS = [
    ("sgd", MOMENTUM, {"momentum": 0.9}),
    ("nag", MOMENTUM, {"momentum": 0.9}),
    ("signum", MOMENTUM, {"momentum": 0.9}),
    ("dcasgd", ["--lr", RATE, "--mom", "0"], {}),  # its momentum ends MXNet 1.9.1 with an exception
    ("lars", MOMENTUM, {"momentum": 0.9}),
    ("lbsgd", [*MOMENTUM, "--macrobatch-size", "128", "--warmup-strategy", "none", "--warmup-epochs", "1000"],
     {"momentum": 0.9, "batch_scale": 2, "warmup_strategy": "none", "warmup_epochs": 1000}),
    ("lbsgd(lars)", [*MOMENTUM, "--warmup-strategy", "lars"], {"momentum": 0.9, "warmup_strategy": "lars"}),
    ("adam", ["--lr", RATE], {}),
    ("adamax", ["--lr", RATE], {}),
    ("adagrad", ["--lr", RATE], {}),
    ("rmsprop", ["--lr", RATE], {}),
    ("rmsprop(centered=1)", ["--lr", RATE], {"centered": True}),
    ("adadelta", [], {}),  # it has no learning rate
    ("ftrl", ["--lr", RATE], {}),
]


def write_idx(path, array):
    head = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(head + array.tobytes())


def pixels(steps):
    """The images and labels of the batches. Dark pixels, so that no tanh saturates, where pooling would meet ties."""
    random = np.random.RandomState(steps)
    images = random.randint(0, 64, (steps * BATCH, 28, 28))
    return images.astype(np.uint8), random.randint(0, 10, steps * BATCH).astype(np.uint8)


def make_batches(steps):
    images, labels = pixels(steps)
    return images[:, None].astype(np.float32) / 255, labels.astype(np.float32)


def write_data(directory, steps):
    """The same as MNIST's files."""
    images, labels = pixels(steps)
    directory.mkdir()
    for name in ("train", "t10k"):
        write_idx(directory / f"{name}-images-idx3-ubyte", images)
        write_idx(directory / f"{name}-labels-idx1-ubyte", labels)


def initial_checkpoint(prefix):
    mx.random.seed(1)
    np.random.seed(1)
    module = mx.mod.Module(lenet(), context=mx.cpu())
    module.bind([("data", (BATCH, 1, 28, 28))], [("softmax_label", (BATCH,))])
    module.init_params(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    module.save_checkpoint(prefix, 0)


def mxnet_weights(prefix, batches, name, parameters):
    symbol, learned, statistics = mx.model.load_checkpoint(prefix, 0)
    module = mx.mod.Module(symbol, context=mx.cpu())
    module.bind([("data", (BATCH, 1, 28, 28))], [("softmax_label", (BATCH,))])
    module.set_params(learned, statistics)
    module.init_optimizer(kvstore=None, optimizer=name.split("(")[0],
                          optimizer_params={"learning_rate": float(RATE), "wd": DECAY, **parameters})
    images, labels = batches
    for begin in range(0, len(images), BATCH):
        batch = mx.io.DataBatch([mx.nd.array(images[begin:begin + BATCH])], [mx.nd.array(labels[begin:begin + BATCH])])
        module.forward_backward(batch)
        module.update()
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def dtrain_weights(args, directory, steps, name, flags):
    data, after = directory / f"data{steps}", directory / "after"
    command = [args.dtrain, "--network", "lenet", "--data-dir", data, "--data-type", "mnist", "--shuffle", "0",
               "--num-examples", str(steps * BATCH), "--batch-size", str(BATCH), "--model-prefix", directory / "before",
               "--load-epoch", "0", "--num-epochs", "1", "--optimizer", name.replace("(lars)", ""), *flags, "--wd", str(DECAY),
               "--save-model-prefix", after, "--run-dir", directory / "run", "--overwrite"]
    subprocess.run(command, check=True, capture_output=True)
    arrays = mx.nd.load(f"{after}-0001.params")
    return {key.split(":", 1)[1]: array.asnumpy() for key, array in arrays.items() if key.startswith("arg:")}


def difference(ours, theirs):
    """Of all arrays, the largest norm of the difference relative to the norm of the array."""
    def of(key, array):
        norm = np.linalg.norm(array)
        return float(np.linalg.norm(ours[key] - array) / (norm if norm > 0 else 1))
    return max(of(key, array) for key, array in theirs.items())


def all_mxnet_weights(directory):
    """{"optimizer/steps/array": its weights}. `directory` holds before-0000.params."""
    weights = {}
    for steps in STEPS:
        batches = make_batches(steps)
        for name, _, parameters in OPTIMIZERS:
            for key, array in mxnet_weights(str(directory / "before"), batches, name, parameters).items():
                weights[f"{name}/{steps}/{key}"] = array
    return weights


def without_onednn(directory):
    """all_mxnet_weights of a process in which MXNet does not use oneDNN."""
    file = directory / "without.npz"
    subprocess.run([sys.executable, __file__, "--mxnet-alone", str(directory), str(file)], check=True, capture_output=True,
                   env={**os.environ, "MXNET_MKLDNN_ENABLED": "0"})
    return dict(np.load(file))


def part(weights, name, steps):
    begin = f"{name}/{steps}/"
    return {key[len(begin):]: array for key, array in weights.items() if key.startswith(begin)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", default="build/cmd/dtrain")
    parser.add_argument("--optimizers", help="only these, separated by commas")
    parser.add_argument("--results", help="file to which a line of JSON is appended for each optimizer")
    parser.add_argument("--mxnet-alone", nargs=2, metavar=("DIRECTORY", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.mxnet_alone:
        np.savez(args.mxnet_alone[1], **all_mxnet_weights(pathlib.Path(args.mxnet_alone[0])))
        return 0
    version = measuring.version(args.dtrain)
    failed = False
    with tempfile.TemporaryDirectory() as name_of_directory:
        directory = pathlib.Path(name_of_directory)
        initial_checkpoint(str(directory / "before"))
        for steps in STEPS:
            write_data(directory / f"data{steps}", steps)
        theirs, without = all_mxnet_weights(directory), without_onednn(directory)
        asked = args.optimizers.split(",") if args.optimizers else [name for name, _, _ in OPTIMIZERS]
        for name, flags, _ in OPTIMIZERS:
            if name not in asked:
                continue
            row = {"check": "mxnet steps", "optimizer": name}
            for steps in STEPS:
                expected = part(theirs, name, steps)
                apart = difference(dtrain_weights(args, directory, steps, name, flags), expected)
                own = difference(part(without, name, steps), expected)
                failed |= apart > max(BOUND, OWN_NOISE_FACTOR * own)
                row[f"steps{steps}"] = {"difference": float(f"{apart:.2g}"), "mxnet_itself": float(f"{own:.2g}")}
            row.update(version=version, date=measuring.today())
            measuring.write_row(row, args.results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
