"""Records what every command prints, for docs/commands.md.

    make docs                        or: python experiments/record_commands.py
    python experiments/record_commands.py --only "ictrl methods" "ictrl recipes"

The commands are run in an empty folder, one after another, as a user would; what they print is written down as it is.
With --only, those that need no other are recorded again and take the place of what the page has of them.
"""

import argparse
import math
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from PIL import Image, ImageDraw

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "commands.md"

SECTIONS = {
    "The demo": [
        "ictrl run --out runs/letters",
        "ictrl predict runs/letters new/first.png --unknown 0.05",
    ],
    "Ten digits": [
        "ictrl run ictrl-digits --out runs/digits",
        "ictrl evaluate runs/digits",
        "ictrl sample runs/digits --label 3 --n 16 -o three.png",
        "ictrl report runs/digits -o digits.html --figures paper",
        "ictrl resume runs/digits",
    ],
    "Seen again": ["ictrl review runs/digits --cycles 2"],
    "What it draws": [
        "ictrl walk runs/digits --label 3 -o walk.png",
        "ictrl nearest runs/digits --label 4 -o fours.png",
        "ictrl reconstruct runs/digits -o test-images.png",
        "ictrl gallery runs/digits -o classes.png",
        "ictrl gallery runs/digits --by task --classes 2 3 -o tasks.png",
        "ictrl fidelity runs/digits",
        "ictrl fidelity runs/digits --classifier --images 100",
        "ictrl sample runs/digits --label 3 --n 16 --nearest -o beside.png",
    ],
    "Pictures of your own": [
        "ictrl data show ictrl-pictures --stream.root shapes --stream.task-sizes 2 1",
        "ictrl run ictrl-pictures --stream.root shapes --stream.task-sizes 2 1 --out runs/shapes",
        "ictrl predict runs/shapes new/first.png new/second.jpg",
        "ictrl predict runs/shapes new/first.png --json",
        "ictrl reconstruct runs/shapes new/first.png new/second.jpg -o seen.png",
        "ictrl interpolate runs/shapes new/first.png new/second.jpg -o way.png",
        "ictrl report runs/digits runs/shapes -o both.html",
    ],
    "For use elsewhere": [
        "ictrl export runs/shapes -o shapes.onnx",
        "ictrl export runs/shapes -o shapes.safetensors",
        "ictrl predict shapes.safetensors new/first.png",
        "ictrl export --help",
    ],
    "Another class, later": [
        "ictrl run pictures --stream.root shapes --stream.task-sizes 2 1 --trunk.epochs 20 --out runs/living",
        "ictrl predict runs/living new/third.png",
        "ictrl teach runs/living more",
        "ictrl predict runs/living new/third.png",
        "ictrl classes runs/living",
        "ictrl teach runs/living more",
        "ictrl teach runs/living --label ring new/first.png",
        "ictrl forget runs/living star --yes",
        "ictrl predict runs/living new/third.png --json",
    ],
    "As a service": [
        "ictrl serve --help",
        "ictrl serve runs/nobody",
        "ictrl serve runs/living --host 0.0.0.0 --token short",
    ],
    "Where the time goes": ["ictrl run ictrl-digits --profile --stream.tasks 2 --out runs/profile"],
    "Other methods": [
        "ictrl methods",
        "ictrl run frozen-digits --out runs/frozen",
        "ictrl run finetune-digits --out runs/finetune",
        "ictrl gallery runs/digits runs/frozen --by direction -o side-by-side.png",
        "ictrl run joint-digits --out runs/joint",
        "ictrl run er-digits --out runs/er",
        "ictrl evaluate runs/finetune",
        "ictrl report runs/digits runs/frozen runs/finetune runs/joint runs/er -o methods.html",
        "ictrl compare er-digits slda-digits --out runs/both",
    ],
    "Studies": ["ictrl study", "ictrl study my-study.toml", "ictrl study my-study.toml --only longer"],
    "A search of settings": [
        "ictrl search my-search.toml --trials 6",
        "ictrl search my-search.toml --trials 8 --prune",
        "ictrl search my-search.toml --trials 8 --seed 1",
    ],
    "Data and recipes": ["ictrl data list", "ictrl data show ictrl-cifar10-5 --stream.limit 2", "ictrl recipes"],
    "Files of an earlier version": ["ictrl run old.toml", "ictrl migrate old.toml --check", "ictrl migrate old.toml"],
    "Mistakes": [
        "ictrl run ictrl-digits --game.epochs 3",
        "ictrl sample runs/finetune --label 3 -o three.png",
        "ictrl gallery runs/digits runs/finetune -o sheet.png",
        "ictrl review runs/frozen",
        "ictrl run finetune-digits --game.eps-sq 1",
        "ictrl run digit",
        "ictrl run ictrl-digits --later.epochs 0",
        "ictrl run --stream.tasks 3",
        "ictrl run --out runs/digits",
        "ictrl predict runs/shapes new/nothing.png",
        "ictrl sample runs/digits --label 12 -o twelve.png",
        "ictrl walk runs/digits --label 3 --steps 1 -o walk.png",
        "ictrl fidelity runs/digits --inception three.png",
        "ictrl resume runs/none",
        "ictrl report runs/digits runs/digits",
        "ictrl study nothing",
        "ictrl study my-study.toml --on ray --address 127.0.0.1:1",
        "ictrl study my-study.toml --gpus 1",
        "ictrl search my-study.toml",
        "ictrl compare er-digits slda-letters",
    ],
    "Help": ["ictrl --help", "ictrl resume --help"],
}

