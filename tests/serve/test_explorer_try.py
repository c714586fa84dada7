"""The explorer's view Try: pictures in, what the learner makes of them out."""

import base64
from typing import Any

import pytest
from explorer_support import NAMES, NO_CHROMIUM, noise, png, upload
from playwright.sync_api import Route, expect

from ictrl.serve.bounds import Limits

pytestmark = NO_CHROMIUM


def test_a_picture_has_class_probability_distance_and_what_the_network_sees(explore: Any) -> None:
    explorer = explore().open()
    explorer.show(upload("stripes.png", png(1)))
    result = explorer.page.locator(".result")
    expect(result.locator(".verdict strong")).to_have_text(NAMES[1])
    expect(result.locator(".file")).to_have_text("stripes.png")
    rows = result.locator("tbody tr")
    assert [rows.nth(i).locator("th").inner_text() for i in range(1)] == [NAMES[1]]
    assert {rows.nth(i).locator("th").inner_text() for i in range(3)} == set(NAMES)
    distances = [float(rows.nth(i).locator("td").nth(2).inner_text().replace("−", "-")) for i in range(3)]
    assert distances == sorted(distances)
    widths = [row.bounding_box()["width"] for row in rows.locator(".meter").all()]
    shares = [
        float(bar.evaluate("bar => getComputedStyle(bar, '::before').width")[:-2]) / width
        for bar, width in zip(rows.locator(".meter").all(), widths)
    ]
    told = explorer.page.request.post(
        explorer.running.url + "predict", data=png(1), headers={"Content-Type": "image/png"}
    ).json()["predictions"][0]["classes"]
    assert shares == pytest.approx([one["probability"] for one in told], abs=0.02)
    expect(result.locator("figure")).to_have_count(3)
    for picture in result.locator("img").all():
        assert picture.evaluate("image => image.naturalWidth") == 8
        assert picture.evaluate("image => getComputedStyle(image).imageRendering") == "pixelated"


def test_files_that_are_no_pictures_are_named_in_one_line_and_the_others_are_told(explore: Any) -> None:
    explorer = explore().open()
    explorer.show(
        upload("a.png", png(0)), upload("broken.png", b"no picture"), upload("notes.txt", b"x", "text/plain"),
        upload("c.png", png(2)),
    )  # fmt: skip
    expect(explorer.page.locator(".verdict")).to_have_count(2)
    notice = explorer.page.get_by_role("alert").filter(has_text="could not be read")
    expect(notice).to_contain_text("broken.png")
    explorer.show(upload("notes.txt", b"x", "text/plain"))
    expect(notice).to_contain_text("notes.txt")
    expect(explorer.page.get_by_role("heading", name="2 pictures")).to_be_visible()
    explorer.button("Clear").click()
    expect(explorer.page.locator(".result")).to_have_count(0)


def test_where_no_picture_can_be_read_that_is_said(explore: Any) -> None:
    explorer = explore(allowed=("400",)).open()
    explorer.show(upload("broken.png", b"no picture"))
    expect(explorer.page.get_by_role("alert").filter(has_text="could not be read")).to_contain_text("broken.png")
    expect(explorer.page.locator(".result")).to_have_count(0)


def test_a_stranger_is_unknown_at_the_rate_that_was_chosen(explore: Any) -> None:
    explorer = explore().open()
    explorer.show(upload("stranger.png", png(5)))
    result = explorer.page.locator(".result")
    expect(result.locator(".verdict")).to_have_text("Unknown")
    expect(result).to_contain_text("about 5 in 100 are called unknown too")
    explorer.page.get_by_label("False alarms").focus()
    explorer.page.get_by_label("False alarms").select_option("0.2")
    expect(result).to_contain_text("about 20 in 100")
    assert "unknown=0.2" in explorer.asked("/predict", "POST")[-1].url
    expect(explorer.page.get_by_label("False alarms")).to_be_focused()


