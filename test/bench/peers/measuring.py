"""What the scripts that compare dtrain with other programs share: the host, versions, cores, and rows of results."""
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
INSTRUCTION_SETS = ("avx512_vbmi2", "avx512bw", "avx2", "avx", "sse4_2")  # the newest first


def processor():
    """The fields of the first processor in /proc/cpuinfo."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        return {key.strip(): value.strip() for key, _, value in
                (line.partition(":") for line in info.read().partition("\n\n")[0].splitlines())}


def host():
    cpu = processor()
    flags = cpu.get("flags", "").split()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"processor": cpu.get("model name", platform.machine()),
            "family, model, stepping": [int(cpu.get(key, -1)) for key in ("cpu family", "model", "stepping")],
            "instruction_set": next((name for name in INSTRUCTION_SETS if name in flags), "unknown"),
            "cores": len(os.sched_getaffinity(0)), "memory_GiB": round(memory), "system": platform.platform()}


def version(program):
    return subprocess.check_output([program, "--version"], text=True).split("\n", maxsplit=1)[0]


def commit():
    """The commit of this checkout, with "+" if files differ from it."""
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def today():
    return str(datetime.date.today())


def on_cores(threads):
    """The beginning of a command that is bound to as many cores as it has threads."""
    return ["taskset", "-c", ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:threads])]


def spread(values, digits):
    return [round(min(values), digits), round(max(values), digits)]


def ratio(pairs):
    """Of pairs (ours, theirs): the median of the ratios, the least and the largest."""
    ratios = [ours / theirs for ours, theirs in pairs]
    return {"ratio": round(statistics.median(ratios), 2), "ratios": spread(ratios, 2)}


def write_row(row, file):
    """Prints a row and appends it to the file of results, if there is one."""
    print(json.dumps(row), flush=True)
    if file:
        with open(file, "a", encoding="utf-8") as results:
            results.write(json.dumps(row) + "\n")
