#!/usr/bin/env python3
"""Measures how soon a job trains again after one of its processes is killed, beside PyTorch, in turns.

    test/bench/peers/restart_times.py [--python FILE] [--programs LIST] [--rounds N] [--results FILE]

  --python FILE   a Python with PyTorch, and torchft for the program of that name; default: python3
  --programs LIST names from the list below, separated by commas; default: restart,torchrun
  --rounds N      number of kills of each program; default: 20
  --results FILE  default: test/bench/results/peers.jsonl; "-": print only

Each turn starts a job of two workers that train LeNet, kills worker 1 or server 1 (kill -9) in its tenth step, and takes the
time from the kill to the end of the first step after it. DTRAIN names dtrain's program; default: build/cmd/dtrain.

  restart         dtrain --kv-store allreduce --max-restarts 1: all start again from a checkpoint
  wait, shrink    dtrain --kv-store allreduce --on-worker-loss wait (with another worker 1) or shrink (without it)
  wait-servers, shrink-servers    the same with two servers (dist_sync)
  server, server-async    dtrain --snapshot-every 5 with two servers (dist_sync, dist_async): another server 1 takes the place.
                  Also measures the part from when all are there again until the workers have the weights
  torchrun        --standalone --nproc_per_node 2 --max_restarts 1, with gloo and DistributedDataParallel on random images:
                  all start again from a checkpoint
  torchft         its DistributedDataParallel over gloo; the other replica continues without the lost one
"""
import argparse
import json
import os
import pathlib
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import measuring

STEP_OF_THE_KILL = 10
PATIENCE_S = 120

TORCH_JOB = """
import os, torch, torch.distributed as dist
from torch import nn
# With the store that PyTorch 2.15 takes by default, the restarted workers wait for each other forever in their first step.
var = os.environ
store = dist.TCPStore(var["MASTER_ADDR"], int(var["MASTER_PORT"]), is_master=False)
store = dist.PrefixStore("attempt" + var["TORCHELASTIC_RESTART_COUNT"], store)
dist.init_process_group("gloo", store=store, rank=int(var["RANK"]), world_size=int(var["WORLD_SIZE"]))
torch.manual_seed(1)
torch.set_num_threads(1)
net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2),
                    nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
step, file = 0, os.environ["CHECKPOINT"]
if os.path.exists(file):
    stored = torch.load(file)
    net.load_state_dict(stored["net"])
    optimizer.load_state_dict(stored["optimizer"])
    step = stored["step"]
while True:
    images, labels = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    step += 1
    if dist.get_rank() == 0:
        print("step", step, flush=True)
        if step == 5:
            torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)
"""


# Starts the lighthouse and two replicas; ends with them.
TORCHFT_JOB = """
import os, subprocess, sys, torch, torch.distributed as dist
from torch import nn
import torchft
if "REPLICA" not in os.environ:
    from torchft.coordination import LighthouseServer
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=1000, quorum_tick_ms=100)
    replicas = [subprocess.Popen([sys.executable, __file__], env=dict(os.environ, REPLICA=str(i),
                                 TORCHFT_LIGHTHOUSE=lighthouse.address())) for i in range(2)]
    sys.exit(replicas[0].wait())
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
torch.manual_seed(1)
torch.set_num_threads(1)
net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2),
                    nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10))
sgd = torch.optim.SGD(net.parameters(), lr=0.05)
def load(state):
    net.load_state_dict(state["net"])
    sgd.load_state_dict(state["sgd"])
manager = torchft.Manager(pg=torchft.ProcessGroupGloo(), load_state_dict=load,
                          state_dict=lambda: {"net": net.state_dict(), "sgd": sgd.state_dict()}, min_replica_size=1,
                          rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
                          replica_id="replica" + os.environ["REPLICA"])
model, optimizer = torchft.DistributedDataParallel(manager, net), torchft.Optimizer(manager, sgd)
while True:
    images, labels = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    before = manager.current_step()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    if os.environ["REPLICA"] == "0" and manager.current_step() > before:
        print("step", manager.current_step(), "of", manager.num_participants(), flush=True)
"""


class Job:
    """A job whose lines arrive with their times."""

    def __init__(self, command, environment, is_step, is_victim, ready="", starts_again="", part=()):
        """ready: words of the line from which on steps count; empty: all do
        starts_again: words of the line that the job prints before it starts again; empty: it prints none
        part: words of two lines; the time between them is measured too"""
        self.part = {words: None for words in part}
        self.ready = ready
        self.is_step, self.is_victim, self.starts_again = is_step, is_victim, starts_again
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True, env=dict(os.environ, **environment))
        self.lines, self.seen = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            now = time.monotonic()
            for words, when in self.part.items():
                if when is None and words in line:
                    self.part[words] = now
            self.lines.put((now, line))

    def part_seconds(self):
        begin, end = self.part.values()
        return end - begin

    def next_step(self):
        return self.next(self.is_step)

    def next(self, is_wanted):
        while True:
            try:
                when, line = self.lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise SystemExit("error: nothing for two minutes:\n" + "".join(self.seen[-30:])) from None
            self.seen.append(line)
            if is_wanted(line):
                return when

    def victim(self):
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if self.is_victim(words, variables):
                return int(entry.name)
        raise SystemExit("error: the process to be killed does not run:\n" + "".join(self.seen[-30:]))

    def seconds(self):
        """The time from the kill to the first step after it. Steps that ended before the kill are already in the queue."""
        try:
            if self.ready:
                self.next(lambda line: self.ready in line)
            for _ in range(STEP_OF_THE_KILL):
                self.next_step()
            victim = self.victim()
            os.kill(victim, signal.SIGKILL)
            killed = time.monotonic()
            while pathlib.Path(f"/proc/{victim}").exists() and time.monotonic() < killed + 0.2:
                time.sleep(0.001)
            if self.starts_again:
                self.next(lambda line: self.starts_again in line)
            else:
                self.drain_until(killed)
            return self.next_step() - killed
        finally:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def drain_until(self, killed):
        """Drops the last steps of the survivors, which end within an instant of the kill."""
        while True:
            try:
                when, line = self.lines.get(timeout=0.1)
            except queue.Empty:
                return
            self.seen.append(line)
            if when > killed + 0.1:
                self.lines.put((when, line))
                return


