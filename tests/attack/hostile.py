"""Files of strangers, mutated at random: pictures, arrays, data sets, archives, folders, recipes, JSON.

Each is read as the library reads it. It may be read, or refused in one line.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from attack import samples
from attack.crafted import crafted
from attack.mutations import TOKENS, mutated, mutated_table
from attack.registry import Outcome, attack
from attack.sealed import played
from ictrl.config import StreamConfig
from ictrl.data import decode_picture, load_dataset, read_picture, split_tasks
from ictrl.data.download import _unpack
from ictrl.data.registry import registered
from ictrl.experiment.metrics_log import read_log
from ictrl.experiment.results import Results
from ictrl.experiment.review_record import read_review
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.sheets import read_sheet
from ictrl.experiment.study import load_study
from ictrl.recipes.migration import migrated_json, migrated_toml
from ictrl.recipes.reader import load_recipe, read_resolved

Outcomes = Iterator[Outcome]


def dataset(name: str, root: Path, channels: int = 3) -> None:
    """Read a data set and cut it into tasks."""
    stream = StreamConfig(dataset=name, root=str(root), tasks=1)
    split_tasks(load_dataset(stream, samples.SIDE, channels), stream)


@attack("Pictures (PNG, JPEG, WebP, GIF, TIFF, BMP), mutated", cases=70_000, small=210, chunk=2000)
def pictures(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    seeds = samples.pictures()
    names, others = list(seeds), list(seeds.values())

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"pictures {seed} {case}")
        content = mutated(seeds[names[case % len(names)]], random, others)
        side, channels = random.choice((8, 32)), random.choice((1, 3))
        if case % 2:
            return lambda: decode_picture(content, side, channels)
        path = scratch / "picture"
        path.write_bytes(content)
        return lambda: read_picture(path, side, channels)

    return played(case_of, cases, scratch)


@attack("Archives of arrays (.npz), mutated as a whole or array by array", cases=25_000, small=80, chunk=2000)
def arrays(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    members = samples.npz_members()
    path = scratch / "arrays.npz"

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"arrays {seed} {case}")
        packed = random.random() < 0.3
        if case % 2:
            content = mutated(samples.zipped(members, packed), random)
        else:  # with checksums that are right
            name = random.choice(list(members))
            head, body = members[name][:128], members[name][128:]
            inner = mutated(head, random) + body if random.random() < 0.7 else mutated(head + body, random)
            content = samples.zipped({**members, name: inner}, packed)
        path.write_bytes(content)
        return lambda: dataset("npz", path)

    return played(case_of, cases, scratch)


@attack("MNIST's IDX files, plain and gzip, mutated outside and inside", cases=20_000, small=60, chunk=2000)
def idx(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    files = samples.idx_files()

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"idx {seed} {case}")
        name = random.choice(list(files))
        changed = mutated(files[name][:20], random) + files[name][20:] if case % 2 else mutated(files[name], random)
        laid = dict(files)
        if case % 3:
            del laid[name]
            laid[f"{name}.gz"] = (
                samples.gzipped(changed) if case % 3 == 1 else mutated(samples.gzipped(files[name]), random)
            )
        else:
            laid[name] = changed
        root = samples.laid(laid, scratch / "mnist")
        return lambda: dataset("mnist", root, channels=1)

    return played(case_of, cases, scratch)


@attack("CIFAR-10's files, binary and pickled, mutated", cases=20_000, small=60, chunk=2000)
def cifar(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"cifar {seed} {case}")
        files = samples.cifar_files(("bin", "py2", "py0", "py4", "py5")[case % 5])
        name = random.choice(list(files))
        content = files[name]
        if random.random() < 0.7:  # the program of a pickle, and not the pixels in its middle
            end = random.choice((200, len(content)))
            content = mutated(content[:end], random) + content[end:]
        else:
            content = content[:-200] + mutated(content[-200:], random)
        root = samples.laid({**files, name: content}, scratch / "cifar")
        return lambda: dataset("cifar10", root)

    return played(case_of, cases, scratch)


@attack("Archives of a download (.tar.gz), mutated outside and inside", cases=3_000, small=10, chunk=500)
def archives(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    import gzip

    entry = registered()["cifar10"]
    source, layout, whole = entry.source, entry.layouts[0], samples.archive()
    plain = gzip.decompress(whole)

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"archives {seed} {case}")
        headers = [at for at in range(0, len(plain), 512) if plain[at + 257 : at + 262] == b"ustar"]
        at = random.choice(headers)
        inner = plain[:at] + mutated(plain[at : at + 512], random) + plain[at + 512 :]
        content = mutated(whole, random) if case % 2 else samples.gzipped(inner)
        assert source is not None
        assert source.archive is not None
        temporary = samples.laid({source.archive: content}, scratch / "tar")
        return lambda: _unpack(source, layout, temporary, temporary / "out")

    return played(case_of, cases, scratch)


NAMES = [
    b"cat",
    b"1",
    b"02",
    b"12345678901234567890",
    b"caf\xe9",
    b"var(--x)",
    b"${x}",
    b"$x$",
    b"[red]",
    b"<b>",
    b"a\nb",
    b"\x1b[31m",
    "\u202eevil".encode(),
    "²".encode(),
    "٣".encode(),
    b" ",
    b"-",
    b"--help",
    b"'",
    b'"',
    b"a" * 255,
    b"%s",
    b"train",
    b"test",
    b"\xff\xfe",
    b"con",
    b"{0}",
]


@attack("Folders of pictures with odd names, pipes, sockets and links among them", cases=3_000, small=10, chunk=250)
def folders(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    seeds = list(samples.pictures().values())

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"folders {seed} {case}")
        root = samples.laid({}, scratch / "folder")
        root.mkdir()
        inner = random.choice((b"", b"", b"train", b"test"))
        for name in random.sample(NAMES, random.randrange(1, 5)):
            folder = os.path.join(os.fsencode(root), inner, name)
            os.makedirs(folder, exist_ok=True)
            for number in range(random.randrange(5)):
                path = os.path.join(folder, random.choice(NAMES)[:200] + b"%d.png" % number)
                _place(path, random, seeds)
        return lambda: dataset("folder", root)

    return played(case_of, cases, scratch, batch=50)


def _place(path: bytes, random: Random, seeds: list[bytes]) -> None:
    """Something in a folder where a picture should be."""
    kind = random.randrange(12)
    with suppress(OSError):
        if kind == 0:
            os.mkfifo(path)
        elif kind == 1:
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(path)  # a path too long for a socket is none
        elif kind == 2:
            os.symlink(random.choice((path, b"/dev/zero", b"/etc/passwd", b"nowhere", b"..")), path)
        elif kind == 3:
            os.makedirs(path)
        else:
            content = random.choice(seeds)
            with open(path, "wb") as file:
                file.write(mutated(content, random) if random.random() < 0.3 else content)


RECIPES = [
    b'base = "digits"\n[method]\nname = "wide"\n[stream]\ntask_sizes = [2, 3, 5]\nroot = "none"\n[run]\nseed = 7\n',
    b'description = "a \\"b\\" \\u00e9"\n[method.later.weights]\nlambda_new = 5.0\n[method.network]\nwidth = 8\n',
    b'name = "x"\nbase = "er-cifar10-5"\n[method]\nname = "derpp"\n[[lines]]\na = {b = {c = [1, [2, 3]]}}\n',
]
STUDY = b'description = "d"\nrecipe = "digits"\nseeds = [0, 1]\n[settings.run]\nseed = 1\n[[lines]]\nlabel = "a"\n'
STUDY += b'[[lines]]\nlabel = "b"\nsettings.method.later.epochs = 3\npaper = {last = 0.5}\n'


@attack("Recipes, studies and config.toml, mutated", cases=20_000, small=60, chunk=2000)
def recipes(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    config = samples.run_folder()["config.toml"]
    path = scratch / "own.toml"

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"recipes {seed} {case}")
        kind = case % 4
        content = (random.choice(RECIPES), STUDY, config, config)[kind]
        changed = mutated(content, random, [*RECIPES, STUDY, *TOKENS])
        if random.random() < 0.5:  # as text, so that more of it is TOML still
            changed = b"\n".join(_reworded(line, random) for line in content.split(b"\n"))
        path.write_bytes(changed)
        text = changed.decode(errors="replace")
        read: tuple[Callable[[], object], ...] = (
            lambda: load_recipe(path),
            lambda: load_study(path),
            lambda: read_resolved(path),
            lambda: _migrated(migrated_toml, text),
        )
        return read[kind]

    return played(case_of, cases, scratch)


def _reworded(line: bytes, random: Random) -> bytes:
    """A line with another value, now and then."""
    key, mark, _ = line.partition(b"=")
    if not mark or random.random() > 0.1:
        return line
    values = [
        b"true",
        b"-1",
        b"0",
        b"[]",
        b"{}",
        b'""',
        b"nan",
        b"inf",
        b"-inf",
        b"1e308",
        b"9" * 25,
        b'"none"',
        b"[[1]]",
        b"2024-01-01",
        b"[" * 100 + b"]" * 100,
        b'"\\u001b[2J"',
        b"0x7fffffffffffffff",
        b"{a = {b = 1}}",
        b'"auto"',
    ]
    return key + mark + random.choice(values)


def _migrated(migrate: Callable[[str], str], text: str) -> None:
    """As the command does it, which names what it cannot read."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        migrate(text)


