"""The explorer's ways in: the token, a server that goes away, other origins, addresses."""

from typing import Any

from explorer_support import NAMES, NO_CHROMIUM, png, upload, wait_for
from playwright.sync_api import expect

pytestmark = NO_CHROMIUM
TOKEN = "a token with+signs/and=such".replace(" ", "-")


def test_the_token_is_taken_out_of_the_address_and_survives_a_reload(explore: Any) -> None:
    explorer = explore(token=TOKEN).open(anchor=f"token={TOKEN}")
    expect(explorer.button("Choose pictures")).to_be_visible()
    assert TOKEN not in explorer.page.url
    explorer.page.reload()
    explorer.show(upload("a.png", png(1)))
    expect(explorer.page.locator(".verdict strong")).to_have_text(NAMES[1])
    asked = [one for one in explorer.requests if one.url.startswith(explorer.running.url + "predict")]
    assert asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert [one.url for one in explorer.requests if TOKEN in one.url] == []


def test_without_a_token_it_is_asked_for_until_it_is_right(explore: Any) -> None:
    explorer = explore(token=TOKEN, allowed=("401",)).open()
    dialog = explorer.page.get_by_role("dialog")
    expect(dialog).to_contain_text("asks for a token")
    explorer.page.keyboard.press("Escape")
    explorer.page.get_by_role("textbox", name="Token").fill("not the right one at all")
    explorer.page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_have_text("The server refused this token.")
    explorer.page.get_by_role("textbox", name="Token").fill(TOKEN)
    explorer.button("Continue").click()
    expect(explorer.button("Choose pictures")).to_be_visible()
    expect(dialog).to_have_count(0)


def test_a_server_that_is_gone_is_waited_for(explore: Any) -> None:
    explorer = explore(allowed=("net::ERR_",)).open()
    expect(explorer.button("Choose pictures")).to_be_visible()
    explorer.running.stop()
    explorer.show(upload("a.png", png(1)))
    banner = explorer.page.locator("#banner")
    expect(banner).to_have_text("The server does not answer. Trying to reach it again …")
    before = len(explorer.asked("/healthz"))
    wait_for(explorer.page, lambda: len(explorer.asked("/healthz")) == before + 1)
    explorer.running.start()
    expect(banner).to_be_hidden()
    explorer.show(upload("a.png", png(1)))
    expect(explorer.page.locator(".verdict strong")).to_have_text(NAMES[1])


def test_what_others_change_is_noticed(explore: Any) -> None:
    explorer = explore().open("classes")
    expect(explorer.page.locator(".class-card")).to_have_count(3)
    explorer.page.request.delete(explorer.running.url + "classes/cat")
    explorer.look()
    expect(explorer.page.locator(".class-card")).to_have_count(2)
    expect(explorer.page.locator("#learner")).to_have_text("2 classes · version 2")


def test_no_script_and_no_style_within_the_page(explore: Any) -> None:
    explorer = explore(allowed=("Content Security Policy",)).open()
    expect(explorer.button("Choose pictures")).to_be_visible()
    explorer.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.x=1'}))"
    )
    assert explorer.page.evaluate("window.x") is None
    policy = explorer.page.request.get(explorer.running.url).headers["content-security-policy"]
    assert "unsafe" not in policy
    assert any("Content Security Policy" in error for error in explorer.errors)