# By the program's name: flags, and words of the line that the job prints when it has noticed the loss, or when worker 1 is
# there again.
DTRAIN_JOBS = {
    "restart": (["-s", "0", "--kv-store", "allreduce", "--save-every", "0.1s", "--max-restarts", "1"],
                "dtrain: restart 1 of 1"),
    "wait": (["-s", "0", "--kv-store", "allreduce", "--on-worker-loss", "wait", "--max-restarts", "1"],
             "has joined the job"),
    "shrink": (["-s", "0", "--kv-store", "allreduce", "--on-worker-loss", "shrink"], "worker 1 was lost: "),
    "wait-servers": (["-s", "2", "--kv-store", "dist_sync", "--on-worker-loss", "wait", "--max-restarts", "1"],
                     "has joined the job"),
    "shrink-servers": (["-s", "2", "--kv-store", "dist_sync", "--on-worker-loss", "shrink"], "worker 1 was lost: "),
    "server": (["-s", "2", "--kv-store", "dist_sync", "--snapshot-every", "5", "--max-restarts", "1"], "the run goes back from"),
    "server-async": (["-s", "2", "--kv-store", "dist_async", "--snapshot-every", "5", "--max-restarts", "1"],
                     "the run continues in epoch"),
}
RESTORE = {"server": ("all servers go back to", "the run goes back from"),
           "server-async": ("a lost server was replaced by", "the run continues in epoch")}


def dtrain_job(directory, token, name):
    run_dir = str(directory / f"run-{name}-{token}")
    flags, starts_again = DTRAIN_JOBS[name]
    program = os.environ.get("DTRAIN", str(measuring.ROOT / "build/cmd/dtrain"))
    command = [program, "-n", "2", "--network", "lenet", "--benchmark", "1", "--image-shape", "1,28,28", "--num-classes", "10",
               "--num-batches", "100000", "--num-epochs", "1", "--batch-size", "64", "--threads", "1", "--disp-batches", "1",
               "--log-format", "1.9", "--run-dir", run_dir, *flags]
    role = b"server" if name in RESTORE else b"worker"
    return Job(command, {}, lambda line: "[worker 0 " in line and "Speed:" in line,
               lambda words, _: run_dir.encode() in words and words[words.index(b"--rank") + 1:][:1] == [b"1"]
               and role in words if b"--rank" in words else False, starts_again=starts_again, part=RESTORE.get(name, ()))


def torch_job(directory, token, python):
    script, checkpoint = directory / "torch_job.py", str(directory / f"checkpoint-{token}")
    script.write_text(TORCH_JOB, encoding="ascii")
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nnodes", "1", "--nproc_per_node", "2",
               "--max_restarts", "1", str(script)]
    return Job(command, {"CHECKPOINT": checkpoint, "OMP_NUM_THREADS": "1"}, lambda line: line.startswith("step "),
               lambda words, variables: str(script).encode() in words and b"RANK=1" in variables
               and f"CHECKPOINT={checkpoint}".encode() in variables)


def torchft_job(directory, token, python):
    script = directory / f"torchft_job_{token}.py"
    script.write_text(TORCHFT_JOB, encoding="ascii")
    return Job([python, str(script)], {"OMP_NUM_THREADS": "1"}, lambda line: line.startswith("step "),
               lambda words, variables: str(script).encode() in words and b"REPLICA=1" in variables, ready=" of 2")


def start(name, directory, turn, python):
    if name == "torchrun":
        return torch_job(directory, turn, python)
    if name == "torchft":
        return torchft_job(directory, turn, python)
    return dtrain_job(directory, turn, name)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--programs", default="restart,torchrun")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--results", default=str(measuring.ROOT / "test/bench/results/peers.jsonl"))
    asked = parser.parse_args()
    names = asked.programs.split(",")
    version = None
    if {"torchrun", "torchft"} & set(names):
        version = subprocess.check_output([asked.python, "-c", "import torch; print(torch.__version__)"], text=True).strip()
    if unknown := [name for name in names if name not in {*DTRAIN_JOBS, "torchrun", "torchft"}]:
        raise SystemExit(f"error: --programs: there is no '{unknown[0]}'")
    times = {name: [] for name in names}
    restores = {name: [] for name in names if name in RESTORE}
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        for turn in range(asked.rounds):
            for name in names if turn % 2 == 0 else reversed(names):
                job = start(name, directory, turn, asked.python)
                times[name].append(job.seconds())
                if name in restores:
                    restores[name].append(job.part_seconds())
                print(f"{turn + 1}: {name} {times[name][-1]:.2f} s", file=sys.stderr)
    row = {"check": "restart after kill -9", "rounds": asked.rounds,
           **{f"{name}_s": round(statistics.median(seconds), 2) for name, seconds in times.items()},
           **{f"{name}_spread_s": measuring.spread(seconds, 2) for name, seconds in times.items()},
           **{f"{name}_restore_s": round(statistics.median(seconds), 3) for name, seconds in restores.items()},
           "torch": version, "commit": measuring.commit(),
           "host": measuring.host(), "load": round(os.getloadavg()[0], 1), "date": measuring.today()}
    print(json.dumps(row))
    if asked.results != "-":
        with open(asked.results, "a", encoding="utf-8") as results:
            results.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
