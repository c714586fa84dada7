"""The explorer's view Classes: cards, replayed pictures, sliders, likeness, forgetting."""

import re
from typing import Any
from urllib.parse import quote

from explorer_support import NAMES, NO_CHROMIUM, wait_for
from playwright.sync_api import Route, expect

pytestmark = NO_CHROMIUM
LONG = "a name of two hundred characters " * 6


def test_a_card_says_what_is_known_and_names_are_text(explore: Any) -> None:
    explorer = explore().open("classes")
    cards = explorer.page.locator(".class-card")
    expect(cards).to_have_count(3)
    assert cards.locator("h2").all_inner_texts() == NAMES
    expect(explorer.page.locator("main b")).to_have_count(0)
    expect(cards.first.locator("img")).to_have_count(5)
    assert "dir" not in cards.first.locator("bdi").evaluate("name => name.getAttributeNames()")  # bdi finds it itself


def test_facts_are_those_that_the_service_knows(explore: Any) -> None:
    explorer = explore()
    told = explorer.page.request.get(explorer.running.url + "classes").json()
    told["classes"][0] |= {"since": "2026-02-03T04:05:06Z", "images": 120, "accuracy": 0.934, "tested": 30}
    told["classes"][0] |= {"measured_on": "held-out pictures", "among": 4}
    told["classes"][1] |= {"since": None, "images": None, "accuracy": None, "tested": None, "among": None}
    explorer.page.route("**/classes", lambda route: route.fulfill(json=told))
    explorer.open("classes")
    cards = explorer.page.locator(".class-card")
    expect(cards.first).to_contain_text("Feb 3, 2026")
    expect(cards.first).to_contain_text("120 pictures")
    expect(cards.first).to_contain_text("93% of 30 held-out pictures, among 4 classes")
    expect(cards.nth(1)).to_contain_text("Nothing was noted")


def test_a_class_is_replayed_again_with_other_pictures(explore: Any) -> None:
    explorer = explore().open("classes")
    explorer.page.get_by_role("link", name=NAMES[1]).click()
    expect(explorer.page.get_by_role("heading", level=1)).to_have_text(NAMES[1])
    shown = explorer.page.locator(".replayed img")
    expect(shown).to_have_count(16)
    before = shown.first.get_attribute("src")
    explorer.button("Draw again").click()
    expect(shown.first).not_to_have_attribute("src", before or "")
    expect(shown).to_have_count(16)
    seeds = [one.url.split("seed=")[1] for one in explorer.requests if "n=16" in one.url]
    assert seeds == ["0", "1"]


def test_sliders_redraw_one_request_at_a_time_and_the_latest_wins(explore: Any) -> None:
    explorer = explore()
    held: list[Route] = []
    explorer.page.route("**/picture?at=*", lambda route: held.append(route))
    explorer.open(f"classes/{quote(NAMES[0], safe='')}")
    first = explorer.page.get_by_role("slider", name="Direction 1")
    expect(first).to_be_visible()
    wait_for(explorer.page, lambda: len(held) == 1)
    picture = explorer.page.locator(".large")
    for value in ("0.5", "1", "2.5"):
        first.fill(value)
    assert len(held) == 1  # the others wait for it
    held[0].fallback()
    expect(picture).to_have_attribute("src", re.compile("^blob:"))
    before = picture.get_attribute("src")
    wait_for(explorer.page, lambda: len(held) == 2)
    held[1].fallback()
    expect(picture).not_to_have_attribute("src", before or "")
    assert [route.request.url.split("at=")[1] for route in held] == ["0", "2.5"]
    expect(first).to_have_attribute("aria-valuetext", "+2.5 standard deviations")
    explorer.page.unroute_all()
    explorer.button("Middle").click()
    expect(first).to_have_value("0")


def test_the_map_of_likeness_is_a_table_of_what_the_service_measured(explore: Any) -> None:
    explorer = explore().open("classes")
    told = explorer.page.request.get(explorer.running.url + "affinity").json()["matrix"]
    cells = explorer.page.locator(".heat tbody td")
    expect(cells).to_have_count(9)
    texts = cells.all_inner_texts()
    assert [texts[i] for i in (1, 2, 5)] == [f"{told[i][j]:.2f}" for i, j in ((0, 1), (0, 2), (1, 2))]
    assert [texts[i].strip() for i in (0, 4, 8)] == ["itself"] * 3
    strengths = cells.evaluate_all("cells => cells.map(cell => Number(cell.style.getPropertyValue('--share')))")
    nearest = min((told[i][j], 3 * i + j) for i in range(3) for j in range(3) if i != j)
    assert strengths[nearest[1]] == 1


