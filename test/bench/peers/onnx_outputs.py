"""Trained networks in ONNX Runtime: what `dtrain export` writes gives the outputs of `dtrain predict`.

    python onnx_outputs.py --dtrain build/cmd/dtrain [--networks NAME...] [--results FILE]

dtrain trains each network for a few steps on random images, with the moving statistics of the last step, exports it as ONNX with and without its batch norms folded,
and as safetensors, and predicts these images. onnx's checker, with shape inference, must accept both models, and ONNX
Runtime's outputs for the same images must be dtrain's to 1e-4; the arrays of the safetensors file must be those of the
ONNX file. A row of JSON has the largest difference of a probability for both models, and as "spread" how much the
probabilities of a class differ between the images, which shows that the outputs depend on them. Ends with code 1 if a
difference is above 1e-4. Needs PyPI's onnx, onnxruntime and safetensors.
"""
import argparse
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import onnx
import onnxruntime
import safetensors.numpy

import measuring

IMAGES = 4
CLASSES = 10
LIMIT = 1e-4
SHAPES = {
    "mlp": (1, 28, 28), "lenet": (1, 28, 28), "lenet-stn": (1, 28, 28), "3conv": (3, 28, 28), "alexnet": (3, 224, 224),
    "alexnet@v0.7": (3, 224, 224), "vgg-11": (3, 64, 64), "googlenet": (3, 224, 224), "googlenet@v0.7": (3, 224, 224),
    "inception-bn-28-small": (3, 28, 28), "inception-bn-28-small@v0.7": (3, 28, 28), "inception-bn": (3, 224, 224),
    "inception-bn@v0.7": (3, 224, 224), "inception-bn-full": (3, 224, 224), "inception-v3": (3, 299, 299),
    "resnet-20": (3, 28, 28), "resnet-28-small-20": (3, 28, 28), "resnet-zscore": (3, 32, 32), "resnet-50": (3, 224, 224),
    "resnet-v1-50": (3, 224, 224), "resnet-v1.5-50": (3, 224, 224), "resnext-50": (3, 224, 224), "cross-20": (3, 28, 28),
}


def run(command):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"{command}\n{ended.stdout}{ended.stderr}")


def png_of(image):
    """The bytes of a PNG file with these pixels, of the shape [1 or 3, height, width]."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    channels, height, width = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in image.transpose(1, 2, 0))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_images(directory, images):
    """A directory for each class, with an image as a PNG file."""
    for i, image in enumerate(images):
        (directory / f"class{i}").mkdir(parents=True)
        (directory / f"class{i}" / "image.png").write_bytes(png_of(image))


def outputs_of(path, images):
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"data": images.astype(np.float32) * np.float32(1 / 128)})[0]


def same_arrays(directory):
    model = onnx.load(directory / "plain.onnx")
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    stored = safetensors.numpy.load_file(directory / "plain.safetensors")
    shared = [name for name in stored if name in arrays]  # gammas that count as 1 are not in the model
    return len(shared) > 0 and all(np.array_equal(stored[name], arrays[name]) for name in shared)


def compare(args, directory, network, shape):
    images = np.random.RandomState(7).randint(0, 256, (IMAGES, *shape)).astype(np.uint8)
    write_images(directory / "images", images)
    run([args.dtrain, "--network", network, "--image-shape", ",".join(map(str, shape)), "--num-classes", CLASSES,
         "--data-train", directory / "images", "--scale", 1 / 128, "--rgb-mean", 0, "--batch-size", IMAGES, "--lr", 0.001,
         "--num-epochs", 4, "--seed", 1, "--bn-mom", 0, "--save-model-prefix", directory / "model", "--run-dir",
         directory / "run"])
    for name, more in (("plain", ()), ("folded", ("--fold-batch-norm",))):
        run([args.dtrain, "export", "--model", directory / "model", "--out", directory / f"{name}.onnx", *more])
    run([args.dtrain, "export", "--model", directory / "model", "--out", directory / "plain.safetensors"])
    run([args.dtrain, "predict", "--model", directory / "model", "--output", "npy", "--out", directory / "out.npy",
         *(directory / "images" / f"class{i}" / "image.png" for i in range(IMAGES))])
    ours = np.load(directory / "out.npy")
    plain, folded = (np.abs(outputs_of(directory / f"{name}.onnx", images) - ours).max() for name in ("plain", "folded"))
    return {"plain": float(f"{plain:.2g}"), "folded": float(f"{folded:.2g}"),
            "spread": float(f"{np.ptp(ours, axis=0).max():.2g}"), "same_arrays": same_arrays(directory)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", default="build/cmd/dtrain")
    parser.add_argument("--networks", nargs="+", choices=SHAPES, help="by default all of them")
    parser.add_argument("--results", help="file to which a line of JSON is appended for each network")
    args = parser.parse_args()
    version = measuring.version(args.dtrain)
    failed = False
    for network in args.networks or SHAPES:
        with tempfile.TemporaryDirectory() as directory:
            found = compare(args, pathlib.Path(directory), network, SHAPES[network])
        row = {"check": "onnx outputs", "network": network, **found, "onnxruntime": onnxruntime.__version__,
               "version": version, "date": measuring.today()}
        failed |= not max(row["plain"], row["folded"]) <= LIMIT or not row["same_arrays"]
        measuring.write_row(row, args.results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
