#!/usr/bin/env python3
"""Trains on several GPUs with dtrain itself: every store that works there, in every type, with 2 GPUs and with all.

Run by scripts/gpu-check several. Each run is a part: it must end by itself within its time, with exit code 0, leave no
process behind, and compute finite numbers. Runs whose sums do not depend on an order (two GPUs), or are made in the
order of ranks (docs/arithmetic.md), must give the same weights, bit for bit; for the others the losses are compared. All
runs are deterministic, so no plans are measured. In the last parts of each number of GPUs, worker 1 is killed: the job
must end, with an error that names it.

Prints one line of JSON per part to stdout, in the format of gpu_check record. Exit code 1: the time was over before all
parts were done.
  --program FILE     dtrain
  --gpus N           the number of GPUs of this host; fewer are used if CUDA_VISIBLE_DEVICES names fewer
  --directory DIR    for the images, the runs, and the weights' checksums, with which a later call continues
  --seconds N        no part begins later, or takes longer than what is left;  --part-seconds N  a longer one hangs
  --done FILE        names of parts to leave out, one per line
  --only TEXT        parts with this in their names
  --small            a small network, for emulated GPUs
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

TYPES = ("float32", "float16", "bfloat16")
# How much the losses of two runs may differ whose sums have another order, relative to the loss.
LOSS_TOLERANCE = {"float32": 0.05, "float16": 0.25, "bfloat16": 0.25}
MARK = "DTRAIN_SEVERAL_GPUS"  # in the environment of every process of a run
VISIBLE = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]  # empty: all GPUs


class Run:
    """One command, and with what its results are compared: those of the same `bits` have the same weights, and those of
    the same `data` see the same batches, so their losses are nearly the same."""

    def __init__(self, gpus, dtype, name, flags, bits, data, killed=False):
        self.name = f"{gpus} GPUs {dtype} {name}"
        self.flags = [*flags, "--dtype", dtype]
        if not killed:
            self.flags += ["--num-epochs", "2"]
        self.dtype, self.killed, self.gpus = dtype, killed, gpus
        self.bits = bits and f"{gpus} {dtype} {bits}"
        self.data = f"{gpus} {dtype} {data}"


def processes(store, workers):
    flags = ["--kv-store", store, "-n", str(workers), "--gpus", "all"]
    return flags + ["-s", "1"] if store.startswith("dist_") else flags


def runs_with(gpus, dtype):
    """Every store: in one process with all of its GPUs, and in a job with a worker for each GPU."""
    one = ["--gpus", f"0-{gpus - 1}"]
    two = gpus == 2
    for store in ("nccl", "nccl_allreduce", "device", "local"):
        yield Run(gpus, dtype, f"one process {store}", [*one, "--kv-store", store], two and "one", "one")
    for store in ("nccl_allreduce", "nccl", "allreduce", "dist_sync"):
        # These add in the order of ranks. In float16, each of their workers changes its loss scale on its own, while workers
        # that sum over NCCL have one scale (docs/arithmetic.md).
        by_rank = store in ("allreduce", "dist_sync")
        bits = "by rank" if by_rank and (dtype == "float16" or not two) else two and "job"
        yield Run(gpus, dtype, f"{gpus} workers {store}", processes(store, gpus), bits, "job")
    # Here a worker has several GPUs, and sees the batches of one process with them.
    yield Run(gpus, dtype, "one worker dist_device_sync", processes("dist_device_sync", 1), two and "one", "one")


def kills_with(gpus):
    for store in ("nccl_allreduce", "nccl", "allreduce", "dist_sync"):
        # Far more epochs than it gets to.
        flags = [*processes(store, gpus), "--inject", "kill=worker:1@step:5", "--num-epochs", "100"]
        yield Run(gpus, "float32", f"a killed worker {store}", flags, None, "killed", killed=True)


def all_runs(gpus):
    runs = []
    for count in sorted({2, gpus}):
        first, *others = TYPES
        runs += [*runs_with(count, first), *kills_with(count)]
        for dtype in others:
            runs += runs_with(count, dtype)
    return runs


def report(name, status, seconds, text, **numbers):
    print(json.dumps({"name": name, "status": status, "seconds": round(seconds, 2), "text": text, **numbers}), flush=True)


def processes_left(mark):
    """The processes of a run that still exist."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:  # it has ended, or belongs to another user
            pass
    return found


