"""What `ictrl review` prints; what it does is tested with the room that does it."""

from pathlib import Path

import pytest
from support import call


def test_a_review_is_compared_with_a_joint_run_of_any_method(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run of method joint has no reencoded protocol."""
    cycles = [{"cycle": 0, "memory": 0.9, "reencoded": 0.9}]
    monkeypatch.setattr("ictrl.cli.review.review", lambda *_, **__: {"cycles": cycles, "joint": {"memory": 0.95}})
    assert call("review", tmp_path / "run") == 0
    assert capsys.readouterr().out == (
        "all classes at once: accuracy memory 0.950\n"
        f"Accuracies: {tmp_path}/run/review.json\n"
        f'The learner: ictrl.load_learner("{tmp_path}/run/review/learner.safetensors")\n'
    )
