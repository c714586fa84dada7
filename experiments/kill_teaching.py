"""Kills `ictrl teach` again and again, and looks at what is left: the old learner or the new one, never a broken one.

    python experiments/kill_teaching.py                 twenty times, at random moments from start to end
    python experiments/kill_teaching.py --times 100

Every other kill waits until the new learner is being written, which takes a moment only.
"""

import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from ictrl import create_learner, load_dataset, load_learner, load_recipe, recipe_with

OLD, NEW, BROKEN = "old", "new", "broken"
SMALL = {"network": {"image_size": 8, "width": 8, "feature_dim": 16}, "trunk": {"epochs": 1}}


def prepare(folder: Path) -> tuple[Path, Path]:
    """A small learner of the digits 0, 1 and 2, and a folder with pictures of the digit 3."""
    recipe = recipe_with(load_recipe("digits"), {"method": SMALL, "run": {"device": "cpu"}})
    network = recipe.method.network
    data = load_dataset(recipe.stream, network.image_size, network.channels)
    known = data.labels < 3
    create_learner(recipe).learn(data.images[known], data.labels[known]).save(folder / "learner.safetensors")
    (folder / "new" / "3").mkdir(parents=True)
    for i, image in enumerate(data.images[data.labels == 3]):
        Image.fromarray(image[0].numpy().astype(np.uint8)).save(folder / "new" / "3" / f"{i:03d}.png")
    return folder / "learner.safetensors", folder / "new"


def start(learner: Path, new: Path) -> "subprocess.Popen[bytes]":
    """`ictrl teach`, on its way."""
    command = [sys.executable, "-m", "ictrl", "teach", str(learner), str(new), "--device", "cpu"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, env={**os.environ, "OMP_NUM_THREADS": "1"})


def kill(process: "subprocess.Popen[bytes]", learner: Path, seconds: float | None) -> None:
    """SIGKILL after so many seconds or, with None, as soon as the new learner is being written."""
    begun = time.monotonic()
    while process.poll() is None:
        passed = time.monotonic() - begun
        if list(learner.parent.glob(".*.unfinished")) if seconds is None else passed >= seconds:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0 if seconds is None else 0.001)
    process.wait()


def state(learner: Path) -> str:
    """What the file is now."""
    try:
        labels = sorted(load_learner(learner, "cpu").labels)
    except Exception:
        return BROKEN
    return {(0, 1, 2): OLD, (0, 1, 2, 3): NEW}.get(tuple(labels), BROKEN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked, chance, found = parser.parse_args(), random.Random(0), collections.Counter[str]()
    chance.seed(asked.seed)
    with tempfile.TemporaryDirectory() as name:
        learner, new = prepare(Path(name))
        before, begun = learner.read_bytes(), time.monotonic()
        start(learner, new).wait()
        takes = time.monotonic() - begun
        assert state(learner) == NEW
        print(f"Teaching takes {takes:.1f} s.", flush=True)
        for number in range(asked.times):
            learner.write_bytes(before)
            seconds = None if number % 2 else chance.uniform(0, 1.1 * takes)
            kill(start(learner, new), learner, seconds)
            left = len(list(learner.parent.glob(".*.unfinished")))
            found[state(learner)] += 1
            when = "while it was written" if seconds is None else f"after {seconds:.2f} s"
            print(f"killed {when}: {state(learner)}, {left} unfinished files", flush=True)
        learner.write_bytes(before)
        assert start(learner, new).wait() == 0
        assert state(learner) == NEW
        assert not list(learner.parent.glob(".*.unfinished"))
    print(f"{found[OLD]} times the old learner, {found[NEW]} times the new one, {found[BROKEN]} times a broken one.")


if __name__ == "__main__":
    main()
