"""Chromium under Playwright, and accessibility findings of axe-core."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

AXE = Path(__file__).parent / "axe" / "axe.min.js"
PATIENCE_MS = 60_000
SERIOUS = ("serious", "critical")


def chromium_path():
    """The browser's program; skips the test where there is none, unless CI requires it."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        reason = "no chromium here: sh scripts/chromium.sh installs it"
        if os.environ.get("CI_REQUIRE_CHROMIUM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@asynccontextmanager
async def chromium():
    """A browser without a window."""
    api = pytest.importorskip("playwright.async_api", reason="needs playwright (extra dev)")
    async with api.async_playwright() as playwright:
        # Without its own sandbox, which root and most containers cannot have: the pages are ours.
        browser = await playwright.chromium.launch(
            executable_path=chromium_path(),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
            timeout=PATIENCE_MS,
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def tab(browser, **options):
    """A page in a context of its own; its errors, such as blocked scripts, fail the test."""
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    errors = []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.errors = errors
    try:
        yield page
    finally:
        await context.close()
    assert errors == []


async def barriers(page):
    """Serious and critical findings of axe on a page, with the elements."""
    # Evaluated through the debugger, where the page's Content-Security-Policy does not apply.
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    found = await page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


async def overflow(page):
    """Pixels by which a page is wider than its window."""
    return await page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
