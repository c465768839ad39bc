"""Images per second of `dtrain im2rec` and of MXNet 1.9.1's im2rec.py, in turns, from the same images and list.

    python mxnet_im2rec.py --dtrain build/cmd/dtrain --images DIRECTORY [--threads 1,2] [--rounds 5] [--results FILE]

The images are packed with the shorter edge resized to 256 ("resize") and as they are ("pass"). With N threads a program is
bound to N cores. The list has the images `--repeat` times, and the time for a list of one image is subtracted, which is
what Python needs to start. Rates are by the clock, and by CPU time ("cpu": images per CPU second, times the threads). A row
of JSON has the medians of both programs, and the median, least and largest of the ratios of a round. The files of both
programs are compared, byte for byte. Needs PyPI's mxnet==1.9.1, numpy==1.23.5 and opencv-python-headless==4.5.5.64. Run it on
an idle host: a busy one slows down both, but not equally.
"""
import argparse
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import measuring

MODES = {"resize": ["--resize", "256"], "pass": ["--pass-through"]}


def write_list(path, names, count):
    os.makedirs(os.path.dirname(path))
    with open(path, "w") as lines:
        for i in range(count):
            lines.write(f"{i}\t0.000000\t{names[i % len(names)]}\n")


def seconds(command, threads):
    """The time of the clock and of the CPU that a command takes on as many cores as it has threads."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*measuring.on_cores(threads), *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**os.environ, "OMP_NUM_THREADS": "1"})
    clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rates(command, directory, images, count, mode, threads):
    """Images per second of the clock, and of the CPU times the threads."""
    flags = [*MODES[mode], "--num-thread", str(threads)]
    whole = seconds([*command, os.path.join(directory, "all", "a"), images, *flags], threads)
    start = seconds([*command, os.path.join(directory, "one", "a"), images, *flags], threads)
    return (count - 1) / (whole[0] - start[0]), threads * (count - 1) / (whole[1] - start[1])


def measure(args, commands, directories, count, mode, threads):
    rounds = [[rates(command, directory, args.images, count, mode, threads) for command, directory in zip(commands, directories)]
              for _ in range(args.rounds)]
    files = [[open(os.path.join(directory, "all", name), "rb").read() for name in ("a.rec", "a.idx")] for directory in directories]
    clock = measuring.ratio([(ours[0], theirs[0]) for ours, theirs in rounds])
    cpu = measuring.ratio([(ours[1], theirs[1]) for ours, theirs in rounds])
    return {"check": "mxnet im2rec", "mode": mode, "threads": threads, "images": count,
            "dtrain": round(statistics.median(ours[0] for ours, _ in rounds)),
            "mxnet": round(statistics.median(theirs[0] for _, theirs in rounds)),
            **clock,
            "dtrain_cpu": round(statistics.median(ours[1] for ours, _ in rounds)),
            "mxnet_cpu": round(statistics.median(theirs[1] for _, theirs in rounds)),
            "cpu_ratio": cpu["ratio"], "cpu_ratios": cpu["ratios"],
            "equal_files": files[0] == files[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", default="build/cmd/dtrain")
    parser.add_argument("--images", required=True)
    parser.add_argument("--modes", default="resize,pass")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", help="file to which the lines of JSON are appended")
    args = parser.parse_args()
    script = os.path.join(os.path.dirname(importlib.util.find_spec("mxnet").origin), "tools", "im2rec.py")
    commands = [[os.path.abspath(args.dtrain), "im2rec"], [sys.executable, script]]
    version = measuring.version(args.dtrain)
    names = sorted(os.listdir(args.images))
    count = args.repeat * len(names)
    with tempfile.TemporaryDirectory() as temporary:
        directories = [os.path.join(temporary, name) for name in ("dtrain", "mxnet")]
        for directory in directories:
            write_list(os.path.join(directory, "all", "a.lst"), names, count)
            write_list(os.path.join(directory, "one", "a.lst"), names, 1)
        for mode in args.modes.split(","):
            for threads in map(int, args.threads.split(",")):
                row = measure(args, commands, directories, count, mode, threads)
                row.update({"version": version, "machine": measuring.host(), "load": round(os.getloadavg()[0], 1),
                            "date": measuring.today()})
                measuring.write_row(row, args.results)


if __name__ == "__main__":
    main()
