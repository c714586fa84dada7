"""A report's page taken apart: its tags, its words, and the numbers that say where in results.json they stand."""

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

PROTOCOLS = ("memory", "reencoded")
SCORES = (*PROTOCOLS, "untrained", "frozen")


class Page(HTMLParser):
    """Tags with their attributes, the words, and the numbers that name their place in results.json."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.numbers: list[tuple[int, str, str, str]] = []
        self._run = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.tags.append((tag, found))
        self._run = int(found.get("data-run") or self._run)
        if "data-key" in found:
            self.numbers.append((self._run, str(found["data-key"]), str(found["value"]), ""))

    def handle_data(self, data: str) -> None:
        self.words += data
        if self.numbers and not self.numbers[-1][3]:
            self.numbers[-1] = (*self.numbers[-1][:3], data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.tags if "id" in attributes]

    def places(self, run: int = 0) -> set[str]:
        """Places in results.json of the numbers that stand on the page."""
        return {key for i, key, _, _ in self.numbers if i == run}


def at(results: Any, path: str) -> Any:
    for step in path.split("."):
        results = results[int(step) if isinstance(results, list) else step]
    return results


def check_numbers(page: Page, runs: list[Path], scores: tuple[str, ...] = SCORES) -> None:
    """Every number that stands on the page is the one in results.json, and the important ones stand there."""
    for index, run in enumerate(runs):
        results = json.loads((run / "results.json").read_text())
        done = len(results["memory"]["seen"])
        protocols = [name for name in PROTOCOLS if name in scores]
        wanted = {f"{p}.{k}" for p in protocols for k in ("last", "average", "forgetting")}
        wanted |= {f"{p}.seen.{t}" for p in scores for t in range(done)}
        wanted |= {f"{p}.matrix.{t}.{j}" for p in protocols for t in range(done) for j in range(t + 1)}
        wanted |= {f"{p}.last" for p in scores} | {"kept_bytes", "image_bytes", "parameters", "seconds.learn", "seed"}
        assert wanted <= page.places(index)
        for key, value, shown in ((key, value, shown) for i, key, value, shown in page.numbers if i == index):
            expected = at(results, key)
            assert float(value) == expected
            read = float(shown.replace(",", "").removesuffix("%")) / (100 if shown.endswith("%") else 1)
            coarse = 0.51 if key.startswith("seconds") else 0.0051 if shown.endswith("%") else 0.00051
            assert math.isclose(read, expected, abs_tol=coarse), key
