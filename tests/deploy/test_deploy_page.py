"""The page on deployment says what was measured."""

import json

from support import ROOT, script


def test_the_table_is_that_of_the_file() -> None:
    deploy = script("deploy")
    measured = json.loads((ROOT / "docs" / "results" / "onnx" / "deploy.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert f"{deploy.START}\n{deploy.table(measured)}\n{deploy.END}" in page
    for row in measured["learners"]:
        assert row["labels_equal"] == row["pictures"] >= 10_000
        assert row["largest_difference"] <= 1e-4
        assert row["inference_bytes"] < row["whole_bytes"]
