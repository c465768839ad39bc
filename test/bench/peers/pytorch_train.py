#!/usr/bin/env python3
"""Trains ResNet-50 and Inception-BN in PyTorch on synthetic images, to compare images/s with dtrain's.

Run by scripts/gpu-check peers. The networks equal those that dtrain trains under the same names, layer by layer (no
torchvision): resnet-50 is the pre-activation form, resnet-v1-50 the post-activation form with the stride on the first
1x1, resnet-v1.5-50 the same with the stride on the 3x3, which is torchvision's resnet50. The images are on the device before the first step, in channels_last. Types: autocast to float16 (with GradScaler)
or bfloat16, or float32 with TF32. Uses fused SGD with momentum and cudnn.benchmark. Each step is timed with CUDA
events; the result is the median after the warm-up. Variants: eager, and torch.compile in the modes "reduce-overhead"
(CUDA graphs; a minute per network) and "max-autotune" (several minutes).

Prints one line of JSON per measurement to stdout, in the format of gpu_check record, and everything else to stderr.
Exit code 1: the time was over before all measurements were done.
  --set NAME    quick: two networks, eager; peers: all networks, eager and reduce-overhead; compiled: max-autotune
  --seconds N   after this time, reports the current measurement as killed and ends
  --done FILE   names of measurements to leave out, one per line
  --smoke       tiny images and batches on the CPU, one step each, to see that the script works
"""
import argparse
import contextlib
import functools
import json
import os
import statistics
import sys
import threading
import time

START = time.monotonic()  # importing PyTorch takes some time

try:
    import torch
    from torch import nn
except ImportError as error:
    print(json.dumps({"name": "pytorch", "status": "missing", "text": f"python3 has no PyTorch: {error}"}))
    sys.exit(0)


def conv(channels, filters, kernel, stride=1, pad=0, bias=False):
    return nn.Conv2d(channels, filters, kernel, stride, pad, bias=bias)


class PreActivationUnit(nn.Module):
    """ResNet v2's bottleneck: a stage's first shortcut reads the activated input, and no ReLU follows the sum."""

    def __init__(self, channels, filters, stride, project):
        super().__init__()
        inner = filters // 4
        self.bn1, self.conv1 = nn.BatchNorm2d(channels, eps=2e-5), conv(channels, inner, 1)
        self.bn2, self.conv2 = nn.BatchNorm2d(inner, eps=2e-5), conv(inner, inner, 3, stride, 1)
        self.bn3, self.conv3 = nn.BatchNorm2d(inner, eps=2e-5), conv(inner, filters, 1)
        self.shortcut = conv(channels, filters, 1, stride) if project else None

    def forward(self, x):
        act = torch.relu(self.bn1(x))
        y = self.conv1(act)
        y = self.conv2(torch.relu(self.bn2(y)))
        y = self.conv3(torch.relu(self.bn3(y)))
        return y + (x if self.shortcut is None else self.shortcut(act))


class PostActivationUnit(nn.Module):
    """ResNet v1's bottleneck, with the stride on the first convolution, or for v1.5 on the second one."""

    def __init__(self, channels, filters, stride, project, v15=False):
        super().__init__()
        inner = filters // 4
        first, second = (1, stride) if v15 else (stride, 1)
        self.conv1, self.bn1 = conv(channels, inner, 1, first), nn.BatchNorm2d(inner, eps=2e-5)
        self.conv2, self.bn2 = conv(inner, inner, 3, second, 1), nn.BatchNorm2d(inner, eps=2e-5)
        self.conv3, self.bn3 = conv(inner, filters, 1), nn.BatchNorm2d(filters, eps=2e-5)
        self.shortcut = None
        if project:
            self.shortcut = nn.Sequential(conv(channels, filters, 1, stride), nn.BatchNorm2d(filters, eps=2e-5))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return torch.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def stages_of_50(unit):
    layers, channels = [], 64
    for stage, (filters, units) in enumerate(((256, 3), (512, 4), (1024, 6), (2048, 3))):
        for i in range(units):
            layers.append(unit(channels, filters, 2 if stage > 0 and i == 0 else 1, i == 0))
            channels = filters
    return layers


