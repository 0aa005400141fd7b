"""Take the pictures of docs/console.md from a running service, with Chromium.

``python -m scripts.console_screenshots http://127.0.0.1:8080 docs/images`` while episodes are played, for
example by ``sandbox-service run code --repeat 3``, and with training runs in ``server.console_runs``.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESK = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}


def open_page(browser: Browser, url: str, key: str | None, size: dict[str, int], scheme: str) -> Page:
    """Return a page of a browser that has signed in, if the service has keys."""
    page = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"{url}/console")
    if key is not None:
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector(".tiles")
    return page


def take_pictures(page: Page, url: str, folder: Path) -> None:
    """Go through the pages as a visitor would, and take a picture of each."""

    def shoot(name: str) -> None:
        page.screenshot(path=folder / f"console-{name}.png")

    shoot("overview")
    page.goto(f"{url}/console/episodes?failure=none&least_reward=0")
    shoot("episodes")
    page.locator("tr:has(.solved) a.id").first.click()
    page.wait_for_selector(".step")
    for _ in range(2):
        page.keyboard.press("j")
    shoot("episode")
    page.get_by_role("link", name="the latest of this task side by side").click()
    page.wait_for_selector("table.columns")
    shoot("side-by-side")
    page.goto(f"{url}/console/tasks")
    page.wait_for_selector("tbody tr")
    shoot("tasks")
    page.goto(f"{url}/console/runs")
    boxes = page.get_by_role("checkbox")
    if boxes.count() > 1:
        for place in range(min(3, boxes.count())):
            boxes.nth(place).check()
        page.get_by_role("button", name="Compare").click()
        page.wait_for_selector(".overlay")
        shoot("comparison")
        page.goto(f"{url}/console/runs")
    page.locator("tbody th a").first.click()
    page.wait_for_selector(".curves")
    shoot("run")
    steps = page.locator("tbody tr:not(:has(td.n:last-child:text-is('0'))) th a")
    steps.nth(min(20, steps.count() - 1)).click()
    page.locator("section.group h3 a").first.click()
    page.wait_for_selector("table.columns")
    shoot("group")
    page.locator("thead a", has_text="tokens").first.click()
    page.wait_for_selector(".tokens")
    shoot("tokens")


def main() -> None:
    """Take all pictures."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--key", help="API key")
    words = parser.parse_args()
    words.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        take_pictures(open_page(browser, words.url, words.key, DESK, "light"), words.url, words.folder)
        for name, size, scheme in (("dark", DESK, "dark"), ("phone", PHONE, "light")):
            page = open_page(browser, words.url, words.key, size, scheme)
            page.screenshot(path=words.folder / f"console-{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
