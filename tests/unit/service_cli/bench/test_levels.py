from service_cli.bench.episodes import EpisodeCounts
from service_cli.bench.levels import Echo, level_figures
from service_cli.bench.load import Load

ECHO = Echo(p50_ms=0.5, per_s=1000.0, cpu_s=0.001)


def load(*create_ms: float, refused: int = 0) -> Load:
    return Load({"/v1/create_instance": list(create_ms)}, refused, wall_s=2.0, own_cpu_s=0.4)


def test_failed_episodes_are_in_no_rate_and_make_no_episode_cheaper() -> None:
    used = {"gateway": 0.8, "yardstick": 9.0}
    fine = level_figures(load(4.0, 6.0), EpisodeCounts(1, ["b"]), used, ECHO)
    mixed = level_figures(load(4.0, 6.0, refused=3), EpisodeCounts(1, ["b"], ["c"] * 3), used, ECHO)
    assert (fine["episodes"], mixed["episodes"], mixed["failed"]) == (2, 5, 3)
    assert mixed["refused_requests"] == 3
    for name in ("episodes_per_s", "server_cpu_s_per_episode", "cpu_s_per_episode", "create"):
        assert mixed[name] == fine[name], name
    assert (fine["episodes_per_s"], fine["server_cpu_s_per_episode"]) == (1.0, 0.4)


def test_a_level_of_failures_alone_has_counts_and_the_first_of_them() -> None:
    figures = level_figures(load(refused=2), EpisodeCounts(0, [], ["full", "full"]), {"gateway": 0.1}, ECHO)
    assert figures == {
        "episodes": 2,
        "solved": 0,
        "unsolved": 0,
        "failed": 2,
        "refused_requests": 2,
        "first_problem": "full",
    }
