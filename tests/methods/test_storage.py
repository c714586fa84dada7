"""Saved learners: bit for bit, and no code from strangers."""

import os
import pickle
from pathlib import Path

import pytest
import torch
from method_support import Learned, everything, same, stop_after
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from support import pictures, tiny_recipe

from ictrl import ICTRL, EpochReport, InputError
from ictrl.files import write_atomically
from ictrl.methods.storage import _digest

IMAGES, _ = pictures([0, 1, 2, 3], seed=1)


def test_saving_loading_and_predicting_agree_bit_for_bit(learned: Learned, tmp_path: Path) -> None:
    learner = learned()
    learner.save(tmp_path / "learner.safetensors")
    again = ICTRL.load(tmp_path / "learner.safetensors")
    assert again.recipe == learner.recipe
    assert again.classes_.tolist() == learner.classes_.tolist()
    assert again.memory.nbytes == learner.memory.nbytes
    assert torch.equal(again.residuals(IMAGES), learner.residuals(IMAGES))
    assert torch.equal(again.predict(IMAGES), learner.predict(IMAGES))
    assert torch.equal(again.reconstruct(IMAGES), learner.reconstruct(IMAGES))


def test_learning_goes_on_exactly(tmp_path: Path) -> None:
    weights = {"distill_new": 1.0, "distill_replayed": 2.0}
    recipe = tiny_recipe(later={"weights": weights}, memory={"samples": 40, "drift_compensation": True})
    learner = ICTRL(recipe, seed=7).learn(*pictures([0, 1]))
    learner.save(tmp_path / "after-one-task")
    again = ICTRL.load(tmp_path / "after-one-task")
    assert again.seed == 7
    for one in (learner, again):
        one.learn(*pictures([9, -3]))
    assert torch.equal(again.residuals(IMAGES), learner.residuals(IMAGES))
    assert same(everything(again), everything(learner))


def test_loaded_moments_lie_in_memory_as_their_parameters_do(learned: Learned, tmp_path: Path) -> None:
    """A fused Adam, as on a GPU, refuses any other order."""
    learned().save(tmp_path / "learner")
    players = ICTRL.load(tmp_path / "learner")._players
    assert not all(parameter.is_contiguous() for parameter in players.encoder.parameters())
    for optimiser in (players.encoder_optimiser, players.decoder_optimiser):
        for parameter, state in optimiser.state.items():
            assert {parameter.stride()} == {state[name].stride() for name in ("exp_avg", "exp_avg_sq")}


def test_a_learner_that_has_learned_nothing_can_be_saved(tmp_path: Path) -> None:
    ICTRL(tiny_recipe()).save(tmp_path / "new")
    again = ICTRL.load(str(tmp_path / "new"))
    assert torch.equal(
        again.learn(*pictures([0, 1])).residuals(IMAGES),
        ICTRL(tiny_recipe()).learn(*pictures([0, 1])).residuals(IMAGES),
    )


def test_saving_over_a_learner_keeps_no_remains(learned: Learned, tmp_path: Path) -> None:
    path = tmp_path / "learner"
    ICTRL(tiny_recipe()).save(path)
    learned().save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["learner"]
    assert len(ICTRL.load(path).memory) == 4


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"good")
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"better")
    assert path.read_bytes() == b"good"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


