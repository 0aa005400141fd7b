import re
from importlib import resources

import pytest

import trainer.report
from page_styles import shared_styles
from sandbox_service.console.rendering import static_files
from trainer.report.template import filled

REPORT = resources.files(trainer.report).joinpath("assets/style.css").read_text(encoding="utf-8")
PAGES = {"console": static_files()["console.css"].content.decode(), "report": shared_styles() + REPORT}


def test_the_console_and_the_reports_begin_with_the_shared_styles():
    assert PAGES["console"].startswith(shared_styles())
    parts = dict.fromkeys(("counts", "distributions", "figures", "sections", "title"), "")
    assert PAGES["report"] in filled("recorded.html", **parts)


@pytest.mark.parametrize("page", PAGES)
def test_every_colour_that_a_page_uses_is_defined(page):
    used = set(re.findall(r"var\((--[\w-]+)\)", PAGES[page]))
    assert used
    assert used <= set(re.findall(r"(--[\w-]+):", PAGES[page]))
