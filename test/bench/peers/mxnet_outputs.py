"""The outputs of trained networks, by dtrain and by MXNet, from each other's checkpoints.

    python mxnet_outputs.py --dtrain build/cmd/dtrain [--networks NAME...] [--results FILE]

dtrain trains each network for a few steps and predicts random images. MXNet 1.9.1 loads that checkpoint as its scripts
do: the text that MXNet makes of the symbol must be the file's, and its outputs for the same images those of dtrain. Then
MXNet draws other weights and statistics and saves them, and dtrain predicts the images with that checkpoint. A row of
JSON has the largest difference of a probability in both directions; "spread" is how much the probabilities of a class
differ between images, in the direction where they differ less, which shows that the outputs depend on them; "mxnets_own"
is the difference of MXNet with oneDNN and without, for dtrain's checkpoint. Ends with code 1 if a difference is above 1e-5
and above twice MXNet's own, or if a text differs. Needs PyPI's mxnet==1.9.1 and numpy==1.23.5.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import measuring
from mxnet_networks import mx, write_records

IMAGES = 8
EPOCHS = 20  # of two steps; then batch norm's moving statistics are those of the images
CLASSES = 10
SHAPES = {
    "mlp": (1, 28, 28), "lenet": (1, 28, 28), "lenet-stn": (1, 28, 28), "3conv": (3, 28, 28),
    "alexnet": (3, 224, 224), "vgg-11": (3, 64, 64), "inception-bn-28-small": (3, 28, 28),
    "resnet-20": (3, 28, 28), "resnet-v1-20": (3, 28, 28), "resnext-20": (3, 32, 32), "googlenet": (3, 224, 224),
    "inception-bn": (3, 224, 224), "inception-v3": (3, 299, 299), "resnet-50": (3, 224, 224),
    "resnet-v1-50": (3, 224, 224), "resnet-v1.5-50": (3, 224, 224), "resnext-50": (3, 224, 224),
}


def run(command):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(ended.stdout + ended.stderr)


def train(args, directory, network, shape):
    run([args.dtrain, "--network", network, "--image-shape", ",".join(map(str, shape)), "--num-classes", CLASSES,
         "--data-train", directory / "train.rec", "--num-examples", IMAGES, "--batch-size", IMAGES // 2, "--scale",
         1 / 128, "--rgb-mean", 0, "--lr", 0.001, "--num-epochs", EPOCHS, "--keep", 1, "--save-model-prefix", directory / "ours",
         "--run-dir", directory / "run", "--overwrite"])


def predict(args, directory, model, epoch, shape):
    run([args.dtrain, "predict", "--model", model, "--load-epoch", epoch, "--image-shape", ",".join(map(str, shape)),
         "--num-classes", CLASSES, "--scale", 1 / 128, "--rgb-mean", 0, "--output", "npy", "--out", directory / "out.npy",
         directory / "train.rec"])
    return np.load(directory / "out.npy")


def mxnet_outputs(symbol, weights, statistics, images):
    labels = [name for name in symbol.list_arguments() if name.endswith("label")]
    module = mx.mod.Module(symbol, context=mx.cpu(), label_names=labels)
    module.bind([("data", images.shape)], [(name, (len(images),)) for name in labels] or None, for_training=False)
    module.set_params(weights, statistics)
    module.forward(mx.io.DataBatch([mx.nd.array(images.astype(np.float32) * np.float32(1 / 128))]), is_train=False)
    return module.get_outputs()[0].asnumpy()


def without_onednn(directory, images):
    """The outputs for the checkpoint "ours" of a process in which MXNet does not use oneDNN."""
    np.save(directory / "images.npy", images)
    subprocess.run([sys.executable, __file__, "--mxnet-alone", directory], check=True, stderr=subprocess.DEVNULL,
                   env={**os.environ, "MXNET_MKLDNN_ENABLED": "0"})
    return np.load(directory / "alone.npy")


def mxnet_alone(directory):
    checkpoint = mx.model.load_checkpoint(str(directory / "ours"), EPOCHS)
    np.save(directory / "alone.npy", mxnet_outputs(*checkpoint, np.load(directory / "images.npy")))


def drawn_by_mxnet(directory, symbol, weights, statistics, images):
    """Saves other weights and statistics under the prefix "theirs", with which the last layer's numbers are about 1."""
    random = np.random.RandomState(3)
    initializer = mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2)
    for name, array in weights.items():
        if name.endswith("_weight"):
            initializer(mx.init.InitDesc(name), array)
        else:
            array[:] = random.uniform(0.5, 1.5, array.shape) if name.endswith("_gamma") else random.normal(0, 0.1, array.shape)
    for name, array in statistics.items():
        drawn = random.uniform(0.5, 1.5, array.shape) if name.endswith("_var") else random.normal(0, 0.1, array.shape)
        array[:] = drawn
    logits = symbol.get_children()[0]
    size = mxnet_outputs(logits, weights, statistics, images).std()
    for name in logits.get_children().list_outputs():
        if name in weights:
            weights[name] /= size
    mx.model.save_checkpoint(str(directory / "theirs"), 3, symbol, weights, statistics)


def compare(args, directory, network, shape, version):
    images = np.random.RandomState(7).randint(0, 256, (IMAGES, *shape)).astype(np.uint8)
    write_records(directory, images, np.arange(IMAGES) % CLASSES)
    train(args, directory, network, shape)
    symbol, weights, statistics = mx.model.load_checkpoint(str(directory / "ours"), EPOCHS)
    same_text = symbol.tojson() == (directory / "ours-symbol.json").read_text()
    ours = predict(args, directory, directory / "ours", EPOCHS, shape)
    by_mxnet = mxnet_outputs(symbol, weights, statistics, images)
    of_ours = np.abs(ours - by_mxnet).max()
    own = np.abs(without_onednn(directory, images) - by_mxnet).max()
    drawn_by_mxnet(directory, symbol, weights, statistics, images)
    symbol, weights, statistics = mx.model.load_checkpoint(str(directory / "theirs"), 3)
    theirs = mxnet_outputs(symbol, weights, statistics, images)
    of_theirs = np.abs(theirs - predict(args, directory, directory / "theirs", 3, shape)).max()
    return {"check": "mxnet outputs", "network": network, "same_symbol": same_text,
            "from_dtrain": float(f"{of_ours:.2g}"), "from_mxnet": float(f"{of_theirs:.2g}"),
            "mxnets_own": float(f"{own:.2g}"),
            "spread": float(f"{min(np.ptp(p, axis=0).max() for p in (ours, theirs)):.2g}"), "version": version,
            "date": measuring.today()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", default="build/cmd/dtrain")
    parser.add_argument("--networks", nargs="+", choices=SHAPES, help="by default all of them")
    parser.add_argument("--results", help="file to which a line of JSON is appended for each network")
    parser.add_argument("--mxnet-alone", type=pathlib.Path, metavar="DIRECTORY", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.mxnet_alone:
        mxnet_alone(args.mxnet_alone)
        return 0
    version = measuring.version(args.dtrain)
    failed = False
    for network in args.networks or SHAPES:
        with tempfile.TemporaryDirectory() as directory:
            row = compare(args, pathlib.Path(directory), network, SHAPES[network], version)
        failed |= max(row["from_dtrain"], row["from_mxnet"]) > max(1e-5, 2 * row["mxnets_own"]) or not row["same_symbol"]
        measuring.write_row(row, args.results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
