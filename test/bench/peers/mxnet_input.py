"""Images per second of `dtrain bench input` and of MXNet 1.9.1's ImageRecordIter, in turns, from the same record files.

    python mxnet_input.py --dtrain build/cmd/dtrain --records FILE.rec... [--threads 1,2] [--rounds 5] [--results FILE]

Each file is read with two augmentations: a random part of the picture's area and a mirror ("area"), and the shorter edge
resized to 256 with a random crop and a mirror ("resize"), both to 224 x 224 floats with a mean and a deviation. The two
programs take turns, `--rounds` times. A row of JSON has the medians of both, and the median, least and largest of the
ratios of a round. Needs PyPI's mxnet==1.9.1 and numpy==1.23.5. Run it on an idle machine: a busy one slows down both, but
not equally.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

MEAN, DEVIATION = (123.68, 116.779, 103.939), (58.393, 57.12, 57.375)
BATCH, BATCHES, WARM_UP = 32, 40, 4
AUGMENTATIONS = {
    "area": (
        ["--random-resized-crop", "1", "--min-random-area", "0.08", "--min-random-aspect-ratio", "0.75",
         "--max-random-aspect-ratio", "1.3333", "--random-mirror", "1"],
        {"random_resized_crop": True, "min_random_area": 0.08, "max_random_area": 1.0, "min_aspect_ratio": 0.75,
         "max_aspect_ratio": 1.3333, "rand_mirror": True}),
    "resize": (
        ["--resize", "256", "--random-crop", "1", "--random-mirror", "1"],
        {"resize": 256, "rand_crop": True, "rand_mirror": True}),
}


def mxnet_rate(file, augmentation, threads):
    import numpy as np
    np.bool = bool  # MXNet 1.9.1 uses the name that later numpy releases dropped
    import mxnet as mx
    batches = mx.io.ImageRecordIter(
        path_imgrec=file, data_shape=(3, 224, 224), batch_size=BATCH, preprocess_threads=threads, shuffle=False,
        mean_r=MEAN[0], mean_g=MEAN[1], mean_b=MEAN[2], std_r=DEVIATION[0], std_g=DEVIATION[1], std_b=DEVIATION[2],
        verbose=False, **AUGMENTATIONS[augmentation][1])

    def take(count):
        while count > 0:
            for batch in batches:
                batch.data[0].wait_to_read()
                count -= 1
                if count == 0:
                    return
            batches.reset()

    take(WARM_UP)
    begin = time.perf_counter()
    take(BATCHES)
    return BATCHES * BATCH / (time.perf_counter() - begin)


def rate_in_own_process(file, augmentation, threads):
    """MXNet keeps its threads, so each measurement has a process of its own, bound to as many cores as it has threads."""
    command = [sys.executable, __file__, "--mxnet-alone", file, augmentation, str(threads)]
    cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:threads])
    output = subprocess.check_output(["taskset", "-c", cores, *command], text=True, stderr=subprocess.DEVNULL,
                                     env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    return float(output.split("\n")[-2])


def dtrain_rate(dtrain, file, augmentation, threads):
    cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:threads])
    command = ["taskset", "-c", cores, dtrain, "bench", "input", "--data-train", file, "--image-shape", "3,224,224",
               "--num-classes", "1000", "--network", "resnet-50", "--batch-size", str(BATCH), "--shuffle", "0",
               "--num-batches", str(BATCHES), "--num-warmup-batches", str(WARM_UP), "--data-nthreads", str(threads),
               "--rgb-mean", ",".join(map(str, MEAN)), "--rgb-std", ",".join(map(str, DEVIATION)), "--json",
               *AUGMENTATIONS[augmentation][0]]
    return json.loads(subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL))["images_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", default="build/cmd/dtrain")
    parser.add_argument("--records", nargs="+", default=[])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", help="file to which the lines of JSON are appended")
    parser.add_argument("--mxnet-alone", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.mxnet_alone:
        file, augmentation, threads = args.mxnet_alone
        print(mxnet_rate(file, augmentation, int(threads)))
        return
    version = subprocess.check_output([args.dtrain, "--version"], text=True).split("\n")[0]
    for file in args.records:
        for augmentation in AUGMENTATIONS:
            for threads in map(int, args.threads.split(",")):
                pairs = [(dtrain_rate(args.dtrain, file, augmentation, threads),
                          rate_in_own_process(file, augmentation, threads)) for _ in range(args.rounds)]
                ratios = [ours / theirs for ours, theirs in pairs]
                row = {"check": "mxnet input", "records": os.path.basename(file), "augmentation": augmentation,
                       "threads": threads, "dtrain": round(statistics.median(ours for ours, _ in pairs)),
                       "mxnet": round(statistics.median(theirs for _, theirs in pairs)),
                       "ratio": round(statistics.median(ratios), 2),
                       "ratios": [round(min(ratios), 2), round(max(ratios), 2)], "version": version,
                       "date": str(datetime.date.today())}
                print(json.dumps(row), flush=True)
                if args.results:
                    with open(args.results, "a") as results:
                        results.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
