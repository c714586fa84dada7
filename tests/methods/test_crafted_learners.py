"""Learners that were crafted, with a digest that is right: what they ask for is compared with what they hold."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_support import learner_of
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

import ictrl
from ictrl.errors import InputError
from ictrl.methods.storage import _digest
from ictrl.recipes.tables import recipe_with

Metadata, Tensors = dict[str, str], dict[str, Tensor]


def crafted(source: Path, target: Path, change: Callable[[Metadata, Tensors], object]) -> Path:
    """The file with something changed and a digest that says that nothing was."""
    with safe_open(source, framework="pt") as file:
        metadata = dict(file.metadata())
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    change(metadata, tensors)
    metadata.pop("digest", None)
    metadata["digest"] = _digest(metadata, tensors)
    target.write_bytes(save(tensors, metadata))
    return target


def recipe_changed(*path: str, value: Any) -> Callable[[Metadata, Tensors], None]:
    def change(metadata: Metadata, tensors: Tensors) -> None:
        recipe = table = json.loads(metadata["recipe"])
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value
        metadata["recipe"] = json.dumps(recipe)

    return change


def tensor_changed(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[Metadata, Tensors], None]:
    return lambda metadata, tensors: tensors.update({name: change(tensors[name])})


def metadata_changed(**changes: str) -> Callable[[Metadata, Tensors], None]:
    return lambda metadata, tensors: metadata.update(changes)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"first": {"epochs": 1}, "later": {"epochs": 1}, "network": {"image_size": 8, "width": 4}}
    learner = ictrl.create_learner(recipe_with(ictrl.load_recipe("ictrl-digits"), {"method": settings}), device="cpu")
    images = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    learner.learn(images, torch.arange(40) % 2)
    path = tmp_path_factory.mktemp("saved") / "learner.safetensors"
    learner.save(path)
    return path


def test_what_is_not_changed_is_loaded(saved: Path, tmp_path: Path) -> None:
    learner = ictrl.load_learner(crafted(saved, tmp_path / "same.safetensors", lambda metadata, tensors: None))
    assert learner.classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (recipe_changed("method", "network", "width", value=8), "encoder.* to be float32 .* but got float32"),
        (recipe_changed("method", "network", "width", value=10**9), "above the limit of .*ICTRL_MAX_UNPACKED_BYTES"),
        (recipe_changed("method", "network", "decoder_width", value=16384), "ICTRL_MAX_UNPACKED_BYTES|decoder"),
        (recipe_changed("method", "network", "feature_dim", value=2**62), "do not fit"),
        (recipe_changed("method", "network", "feature_dim", value=2**70), "a whole number of more than 64 bits"),
        (recipe_changed("method", "later", "learning_rate", value=float("nan")), "NaN, which is no number in JSON"),
        (metadata_changed(recipe="[" * 5000), "more than 64 deep|Expecting"),
        (metadata_changed(recipe="[" * 5000 + "]" * 5000), "more than 64 deep"),
        (metadata_changed(recipe="[]"), "expected a table but got a list"),
        (metadata_changed(labels=f"[0, {2**70}]"), "a whole number of more than 64 bits"),
        (metadata_changed(labels="[0, 0]"), "labels: expected each once"),
        (metadata_changed(labels="[0, 1.5]"), "labels.1: expected a whole number but got a number"),
        (metadata_changed(labels="[0, true]"), "labels.1: expected a whole number but got true or false"),
        (metadata_changed(labels="7"), "labels: expected a list but got a whole number"),
        (metadata_changed(seed="9" * 6000), "expected a whole number but got '999"),
        (metadata_changed(seed="-1"), "expected a whole number but got '-1'"),
        (metadata_changed(notes='{"a": 1}'), "a: expected a text but got a whole number"),
        (metadata_changed(notes="[]"), "expected a table but got a list"),
        (metadata_changed(parts="some"), "it holds 'some' of a learner"),
        (tensor_changed("memory.0.mean", lambda t: t * float("nan")), "memory.0.mean has numbers that are not finite"),
        (tensor_changed("memory.0.covariance", lambda t: t + float("inf")), "covariance has numbers that are not fin"),
        (tensor_changed("memory.0.mean", lambda t: t.to(torch.float8_e5m2)), "has numbers of type float8_e5m2"),
        (tensor_changed("memory.0.covariance", lambda t: t.to(torch.int64)), "do not fit"),
        (tensor_changed("memory.0.mean", lambda t: t.double()), "do not fit"),
        (tensor_changed("memory.0.direction_factors", lambda t: t.half()), "do not fit: .*(numbers of types|float16)"),
        (tensor_changed("memory.0.count", lambda t: t.float()), "do not fit: .*(numbers of types|count)"),
        (
            tensor_changed("memory.0.mean", lambda t: t[:-1]),
            "do not fit: .*(the memory of class 0 has shapes|ClassMemory)",
        ),
        (
            tensor_changed("decoder.layers.0.weight", lambda t: t.double()),
            "do not fit: expected decoder.layers.0.weight",
        ),
    ],
)
def test_what_is_crafted_is_refused_in_a_line(saved: Path, tmp_path: Path, change: Any, message: str) -> None:
    path = crafted(saved, tmp_path / "crafted.safetensors", change)
    with pytest.raises(InputError, match=message) as caught:
        ictrl.load_learner(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_small_file_that_asks_for_gigabytes_takes_none(saved: Path, tmp_path: Path) -> None:
    """In a process that may have one gigabyte more than it has once everything is imported."""

    change = recipe_changed("method", "network", "width", value=500_000)
    path = crafted(saved, tmp_path / "crafted.safetensors", change)
    assert path.stat().st_size < 1_000_000
    script = (
        "import resource, sys, ictrl, torch\n"
        "ictrl.load_learner(sys.argv[1])\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 10**9,) * 2)\n"
        "try:\n    ictrl.load_learner(sys.argv[2])\n"
        "except ictrl.InputError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(saved), str(path)], capture_output=True, text=True)
    assert "do not fit" in done.stdout, done.stderr


def test_a_header_that_is_longer_than_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.safetensors"
    path.write_bytes(struct.pack("<Q", 5000) + b"{}" + b" " * 4998)
    monkeypatch.setenv("ICTRL_MAX_TEXT_BYTES", "4999")
    with pytest.raises(InputError, match=r"a header of 5,000 bytes of text, above .* \(ICTRL_MAX_TEXT_BYTES\)"):
        ictrl.load_learner(path)


def test_a_pipe_is_named_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(InputError, match="a pipe, and no regular file"):
        ictrl.load_learner(tmp_path / "pipe.safetensors")


@pytest.mark.parametrize("name", ["hpu", "meta", "xla", "nonsense", "cuda:99", "privateuseone", "mtia"])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="Expected a device of this machine"):
        ictrl.create_learner(ictrl.load_recipe("digits"), device=name)


GENERATIVE = ["dgmw", "eec", "eecs", "fearnet", "redunet"]


@pytest.mark.parametrize("method", GENERATIVE)
def test_what_generative_methods_keep_is_compared_too(method: str, tmp_path: Path) -> None:
    """Each tensor as another type of numbers, a row shorter, not finite, and with places that are not there."""
    learner = learner_of(method)
    learner.save(tmp_path / "whole")
    for name, kept in learner.kept_tensors().items():
        whole = not kept.is_floating_point()
        changes: list[Callable[[Tensor], Tensor]] = [
            lambda t: t.half() if t.is_floating_point() else t.float(),
            lambda t: t[:-1],
        ]
        changes += [] if whole else [lambda t: t * float("nan")]
        changes += [lambda t: t - 99] if kept.dtype == torch.int64 and name != "born" else []
        for change in changes:
            path = crafted(tmp_path / "whole", tmp_path / "crafted", tensor_changed(f"memory.{name}", change))
            with pytest.raises(InputError) as caught:
                ictrl.load_learner(path)
            assert "\n" not in str(caught.value)
