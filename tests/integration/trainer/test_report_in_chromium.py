"""The pages of a report in a real browser: no page is wider than its window, on a phone neither."""

import pytest
import pytest_asyncio

from tests.harness.browser import chromium, chromium_path, overflow, tab
from tests.harness.run_folder import write_groups, write_run
from trainer.evaluate.results import EpisodeTotals, EvaluationResult, TaskOutcome
from trainer.evaluate.summary import summary_of
from trainer.report.comparison import write_comparison
from trainer.report.evaluation_page import write_evaluation
from trainer.report.page import write_report

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
WITHOUT_A_BREAK = "x" * 500


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    chromium_path()
    async with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The report of a run, a comparison of two and an evaluation; a model wrote a line without a break."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("first", "second-with-a-longer-name"):
        write_run(folder / name, steps=6, warm=3, groups=4)
        write_groups(folder / name / "trajectories.jsonl", 4, said=f"```python\n{WITHOUT_A_BREAK}\n```")
    totals = EpisodeTotals(reward=1.0, turns=8, tokens=400, seconds=6.0)
    tasks = tuple(
        TaskOutcome(
            f"task-{number}-{WITHOUT_A_BREAK[:60]}", "hard", 4, 1, 0.25, category="sums", totals=totals
        )
        for number in range(3)
    )
    result = EvaluationResult(0, "alone", "test", tasks, "code", 12.0, f"var/runs/{WITHOUT_A_BREAK[:80]}")
    write_evaluation(result, summary_of(result, (1, 4)), folder / "evaluation.html")
    write_comparison(sorted(each for each in folder.iterdir() if each.is_dir()), folder / "comparison.html")
    return {
        "report": write_report(folder / "first"),
        "comparison": folder / "comparison.html",
        "evaluation": folder / "evaluation.html",
    }


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", ["report", "comparison", "evaluation"])
async def test_no_page_of_a_report_is_wider_than_its_window(browser, pages, name, size):
    async with tab(browser, viewport=size) as page:
        await page.goto(pages[name].as_uri())
        plots = page.locator(".plot")
        for number in range(await plots.count()):
            await plots.nth(number).scroll_into_view_if_needed()
        await page.wait_for_selector(".plot .main-svg")
        assert await overflow(page) <= 0


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_an_episode_its_siblings_and_the_settings_fit_into_the_window(browser, pages, size):
    async with tab(browser, viewport=size) as page:
        await page.goto(pages["report"].as_uri())
        await page.locator("#list > *").first.click()
        await page.wait_for_selector("#episode .said")
        assert await overflow(page) <= 0
        await page.get_by_role("button", name="side by side").click()
        await page.wait_for_selector("#episode .columns .conversation >> nth=3")
        assert await overflow(page) <= 0
        await page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert await overflow(page) <= 0
