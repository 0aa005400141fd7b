"""A host is excepted from the proxies of an environment, beside those that are already."""

import pytest

from trainer.agents.direct import excepted_from_proxies

HOST = "127.0.0.1"
PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("environment", "upper", "lower"),
    [
        ({"HTTP_PROXY": PROXY}, HOST, HOST),
        ({"all_proxy": PROXY, "NO_PROXY": "a, b"}, f"a,b,{HOST}", f"a,b,{HOST}"),
        ({"https_proxy": PROXY, "NO_PROXY": "a", "no_proxy": "b"}, f"a,{HOST}", f"b,{HOST}"),
        ({"HTTP_PROXY": PROXY, "no_proxy": f"{HOST},a"}, f"{HOST},a", f"{HOST},a"),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "*"}, "*", "*"),
    ],
    ids=["none", "one", "both", "there", "all"],
)
def test_the_host_joins_those_that_are_excepted(environment, upper, lower) -> None:
    assert excepted_from_proxies(environment, HOST) == {"NO_PROXY": upper, "no_proxy": lower}


@pytest.mark.parametrize("environment", [{}, {"HTTP_PROXY": ""}, {"NO_PROXY": "a"}])
def test_without_a_proxy_nothing_is_set(environment) -> None:
    assert excepted_from_proxies(environment, HOST) == {}
