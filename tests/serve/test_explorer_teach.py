"""The explorer's view Teach: new classes from folders, files and the camera; progress, outcome, undo, versions."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from explorer_support import NAMES, NO_CHROMIUM, folder, png, upload, wait_for
from playwright.sync_api import expect

import ictrl.serve.lesson
from ictrl.experiment.teaching import teach

pytestmark = NO_CHROMIUM
NEW = 'his "new" <i>class</i> №5'


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Teaching waits after each epoch until this is set."""
    go_on = threading.Event()

    def slowly(*arguments: Any, progress: Any, **settings: Any) -> Any:
        def step(report: Any) -> None:
            progress(report)
            assert go_on.wait(30)

        return teach(*arguments, progress=step, **settings)

    monkeypatch.setattr(ictrl.serve.lesson, "teach", slowly)
    yield go_on
    go_on.set()


def test_folders_become_classes_which_are_learned_compared_and_undone(explore: Any, tmp_path: Path) -> None:
    folder(tmp_path / "new" / NEW.replace("/", " "), 3)
    folder(tmp_path / "new" / "other", 4)
    (tmp_path / "new" / "other" / "notes.txt").write_text("no picture")
    (tmp_path / "new" / "other" / ".DS_Store").write_text("hidden")
    explorer = explore().open("teach")
    expect(explorer.page.get_by_text("At least 12 pictures of a class")).to_be_visible()
    explorer.choose_folder(tmp_path / "new")
    classes = explorer.page.locator(".new-class")
    expect(classes).to_have_count(2)
    expect(explorer.page.get_by_role("alert").filter(has_text="Left out")).to_contain_text("notes.txt")
    names = explorer.page.get_by_label("Name of the class")
    assert {names.nth(i).input_value() for i in range(2)} == {NEW.replace("/", " "), "other"}
    expect(classes.first.locator(".thumbs img")).to_have_count(14)
    expect(classes.first.locator(".state")).to_have_text("14 pictures: 11 to learn from, 3 held out. Ready.")
    outcome = explorer.learn()
    expect(outcome.get_by_role("heading")).to_contain_text("Learned")
    known = set(explorer.running.host.now.names.values())
    assert known == {*NAMES, NEW.replace("/", " "), "other"}
    rows = outcome.locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.filter(has_text="new").filter(has_text="other").locator("td").nth(1)).to_have_text("–")
    expect(rows.first.locator("th")).to_have_text(NAMES[0])
    for cell in rows.first.locator("td.number").all()[:2]:
        assert cell.inner_text().endswith("%")
    expect(outcome).to_contain_text("replayed from memory, that are recognised")
    expect(explorer.page.locator("main i:not(.mark)")).to_have_count(0)
    explorer.button("Undo").click()
    expect(explorer.page.get_by_text("This is version 1 again")).to_be_visible()
    assert list(explorer.running.host.now.names.values()) == NAMES
    explorer.page.get_by_role("link", name="Versions").click()
    versions = explorer.page.locator(".version")
    expect(versions).to_have_count(2)
    expect(versions.first).to_contain_text("taught")
    expect(versions.nth(1)).to_have_attribute("aria-current", "true")
    explorer.button("Go back to version 2").click()
    expect(versions.first).to_have_attribute("aria-current", "true")
    assert set(explorer.running.host.now.names.values()) == known


def test_what_is_missing_is_said_before_anything_is_sent(explore: Any) -> None:
    explorer = explore().open("teach")
    files = [upload(f"{i}.png", png(3, seed=i)) for i in range(12)]
    explorer.show(*files)
    state, name = explorer.page.locator(".state"), explorer.page.get_by_label("Name of the class")
    explorer.button("Learn").click()
    expect(name).to_be_focused()
    expect(state).to_contain_text("Give it a name.")
    name.fill(NAMES[0])
    expect(state).to_contain_text("knows a class of this name already")
    name.fill("..")
    expect(state).to_contain_text("by dots alone")
    name.fill("new")
    expect(state).to_contain_text("Ready.")
    explorer.button("Remove 0.png").click()
    expect(explorer.button("Remove 1.png")).to_be_focused()
    expect(state).to_have_text("11 pictures: 9 to learn from, 2 held out. It needs 1 more: 10 to learn from, and those "
                               "that are held out.")  # fmt: skip
    explorer.button("Learn").click()
    explorer.page.get_by_label("Held out to measure on").select_option("0")
    expect(state).to_have_text("11 pictures: 11 to learn from, 0 held out. Ready.")
    assert explorer.asked("/teach", "POST") == []
    expect(explorer.learn().locator("li")).to_have_text("new: 11 pictures learned.")


def test_one_class_again_under_another_name_is_warned_of(explore: Any, tmp_path: Path) -> None:
    explorer = explore().open("teach")
    explorer.choose_folder(folder(tmp_path / "again", 1, n=40))
    expect(explorer.learn().locator(".warn")).to_contain_text(f"again looks like {NAMES[1]}")


