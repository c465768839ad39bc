"""How other programs read and change training images: MXNet, torchvision, DALI and OpenCV. `run input` starts it.

    python input_peers.py PEER THREADS

reads one JSON object per line and answers each one by one line: {"open": FILE.rec, "setting": NAME}, then {"measure":
IMAGES} as often as wanted. All peers make batches of 32 x 3 x 224 x 224 float32 numbers, (pixel - mean) / deviation, from
the records in the order of the file, without end. Each has the augmentations of SETTINGS, and `differs` says what it does
differently from dtrain and MXNet.
"""
import concurrent.futures
import contextlib
import ctypes
import glob
import json
import math
import os
import queue
import random
import signal
import struct
import sys
import threading
import time

BATCH, EDGE = 32, 224
MEAN, DEVIATION = (123.68, 116.779, 103.939), (58.393, 57.12, 57.375)
AREA, ASPECT = (0.08, 1.0), (0.75, 4 / 3)
JITTER, PCA_DEVIATION = 0.4, 0.1
# Red, green and blue of the principal components of ImageNet's colors, times the roots of their variances.
PCA = ((-31.47355, 3.44784, 0.46023), (-32.21117, -0.02157, -0.93447), (-32.36646, -3.33087, 0.48250))
SCALE, STRETCH, FILL = (0.533, 1.0), (0.75, 1.25), 127
SETTINGS = {
    "crop": "shorter edge 256, random crop, mirror",
    "area": "random area of 0.08 to 1 and aspect ratio of 3/4 to 4/3, mirror",
    "imagenet": "area, with brightness, contrast and saturation 0.4 and PCA noise 0.1",
    "nvidia": "scale 0.533 to 1 and aspect ratio 0.75 to 1.25 by an affine map, random crop, mirror",
}
WARM_UP_BATCHES = 4  # taken before each measurement


class Skipped(Exception):
    """The peer is not installed."""


def pca_offset():
    alpha = [random.gauss(0, PCA_DEVIATION) for _ in range(3)]
    return [sum(row[i] * alpha[i] for i in range(3)) for row in PCA]


class Images:
    """The encoded images of a record file."""

    def __init__(self, path):
        with open(path[:-len(".rec")] + ".idx", encoding="ascii") as lines:
            self.offsets = [int(line.split()[1]) for line in lines]
        self.file = os.open(path, os.O_RDONLY)

    def __len__(self):
        return len(self.offsets)

    def __getitem__(self, i):
        head = os.pread(self.file, 12, self.offsets[i])
        _, length, labels = struct.unpack("<III", head)
        if length >> 29:
            raise ValueError("records in several parts are not read here")
        before = 24 + 4 * labels  # flag, label and two ids; further labels
        return os.pread(self.file, length - before, self.offsets[i] + 8 + before)