def kill_all(mark):
    for pid in processes_left(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Place:
    """The directory with the images and the runs, and how dtrain is started there."""

    def __init__(self, arguments, done):
        self.program = os.path.abspath(arguments.program)
        self.directory = pathlib.Path(arguments.directory).resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.results_file = self.directory / "results.json"
        # Those of another program are of no use.
        continues = done and self.results_file.exists()
        self.results = json.loads(self.results_file.read_text()) if continues else {}
        if arguments.small:
            self.images = ["--count", "160", "--size", "16"]
            self.training = ["--network", "mlp", "--image-shape", "3,16,16", "--batch-size", "16", "--lr", "0.001"]
        else:
            self.images = ["--count", "4096", "--size", "32"]
            self.training = ["--network", "resnet", "--num-layers", "20", "--image-shape", "3,28,28",
                             "--batch-size", "128", "--lr", "0.02"]

    def start(self, words, seconds, gpus=None):
        """Returns the exit code, or None if it did not end in time, the output, and the processes that were left and are
        killed."""
        mark = f"{self.directory} {time.monotonic_ns()}"
        environment = {**os.environ, MARK: mark, "XDG_CACHE_HOME": str(self.directory / "cache")}
        if gpus is not None:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(VISIBLE[:gpus] if VISIBLE else map(str, range(gpus)))
        with open(self.directory / "output", "w+b") as output:
            process = subprocess.Popen([self.program, *words], cwd=self.directory, env=environment,
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            left = processes_left(mark) if code is not None else []
            kill_all(mark)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:  # a call into the driver that even SIGKILL does not end
                print(f"process {process.pid} cannot be killed", file=sys.stderr)
            output.seek(0)
            text = output.read().decode(errors="replace")
        return code, text, left

    def draw_images(self):
        if (self.directory / "data").exists():
            return
        code, text, _ = self.start(["data", "synth", "--out", "data", *self.images], 60)
        if code != 0:
            sys.exit(f"dtrain data synth: code {code}: {text}")

    def train(self, run, seconds):
        words = [*self.training, "--data-dir", "data", "--run-dir", "run", "--overwrite", "--seed", "3",
                 "--deterministic", "1", *run.flags]
        return self.start(words, seconds, run.gpus)

    def keep(self, kind, key, run, value):
        """Returns the first run's name and value of this kind, and keeps this one if it is the first."""
        first = self.results.setdefault(f"{kind}: {key}", [run.name, value])
        self.results_file.write_text(json.dumps(self.results))
        return first


def end_of(text):
    """The lines that say why a run failed."""
    lines = [line for line in text.replace("\r", "\n").split("\n") if line.strip()]
    errors = [line for line in lines if "error" in line or "warn" in line]
    return " | ".join(errors[-4:] or lines[-4:])[-700:]


def judged_kill(code, text):
    if code == 0:
        return "the job ended with code 0, although a worker was killed"
    if "worker 1 was lost" not in text:
        return f"code {code}, but no error names worker 1: {end_of(text)}"
    return None


def judged_results(place, run, summary):
    """Compares the weights and the loss with those of the first run that must have the same."""
    loss = summary["validation_cross_entropy"]
    if summary["samples"] == 0:
        return "every step was left out"
    if loss is None or not math.isfinite(loss):
        return f"the loss is {loss}"
    if run.bits:
        weights, = (place.directory / "run").glob("*-%04d.params" % summary["epochs"])
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        name, expected = place.keep("weights", run.bits, run, digest)
        if digest != expected:
            return f"other weights than those of '{name}', whose sums are the same"
    name, expected = place.keep("loss", run.data, run, loss)
    if abs(loss - expected) > LOSS_TOLERANCE[run.dtype] * abs(expected):
        return f"the loss is {loss:.4f}, but that of '{name}' is {expected:.4f}"
    return None


def judged(place, run, code, text, left):
    """Returns what is wrong, or None, and numbers for the report."""
    if left:
        return f"{len(left)} processes were left after the end", {}
    if run.killed:
        return judged_kill(code, text), {"exit_code": code}
    if code != 0:
        return f"code {code}: {end_of(text)}", {"exit_code": code}
    summary = json.loads((place.directory / "run" / "summary.json").read_text())
    numbers = {name: summary[name] for name in ("samples_per_s", "validation_cross_entropy", "validation_accuracy")}
    return judged_results(place, run, summary), numbers


def carry_out(place, run, seconds, is_whole_time):
    """Makes one run and reports it."""
    begun = time.monotonic()
    code, text, left = place.train(run, seconds)
    took = time.monotonic() - begun
    if code is None:
        # With its whole time it has failed; otherwise a later call may begin it once more.
        report(run.name, "failed" if is_whole_time else "killed", took, f"did not end within {seconds:.0f} s: {end_of(text)}")
        return
    wrong, numbers = judged(place, run, code, text, left)
    good = f"code {code}, names worker 1" if run.killed else f"{numbers.get('samples_per_s') or 0:.0f} images/s"
    report(run.name, "failed" if wrong else "passed", took, wrong or good, **numbers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--part-seconds", type=float, default=60)
    parser.add_argument("--done")
    parser.add_argument("--only", default="")
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    gpus = min(arguments.gpus, len(VISIBLE) or arguments.gpus)
    if gpus < 2:
        report("several GPUs", "missing", 0, "skipped: one GPU")
        return 0
    done = set(pathlib.Path(arguments.done).read_text().splitlines()) if arguments.done else set()
    place = Place(arguments, done)
    place.draw_images()
    for run in all_runs(gpus):
        if run.name in done or arguments.only not in run.name:
            continue
        left = deadline - time.monotonic()
        if left < 5:
            return 1
        seconds = min(left, arguments.part_seconds)
        carry_out(place, run, seconds, seconds == arguments.part_seconds)
    return 0


sys.exit(main())