def test_a_class_is_forgotten_and_that_is_undone(explore: Any) -> None:
    explorer = explore().open(f"classes/{quote(NAMES[0], safe='')}")
    explorer.button("Forget this class …").click()
    dialog = explorer.page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 kept version that still knows it")
    expect(dialog).to_contain_text("traces of the class may remain")
    explorer.button("Forget").click()
    expect(dialog.get_by_role("heading")).to_have_text(f"Forgotten: {NAMES[0]}")
    expect(dialog.locator(".remains li")).not_to_have_count(0)
    expect(dialog.locator(".remains")).to_contain_text("kept versions 1, which still know it")
    assert NAMES[0] not in explorer.running.host.now.names.values()
    explorer.button("Undo").click()
    expect(dialog).to_have_count(0)
    assert list(explorer.running.host.now.names.values()) == NAMES


def test_a_class_is_forgotten_with_the_versions_that_know_it(explore: Any) -> None:
    explorer = explore().open(f"classes/{quote(NAMES[2], safe='')}")
    explorer.button("Forget this class …").click()
    explorer.page.get_by_label("Remove them too").check()
    explorer.button("Forget").click()
    dialog = explorer.page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text(f"Forgotten: {NAMES[2]}")
    expect(explorer.button("Undo")).to_have_count(0)
    assert [one.version for one in explorer.running.host.versions.kept()] == [2]
    dialog.get_by_role("button", name="Close").click()
    expect(explorer.page.locator(".class-card h2")).to_have_text(NAMES[:2])


def test_what_the_service_refuses_is_said_and_nothing_is_forgotten(explore: Any) -> None:
    explorer = explore(allowed=("409",)).open(f"classes/{quote(NAMES[1], safe='')}")
    explorer.page.route(
        "**/classes/cat?versions=*", lambda route: route.fulfill(status=409, json={"error": "Expected no teaching."})
    )
    explorer.button("Forget this class …").click()
    explorer.button("Forget").click()
    expect(explorer.page.get_by_role("dialog").get_by_role("alert")).to_have_text("Expected no teaching.")
    expect(explorer.button("Cancel")).to_be_enabled()


def test_one_class_has_no_map_and_none_leads_to_teaching(explore: Any) -> None:
    explorer = explore()
    told = explorer.page.request.get(explorer.running.url + "classes").json()
    few = told["classes"][:1]
    explorer.page.route("**/classes", lambda route: route.fulfill(json={**told, "classes": few}))
    explorer.open("classes")
    expect(explorer.page.locator(".class-card")).to_have_count(1)
    expect(explorer.page.locator(".affinity")).to_have_count(0)
    few.clear()
    explorer.page.reload()
    expect(explorer.page.get_by_text("It knows no class yet.")).to_be_visible()
    explorer.page.get_by_role("link", name="Try", exact=True).click()
    expect(explorer.button("Choose pictures")).to_be_hidden()
    explorer.page.get_by_role("link", name="Teach it the first").click()
    expect(explorer.page.get_by_role("heading", level=1)).to_have_text("Teach it something new")


def test_two_hundred_classes_are_searched_and_drawn_only_where_they_are_seen(explore: Any) -> None:
    explorer = explore(viewport={"width": 390, "height": 844})
    told = explorer.page.request.get(explorer.running.url + "classes").json()
    names = [LONG, *(f"class {i}" for i in range(1, 200))]
    told["classes"] = [{**told["classes"][0], "label": i, "name": name} for i, name in enumerate(names)]
    matrix = [[abs(i - j) / 10 for j in range(200)] for i in range(200)]
    explorer.page.route("**/classes", lambda route: route.fulfill(json=told))
    explorer.page.route("**/healthz", lambda route: route.fulfill(json={"version": told["version"], "classes": 200}))
    explorer.page.route(
        "**/affinity",
        lambda route: route.fulfill(json={"classes": names, "kind": "distance between classes", "matrix": matrix}),
    )
    explorer.page.route("**/samples?*", lambda route: route.fulfill(json={"pictures": []}))
    explorer.open("classes")
    expect(explorer.page.locator(".class-card")).to_have_count(200)
    map_ = explorer.page.locator("canvas")
    expect(map_).to_be_visible()
    assert len([one for one in explorer.requests if "/samples" in one.url]) < 20
    assert explorer.sideways() <= 0
    map_.hover(position={"x": 0, "y": 0})
    expect(explorer.page.locator(".pointed")).to_contain_text("two hundred characters")
    explorer.button("As a table").click()
    row = explorer.page.get_by_role("row").filter(has=explorer.page.get_by_role("rowheader", name="class 100"))
    expect(row).to_contain_text("class 99 0.10, class 101 0.10")
    assert explorer.sideways() <= 0
    explorer.page.get_by_label("Search").fill("19")
    expect(explorer.page.get_by_role("status").filter(has_text="found")).to_have_text("12 classes found")
    expect(explorer.page.locator(".class-card:visible")).to_have_count(12)


