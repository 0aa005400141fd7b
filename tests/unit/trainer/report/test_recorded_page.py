from pathlib import Path

from tests.fakes.recorded import episode
from trainer.report.recorded_page import write_recorded_page


def test_the_page_has_counts_and_plots_and_needs_no_network(tmp_path: Path) -> None:
    given = [
        episode("t/1", "a", score=1.0, success=True, policy="small"),
        episode("t/2", "b", score=0.0, success=False, policy="large", failure_class="timeout"),
    ]
    page = write_recorded_page(given, "<both>", tmp_path / "new" / "page.html").read_text()
    assert "<h1>&lt;both&gt;</h1>" in page
    assert "policy: small" in page
    for title in ("Score", "Turns", "Episodes of a task", "Success by policy", "Failures by class"):
        assert f"<figcaption>{title}</figcaption>" in page
    assert "%%" not in page.partition("<script>")[0]
    assert "<script src" not in page
    assert "<link" not in page