def head(channels, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def resnet_50(classes):
    # dtrain fixes the scale of bn_data to 1. Here it is learned, which has no measurable cost.
    stem = [nn.BatchNorm2d(3, eps=2e-5), conv(3, 64, 7, 2, 3), nn.BatchNorm2d(64, eps=2e-5), nn.ReLU(),
            nn.MaxPool2d(3, 2, 1)]
    tail = [nn.BatchNorm2d(2048, eps=2e-5), nn.ReLU()]
    return nn.Sequential(*stem, *stages_of_50(PreActivationUnit), *tail, *head(2048, classes))


def resnet_v1_50(classes, v15=False):
    stem = [conv(3, 64, 7, 2, 3), nn.BatchNorm2d(64, eps=2e-5), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    unit = functools.partial(PostActivationUnit, v15=v15)
    return nn.Sequential(*stem, *stages_of_50(unit), *head(2048, classes))


def resnet_v15_50(classes):
    return resnet_v1_50(classes, v15=True)


def unit(channels, filters, kernel=1, stride=1, pad=0):
    """Inception-BN's unit: a convolution with a bias, batch norm, ReLU."""
    return nn.Sequential(
        conv(channels, filters, kernel, stride, pad, bias=True), nn.BatchNorm2d(filters, eps=1e-3), nn.ReLU())


class Branches(nn.Module):
    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def module_a(channels, one, three, double, pool, proj):
    pooling = nn.AvgPool2d(3, 1, 1) if pool == "avg" else nn.MaxPool2d(3, 1, 1)
    return Branches(
        unit(channels, one),
        nn.Sequential(unit(channels, three[0]), unit(three[0], three[1], 3, 1, 1)),
        nn.Sequential(
            unit(channels, double[0]), unit(double[0], double[1], 3, 1, 1), unit(double[1], double[1], 3, 1, 1)),
        nn.Sequential(pooling, unit(channels, proj)))


def module_b(channels, three, double):
    return Branches(
        nn.Sequential(unit(channels, three[0]), unit(three[0], three[1], 3, 2, 1)),
        nn.Sequential(
            unit(channels, double[0]), unit(double[0], double[1], 3, 1, 1), unit(double[1], double[1], 3, 2, 1)),
        nn.MaxPool2d(3, 2, 1))


def inception_bn(classes):
    return nn.Sequential(
        unit(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2), unit(64, 64), unit(64, 192, 3, 1, 1), nn.MaxPool2d(3, 2),
        module_a(192, 64, (64, 64), (64, 96), "avg", 32),
        module_a(256, 64, (64, 96), (64, 96), "avg", 64),
        module_b(320, (128, 160), (64, 96)),
        module_a(576, 224, (64, 96), (96, 128), "avg", 128),
        module_a(576, 192, (96, 128), (96, 128), "avg", 128),
        module_a(576, 160, (128, 160), (128, 160), "avg", 128),
        module_a(608, 96, (128, 192), (160, 192), "avg", 128),
        module_b(608, (128, 192), (192, 256)),
        module_a(1056, 352, (192, 320), (160, 224), "avg", 128),
        module_a(1024, 352, (192, 320), (192, 224), "max", 128),
        *head(1024, classes))


# Name: the builder, and the number of parameters with 1000 classes, which equals that of dtrain's network.
NETWORKS = {
    "resnet-50": (resnet_50, 25_549_486),
    "resnet-v1-50": (resnet_v1_50, 25_557_032),
    "resnet-v1.5-50": (resnet_v15_50, 25_557_032),
    "inception-bn": (inception_bn, 11_295_240),
}
# The measurements of each --set, most informative first: network, mode, batch, torch.compile's mode or None.
FAST, SLOW = "reduce-overhead", "max-autotune"
SETS = {
    "quick": [("resnet-50", "float16", 256, None), ("resnet-v1.5-50", "float16", 256, None)],
    "peers": [
        ("resnet-50", "float16", 256, None), ("inception-bn", "float16", 256, None),
        ("resnet-v1.5-50", "float16", 256, None), ("resnet-v1-50", "float16", 256, None),
        ("resnet-50", "float16", 256, FAST), ("resnet-v1.5-50", "float16", 256, FAST),
        ("resnet-v1-50", "float16", 256, FAST),
        ("inception-bn", "float16", 256, FAST),
        ("resnet-50", "float16", 128, None), ("inception-bn", "float16", 128, None),
        ("resnet-50", "float16", 192, None), ("inception-bn", "float16", 192, None),
        ("resnet-50", "bfloat16", 256, None), ("inception-bn", "bfloat16", 256, None),
        ("resnet-50", "tf32", 256, None), ("inception-bn", "tf32", 256, None),
        ("resnet-50", "float16", 128, FAST), ("inception-bn", "float16", 128, FAST),
        ("resnet-50", "float16", 192, FAST), ("inception-bn", "float16", 192, FAST),
    ],
    "compiled": [("resnet-50", "float16", 256, SLOW), ("resnet-v1.5-50", "float16", 256, SLOW),
                 ("inception-bn", "float16", 256, SLOW)],
}
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "tf32": None}


class Training:
    """One network and its training step, on images that are on the device."""

    def __init__(self, network, mode, batch, compiled, device, size):
        torch.manual_seed(1)
        classes = 1000
        builder, count = NETWORKS[network]
        model = builder(classes)
        found = sum(p.numel() for p in model.parameters())
        assert count == found, f"{network} has {found} parameters, not {count}"
        self.device, self.type = device, TYPES[mode]
        self.model = model.to(device=device, memory_format=torch.channels_last).train()
        fused = {"fused": True} if device == "cuda" else {}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4, **fused)
        self.scaler = torch.amp.GradScaler(device) if mode == "float16" else None
        self.forward = torch.compile(self.loss, mode=compiled) if compiled else self.loss
        # CUDA graphs return the same memory in every step: the results of the last step may be overwritten.
        self.begin = torch.compiler.cudagraph_mark_step_begin if compiled else lambda: None
        images = torch.randn(batch, 3, size, size, device=device)
        self.images = images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, classes, (batch,), device=device)

    def loss(self, images, labels):
        autocast = contextlib.nullcontext() if self.type is None else torch.autocast(self.device, dtype=self.type)
        with autocast:
            return nn.functional.cross_entropy(self.model(images), labels)

    def step(self):
        self.begin()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(self.images, self.labels)
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
            return
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


