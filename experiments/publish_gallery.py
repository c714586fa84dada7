"""Publishes the gallery: docs/gallery.md from gallery.toml, and the pictures that it names.

    python experiments/publish_gallery.py                                 the page
    python experiments/publish_gallery.py --make digits-by-class.png      a picture, and the page
    python experiments/publish_gallery.py --make cifar10-by-class.png --runs DIR --root DATA

To make a picture, runs that are not yet in the folder of runs are run (or gone on with), their learners draw it, and
docs/gallery/made.json notes by which machine and versions the learners were taught. Then look at it, and say in
gallery.toml what there is to see. The page shows what has been made and names the rest. To put another method onto a
sheet, add its recipe to the sheet's runs and make the picture again.
"""

import argparse
import hashlib
import html
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from publish import ROOT

from ictrl import Results
from ictrl.experiment.run_folder import RunFolder
from ictrl.files import make_folder, write_atomically

PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "gallery"
LIST = ROOT / "experiments" / "gallery.toml"
MADE = "made.json"
LARGEST = 300_000  # bytes of a picture
KEEP = "--checkpoint.every-task"


@dataclass(frozen=True)
class Sheet:
    """A picture of the gallery: what it shows, and the commands that make it."""

    picture: str
    section: str
    alt: str = ""
    """what one sees, for those who cannot"""
    caption: str = ""
    """what one sees, mistakes included"""
    commands: Sequence[str] = ()
    """of a picture that is no sheet of `ictrl gallery`"""
    runs: Sequence[str] = ()
    """recipes, or names of runs with options of their own"""
    options: str = ""
    """of `ictrl gallery`"""

    def __post_init__(self) -> None:
        if bool(self.commands) == bool(self.runs):
            raise SystemExit(f"Expected either runs or commands of {self.picture} but got both or neither.")

    def drawn_by(self, runs: Path = Path("runs"), out: str | None = None) -> str:
        """The command that draws it."""
        folders = " ".join((runs / name).as_posix() for name in self.runs)
        return " ".join(f"ictrl gallery {folders} {self.options} -o {out or self.picture}".split())


@dataclass(frozen=True)
class Gallery:
    """What stands in gallery.toml."""

    introduction: str
    sections: Sequence[dict[str, str]]
    """title, and text below it"""
    sheets: Sequence[Sheet]
    runs: dict[str, str] = field(default_factory=dict)
    """recipes and options of runs that are not just their recipe"""

    @classmethod
    def read(cls, path: Path = LIST) -> "Gallery":
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        sheets = [Sheet(**one) for one in table["sheets"]]
        found = cls(table["introduction"], table["sections"], sheets, table.get("runs", {}))
        if stray := {sheet.section for sheet in sheets} - {section["title"] for section in found.sections}:
            raise SystemExit(f"Expected sheets of the sections that there are but got {', '.join(sorted(stray))}.")
        return found

    def run_of(self, name: str, runs: Path = Path("runs"), root: str = "") -> str:
        """The command that makes a run."""
        return f"ictrl run {self.runs.get(name, name)}{root} {KEEP} --out {(runs / name).as_posix()}"


def undescribed(gallery: Gallery, pictures: Path = PICTURES) -> list[str]:
    """Pictures that are there but that nobody has said anything of."""
    there = (sheet for sheet in gallery.sheets if (pictures / sheet.picture).exists())
    return [sheet.picture for sheet in there if not sheet.alt.strip() or not sheet.caption.strip()]


def made(pictures: Path = PICTURES) -> dict[str, Any]:
    """What was noted of pictures when they were made."""
    path = pictures / MADE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def figure(sheet: Sheet, pictures: Path) -> list[str]:
    """A picture with its words; a press opens it in full size."""
    with Image.open(pictures / sheet.picture) as opened:
        width = opened.width
    looks = f"width={width}" if sheet.runs else f".pixels width={width}"
    place = f"gallery/{sheet.picture}"
    return [
        '<figure markdown="span">',
        f"  [![{sheet.alt}]({place}){{ {looks} }}]({place})",
        f"  <figcaption>{as_html(sheet.caption)}</figcaption>",
        "</figure>",
    ]


