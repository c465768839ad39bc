"""Networks of MXNet's model zoo and examples, which dtrain does not have, trained by dtrain from MXNet's symbol files.

    python mxnet_networks.py --dtrain build/cmd/dtrain [--networks NAME...] [--steps 20] [--examples DIR] [--results FILE]

--examples is the directory example/image-classification of MXNet's sources, for the networks inception-v4 and
inception-resnet-v2, which are left out without it. Their dropout leaves out nothing here, because MXNet's random numbers are
its own.

MXNet 1.9.1 draws the weights of each network and saves them with its symbol file. Both programs continue from there
for one epoch of sgd without momentum on the same images, in the same order. Compared are the cross-entropy of that epoch,
the weights after it (the norm of the difference relative to the norm of all weights; for information, because rounding
errors grow with every step in networks with batch norm), and the symbol file that dtrain writes, which must be MXNet's.
MXNet's own results with oneDNN and without, of which it does both, differ as well. Ends with code 1 if a loss is further
from MXNet's than 1e-3, relative, and than MXNet's two are from each other, or if a file differs by a byte. Needs PyPI's
mxnet==1.9.1 and numpy==1.23.5.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np

import measuring

np.bool = bool  # MXNet 1.9.1 uses the name that later numpy releases dropped
import mxnet as mx
from mxnet.gluon.model_zoo import vision

BATCH = 16
RATE = 0.001
CLASSES = 10
MEAN = np.array([123.68, 116.779, 103.939], np.float32).reshape(3, 1, 1)

def two_heads():
    """Two branches share a weight, and each has a loss over the same labels."""
    data, label, weight = mx.sym.Variable("data"), mx.sym.Variable("label"), mx.sym.Variable("shared_weight")
    x = mx.sym.Convolution(data, name="c", kernel=(3, 3), num_filter=8, stride=(2, 2))
    x = mx.sym.Activation(x, act_type="tanh")
    heads = []
    for branch, kind in (("a", "max"), ("b", "avg")):
        y = mx.sym.Pooling(x, name=branch + "_pool", kernel=(3, 3), stride=(3, 3), pool_type=kind)
        y = mx.sym.FullyConnected(y, name=branch, weight=weight, num_hidden=CLASSES)
        heads.append(mx.sym.SoftmaxOutput(y, name=branch + "_softmax", label=label))
    return mx.sym.Group(heads), "label"


def operator_options():
    """Options of operators that the networks of the zoo do not use."""
    x = mx.sym.Convolution(mx.sym.Variable("data"), name="c", kernel=(3, 3), num_filter=8, stride=(2, 2), dilate=(2, 3))
    x = mx.sym.Activation(x, act_type="softsign")
    x = mx.sym.BatchNorm(x, name="b", use_global_stats=True, fix_gamma=False)
    x = mx.sym.Pooling(x, name="p", kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", count_include_pad=False,
                       pooling_convention="full")
    x = mx.sym.Pooling(x, name="q", kernel=(2, 2), stride=(2, 2), pool_type="sum")
    x = mx.sym.FullyConnected(x, name="f", num_hidden=CLASSES)
    return mx.sym.SoftmaxOutput(x, name="softmax", grad_scale=8, normalization="batch"), "softmax_label"


def transformer_and_norm():
    """A spatial transformer and a local response norm. Dropout leaves out nothing, because MXNet's random numbers are its
    own."""
    data = mx.sym.Cast(mx.sym.Variable("data") * 0.01, dtype="float32")
    small = mx.sym.Pooling(data, kernel=(8, 8), stride=(8, 8), pool_type="avg")
    where = mx.sym.FullyConnected(small, name="where", num_hidden=6)
    x = mx.sym.SpatialTransformer(data, where, target_shape=(30, 34), transform_type="affine", sampler_type="bilinear")
    x = mx.sym.Convolution(x, name="c", kernel=(5, 5), num_filter=8, stride=(2, 2))
    x = mx.sym.LRN(x, nsize=5, alpha=1)
    x = mx.sym.Dropout(x, p=0)
    x = mx.sym.FullyConnected(x, name="f", num_hidden=CLASSES)
    return mx.sym.SoftmaxOutput(x, name="softmax"), "softmax_label"


def of_the_zoo(make):
    network = make(classes=CLASSES)
    return mx.sym.SoftmaxOutput(network(mx.sym.Variable("data")), name="softmax"), "softmax_label"


def of_the_examples(name):
    """A network of MXNet's examples, with dropout that leaves out nothing."""
    spec = importlib.util.spec_from_file_location("symbol", pathlib.Path(EXAMPLES) / "symbols" / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    content = json.loads(script.get_symbol(num_classes=CLASSES).tojson())
    for node in content["nodes"]:
        if node["op"] == "Dropout":
            node["attrs"]["p"] = "0"
    return mx.sym.load_json(json.dumps(content)), "softmax_label"


EXAMPLES = ""
NETWORKS = {
    "mobilenet0.25": lambda: of_the_zoo(vision.mobilenet0_25),
    "resnet18_v1": lambda: of_the_zoo(vision.resnet18_v1),
    "resnet18_v2": lambda: of_the_zoo(vision.resnet18_v2),
    "resnet50_v1": lambda: of_the_zoo(vision.resnet50_v1),
    "two heads, a shared weight": two_heads,
    "options of operators": operator_options,
    "spatial transformer, response norm": transformer_and_norm,
    "inception-resnet-v2": lambda: of_the_examples("inception-resnet-v2"),
    "inception-v4": lambda: of_the_examples("inception-v4"),
}


EDGES = {"inception-resnet-v2": 139, "inception-v4": 299}  # of the images; those of the other networks have 64 pixels


def edge_of(name):
    return EDGES.get(name, 64)


def module_of(symbol, label, edge):
    module = mx.mod.Module(symbol, context=mx.cpu(), label_names=(label,))
    module.bind([("data", (BATCH, 3, edge, edge))], [(label, (BATCH,))])
    return module


def make_images(steps, edge):
    random = np.random.RandomState(7)
    images = random.randint(0, 256, (steps * BATCH, 3, edge, edge)).astype(np.uint8)
    return images, random.randint(0, CLASSES, steps * BATCH)


def png(image):
    """An image of [3, h, w], or a gray one of [1, h, w], as a PNG file."""
    rows = image.transpose(1, 2, 0).reshape(image.shape[1], -1)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">2I5B", image.shape[2], image.shape[1], 8, 2 if len(image) == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def write_records(directory, images, labels):
    """The same images in a record file, as PNG, which keeps every pixel."""
    record = mx.recordio.MXIndexedRecordIO(str(directory / "train.idx"), str(directory / "train.rec"), "w")
    for i, (image, label) in enumerate(zip(images, labels)):
        record.write_idx(i, mx.recordio.pack(mx.recordio.IRHeader(0, float(label), i, 0), png(image)))
    record.close()


def mxnet_epoch(module, images, labels):
    """The cross-entropy of the epoch, of the first head, and the weights after it."""
    metric = mx.metric.CrossEntropy()
    module.init_optimizer(kvstore=None, optimizer="sgd",
                          optimizer_params={"learning_rate": RATE, "momentum": 0.0, "wd": 0.0})
    for begin in range(0, len(images), BATCH):
        part = slice(begin, begin + BATCH)
        batch = mx.io.DataBatch([mx.nd.array(images[part].astype(np.float32) - MEAN)], [mx.nd.array(labels[part])])
        module.forward_backward(batch)
        metric.update([mx.nd.array(labels[part])], module.get_outputs()[:1])
        module.update()
    return metric.get()[1], {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def dtrain_epoch(args, directory, prefix, edge):
    steps = args.steps
    command = [args.dtrain, "--network", f"{prefix}-symbol.json", "--image-shape", f"3,{edge},{edge}", "--num-classes",
               str(CLASSES), "--data-train", directory / "train.rec", "--shuffle", "0", "--rgb-mean",
               "123.68,116.779,103.939", "--num-examples", str(steps * BATCH), "--batch-size", str(BATCH),
               "--model-prefix", prefix, "--load-epoch", "0", "--num-epochs", "1", "--optimizer", "sgd", "--mom", "0",
               "--wd", "0", "--lr", str(RATE), "--loss", "ce", "--save-model-prefix", directory / "after",
               "--run-dir", directory / "run", "--overwrite"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(ended.stdout + ended.stderr)
    # A network with several heads has a line for their mean and then one for each head, such as Train-cross-entropy_HEAD=...
    losses = re.findall(r"Train-cross-entropy(_\S+)?=([0-9.einfa-]+)", ended.stdout + ended.stderr)
    loss = float(losses[1 if len(losses) > 1 else 0][1])
    arrays = mx.nd.load(str(directory / "after-0001.params"))
    return loss, {key.split(":", 1)[1]: array.asnumpy() for key, array in arrays.items() if key.startswith("arg:")}


def norm(arrays):
    return sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays) ** 0.5


def without_onednn(directory, label, steps, edge):
    """The cross-entropy of a process in which MXNet does not use oneDNN."""
    command = [sys.executable, __file__, "--mxnet-alone", str(directory), label, str(edge), "--steps", str(steps)]
    output = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL,
                                     env={**os.environ, "MXNET_MKLDNN_ENABLED": "0"})
    return float(output.split("\n")[-2])


def mxnet_alone(directory, label, steps, edge):
    symbol, weights, statistics = mx.model.load_checkpoint(f"{directory}/before", 0)
    module = module_of(symbol, label, edge)
    module.set_params(weights, statistics)
    return mxnet_epoch(module, *make_images(steps, edge))[0]


def compare(args, directory, name, version):
    symbol, label = NETWORKS[name]()
    edge = edge_of(name)
    module = module_of(symbol, label, edge)
    mx.random.seed(1)
    np.random.seed(1)
    module.init_params(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    prefix = str(directory / "before")
    module.save_checkpoint(prefix, 0)
    images, labels = make_images(args.steps, edge)
    write_records(directory, images, labels)
    ours, our_weights = dtrain_epoch(args, directory, prefix, edge)
    theirs, their_weights = mxnet_epoch(module, images, labels)
    apart = norm(our_weights[key] - array for key, array in their_weights.items()) / norm(their_weights.values())
    same_file = pathlib.Path(f"{prefix}-symbol.json").read_bytes() == (directory / "after-symbol.json").read_bytes()
    without = without_onednn(directory, label, args.steps, edge)
    return {"check": "mxnet networks", "network": name, "steps": args.steps, "cross_entropy": round(ours, 6),
            "mxnet": round(float(theirs), 6), "mxnet_without_onednn": round(without, 6),
            "weights_apart": float(f"{apart:.2g}"), "same_symbol_file": same_file,
            "version": version, "date": measuring.today()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", default="build/cmd/dtrain")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, help="by default all of them")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--examples", default="", help="the directory example/image-classification of MXNet's sources")
    parser.add_argument("--results", help="file to which a line of JSON is appended for each network")
    parser.add_argument("--mxnet-alone", nargs=3, metavar=("DIRECTORY", "LABEL", "EDGE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.mxnet_alone:
        directory, label, edge = args.mxnet_alone
        print(mxnet_alone(directory, label, args.steps, int(edge)))
        return 0
    global EXAMPLES
    EXAMPLES = args.examples
    version = measuring.version(args.dtrain)
    failed = False
    for name in args.networks or [name for name in NETWORKS if name not in EDGES or args.examples]:
        with tempfile.TemporaryDirectory() as directory:
            row = compare(args, pathlib.Path(directory), name, version)
        bound = max(1e-3 * row["mxnet"], abs(row["mxnet_without_onednn"] - row["mxnet"]))
        failed |= abs(row["cross_entropy"] - row["mxnet"]) > bound or not row["same_symbol_file"]
        measuring.write_row(row, args.results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