@attack("JSON and pictures of a run folder, mutated", cases=30_000, small=90, chunk=2000)
def run_files(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    files = samples.run_folder()
    kinds = ("results.json", "review.json", "data.json", "metrics.jsonl", "pictures/originals.png", "results.json")

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"run files {seed} {case}")
        name = kinds[case % 6]
        content = files[name]
        if name.endswith(".json") and random.random() < 0.7:
            content = json.dumps(mutated_table(json.loads(content), random)).encode()
        elif name.endswith(".jsonl") and random.random() < 0.7:
            lines = [json.dumps(mutated_table(json.loads(line), random)) for line in content.splitlines()[:4]]
            content = "\n".join(lines).encode()
        else:
            content = mutated(content, random, [files["results.json"]])
        path = scratch / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        read: tuple[Callable[[], object], ...] = (
            lambda: Results.read(path).to_json(),
            lambda: read_review(path),
            lambda: RunFolder(scratch).check_data({"sha256": "", "test_images": 1}),
            lambda: read_log(path).until(1, 1),
            lambda: read_sheet(path),
            lambda: _migrated(migrated_json, content.decode(errors="replace")),
        )
        return read[case % 6]

    return played(case_of, cases, scratch)


@attack("Crafted files: bombs, lies about sizes, depth, programs", cases=len(crafted()), small=9, chunk=9)
def crafted_files(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    listed = crafted()

    def case_of(case: int) -> Callable[[], object]:
        name, content = listed[case % len(listed)]
        path = scratch / f"{case}-{name}"
        path.write_bytes(content())
        if name.endswith(".npz"):
            return lambda: dataset("npz", path)
        if name.endswith(".pickle"):
            files = samples.cifar_files("py2")
            batch = {"cifar-10-batches-py/data_batch_1": path.read_bytes()}
            root = samples.laid({**files, **batch}, scratch / "cifar")
            return lambda: dataset("cifar10", root)
        if name.endswith(".gz"):
            root = samples.laid({**samples.idx_files(), "train-images-idx3-ubyte": b""}, scratch / "mnist")
            (root / "train-images-idx3-ubyte").unlink()
            path.rename(root / "train-images-idx3-ubyte.gz")
            return lambda: dataset("mnist", root, channels=1)
        if name.endswith(".toml"):
            return lambda: load_recipe(path)
        if name.endswith(".json"):
            return lambda: Results.read(path)
        return lambda: read_picture(path, 32, 3)

    return played(case_of, cases, scratch, batch=1)