def test_pictures_are_pasted_and_dropped(explore: Any) -> None:
    explorer = explore().open()
    expect(explorer.button("Choose pictures")).to_be_visible()
    for event, label in (("paste", 2), ("drop", 0)):
        explorer.page.evaluate(
            """([kind, content]) => {
              const data = new DataTransfer();
              const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
              data.items.add(new File([bytes], `by ${kind}.png`, { type: "image/png" }));
              const target = kind === "drop" ? document.querySelector(".dropzone") : document.body;
              target.dispatchEvent(kind === "drop"
                ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })
                : new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
            }""",
            [event, base64.b64encode(png(label)).decode()],
        )
        expect(explorer.page.locator(".file").first).to_have_text(f"by {event}.png")
        expect(explorer.page.locator(".verdict strong").first).to_have_text(NAMES[label])


def test_a_picture_from_the_camera_and_one_from_memory(explore: Any) -> None:
    explorer = explore().open()
    explorer.button("Use the camera").click()
    explorer.button("Take the picture").click()
    expect(explorer.page.locator("dialog")).to_have_count(0)
    expect(explorer.page.locator(".file")).to_contain_text("camera-")
    explorer.button("One from its memory").click()
    expect(explorer.page.locator(".file").first).to_contain_text("from memory.png")
    expect(explorer.page.locator(".verdict")).to_have_count(2)


def test_a_photograph_is_made_smaller_before_it_is_sent(explore: Any) -> None:
    explorer = explore(limits=Limits(max_body=1)).open()
    photograph = noise(1700)
    assert len(photograph) > 1_500_000
    explorer.show(upload("photo.jpg", photograph, "image/jpeg"))
    expect(explorer.page.locator(".verdict")).to_have_count(1)


def test_what_is_too_large_does_not_take_the_others_with_it(explore: Any) -> None:
    explorer = explore(limits=Limits(max_body=1), allowed=("413",)).open()
    explorer.show(upload("large.png", noise(640, "PNG")), upload("small.png", png(0)))
    expect(explorer.page.locator(".verdict strong")).to_have_text(NAMES[0])
    expect(explorer.page.locator(".result .notice")).to_contain_text("at most 1 MB")


def test_a_busy_service_is_asked_again(explore: Any) -> None:
    explorer = explore(allowed=("503",)).open()
    refused: list[Route] = []

    def busy(route: Route) -> None:
        if refused:
            return route.fallback()
        refused.append(route)
        return route.fulfill(status=503, json={"error": "Expected fewer pictures at once: come again."})

    explorer.page.route("**/predict?*", busy)
    explorer.show(upload("a.png", png(0)))
    expect(explorer.page.locator(".verdict strong")).to_have_text(NAMES[0])
    assert len(refused) == 1


def test_a_learner_that_cannot_draw_and_one_without_probabilities(explore: Any) -> None:
    explorer = explore("silent").open()
    expect(explorer.button("One from its memory")).to_have_count(0)
    explorer.show(upload("a.png", png(1)))
    expect(explorer.page.locator(".verdict")).to_have_text(NAMES[1])
    expect(explorer.page.locator(".missing")).to_contain_text(
        "cannot draw: there are no reconstructions, nor tell prob"
    )
    expect(explorer.page.get_by_role("columnheader", name="Probability")).to_have_count(0)
    expect(explorer.page.get_by_label("False alarms")).to_have_count(0)
    expect(explorer.page.locator(".result figure")).to_have_count(1)


def test_what_was_told_is_told_anew_once_the_learner_knows_more(explore: Any) -> None:
    explorer = explore().open()
    explorer.show(upload("cat.png", png(1)))
    expect(explorer.page.locator(".verdict strong")).to_have_text(NAMES[1])
    explorer.page.get_by_role("link", name="Classes").click()
    expect(explorer.page.locator(".class-card")).to_have_count(3)
    explorer.page.request.delete(explorer.running.url + "classes/cat")
    explorer.look()
    expect(explorer.page.locator(".class-card")).to_have_count(2)
    explorer.page.get_by_role("link", name="Try", exact=True).click()
    expect(explorer.page.locator(".result tbody tr")).to_have_count(2)
    expect(explorer.page.locator(".file")).to_have_text("cat.png")