def as_html(caption: str) -> str:
    """A caption, in which Markdown is not read."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(" ".join(caption.split()), quote=False))


def section(title: str, text: str, gallery: Gallery, pictures: Path) -> list[str]:
    """A heading; the commands of the runs, once; each picture and the command that draws it; what is not made yet."""
    sheets = [sheet for sheet in gallery.sheets if sheet.section == title]
    there = [sheet for sheet in sheets if (pictures / sheet.picture).exists()]
    parts = ["", f"## {title}", "", *([text.strip(), ""] if text.strip() else [])]
    runs = list(dict.fromkeys(name for sheet in there for name in sheet.runs))
    if runs:
        parts += ["```sh", *map(gallery.run_of, runs), "```", ""]
    for sheet in there:
        commands = [sheet.drawn_by()] if sheet.runs else list(sheet.commands)
        parts += [*figure(sheet, pictures), "", "```sh", *commands, "```", ""]
    machines = sorted({noted["by"] for sheet in there if (noted := made(pictures).get(sheet.picture))})
    if machines:
        parts += [f"Learned on {'; '.join(machines)}.", ""]
    missing = [sheet for sheet in sheets if sheet not in there]
    if missing:
        named = ", ".join(f"`{sheet.picture}`" for sheet in missing)
        parts += [f"Not made yet: {named}; `python experiments/publish_gallery.py --make NAME` makes one.", ""]
    return parts


def page(gallery: Gallery | None = None, pictures: Path = PICTURES) -> str:
    """docs/gallery.md."""
    gallery = gallery or Gallery.read()
    parts = [
        "# Gallery",
        "",
        "Written by `python experiments/publish_gallery.py` from `experiments/gallery.toml`; do not edit.",
        "",
        gallery.introduction.strip(),
    ]
    for one in gallery.sections:
        parts += section(one["title"], one.get("text", ""), gallery, pictures)
    lines = "\n".join(parts).split("\n")
    kept = [line for line, before in zip(lines, ["x", *lines]) if line or before]  # no two empty lines in a row
    return "\n".join(kept).rstrip() + "\n"


def ictrl(command: str) -> None:
    print(command, flush=True)
    subprocess.run([sys.executable, "-m", *shlex.split(command)], check=True)


def taught(gallery: Gallery, name: str, runs: Path, root: str) -> Results:
    """The results of a run, which is begun or gone on with if need be."""
    folder = RunFolder(runs / name)
    if not folder.config.exists():
        ictrl(gallery.run_of(name, runs, f" --stream.root {shlex.quote(root)}" if root else ""))
    elif not folder.results.exists() or not Results.read(folder.results).complete:
        ictrl(f"ictrl resume {runs / name}")
    return Results.read(folder.results)


def make(name: str, runs: Path, root: str, pictures: Path = PICTURES, listed: Path = LIST) -> None:
    """A picture, and the note of how it came about."""
    gallery = Gallery.read(listed)
    sheet = next((sheet for sheet in gallery.sheets if sheet.picture == name), None)
    if sheet is None or not sheet.runs:
        there = ", ".join(sheet.picture for sheet in gallery.sheets if sheet.runs)
        raise SystemExit(f"Expected a sheet of {listed.name} ({there}) but got {name!r}.")
    results = [taught(gallery, run, runs, root) for run in sheet.runs]
    out = pictures / name
    ictrl(sheet.drawn_by(runs, out.as_posix()))
    if (size := out.stat().st_size) > LARGEST:
        out.unlink()
        raise SystemExit(
            f"Expected a picture of at most {LARGEST:,} bytes but {name} had {size:,}: choose a smaller --n."
        )
    machines = sorted({f"{one.device}, torch {one.versions['torch']}, seed {one.seed}" for one in results})
    note = {"by": "; ".join(machines), "sha256": hashlib.sha256(out.read_bytes()).hexdigest()}
    make_folder(pictures)
    noted = json.dumps(dict(sorted({**made(pictures), name: note}.items())), indent=2)
    write_atomically(pictures / MADE, f"{noted}\n".encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", metavar="PICTURE", nargs="+", default=[], help="sheets to make")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the runs lie, or are put")
    parser.add_argument("--root", default="", help="where the data lies, for runs that are begun")
    arguments = parser.parse_args()
    for name in arguments.make:
        make(name, arguments.runs, arguments.root)
    if missing := undescribed(Gallery.read()):
        raise SystemExit(f"Made {', '.join(missing)}: look at it, put alt and caption into {LIST.name}, and run again.")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