class MXNet:
    # It decodes 8 MiB of records at once, before it gives the first of their batches. Fewer images would be measured too
    # fast or too slow by what is decoded at the beginning and the end.
    images_min = 60 * BATCH
    differs = {"": "with 2 threads: two iterators of one process, each over half of the records, since one iterator uses at most "
                   "half of the cores"}
    by_area = {"random_resized_crop": True, "min_random_area": AREA[0], "max_random_area": AREA[1],
               "min_aspect_ratio": ASPECT[0], "max_aspect_ratio": ASPECT[1]}
    arguments = {
        "crop": {"resize": 256, "rand_crop": True},
        "area": by_area,
        "imagenet": {**by_area, "brightness": JITTER, "contrast": JITTER, "saturation": JITTER, "pca_noise": PCA_DEVIATION},
        "nvidia": {"rand_crop": True, "max_aspect_ratio": 0.25, "min_random_scale": SCALE[0], "max_random_scale": SCALE[1],
                   "fill_value": FILL},
    }

    def __init__(self, threads):
        import numpy
        numpy.bool = bool  # MXNet 1.9.1 uses the name that later releases of numpy dropped
        import mxnet
        self.mxnet, self.threads = mxnet, threads
        self.version = {"mxnet": mxnet.__version__, "numpy": numpy.__version__}

    def open(self, path, setting):
        iterators = [self.mxnet.io.ImageRecordIter(
            path_imgrec=path, data_shape=(3, EDGE, EDGE), batch_size=BATCH, preprocess_threads=1, shuffle=False,
            num_parts=self.threads, part_index=part, rand_mirror=True, verbose=False,
            mean_r=MEAN[0], mean_g=MEAN[1], mean_b=MEAN[2], std_r=DEVIATION[0], std_g=DEVIATION[1], std_b=DEVIATION[2],
            **self.arguments[setting]) for part in range(self.threads)]
        return self.batches(iterators)

    def batches(self, iterators):
        if len(iterators) == 1:
            yield from self.endless(iterators[0])
        # Each has a thread that takes its batches, so that none waits for another one, as at the end of its records.
        shapes, ended = queue.Queue(len(iterators)), threading.Event()

        def take(iterator):
            for shape in self.endless(iterator):
                shapes.put(shape)
                if ended.is_set():
                    return

        threads = [threading.Thread(target=take, args=(iterator,), daemon=True) for iterator in iterators]
        for thread in threads:
            thread.start()
        try:
            while True:
                yield shapes.get()
        finally:
            ended.set()
            while any(thread.is_alive() for thread in threads):
                with contextlib.suppress(queue.Empty):
                    shapes.get(timeout=0.01)

    @staticmethod
    def endless(iterator):
        while True:
            for batch in iterator:
                batch.data[0].wait_to_read()
                yield batch.data[0].shape
            iterator.reset()


