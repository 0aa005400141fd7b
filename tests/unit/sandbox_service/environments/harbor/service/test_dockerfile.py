import pytest

from sandbox_service.environments.harbor.service.dockerfile import Copy, NeedsImage, read_dockerfile
from sandbox_service.environments.harbor.service.task_toml import TaskRefused

BASE = "FROM python:3.11-slim\nWORKDIR /app\n"
OFFERED = ("pytest==8.4.2", "Some_Thing==1.0")


def test_files_variables_and_offered_packages_need_no_image() -> None:
    recipe = read_dockerfile(
        "# comment\nFROM python:3.11-slim\nWORKDIR /app\n"
        "RUN pip install --no-cache-dir pytest==8.4.2 \\\n    some-thing==1.0\n"
        'COPY src tests/ /app/\nCOPY ["a b.txt", "c.txt"]\n'
        'ENV A=1 B="two words"\nENV C three words\nCMD ["bash"]\n',
        OFFERED,
    )
    assert recipe.copies == [Copy(("src", "tests/"), "./"), Copy(("a b.txt",), "c.txt")]
    assert recipe.variables == {"A": "1", "B": "two words", "C": "three words"}
    assert recipe.packages == ["pytest==8.4.2", "some-thing==1.0"]


@pytest.mark.parametrize(
    "base",
    ["python:3.11", "python:3.11.9-slim-bookworm", "debian:bookworm-slim", "docker.io/library/debian:12"],
)
def test_bases_like_the_box_need_no_image(base: str) -> None:
    assert read_dockerfile(f"FROM {base}\nWORKDIR /app\n", ()).copies == []


@pytest.mark.parametrize(
    "text",
    [
        "FROM ubuntu:24.04\nWORKDIR /app\n",
        "FROM python:3.12-slim\nWORKDIR /app\n",
        "FROM python:3.11 AS build\nWORKDIR /app\n",
        f"{BASE}FROM python:3.11\n",
        "FROM python:3.11-slim\n",
        "FROM python:3.11-slim\nWORKDIR /srv\n",
        f"{BASE}RUN apt-get update\n",
        f"{BASE}RUN pip install requests==2.32.0\n",
        f"{BASE}RUN pip install pytest\n",
        f"{BASE}RUN pip install pytest==8.4.2 && rm -rf /x\n",
        f"{BASE}RUN pip install -r requirements.txt\n",
        f"{BASE}RUN pip install $(cat x)\n",
        f"{BASE}COPY --from=other /x /app/\n",
        f"{BASE}COPY x /etc/x\n",
        f"{BASE}COPY x ../y\n",
        f"{BASE}COPY ../x .\n",
        f"{BASE}COPY *.py /app/\n",
        f"{BASE}ENV PATH=/x:$PATH\n",
        f"{BASE}USER agent\n",
        f'{BASE}ENTRYPOINT ["x"]\n',
        f"{BASE}ADD x /app/\n",
        f"{BASE}RUN mkdir data # it's where the data lies\n",
        f"{BASE}RUN echo it's\n",
        f'{BASE}ENV A="x\n',
        f"{BASE}ENV A=1 B\n",
        f"{BASE}ENV =1\n",
        f"{BASE}ENV A=\0\n",
        f'{BASE}COPY ["a", "b"\n',
        f"{BASE}COPY [1, 2]\n",
        f"{BASE}COPY {'[' * 9999}\n",
    ],
)
def test_anything_else_needs_an_image(text: str) -> None:
    with pytest.raises(NeedsImage):
        read_dockerfile(text, OFFERED)


@pytest.mark.parametrize("text", ["", "# nothing\n", "WORKDIR /app\n"])
def test_what_is_no_dockerfile_is_refused(text: str) -> None:
    with pytest.raises(TaskRefused, match="FROM"):
        read_dockerfile(text, ())