def test_teaching_survives_a_reload_and_is_seen_in_other_views(
    explore: Any, tmp_path: Path, held: threading.Event
) -> None:
    explorer = explore().open("teach")
    explorer.choose_folder(folder(tmp_path / "new", 3))
    explorer.button("Learn").click()
    bar, words = explorer.page.get_by_role("progressbar"), explorer.page.locator(".learning")
    expect(words).to_contain_text("Epoch 1 of 3")
    assert bar.evaluate("bar => bar.value") == pytest.approx(1 / 3)
    explorer.page.reload()
    expect(words).to_contain_text("Epoch 1 of 3")
    expect(words.get_by_role("heading")).to_have_text("Learning new")
    explorer.page.get_by_role("link", name="Try", exact=True).click()
    expect(explorer.page.get_by_role("link", name="Teaching …")).to_be_visible()
    explorer.page.get_by_role("link", name="Teaching …").click()
    held.set()
    expect(explorer.page.locator(".outcome h2")).to_have_text("Learned new")
    explorer.page.reload()
    expect(explorer.page.locator(".outcome h2")).to_have_text("Learned new")
    explorer.button("Undo").click()
    expect(explorer.page.get_by_text("This is version 1 again")).to_be_visible()


def test_a_cancelled_teaching_changes_nothing_and_keeps_the_pictures(
    explore: Any, tmp_path: Path, held: threading.Event
) -> None:
    explorer = explore().open("teach")
    explorer.choose_folder(folder(tmp_path / "new", 3))
    explorer.button("Learn").click()
    expect(explorer.page.locator(".learning")).to_contain_text("Epoch 1 of 3")
    explorer.button("Cancel").click()
    expect(explorer.page.locator(".learning")).to_contain_text("Stopping …")
    held.set()
    expect(explorer.page.locator(".outcome h2")).to_have_text("Cancelled")
    assert (explorer.running.host.now.version, list(explorer.running.host.now.names.values())) == (1, NAMES)
    explorer.button("Back to the pictures").click()
    expect(explorer.page.locator(".thumbs img")).to_have_count(14)


def test_two_cannot_teach_at_once_and_the_second_keeps_its_pictures(
    explore: Any, tmp_path: Path, held: threading.Event
) -> None:
    explorer = explore(allowed=("409",))
    explorer.page.route("**/healthz", lambda route: route.fulfill(json={"version": 1, "classes": 3, "teaching": False}))
    explorer.open("teach")
    explorer.choose_folder(folder(tmp_path / "new", 3))
    files = [("first", (f"{i}.png", png(4, seed=i), "image/png")) for i in range(12)]
    other = threading.Thread(target=lambda: httpx.post(explorer.running.url + "teach", files=files, timeout=60))
    other.start()
    health = lambda: explorer.page.request.get(explorer.running.url + "healthz")  # noqa: E731
    wait_for(explorer.page, lambda: health().json()["teaching"])
    explorer.button("Learn").click()
    expect(explorer.page.get_by_role("alert").filter(has_text="one teaching at a time")).to_be_visible()
    expect(explorer.page.locator(".thumbs img")).to_have_count(14)
    held.set()
    other.join(30)


def test_an_error_while_it_learns_is_said(explore: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **settings: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ictrl.serve.lesson, "teach", fails)
    explorer = explore().open("teach")
    explorer.choose_folder(folder(tmp_path / "new", 3))
    outcome = explorer.learn()
    expect(outcome.locator(".wrong")).to_contain_text("No space left on device")
    expect(outcome).to_contain_text("The learner is as it was.")


def test_a_class_is_collected_with_the_camera(explore: Any) -> None:
    explorer = explore()
    explorer.page.clock.install()
    explorer.open("teach")
    explorer.button("Use the camera").click()
    explorer.button("Take 20 pictures").click()
    expect(explorer.page.locator(".countdown")).to_have_text("3")
    explorer.page.clock.run_for(1000)
    expect(explorer.page.locator(".countdown")).to_have_text("2")
    explorer.page.clock.run_for(1500)
    expect(explorer.page.get_by_text(re.compile(r"^\d+ pictures? taken$")).first).to_be_visible()
    explorer.button("Done").click()
    expect(explorer.page.get_by_role("dialog")).to_have_count(0)
    thumbs = explorer.page.locator(".thumbs img")
    expect(thumbs.first).to_be_visible()
    taken = thumbs.count()
    explorer.page.get_by_label("Name of the class").fill("from the camera")
    assert explorer.page.locator(".thumbs img").count() == taken  # closed, it takes no more
    expect(explorer.page.locator(".state")).to_contain_text("It needs")


def test_folders_and_files_are_sorted_into_classes(explore: Any) -> None:
    """Below a folder with pictures all is its class; one that only holds folders is none; files alone have no name."""
    explorer = explore().open()
    found = explorer.page.evaluate(
        """async paths => {
          const { byFolder } = await import("/static/core/files.js");
          return [...byFolder(paths.map(path => ({ path, file: path })))];
        }""",
        ["a.png", "all/cats/1.png", "all/cats/more/2.png", "all/dogs/x/3.png", "all/dogs/y/4.png", "e\u0301/5.png"],
    )
    assert found == [
        ["", ["a.png"]], ["cats", ["all/cats/1.png", "all/cats/more/2.png"]], ["x", ["all/dogs/x/3.png"]],
        ["y", ["all/dogs/y/4.png"]], ["é", ["e\u0301/5.png"]],
    ]  # fmt: skip


def test_a_learner_that_can_only_predict_says_so(explore: Any) -> None:
    explorer = explore("predicts").open("teach")
    expect(explorer.page.get_by_text("This learner can only predict here")).to_be_visible()
    expect(explorer.button("Choose pictures")).to_have_count(0)