def test_a_learner_that_cannot_draw_shows_the_rest_and_says_so(explore: Any) -> None:
    explorer = explore("blind").open("classes")
    expect(explorer.page.get_by_text("cannot draw: there are no replayed pictures and no sliders")).to_be_visible()
    expect(explorer.page.locator(".heat")).to_be_visible()
    explorer.page.locator(".stretched").first.click()
    expect(explorer.page.get_by_text("This learner cannot draw")).to_be_visible()
    expect(explorer.page.get_by_role("slider")).to_have_count(0)
    expect(explorer.button("Forget this class …")).to_be_visible()


def test_a_class_that_is_gone_is_said_to_be(explore: Any) -> None:
    explorer = explore().open("classes/nobody")
    expect(explorer.page.get_by_role("heading", level=1)).to_have_text("No such class")


def test_the_gallery_has_a_row_of_pictures_of_every_class(explore: Any) -> None:
    explorer = explore().open("gallery")
    rows = explorer.page.locator(".pictures-of > li")
    expect(rows).to_have_count(3)
    assert rows.locator("strong").all_inner_texts() == NAMES
    for name in NAMES:
        strip = explorer.page.get_by_role("img", name=f"10 replayed pictures of {name}", exact=True)
        expect(strip.locator("img")).to_have_count(10)
    before = rows.first.locator("img").first.get_attribute("src")
    explorer.button("Draw all again").click()
    expect(rows.first.locator("img")).to_have_count(10)
    expect(rows.first.locator("img").first).not_to_have_attribute("src", before or "")
    explorer.page.get_by_role("link", name=NAMES[1]).click()
    expect(explorer.page.get_by_role("heading", level=1)).to_have_text(NAMES[1])


def test_a_gallery_of_one_that_cannot_draw_says_so_and_asks_for_nothing(explore: Any) -> None:
    explorer = explore("blind").open("gallery")
    expect(explorer.page.get_by_text("This learner cannot draw.")).to_be_visible()
    expect(explorer.button("Draw all again")).to_be_hidden()
    expect(explorer.page.locator(".pictures-of > li")).to_have_count(0)
    assert [one for one in explorer.requests if "/samples" in one.url] == []


def test_a_class_stands_beside_what_earlier_versions_drew_of_it(explore: Any) -> None:
    explorer = explore()
    address = f"classes/{quote(NAMES[0], safe='')}"
    explorer.open(address)
    expect(explorer.page.get_by_role("slider").first).to_be_visible()
    wait_for(explorer.page, lambda: any(one.url.endswith("/earlier") for one in explorer.requests))
    expect(explorer.page.get_by_role("heading", name="As it was drawn before")).to_be_hidden()  # nothing was, yet
    explorer.page.request.delete(f"{explorer.running.url}classes/{NAMES[1]}")
    explorer.page.reload()
    rows = explorer.page.locator(".pictures-of > li")
    expect(rows).to_have_count(2)
    assert rows.locator("strong").all_inner_texts() == ["Version 1, as it was found", "Now"]
    shown = [rows.nth(i).locator("img") for i in range(2)]
    for pictures in shown:
        expect(pictures).to_have_count(5)
    addresses = [pictures.evaluate_all("images => images.map(image => image.src)") for pictures in shown]
    assert addresses[0] == addresses[1]  # another class was forgotten, which changes nothing of this one
    asked = [one.url.partition("samples?")[2] for one in explorer.requests if "n=5" in one.url]
    assert sorted(asked) == ["n=5&seed=0", "n=5&seed=0&of=version-1"]  # in whichever order they come into sight
    explorer.button("Draw these again").click()
    wait_for(explorer.page, lambda: any("seed=1&of=version-1" in one.url for one in explorer.requests))


def test_an_earlier_version_that_cannot_be_opened_is_said_in_its_row(explore: Any) -> None:
    explorer = explore(allowed=("409",))
    explorer.page.request.delete(f"{explorer.running.url}classes/{NAMES[1]}")
    kept = next(explorer.running.host.versions.folder.glob("version-000001.*"))
    content = bytearray(kept.read_bytes())
    content[-1] ^= 1
    kept.write_bytes(content)
    explorer.open(f"classes/{quote(NAMES[0], safe='')}")
    rows = explorer.page.locator(".pictures-of > li")
    expect(rows.first).to_contain_text("is damaged")
    expect(rows.nth(1).locator("img")).to_have_count(5)