INTRODUCTION = """# Every command and what it prints

Written by `make docs`, which runs these commands one after another in an empty folder. `shapes/` holds three folders of
120 drawn pictures each, `circle`, `square` and `triangle`, of different sizes and kinds, and two broken files; `new/`
three pictures that were not among them, and `more/` 60 of another class, `star`. `my-study.toml` is

    description = "Does a longer game help?"
    recipe = "ictrl-digits"
    settings.stream = { tasks = 2, limit = 40 }

    [[lines]]
    label = "as it is"

    [[lines]]
    label = "longer"
    settings.method.later.epochs = 80

and `my-search.toml`

    description = "How fast and how long is the encoder trained best?"
    recipe = "digits"
    settings.stream = { tasks = 2, limit = 40, validation = 0.25 }

    [ranges]
    method.trunk.learning_rate = { low = 1e-4, high = 1e-2, log = true }
    method.trunk.epochs = { low = 5, high = 15, step = 5 }

An exit code other than 0 stands behind the command.
"""


def draw(kind: str, chance: random.Random) -> Image.Image:
    """A shape somewhere on a coloured ground, in a picture of any size."""
    side = chance.randrange(40, 90)
    ground, ink = (tuple(chance.randrange(low, low + 90) for _ in range(3)) for low in (0, 160))
    picture = Image.new("RGB", (side, side + chance.randrange(-8, 9)), ground)
    x, y, r = (side * chance.uniform(low, high) for low, high in ((0.4, 0.6), (0.4, 0.6), (0.22, 0.34)))
    corners = {"square": 4, "triangle": 3, "star": 10}.get(kind, 60)
    turn = math.pi / 4 if kind == "square" else -math.pi / 2
    reach = [r * (0.4 if kind == "star" and i % 2 else 1.0) for i in range(corners)]
    points = [
        (x + r * math.cos(turn + 2 * math.pi * i / corners), y + r * math.sin(turn + 2 * math.pi * i / corners))
        for i, r in enumerate(reach)
    ]
    ImageDraw.Draw(picture).polygon(points, fill=ink)
    return picture


def draw_folders(folder: Path) -> None:
    chance = random.Random(0)
    for kind in ("circle", "square", "triangle"):
        (folder / "shapes" / kind).mkdir(parents=True)
        for i in range(120):
            draw(kind, chance).save(folder / "shapes" / kind / f"{i:02d}.{'png' if i % 2 else 'jpg'}")
    (folder / "shapes" / "circle" / "broken.jpg").write_bytes(b"no picture at all")
    whole = (folder / "shapes" / "square" / "01.png").read_bytes()
    (folder / "shapes" / "square" / "half.png").write_bytes(whole[: len(whole) // 2])
    (folder / "new").mkdir()
    draw("triangle", chance).save(folder / "new" / "first.png")
    draw("circle", chance).save(folder / "new" / "second.jpg")
    (folder / "more" / "star").mkdir(parents=True)
    for i in range(60):
        draw("star", chance).save(folder / "more" / "star" / f"{i:02d}.png")
    draw("star", chance).save(folder / "new" / "third.png")
    (folder / "old.toml").write_text('base = "digits"\n\n[game]\nfirst_epochs = 5\n', encoding="utf-8")
    study, search = INTRODUCTION.split("`my-study.toml` is")[1].split("An exit code")[0].split("and `my-search.toml`")
    (folder / "my-study.toml").write_text(textwrap.dedent(study), encoding="utf-8")
    (folder / "my-search.toml").write_text(textwrap.dedent(search), encoding="utf-8")


def record(command: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ictrl", *shlex.split(command)[1:]],
        cwd=folder,
        env={**os.environ, "ICTRL_DATA": str(folder / "data")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    code = f"    # exit code {done.returncode}" if done.returncode else ""
    return f"```\n$ {command}{code}\n{done.stdout.rstrip()}\n```\n"


def record_again(commands: list[str]) -> None:
    """Commands that need nothing of what others leave behind, in their places on the page."""
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        draw_folders(Path(name))
        for command in commands:
            shown = re.search(rf"^```\n\$ {re.escape(command)}(    # exit code \d+)?\n.*?^```\n", page, re.M | re.S)
            if shown is None:
                raise SystemExit(f"Expected a command of {PAGE.name} but got {command!r}.")
            page = page[: shown.start()] + record(command, Path(name)).replace(name, ".") + page[shown.end() :]
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="commands to record again, word for word as the page has them")
    if only := parser.parse_args().only:
        record_again(only)
        return
    page = [INTRODUCTION]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw_folders(folder)
        for title, commands in SECTIONS.items():
            page.append(f"## {title}\n")
            for command in commands:
                print(command, flush=True)
                page.append(record(command, folder).replace(name, "."))
    PAGE.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