def measure(training, batch, warm_up=10, steps=40):
    """Images/s of the median step, and the largest amount of memory that PyTorch held."""
    for _ in range(warm_up):
        training.step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    events[0].record()
    for event in events[1:]:
        training.step()
        event.record()
    torch.cuda.synchronize()
    times = [first.elapsed_time(second) for first, second in zip(events, events[1:])]
    median = statistics.median(times)
    return {"images_per_s": 1000 * batch / median, "slowest_share": (max(times) - median) / median,
            "peak_bytes": torch.cuda.max_memory_allocated()}


def copy_rate():
    """GB/s of a copy within the device. Each byte counts twice, as read and as written."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times = []
    for _ in range(12):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return 2 * source.numel() / statistics.median(times[2:]) / 1e6


def name_of(network, mode, batch, compiled):
    return f"pytorch {network} {mode} batch {batch}{f' {compiled}' if compiled else ''}"


def report(name, status, seconds, text, **numbers):
    print(json.dumps({"name": name, "status": status, "seconds": seconds, "text": text, **numbers}), flush=True)


class Limit:
    """Ends the process when the time is over, whatever it is doing: compilers and kernels cannot be interrupted."""

    def __init__(self, seconds):
        self.under_way, self.begun = None, 0
        timer = threading.Timer(seconds, self.end)
        timer.daemon = True
        timer.start()

    def begin(self, name):
        self.under_way, self.begun = name, time.monotonic()

    def end(self):
        if self.under_way is not None:
            report(self.under_way, "killed", time.monotonic() - self.begun, "its time was over")
        os._exit(1)


def run(name, work, limit):
    begun = time.monotonic()
    limit.begin(name)
    try:
        numbers, text = work()
        report(name, "passed", time.monotonic() - begun, text, **numbers)
    except Exception as error:  # a network that does not compile must not prevent the other measurements
        report(name, "failed", time.monotonic() - begun, f"{type(error).__name__}: {error}"[:500])
        torch._dynamo.reset()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def measured(network, mode, batch, compiled):
    torch.cuda.empty_cache()
    torch._dynamo.reset()
    training = Training(network, mode, batch, compiled, "cuda", 224)
    numbers = measure(training, batch)
    return numbers, f"{numbers['images_per_s']:.0f} images/s, {numbers['peak_bytes'] / 2**30:.2f} GiB"


def measured_copies():
    rate = copy_rate()
    versions = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
    return {"device_gb_s": rate}, f"{versions}: {rate:.0f} GB/s"


def smoke():
    for network in NETWORKS:
        for mode in ("tf32", "bfloat16"):
            training = Training(network, mode, 2, None, "cpu", 224)
            before = [p.detach().clone() for p in training.model.parameters()]
            training.step()
            changed = sum(not torch.equal(a, b) for a, b in zip(before, training.model.parameters()))
            print(f"{network} {mode}: {changed} of {len(before)} parameters changed, "
                  f"{sum(p.numel() for p in before)} elements", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--set", choices=SETS, default="peers")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--done")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    if arguments.smoke:
        return smoke()
    if not torch.cuda.is_available():
        report("pytorch", "missing", 0, f"PyTorch {torch.__version__} sees no GPU")
        return None
    done = set(open(arguments.done).read().splitlines()) if arguments.done else set()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    limit = Limit(max(1.0, arguments.seconds - (time.monotonic() - START)))
    if arguments.set == "peers" and "pytorch copies" not in done:
        run("pytorch copies", measured_copies, limit)
    for one in SETS[arguments.set]:
        name = name_of(*one)
        if name in done:
            continue
        run(name, lambda one=one: measured(*one), limit)
    limit.under_way = None
    return None


sys.exit(main())
