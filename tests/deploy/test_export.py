"""Learners as ONNX graphs, run by onnxruntime: the labels of PyTorch, and its scores within 1e-4."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from method_support import METHODS, TESTS, learner_of
from numpy.typing import NDArray
from support import call

from ictrl import InputError, Learner, create_learner, export_onnx, load_learner
from ictrl.data.resize import fit
from ictrl.deploy.picture_graph import resizing_graph
from ictrl.methods.base import LEARNERS
from ictrl.methods.capabilities import Probabilities

WITHIN = 1e-4  # of scores, as a share of those above 1
# those left out share the encoder and head of finetune
FAMILIES = [
    "adagauss",
    "analytic",
    "cls_er",
    "fearnet",
    "fecam",
    "finetune",
    "frozen",
    "icarl",
    "ictrl",
    "redunet",
    "slda",
    "wide",
    "wide-gan",
    "wide-ictrl",
]
MANY = torch.cat([TESTS] * 80)  # more than pass through a network at once


def run_graph(path: Path | bytes, images: torch.Tensor) -> dict[str, NDArray[Any]]:
    session = onnxruntime.InferenceSession(path)
    found = session.run(None, {"images": images.numpy()})
    return dict(zip((output.name for output in session.get_outputs()), found))


def agrees(learner: Learner[Any], found: dict[str, NDArray[Any]], images: torch.Tensor) -> None:
    scores = learner.scores(images).numpy()
    assert (np.abs(found["scores"] - scores) <= WITHIN * np.maximum(1, np.abs(scores))).all()
    assert found["labels"].tolist() == learner.predict(images).tolist()
    assert ("probabilities" in found) == isinstance(learner, Probabilities)
    if isinstance(learner, Probabilities):
        assert np.abs(found["probabilities"] - learner.predict_proba(images).numpy()).max() <= WITHIN


def test_all_other_methods_predict_as_finetune_does() -> None:
    for method in {*METHODS} - {*FAMILIES}:
        assert LEARNERS[method].class_scores is LEARNERS["finetune"].class_scores
        assert LEARNERS[method].scorer is LEARNERS["finetune"].scorer


@pytest.mark.parametrize("method", FAMILIES)
def test_every_method_predicts_the_same(method: str, tmp_path: Path) -> None:
    learner = learner_of(method)
    export_onnx(learner, tmp_path / "model.onnx", {5: "fünf"})
    for images in (TESTS[:1], TESTS, MANY):
        agrees(learner, run_graph(tmp_path / "model.onnx", images), images)
    meta = onnxruntime.InferenceSession(tmp_path / "model.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(meta["classes"]) == [-4, 2, 5, 30]
    assert json.loads(meta["class_names"]) == {"-4": "-4", "2": "2", "5": "fünf", "30": "30"}
    assert meta["method"] == method
    known = {opset.domain for opset in onnx.load(tmp_path / "model.onnx").opset_import}
    assert known <= {"", "ai.onnx"}  # nothing but standard operators


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("wide", {"reading": {"mirror": True, "shifts": 1, "pool": 3}}),
        ("wide", {"reading": {"reduction": "channels", "sizes": (3,)}}),
        ("wide", {"reading": {"reduction": "pca", "sizes": (6,)}}),
        ("wide", {"reading": {"reduction": "random", "sizes": (6,)}}),
        ("wide", {"precision": "bfloat16", "network": {"kind": "resnet"}}),
        ("ictrl", {"classifier": {"kind": "gaussian", "mirror": True}}),
        ("er", {"network": {"kind": "resnet18", "width": 2}, "head_rows": 9}),
        ("er", {"network": {"kind": "resnet", "pixel_means": (0.3,), "pixel_deviations": (0.2,)}}),
        ("wide", {"network": {"pixel_means": (0.3,), "pixel_deviations": (0.2,)}}),
        ("er", {"network": {"kind": "mlp", "width": 5}}),
    ],
)
def test_settings_of_networks_and_classifiers(method: str, settings: dict[str, Any], tmp_path: Path) -> None:
    learner = learner_of(method, **settings)
    export_onnx(learner, tmp_path / "model.onnx")
    found = run_graph(tmp_path / "model.onnx", TESTS)
    if "precision" not in settings:
        agrees(learner, found, TESTS)
    else:  # the graph is in float32
        assert (found["labels"] == learner.predict(TESTS).numpy()).mean() > 0.9


@pytest.mark.parametrize(("height", "width"), [(8, 8), (28, 28), (32, 32), (37, 23), (20, 61), (150, 200)])
@pytest.mark.parametrize("side", [8, 32])
def test_pictures_are_resized_as_in_training(height: int, width: int, side: int) -> None:
    images = torch.randint(0, 256, (5, 3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    found = run_graph(resizing_graph(3, side).SerializeToString(), images)["pixels"]
    expected = fit(images, side, 3).numpy()
    off = np.abs(found.astype(int) - expected.astype(int))
    assert off.max() <= 1
    assert (off > 0).mean() < 1e-3  # where a value lies half-way between two
    if height == width and (height == side or (height, side) == (28, 32)):
        assert not off.any()


def test_a_picture_of_any_size_is_taken(tmp_path: Path) -> None:
    learner = learner_of("wide")
    export_onnx(learner, tmp_path / "model.onnx")
    images = torch.nn.functional.interpolate(TESTS.float(), size=(41, 29)).byte()
    agrees(learner, run_graph(tmp_path / "model.onnx", images), fit(images, 8, 1))


def test_a_learner_that_only_predicts_is_exported_too(tmp_path: Path) -> None:
    learner = learner_of("ictrl")
    learner.save(tmp_path / "small", inference_only=True)
    export_onnx(load_learner(tmp_path / "small"), tmp_path / "model.onnx")
    agrees(learner, run_graph(tmp_path / "model.onnx", TESTS), TESTS)


def test_a_new_learner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="call learn before export_onnx"):
        export_onnx(create_learner(learner_of("wide", 0).recipe), tmp_path / "model.onnx")


def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path) -> None:
    learner_of("slda").save(tmp_path / "learner")
    script = (
        "import sys; sys.modules['onnxscript'] = None\n"
        "from ictrl.cli import main\n"
        f"sys.exit(main(['export', {str(tmp_path / 'learner')!r}, '-o', {str(tmp_path / 'model.onnx')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "error: Expected the packages that write ONNX but onnxscript is not installed: pip install 'ictrl[onnx]'.\n"
    )
    assert not (tmp_path / "model.onnx").exists()


def test_the_command_writes_both_kinds(odd_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = load_learner(odd_run)
    assert call("export", odd_run, "-o", tmp_path / "new" / "model.onnx") == 0
    assert f"model.onnx: {len(learner.classes_)} classes by ictrl, " in capsys.readouterr().out
    meta = onnxruntime.InferenceSession(tmp_path / "new" / "model.onnx").get_modelmeta().custom_metadata_map
    assert "<b>" in meta["class_names"] or len(json.loads(meta["class_names"])) == len(learner.classes_)
    assert call("export", odd_run, "-o", tmp_path / "small.safetensors") == 0
    assert load_learner(tmp_path / "small.safetensors").parts == "predict"
    picture = next((odd_run.parent / "pictures").rglob("*.png"))
    outputs = []
    for given in (odd_run, tmp_path / "small.safetensors"):
        capsys.readouterr()
        assert call("predict", given, picture, "--json") == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert call("export", odd_run, "-o", tmp_path / "draws.safetensors", "--decoder") == 0
    assert load_learner(tmp_path / "draws.safetensors").parts == "predict and draw"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "model.pt"], "Expected --out to end in .onnx or .safetensors but got model.pt."),
        (["-o", "model.onnx", "--decoder"], "Expected --decoder with a .safetensors file"),
    ],
)
def test_mistakes(options: list[str], message: str, odd_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("export", odd_run, *options) == 2
    assert message in capsys.readouterr().err
