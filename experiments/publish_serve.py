"""Writes what was measured of the service into docs/serve.md, from the files in docs/results/serve.

    python experiments/publish_serve.py

`serve_load.py`, `serve_hostile.py` and `kill_serving.py` write those files. Nobody types numbers by hand: a test
compares the page with the files.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "serve.md"
RESULTS = ROOT / "docs" / "results" / "serve"
BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"


def read(name: str) -> dict[str, Any]:
    return dict(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def measured() -> str:
    """The section, without its markers."""
    load, hostile, killed = (read(name) for name in ("load", "hostile", "killed"))
    lines = [
        f"Recipe `{load['recipe']}`, {load['cores']} cores with the clients on the same ones, {load['machine']}, torch "
        f"{load['torch']}; {load['seconds_per_phase']:.0f} s each.",
        "",
        "| clients | meanwhile taught | predictions a second | p50 | p99 |",
        "|---:|---:|---:|---:|---:|",
    ]
    for phase in load["phases"]:
        taught = f"{phase['taught']} classes" if phase["taught"] else "nothing"
        numbers = f"{phase['per_second']:,.0f} | {phase['p50_ms']:.1f} ms | {phase['p99_ms']:.1f} ms"
        lines.append(f"| {phase['clients']} | {taught} | {numbers} |")
    memory = load["memory"]
    refused = sum(phase["refused"] for phase in load["phases"]) + memory["refused"]
    answers = hostile["answers"]
    silent = answers.get("closed", 0) + answers.get("left", 0)
    lines += [
        "",
        f"Of {load['answers_checked']:,} answers of {load['versions_that_answered']} versions {load['answers_wrong']} "
        f"were wrong and {refused} requests were refused. Over {memory['requests']:,} requests memory grew by "
        f"{memory['growth_after_a_tenth']:.1f} MB after the first tenth.",
        "",
        f"Of {hostile['requests']:,} hostile requests {hostile['requests'] - silent:,} were answered with 4xx in one "
        f"line; on the others the client had gone or never finished. {hostile['wrong']} had another answer, "
        f"{hostile['lines_logged']} lines were logged, the longest took {hostile['longest_seconds']:.1f} s.",
        "",
        f"Killed {killed['times']} times while it was taught, half of them while the file was being written: the old "
        f"learner {killed['old']} times, the new one {killed['new']} times, broken {killed['broken']} times.",
    ]
    return "\n".join(lines)


def with_measured(page: str) -> str:
    """The page with the section between its markers."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{measured()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(with_measured(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
