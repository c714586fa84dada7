"""What the figures are made of: affinities, energies, forgetting, ticks, tables of pictures."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

from ictrl.experiment.results import Results
from ictrl.methods.closed_loop import ClosedLoopLearner
from ictrl.report.figures.component_energies import energies
from ictrl.report.figures.confusion_maps import confusion_memory
from ictrl.report.figures.forgetting_bars import fallen
from ictrl.report.figures.similarity_blocks import drawn_features
from ictrl.report.figures.subspace_affinities import class_affinities
from ictrl.report.house_style import house_style
from ictrl.report.plots import Curve, line_chart
from ictrl.report.record import read_run
from ictrl.report.thumbnails import Cell, PictureTable, tiled
from ictrl.theory.statistics import ClassStatistics


def test_a_limited_table_goes_from_the_first_class_to_the_last() -> None:
    rows = [(str(i), [Cell("", np.zeros((4, 4), np.uint8))]) for i in range(100)]
    table = PictureTable("t", "t", ["one"], rows).limited(5)
    assert [name for name, _ in table.rows] == ["0", "25", "50", "74", "99"]
    assert table.left_out == 95
    assert PictureTable("t", "t", ["one"], rows).limited(0).rows == []


def test_tiled_pictures_keep_their_pixels() -> None:
    images = torch.arange(3 * 3 * 4 * 4, dtype=torch.uint8).reshape(3, 3, 4, 4)
    pixels = tiled(images, 2)
    assert pixels.shape == (9, 9, 3)
    assert np.array_equal(pixels[5:, :4], images[2].permute(1, 2, 0).numpy())
    assert (pixels[5:, 5:] == 128).all()  # an empty place


def test_affinities_against_scipy(odd_run: Path) -> None:
    memory = read_run(odd_run, "run").memory
    assert memory is not None
    labels, values, q = class_affinities(memory)
    covariances = [memory[label].covariance.double().numpy() for label in labels]
    bases = [np.linalg.eigh(covariance)[1][:, -q:] for covariance in covariances]
    for i, U in enumerate(bases):
        for j, V in enumerate(bases):
            assert values[i, j] == pytest.approx(np.square(np.cos(subspace_angles(U, V))).mean(), abs=1e-3)


def test_drawn_features_are_of_unit_length_and_leave_the_learner_alone(odd_run: Path) -> None:
    learner = read_run(odd_run, "run").learner
    assert isinstance(learner, ClosedLoopLearner)
    before = learner._state.generator.get_state()
    Z, sizes = drawn_features(learner.memory)
    assert sizes == [80] * 4
    assert torch.allclose(Z.norm(dim=1), torch.ones(320))
    assert torch.equal(Z, drawn_features(learner.memory)[0])
    assert torch.equal(learner._state.generator.get_state(), before)


def test_energies_are_shares_of_the_variance() -> None:
    covariance = torch.diag(torch.tensor([1.0, 3.0, 0.0]))
    share = energies(ClassStatistics(torch.tensor(9), torch.zeros(3), covariance))
    assert share.tolist() == pytest.approx([0.75, 0.25, 0.0])


def test_forgetting_by_task_has_the_mean_of_the_results(odd_run: Path) -> None:
    results = Results.read(odd_run / "results.json")
    assert set(results.protocols) == {"memory", "reencoded"}
    for scores in results.protocols.values():
        lost = fallen(scores.matrix)
        assert len(lost) == 1
        assert sum(lost) / len(lost) == pytest.approx(scores.forgetting, abs=1e-5)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.9, 1), (-0.05, 0.3), (0, 0.0004), (1, 37)])
def test_ticks_are_few_and_within(low: float, high: float) -> None:
    curve = Curve("c", [(0, low), (1, high)], "memory")
    with house_style():
        (axes,) = line_chart([curve], x_label="x", y_label="y", y_range=(low, high)).axes
        ticks = axes.get_yticks()
        assert axes.get_ylim() == (low, high)
        assert 3 <= len(ticks) <= 8
        assert low - 1e-12 <= ticks[0] <= ticks[-1] <= high + 1e-12


@pytest.mark.parametrize("high", [0.0, 0.00037, 0.27, 1.0, 41.0])
def test_an_axis_of_its_own_holds_all_of_a_curve(high: float) -> None:
    with house_style():
        (axes,) = line_chart([Curve("c", [(1, 0.0), (2, high)], "memory")], x_label="x", y_label="y").axes
        bottom, top = axes.get_ylim()
        assert bottom == 0
        assert max(high, 1e-9) <= top <= max(1.0, 2 * high)


def test_the_numbers_in_a_confusion_map_are_those_of_the_results(run: Path) -> None:
    counts = json.loads((run / "results.json").read_text())["memory"]["confusion"]
    with house_style():
        figure = confusion_memory(read_run(run, "run"))
        assert figure is not None
        written = {text.get_position(): text.get_text() for text in figure.drawing.axes[0].texts}
    for i, row in enumerate(counts):
        for j in range(len(counts)):
            assert written.get((j + 0.5, i + 0.5), "0") == str(row.get(str(j), 0))
