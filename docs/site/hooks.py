"""What the site adds to its Markdown: formulas without scripts, a list of the result files, a check of quoted figures.

- Formulas, $…$ and $$…$$, become MathML, which browsers draw by themselves.
- Generated pages link to folders of result files; the site has one page that lists these, `results/index.md`.
- An accuracy that a page quotes must stand in a generated table or in a result file: the build fails otherwise.
"""

import html
import logging
import re
from functools import cache
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.hooks")

DOCS = Path(__file__).parent.parent
LISTING = "results/index.md"
GENERATED = {"results.md", "experiments.md", "speed.md", "commands.md", "wide.md", "tried.md", "rivals.md", LISTING}
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
FOLDER = re.compile(r"\]\(results(?:/([\w-]+))?/?\)")
ACCURACY = re.compile(r"(?<![\d.])[01]\.\d{3}(?!\d)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the list of result files."""
    files.append(File.generated(config, LISTING, content=result_files()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to folders at the list, and refuse figures that no file holds."""
    name = page.file.src_uri
    if name not in GENERATED:
        for figure in sorted(set(ACCURACY.findall(markdown)) - published()):
            log.warning("%s quotes %s, which stands in no table and no result file", name, figure)
    return FOLDER.sub(lambda link: f"]({LISTING}{'#' + link[1] if link[1] else ''})", markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw formulas."""

    def drawn(found: re.Match[str]) -> str:
        display = "block" if found[1] == "div" else "inline"
        formula = convert(html.unescape(found[2]), display=display)
        return f'<div class="formula">{formula}</div>' if display == "block" else formula

    return FORMULA.sub(drawn, content)


def result_files() -> str:
    """A page that lists every file in docs/results, study by study."""
    root = DOCS / "results"
    lines = ["# Result files", "", "Each file is the `results.json` of one run, or the `review.json` of one review."]
    loose = sorted(path for path in root.glob("*.json"))
    lines += ["", *(f"- [{path.stem}]({path.name})" for path in loose)]
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        files = sorted(folder.glob("*.json"))
        lines += ["", f"## {folder.name}", "", *(f"- [{path.stem}]({folder.name}/{path.name})" for path in files)]
    return "\n".join(lines) + "\n"


@cache
def published() -> frozenset[str]:
    """Every accuracy in a generated table, or in a result file, to three digits."""
    tables = " ".join((DOCS / name).read_text(encoding="utf-8") for name in ("results.md", "experiments.md"))
    numbers = set(ACCURACY.findall(tables))
    for path in DOCS.glob("results/**/*.json"):
        found = re.findall(r"(?<![\d.])[01]\.\d{3,}", path.read_text(encoding="utf-8"))
        numbers.update(f"{float(number):.3f}" for number in found)
    return frozenset(numbers)