class TorchVision:
    differs = {"": "decode_jpeg, transforms.v2 on uint8 tensors with antialias, batches normalized at once; 1 thread: no worker "
                   "process (num_workers=0), 2 threads: two worker processes",
               "imagenet": "PCA noise is added to the floats, not clipped to 8 bits",
               "nvidia": "the affine map, which neither turns nor shears, is a resize"}

    def __init__(self, threads):
        import torch
        import torchvision
        torch.set_num_threads(1)
        self.torch, self.threads = torch, threads
        self.version = {"torch": torch.__version__, "torchvision": torchvision.__version__}

    def changes(self, setting):
        from torchvision.transforms import v2
        by_area = v2.RandomResizedCrop(EDGE, scale=AREA, ratio=ASPECT)
        if setting == "crop":
            return v2.Compose([v2.Resize(256), v2.RandomCrop(EDGE), v2.RandomHorizontalFlip()])
        if setting == "area":
            return v2.Compose([by_area, v2.RandomHorizontalFlip()])
        if setting == "imagenet":
            return v2.Compose([by_area, v2.RandomHorizontalFlip(), v2.ColorJitter(JITTER, JITTER, JITTER)])
        return v2.Compose([self.stretched, v2.RandomCrop(EDGE), v2.RandomHorizontalFlip()])

    @staticmethod
    def stretched(image):
        """The affine map, which neither turns nor shears, as a resize. An image smaller than the crop is enlarged."""
        from torchvision.transforms.v2 import functional
        height, width = image.shape[-2:]
        scale, ratio = random.uniform(*SCALE), random.uniform(*STRETCH)
        by = 2 * scale / (1 + ratio)
        size, to = (int(ratio * by * height), int(by * width)), (int(scale * height), int(scale * width))
        image = functional.resize(image, size)
        missing = [max(0, to[i] - size[i]) for i in range(2)]
        if any(missing):
            image = functional.pad(image, [missing[1] // 2, missing[0] // 2, -(-missing[1] // 2), -(-missing[0] // 2)], fill=FILL)
        image = functional.center_crop(image, to)
        if min(to) < EDGE:
            grow = max(EDGE / to[0], EDGE / to[1])
            image = functional.resize(image, [max(EDGE, int(grow * edge)) for edge in to])
        return image

    def open(self, path, setting):
        from torchvision.io import ImageReadMode, decode_jpeg
        torch, images, change = self.torch, Images(path), self.changes(setting)
        mean, factor = (torch.tensor(values)[:, None, None] for values in (MEAN, [1 / x for x in DEVIATION]))

        class Changed(torch.utils.data.Dataset):
            def __len__(self):
                return len(images)

            def __getitem__(self, i):
                data = torch.frombuffer(bytearray(images[i]), dtype=torch.uint8)
                return change(decode_jpeg(data, ImageReadMode.RGB))

        def collate(images):
            numbers = torch.stack(images).to(torch.float32)
            if setting == "imagenet":
                numbers += torch.tensor([pca_offset() for _ in images])[:, :, None, None]
            return numbers.sub_(mean).mul_(factor)

        workers = 0 if self.threads == 1 else self.threads
        loader = torch.utils.data.DataLoader(
            Changed(), batch_size=BATCH, num_workers=workers, collate_fn=collate,
            worker_init_fn=lambda _: torch.set_num_threads(1), persistent_workers=workers > 0)
        return self.batches(loader)

    def batches(self, loader):
        while True:
            for batch in loader:
                yield tuple(batch.shape)


class Dali:
    differs = {"": "the CPU pipeline without a GPU; its own settings of the JPEG decoder (no smooth upsampling of colors); no antialias",
               "area": "decoders.image_random_crop, which decodes the crop only",
               "imagenet": "as area; PCA noise is added to the floats, not clipped; the colors' changes have one order",
               "nvidia": "the affine map, which neither turns nor shears, is a resize"}

    def __init__(self, threads):
        import nvidia.dali
        self.dali, self.threads = nvidia.dali, threads
        self.version = {"nvidia-dali": nvidia.dali.__version__}

    def open(self, path, setting):
        changed = {"crop": self.resized, "nvidia": self.stretched}.get(setting, self.by_area)
        pipeline = self.dali.pipeline_def(self.graph, batch_size=BATCH, num_threads=self.threads, device_id=None, seed=1,
                                          enable_conditionals=True)(path, changed, setting == "imagenet")
        pipeline.build()
        return self.batches(pipeline)

    @staticmethod
    def graph(path, changed, colors):
        from nvidia.dali import fn, types
        files, _ = fn.readers.mxnet(path=[path], index_path=[path[:-len(".rec")] + ".idx"])
        images, mean = changed(files), types.Constant(list(MEAN), dtype=types.FLOAT)
        if colors:
            brightness, contrast, saturation = (fn.random.uniform(range=(1 - JITTER, 1 + JITTER)) for _ in range(3))
            images = fn.color_twist(images, brightness=brightness, contrast=contrast, saturation=saturation)
            noise = fn.random.normal(stddev=PCA_DEVIATION, shape=3)
            mean = mean - fn.stack(*[sum(PCA[k][i] * noise[i] for i in range(3)) for k in range(3)])
        return fn.crop_mirror_normalize(
            images, mean=mean, std=list(DEVIATION), mirror=fn.random.coin_flip(), dtype=types.FLOAT, output_layout="CHW",
            crop=(EDGE, EDGE), crop_pos_x=fn.random.uniform(range=(0.0, 1.0)), crop_pos_y=fn.random.uniform(range=(0.0, 1.0)))

    @staticmethod
    def resized(files):
        from nvidia.dali import fn
        return fn.resize(fn.decoders.image(files), resize_shorter=256, antialias=False)

    @staticmethod
    def by_area(files):
        from nvidia.dali import fn
        images = fn.decoders.image_random_crop(files, random_area=AREA, random_aspect_ratio=ASPECT)
        return fn.resize(images, size=(EDGE, EDGE), antialias=False)

    @staticmethod
    def stretched(files):
        from nvidia.dali import fn, math as of_nodes, types
        images = fn.decoders.image(files)
        shape = images.shape(dtype=types.FLOAT)
        scale, ratio = fn.random.uniform(range=SCALE), fn.random.uniform(range=STRETCH)
        by = 2 * scale / (1 + ratio)
        height, width = scale * shape[0], scale * shape[1]
        images = fn.resize(images, resize_x=by * shape[1], resize_y=ratio * by * shape[0], antialias=False)
        images = fn.crop(images, crop_h=height, crop_w=width, out_of_bounds_policy="pad", fill_values=[FILL])
        if of_nodes.min(height, width) < EDGE + 1:
            images = fn.resize(images, size=(EDGE, EDGE), mode="not_smaller", antialias=False)
        return images

    def batches(self, pipeline):
        while True:
            (batch,) = pipeline.run()
            yield (len(batch), *batch.at(0).shape)


class OpenCv:
    differs = {"": "imdecode, resize and crop from Python, without OpenCV's own threads; floats by a table (LUT); 2 threads: "
                   "Python's threads, which OpenCV does not block",
               "imagenet": "PCA noise is added to the floats, not clipped to 8 bits"}

    def __init__(self, threads):
        import cv2
        import numpy
        cv2.setNumThreads(0)
        self.cv2, self.numpy, self.threads = cv2, numpy, threads
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)
        self.version = {"opencv-python-headless": cv2.__version__, "numpy": numpy.__version__}

    def by_area(self, image):
        height, width = image.shape[:2]
        for _ in range(10):
            area, aspect = height * width * random.uniform(*AREA), random.uniform(*ASPECT)
            h, w = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
            if h <= height and w <= width:
                y, x = random.randint(0, height - h), random.randint(0, width - w)
                return self.cv2.resize(image[y:y + h, x:x + w], (EDGE, EDGE))
        return self.cropped(image)

    def cropped(self, image):
        """A random crop; an image that is smaller is enlarged first."""
        height, width = image.shape[:2]
        if min(height, width) < EDGE:
            grow = max(EDGE / height, EDGE / width)
            image = self.cv2.resize(image, (max(EDGE, int(width * grow)), max(EDGE, int(height * grow))))
            height, width = image.shape[:2]
        y, x = random.randint(0, height - EDGE), random.randint(0, width - EDGE)
        return image[y:y + EDGE, x:x + EDGE]

    def resized(self, image):
        height, width = image.shape[:2]
        if min(height, width) == 256:
            return image
        size = (256, 256 * height // width) if height > width else (256 * width // height, 256)
        return self.cv2.resize(image, size)

    def jittered(self, image):
        cv2, numpy = self.cv2, self.numpy
        gray = (0.114, 0.587, 0.299)
        brightness, contrast, saturation = (random.uniform(1 - JITTER, 1 + JITTER) for _ in range(3))
        for step in random.sample(range(3), 3):
            if step == 0:
                image = cv2.convertScaleAbs(image, alpha=brightness)
            elif step == 1:
                mean = sum(weight * value for weight, value in zip(gray, cv2.mean(image)))
                image = cv2.addWeighted(image, contrast, image, 0, (1 - contrast) * mean)
            else:
                image = cv2.transform(image, saturation * numpy.eye(3) + (1 - saturation) * numpy.array([gray] * 3))
        return image

    def warped(self, image):
        height, width = image.shape[:2]
        scale, ratio = random.uniform(*SCALE), random.uniform(*STRETCH)
        h = 2 * scale / (1 + ratio)
        w = ratio * h
        to = (int(scale * width), int(scale * height))
        matrix = self.numpy.array([[h, 0, (scale * width - h * width) / 2], [0, w, (scale * height - w * height) / 2]])
        return self.cv2.warpAffine(image, matrix, to, borderMode=self.cv2.BORDER_CONSTANT, borderValue=(FILL,) * 3)

    def write(self, data, setting, numbers):
        cv2, numpy = self.cv2, self.numpy
        image = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_COLOR)
        if setting == "crop":
            image = self.cropped(self.resized(image))
        elif setting == "nvidia":
            image = self.cropped(self.warped(image))
        else:
            image = self.by_area(image)
        if setting == "imagenet":
            image = self.jittered(image)
        if random.random() < 0.5:
            image = cv2.flip(image, 1)
        tables = self.tables
        if setting == "imagenet":
            tables = tables + (numpy.array(pca_offset()) / DEVIATION)[:, None].astype(numpy.float32)
        for k in range(3):
            cv2.LUT(cv2.extractChannel(image, 2 - k), tables[k], numbers[k])

    def open(self, path, setting):
        numpy = self.numpy
        self.tables = numpy.array([(numpy.arange(256) - mean) / deviation for mean, deviation in zip(MEAN, DEVIATION)],
                                  numpy.float32)
        images = Images(path)

        def fill(batch, first, row, rows):
            for i in range(row, row + rows):
                self.write(images[(first + i) % len(images)], setting, batch[i])

        return self.batches(fill)

    def batches(self, fill):
        """A ring of three batches: one for the reader, two that are being filled."""
        ring = [self.numpy.empty((BATCH, 3, EDGE, EDGE), self.numpy.float32) for _ in range(3)]
        first, pending, run = 0, [], 4
        if self.threads == 1:  # no other thread to wait for
            while True:
                fill(ring[0], first, 0, BATCH)
                first += BATCH
                yield ring[0].shape
        while True:
            while len(pending) < 2:
                batch = ring[first // BATCH % 3]
                pending.append((batch, [self.pool.submit(fill, batch, first, row, run) for row in range(0, BATCH, run)]))
                first += BATCH
            batch, runs = pending.pop(0)
            for one in runs:
                one.result()
            yield batch.shape


PEERS = {"mxnet": MXNet, "torchvision": TorchVision, "dali": Dali, "opencv": OpenCv}


def cpu_seconds():
    """Of all living threads of this process and its children."""
    total, pids = 0, [str(os.getpid())]
    for children in glob.glob(f"/proc/{os.getpid()}/task/*/children"):
        with open(children, encoding="ascii") as words:
            pids += words.read().split()
    for times in (name for pid in pids for name in glob.glob(f"/proc/{pid}/task/*/schedstat")):
        with open(times, encoding="ascii") as words:
            total += int(words.read().split()[0])
    return 1e-9 * total


def measure(batches, images):
    for _ in range(WARM_UP_BATCHES):
        next(batches)
    cpu, begin = cpu_seconds(), time.perf_counter()
    for _ in range(images // BATCH):
        next(batches)
    seconds = time.perf_counter() - begin
    return {"images": images, "images_per_s": images / seconds, "images_per_cpu_s": images / (cpu_seconds() - cpu)}


def answer(peer, state, question):
    if "open" in question:
        state["batches"] = None  # what it holds is freed before the next one is opened
        state["batches"] = peer.open(question["open"], question["setting"])
        shape = tuple(next(state["batches"]))
        if shape != (BATCH, 3, EDGE, EDGE):
            raise ValueError(f"batches of {shape}")
        differs = [peer.differs[key] for key in ("", question["setting"]) if key in peer.differs]
        return {"version": peer.version, "does": "; ".join(differs)}
    return measure(state["batches"], max(question["measure"], getattr(peer, "images_min", 0)))


def end_with_parent():
    """Also while this process is stopped."""
    end_signal_of_parent = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(end_signal_of_parent, signal.SIGKILL)


def main():
    end_with_parent()
    random.seed(1)
    name, threads = sys.argv[1], int(sys.argv[2])
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries may print
    try:
        peer = PEERS[name](threads)
    except ImportError as error:
        peer = None
        cause = str(error)
    state = {}
    for line in sys.stdin:
        try:
            if peer is None:
                raise Skipped(cause)
            reply = answer(peer, state, json.loads(line))
        except Skipped as error:
            reply = {"skipped": str(error)}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
