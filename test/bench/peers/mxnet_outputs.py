"""The outputs of trained networks, by dtrain and by MXNet, from each other's checkpoints.

    python mxnet_outputs.py --dtrain build/cmd/dtrain [--networks NAME...] [--results FILE]

dtrain trains each network for a few steps and predicts random pictures. MXNet 1.9.1 loads that checkpoint as its scripts
do: the text that MXNet makes of the symbol must be the file's, and its outputs for the same pictures those of dtrain. Then
MXNet draws other weights and statistics and saves them, and dtrain predicts the pictures with that checkpoint. A row of
JSON has the largest difference of a probability in both directions; "spread" is how much the probabilities of a class
differ between pictures, in the direction where they differ less, which shows that the outputs depend on them; "mxnets_own"
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
from mxnet_networks import mx, png, write_records

PICTURES = 8
EPOCHS = 20  # of two steps; then batch norm's moving statistics are those of the pictures
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


def train(args, folder, network, shape):
    run([args.dtrain, "--network", network, "--image-shape", ",".join(map(str, shape)), "--num-classes", CLASSES,
         "--data-train", folder / "train.rec", "--num-examples", PICTURES, "--batch-size", PICTURES // 2, "--scale",
         1 / 128, "--rgb-mean", 0, "--lr", 0.001, "--num-epochs", EPOCHS, "--keep", 1, "--save-model-prefix", folder / "ours",
         "--run-dir", folder / "run", "--overwrite"])


def predict(args, folder, model, epoch, shape):
    run([args.dtrain, "predict", "--model", model, "--load-epoch", epoch, "--image-shape", ",".join(map(str, shape)),
         "--num-classes", CLASSES, "--scale", 1 / 128, "--rgb-mean", 0, "--output", "npy", "--out", folder / "out.npy",
         folder / "train.rec"])
    return np.load(folder / "out.npy")


def mxnet_outputs(symbol, weights, statistics, pictures):
    labels = [name for name in symbol.list_arguments() if name.endswith("label")]
    module = mx.mod.Module(symbol, context=mx.cpu(), label_names=labels)
    module.bind([("data", pictures.shape)], [(name, (len(pictures),)) for name in labels] or None, for_training=False)
    module.set_params(weights, statistics)
    module.forward(mx.io.DataBatch([mx.nd.array(pictures.astype(np.float32) * np.float32(1 / 128))]), is_train=False)
    return module.get_outputs()[0].asnumpy()


def without_onednn(folder, pictures):
    """The outputs for the checkpoint "ours" of a process in which MXNet does not use oneDNN."""
    np.save(folder / "pictures.npy", pictures)
    subprocess.run([sys.executable, __file__, "--mxnet-alone", folder], check=True, stderr=subprocess.DEVNULL,
                   env={**os.environ, "MXNET_MKLDNN_ENABLED": "0"})
    return np.load(folder / "alone.npy")


def mxnet_alone(folder):
    checkpoint = mx.model.load_checkpoint(str(folder / "ours"), EPOCHS)
    np.save(folder / "alone.npy", mxnet_outputs(*checkpoint, np.load(folder / "pictures.npy")))


def drawn_by_mxnet(folder, symbol, weights, statistics, pictures):
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
    size = mxnet_outputs(logits, weights, statistics, pictures).std()
    for name in logits.get_children().list_outputs():
        if name in weights:
            weights[name] /= size
    mx.model.save_checkpoint(str(folder / "theirs"), 3, symbol, weights, statistics)


def compare(args, folder, network, shape, version):
    pictures = np.random.RandomState(7).randint(0, 256, (PICTURES, *shape)).astype(np.uint8)
    write_records(folder, pictures, np.arange(PICTURES) % CLASSES)
    train(args, folder, network, shape)
    symbol, weights, statistics = mx.model.load_checkpoint(str(folder / "ours"), EPOCHS)
    same_text = symbol.tojson() == (folder / "ours-symbol.json").read_text()
    ours = predict(args, folder, folder / "ours", EPOCHS, shape)
    by_mxnet = mxnet_outputs(symbol, weights, statistics, pictures)
    of_ours = np.abs(ours - by_mxnet).max()
    own = np.abs(without_onednn(folder, pictures) - by_mxnet).max()
    drawn_by_mxnet(folder, symbol, weights, statistics, pictures)
    symbol, weights, statistics = mx.model.load_checkpoint(str(folder / "theirs"), 3)
    theirs = mxnet_outputs(symbol, weights, statistics, pictures)
    of_theirs = np.abs(theirs - predict(args, folder, folder / "theirs", 3, shape)).max()
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
    parser.add_argument("--mxnet-alone", type=pathlib.Path, metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.mxnet_alone:
        mxnet_alone(args.mxnet_alone)
        return 0
    version = measuring.version(args.dtrain)
    failed = False
    for network in args.networks or SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            row = compare(args, pathlib.Path(folder), network, SHAPES[network], version)
        failed |= max(row["from_dtrain"], row["from_mxnet"]) > max(1e-5, 2 * row["mxnets_own"]) or not row["same_symbol"]
        measuring.write_row(row, args.results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
