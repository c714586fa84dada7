"""Good files of every format that is read, small, and the same ones every time: what the mutations begin with."""

import gzip
import io
import json
import pickle
import shutil
import struct
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import ictrl
from ictrl.experiment.review import Manner, review
from ictrl.methods.base import Learner
from ictrl.methods.stopping import stopped_task
from ictrl.recipes.tables import recipe_to_table, recipe_with

SIDE = 8
METHODS = (
    "ictrl",
    "wide",
    "wide-ictrl",
    "frozen",
    "finetune",
    "er",
    "derpp",
    "slda",
    "fecam",
    "ewc",
    "icarl",
)
"""Whose learners are mutated: every kind of thing that is kept."""


def random_images(n: int, *shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


@cache
def pictures() -> dict[str, bytes]:
    """One of each kind of picture, by a name that ends in its format."""
    colours = Image.fromarray(random_images(1, 24, 20, 4)[0])
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x9286] = "a comment"
    rgb, grey = colours.convert("RGB"), colours.convert("L")
    frames: dict[str, Any] = {"save_all": True, "append_images": [rgb.rotate(90), rgb.rotate(180)]}
    kinds: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "rgb.png": (rgb, {"exif": exif}),
        "rgba.png": (colours, {}),
        "palette.png": (rgb.quantize(9), {"transparency": 0}),
        "deep.png": (Image.fromarray(random_images(1, 9, 9)[0].astype(np.uint16) * 257), {}),
        "bits.png": (grey.convert("1"), {}),
        "plain.jpg": (rgb, {"exif": exif}),
        "progressive.jpg": (rgb, {"progressive": True, "subsampling": 0}),
        "cmyk.jpg": (colours.convert("CMYK"), {}),
        "lossy.webp": (rgb, {"exif": exif}),
        "lossless.webp": (colours, {"lossless": True}),
        "moving.webp": (rgb, frames),
        "plain.gif": (rgb.quantize(16), {}),
        "moving.gif": (rgb.quantize(16), {**frames, "transparency": 0, "duration": 50}),
        "raw.tiff": (rgb, {"exif": exif}),
        "lzw.tiff": (colours, {"compression": "tiff_lzw"}),
        "jpeg.tiff": (rgb, {"compression": "jpeg"}),
        "deflate.tiff": (grey.convert("I;16"), {"compression": "tiff_adobe_deflate"}),
        "group4.tiff": (grey.convert("1"), {"compression": "group4"}),
        "many.tiff": (rgb, frames),
        "rgb.bmp": (rgb, {}),
        "palette.bmp": (rgb.quantize(9), {}),
    }
    found = {}
    for name, (picture, options) in kinds.items():
        buffer = io.BytesIO()
        kind = {"jpg": "JPEG"}.get(name.rpartition(".")[2], name.rpartition(".")[2].upper())
        picture.save(buffer, kind, **options)
        found[name] = buffer.getvalue()
    return found


@cache
def npz_members() -> dict[str, bytes]:
    """The arrays of an .npz file, each as a member."""
    arrays = {
        "x_train": random_images(12, SIDE, SIDE, 3),
        "y_train": np.arange(12) % 2,
        "x_test": random_images(6, SIDE, SIDE, 3),
        "y_test": (np.arange(6) % 2).astype(np.uint8)[:, None],
    }
    found = {}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, array)
        found[name] = buffer.getvalue()
    return found


def zipped(members: dict[str, bytes], packed: bool = False) -> bytes:
    """An .npz file of members, whatever is in them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


@cache
def idx_files() -> dict[str, bytes]:
    """MNIST's four files, of few and small images."""

    def idx(array: np.ndarray[Any, Any]) -> bytes:
        return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()

    return {
        "train-images-idx3-ubyte": idx(random_images(20, SIDE, SIDE)),
        "train-labels-idx1-ubyte": idx(np.arange(20) % 10),
        "t10k-images-idx3-ubyte": idx(random_images(10, SIDE, SIDE, seed=1)),
        "t10k-labels-idx1-ubyte": idx(np.arange(10)),
    }


@cache
def cifar_files(version: str) -> dict[str, bytes]:
    """The files of CIFAR-10 below their root, a few images in each batch; `version` is bin, or py and a protocol."""
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    found = {}
    for seed, name in enumerate(names):
        pixels, labels = random_images(10, 3072, seed=seed), np.arange(10, dtype=np.uint8)
        if version == "bin":
            found[f"cifar-10-batches-bin/{name}.bin"] = np.hstack([labels[:, None], pixels]).tobytes()
        else:
            content = {b"data": pixels, b"labels": labels.tolist(), b"filenames": [b"a.png"] * 10}
            found[f"cifar-10-batches-py/{name}"] = pickle.dumps(content, protocol=int(version[2:]))
    if version == "bin":
        found["cifar-10-batches-bin/batches.meta.txt"] = b"\n".join(b"abcdefghij"[i : i + 1] for i in range(10))
    else:
        named = {b"label_names": [b"class"] * 10}
        found["cifar-10-batches-py/batches.meta"] = pickle.dumps(named, protocol=int(version[2:]))
    return found


@cache
def archive() -> bytes:
    """CIFAR-10 as it is downloaded."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in cifar_files("bin").items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def tiny_recipe(method: str) -> ictrl.Recipe:
    """The method on digits, with networks and epochs as small as can be."""
    network = {"image_size": SIDE, "channels": 1, "width": 8, "feature_dim": 32}
    recipe = ictrl.load_recipe(f"{method}-digits")
    kept = recipe_to_table(recipe)["method"]
    stages = {name: {"epochs": 1} for name in ("first", "later", "stage", "trunk", "learning_on") if name in kept}
    for name in stages:
        if "batch" in kept[name]:
            stages[name]["batch"] = 24
    settings: dict[str, Any] = {"network": network, **stages}
    return recipe_with(recipe, {"method": settings, "run": {"device": "cpu"}, "stream": {"tasks": 5, "limit": 12}})


@cache
def learner(method: str) -> bytes:
    """A saved learner of two classes."""
    made = ictrl.create_learner(tiny_recipe(method))
    images = torch.from_numpy(random_images(48, 1, SIDE, SIDE))
    made.learn(images, torch.arange(48) % 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.safetensors"
        made.save(path, {"class_names": json.dumps({"0": "cat", "1": "dog"})})
        return path.read_bytes()


@cache
def stopped(method: str) -> bytes:
    """A task of a new learner that was stopped after its first epoch."""
    made = ictrl.create_learner(tiny_recipe(method))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.safetensors"
        images = torch.from_numpy(random_images(48, 1, SIDE, SIDE))
        made.learn(images, torch.arange(48) % 2, lambda report: made.save_task(path, report))
        return path.read_bytes()


def restored(method: str, path: Path) -> Learner[Any]:
    """A new learner that takes over a stopped task."""
    made = ictrl.create_learner(tiny_recipe(method))
    stopped_task(made, path).restore(made._state)
    return made


@cache
def run_folder() -> dict[str, bytes]:
    """Every file of a finished run with pictures, a report's log and a review."""
    recipe = recipe_with(tiny_recipe("ictrl"), {"run": {"keep_pictures": 2}, "stream": {"limit": 12, "tasks": 5}})
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        ictrl.run(recipe, out)
        review(out, 1, Manner(epochs=1))
        (out / ".lock").unlink(missing_ok=True)
        return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def laid(files: dict[str, bytes], folder: Path) -> Path:
    """These files in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, 1, mtime=0)