class Attack:
    """Runs when unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (os.environ["ICTRL_TEST_ATTACK"],)


@pytest.mark.parametrize("how", ["pickle", "torch.save"])
def test_a_pickle_is_refused_and_never_run(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "attacked"
    monkeypatch.setenv("ICTRL_TEST_ATTACK", str(target))
    path = tmp_path / "learner"
    if how == "pickle":
        path.write_bytes(pickle.dumps(Attack()))
    else:
        torch.save(Attack(), path)
    with pytest.raises(InputError, match="is cut short or of another kind"):
        ICTRL.load(path)
    assert not target.exists()
    pickle.loads(pickle.dumps(Attack()))  # the attack itself works
    assert target.exists()


def test_truncated_files_are_refused_wherever_they_end(learned: Learned, tmp_path: Path) -> None:
    learned().save(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    for share in (0.0, 0.0001, 0.01, 0.5, 0.999):
        (tmp_path / "part").write_bytes(content[: int(len(content) * share)])
        with pytest.raises(InputError, match="Expected a saved learner but .*part is cut short"):
            ICTRL.load(tmp_path / "part")


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="could not read .*nowhere: No such file"):
        ICTRL.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="a saved learner or a run folder but .* is a folder without a learned task"):
        ICTRL.load(tmp_path)


def rewritten(path: Path, tensors: dict[str, torch.Tensor] | None = None, **metadata: str | None) -> Path:
    """The file with other contents and the digest that belongs to them: not damaged, but wrong."""
    with safe_open(path, framework="pt") as file:
        described = {**file.metadata(), **metadata}
    described = {key: value for key, value in described.items() if value is not None and key != "digest"}
    contents = {**load_file(path), **(tensors or {})}
    save_file(contents, path, {**described, "digest": _digest(described, contents)})
    return path


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": "something.else"}, "is a safetensors file of something else"),
        ({"version": "99"}, "a saved learner in format 2 but .* is in format 99: load it with the version"),
        ({"recipe": "{"}, "describes none"),
        ({"recipe": "[]"}, "describes none"),
        ({"recipe": '{"method": {"later": {"epochs": 0}}}'}, "describes none: Expected epochs to be at least 1"),
        ({"recipe": '{"game": {"epochs": 0}}', "version": "1"}, "describes none: Expected epochs to be at least 1"),
        ({"recipe": '{"method": {"name": "magic"}}'}, "describes none: Expected method.name to be one of .* 'magic'"),
        ({"labels": None}, "describes none: 'labels'"),
        ({"labels": "[0, 1, 2, 3, 4]"}, "do not fit: '4.count'"),
        ({"seed": "x"}, "describes none"),
    ],
)
def test_foreign_metadata(metadata: dict[str, str | None], message: str, learned: Learned, tmp_path: Path) -> None:
    learned().save(tmp_path / "learner")
    with pytest.raises(InputError, match=message):
        ICTRL.load(rewritten(tmp_path / "learner", **metadata))


@pytest.mark.parametrize(
    "name",
    ["encoder.layers.0.weight", "memory.0.mean", "memory.2.direction_factors", "decoder_optimiser.0.exp_avg"],
)
def test_tensors_of_another_shape(name: str, learned: Learned, tmp_path: Path) -> None:
    learned().save(tmp_path / "learner")
    with pytest.raises(InputError, match="the contents of .* do not fit"):
        ICTRL.load(rewritten(tmp_path / "learner", tensors={name: torch.zeros(3)}))


def test_a_file_for_a_device_that_is_not_there(learned: Learned, tmp_path: Path) -> None:
    learned().save(tmp_path / "learner")
    with pytest.raises(InputError, match="Expected a device of this machine"):
        ICTRL.load(tmp_path / "learner", device="cuda:99")


def test_one_flipped_byte_is_found_wherever_it_is(learned: Learned, tmp_path: Path) -> None:
    learned().save(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    places = [20, header // 2, header + 3, (header + len(content)) // 2, len(content) - 1]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 0x04
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(InputError, match="Expected a saved learner but .*damaged"):
            ICTRL.load(tmp_path / "damaged")


@pytest.mark.parametrize("ema", [0.0, 1.5])
def test_a_task_stopped_after_any_epoch_goes_on_exactly(ema: float, tmp_path: Path) -> None:
    recipe = tiny_recipe(
        memory={"drift_compensation": True},
        game={"replay": "frozen", "resample": "step"},
        first={"epochs": 3, "batch": 15, "ema": ema, "augmentation": {"rotations": ema > 0}},
        later={"epochs": 4, "batch": 15, "ema": ema, "weights": {"distill_new": 1.0, "distill_replayed": 2.0}},
    )
    tasks = [pictures([0, 1]), pictures([2, 3])]
    whole = ICTRL(recipe)
    for task in tasks:
        whole.learn(*task)
    for stopped_in, epochs in ((0, 3), (1, 4)):
        learner = ICTRL(recipe)
        for task in tasks[:stopped_in]:
            learner.learn(*task)
        learner.save(tmp_path / "base")
        for stop in range(1, epochs + 1):
            stop_after(learner, tasks[stopped_in], stop, tmp_path / "stopped")
            again = ICTRL.load(tmp_path / "base")
            reports: list[EpochReport] = []
            again.learn(*tasks[stopped_in], progress=reports.append, resume=tmp_path / "stopped")
            assert [report.epoch for report in reports] == list(range(stop + 1, epochs + 1))
            for task in tasks[stopped_in + 1 :]:
                again.learn(*task)
            assert same(everything(again), everything(whole))


def test_a_stopped_task_of_another_learner_is_refused(learned: Learned, tmp_path: Path) -> None:
    stop_after(ICTRL(tiny_recipe()), pictures([0, 1]), 1, tmp_path / "stopped")
    learner = learned()
    with pytest.raises(InputError, match="Expected a task stopped by this very learner but"):
        learner.learn(*pictures([8, 9]), resume=tmp_path / "stopped")
    learner.save(tmp_path / "learner")
    with pytest.raises(InputError, match="Expected a stopped task but .* of something else"):
        learner.learn(*pictures([8, 9]), resume=tmp_path / "learner")
    assert len(learner.memory) == 4
