"""Compares the batches that MXNet 1.9.1's ImageRecordIter and dtrain make of the same record files without augmentation.

    python mxnet_batches.py --dtrain build/cmd/dtrain --records FILE.rec... [--images 320] [--results FILE]

The images are cut in the center to 224 x 224 ("center"), where smaller ones are enlarged, or their shorter edge is
resized to 256 before ("resize"). Both programs give float32 numbers from 0 to 255, without mean and deviation. A row of
JSON has, for red, green and blue, the mean of the absolute differences, the largest difference, and the share of the
numbers that are equal. Ends with code 1 if a channel's mean difference is above 1, which is 1/255 of the range. Needs
PyPI's mxnet==1.9.1 and numpy==1.23.5. See also `run input --setup`.

    python mxnet_batches.py --golden

prints the numbers of test/data/mxnet_batch_test.cc: what MXNet makes of two images of the tests.
"""
import argparse
import os
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy

import measuring

numpy.bool = bool  # MXNet 1.9.1 uses the name that later releases of numpy dropped
import mxnet  # noqa: E402

EDGE, BATCH, DIFFERENCE_MAX = 224, 32, 1.0
MODES = {"center": ([], {}), "resize": (["--resize", "256"], {"resize": 256})}


def of_mxnet(file, arguments, count, edge=EDGE, size=BATCH):
    iterator = mxnet.io.ImageRecordIter(path_imgrec=file, data_shape=(3, edge, edge), batch_size=size, shuffle=False,
                                        preprocess_threads=1, verbose=False, **arguments)
    batches = []
    for batch in iterator:
        batches.append(batch.data[0].asnumpy()[:size - batch.pad])
        if len(batches) * size >= count:
            break
    return numpy.concatenate(batches)[:count]


def of_dtrain(dtrain, file, mode, count):
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "images.npy")
        subprocess.run([dtrain, "data", "stat", file, "--npy", str(count), "--out", out, "--image-shape", f"3,{EDGE},{EDGE}",
                        "--num-classes", "1000", "--shuffle", "0", "--rgb-mean", "0,0,0", *MODES[mode][0]],
                       check=True, stdout=subprocess.DEVNULL)
        return numpy.load(out)


def gradient_image(height, width, seed):
    """That of test/data/make_images.h: blue, green, red."""
    y, x, k = numpy.ogrid[:height, :width, :3]
    return (128 + (x * (3 + seed % 5) + y * (2 + k) + seed * 11 + (x * y) % 7) % 100).astype(numpy.uint8)


def record_of(image):
    """A record with the label 0 and the image as PNG."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    rows = b"".join(b"\0" + row[:, ::-1].tobytes() for row in image)
    size = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    payload = struct.pack("<IfQQ", 0, 0.0, 0, 0) + png
    return struct.pack("<II", 0xced7230a, len(payload)) + payload + bytes(-len(payload) % 4)


def print_golden():
    """Of each image: height, width, seed, the edge that the shorter edge was resized to (0: none); then red, green and blue
    of nine places: the mean of the 4 x 4 numbers from row 16 + 28 i and column 17 + 28 j on."""
    for height, width, seed in ((120, 160, 1), (80, 60, 2)):
        for resize in (0, 100):
            with tempfile.NamedTemporaryFile(suffix=".rec") as file:
                file.write(record_of(gradient_image(height, width, seed)))
                file.flush()
                (image,) = of_mxnet(file.name, {"resize": resize} if resize else {}, 1, edge=96, size=1)
            print(height, width, seed, resize)
            for y in (16, 44, 72):
                print("", *[f"{value:g}" for x in (17, 45, 73) for value in image[:, y:y + 4, x:x + 4].mean(axis=(1, 2))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", default=str(measuring.ROOT / "build/cmd/dtrain"))
    parser.add_argument("--records", nargs="+", default=[])
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--images", type=int, default=320)
    parser.add_argument("--results", help="file to which the lines of JSON are appended")
    args = parser.parse_args()
    if args.golden:
        print_golden()
        return
    failed = False
    for file in args.records:
        for mode in MODES:
            theirs, ours = of_mxnet(file, MODES[mode][1], args.images), of_dtrain(args.dtrain, file, mode, args.images)
            if theirs.shape != ours.shape:
                sys.exit(f"error: {file}: {theirs.shape} of MXNet, {ours.shape} of dtrain")
            differences = numpy.abs(theirs - ours)
            by_channel = differences.mean(axis=(0, 2, 3))
            failed = failed or bool((by_channel > DIFFERENCE_MAX).any())
            measuring.write_row({
                "check": "mxnet batches", "records": os.path.basename(file), "mode": mode, "images": len(ours),
                "mean_difference": [round(float(value), 5) for value in by_channel],
                "largest_difference": float(differences.max()), "equal": round(float((differences == 0).mean()), 5),
                "version": measuring.version(args.dtrain), "date": measuring.today()}, args.results)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
