from collections import Counter

import pytest

from sandbox_contract.messages import Message
from trainer.sft.demonstrations import Demonstration
from trainer.sft.notation import Call, call_in, program, say
from trainer.sft.spoil import WAYS, spoil


def demonstration(*calls: Call, task_id: str = "t", native: bool = False) -> Demonstration:
    return Demonstration("code", task_id, tuple(say(call, native=native) for call in calls))


def sums(count: int, *, native: bool = False) -> list[Demonstration]:
    return [
        demonstration(
            program(f"print({10 + number}*3)"),
            Call("submit", {"answer": (10 + number) * 3}),
            task_id=f"t/{number}",
            native=native,
        )
        for number in range(count)
    ]


def calls(each: Demonstration) -> list[Call]:
    found = [call_in(message) for message in each.messages]
    return [call for call in found if call is not None]


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
def test_each_way_spoils_as_it_says_and_no_spoilt_sum_submits_the_right_answer(native: bool) -> None:
    plain = sums(400, native=native)
    spoilt = spoil(plain, 1.0, 0)
    for before, after in zip(plain, spoilt, strict=True):
        assert after.task_id == before.task_id
        code, answer = calls(after)[0].code or "", calls(after)[1].arguments.get("answer")
        right = calls(before)[1].arguments["answer"]
        assert answer != right or after.spoilt == "wrong_digit"
        match after.spoilt:
            case "wrong_operator":
                assert code == (calls(before)[0].code or "").replace("*", "+")
                assert answer == eval(code.removeprefix("print"))
            case "wrong_digit":
                assert code != calls(before)[0].code
                assert answer == eval(code.removeprefix("print"))
            case "unprinted":
                assert code.startswith("x=")
                assert answer is None
            case way:
                assert way == "wrong_answer"
                assert code == calls(before)[0].code
    counts = Counter(each.spoilt for each in spoilt)
    assert set(counts) == set(WAYS) - {"hasty"}
    assert min(counts.values()) > 60


def test_the_share_is_about_what_was_asked_for_and_the_rest_stays_as_it_is() -> None:
    plain = sums(1000)
    spoilt = spoil(plain, 0.65, 3)
    changed = [each for each in spoilt if each.spoilt]
    assert 0.6 < len(changed) / len(plain) < 0.7
    assert all(each in plain for each in spoilt if not each.spoilt)
    assert spoil(plain, 0.0, 3) == tuple(plain)


def test_the_same_seed_spoils_the_same_and_another_does_not() -> None:
    assert spoil(sums(50), 0.5, 1) == spoil(sums(50), 0.5, 1)
    assert spoil(sums(50), 0.5, 1) != spoil(sums(50), 0.5, 2)
    assert spoil(sums(50), 0.5, 1)[:20] == spoil(sums(20), 0.5, 1)


def test_answers_keep_their_form() -> None:
    plain = [
        demonstration(program("print(1+2)"), Call("submit", {"answer": "3"}), task_id=str(n))
        for n in range(30)
    ]
    for each in spoil(plain, 1.0, 0):
        answer = calls(each)[1].arguments.get("answer")
        assert answer is None or isinstance(answer, str)


def test_a_solution_in_a_file_is_left_out_and_what_cannot_be_spoilt_stays() -> None:
    filed = demonstration(program("open('answer.txt', 'w').write('7')"), Call("submit"))
    game = Demonstration("textcraft", "g", (Message(role="assistant", content="go north"),))
    hasty, same = spoil([filed, game], 1.0, 0)
    assert (hasty.spoilt, calls(hasty)) == ("hasty", [Call("submit")])
    assert same is game


@pytest.mark.parametrize(
    "code", ["print(2**9)", "print(len('ab'))", "print(True+1)", "print(5)", "print((1+2)"]
)
def test_only_programs_that_print_a_sum_are_recalculated(code: str) -> None:
    plain = [demonstration(program(code), Call("submit", {"answer": 1}), task_id=str(n)) for n in range(20)]
    assert {each.spoilt for each in spoil(plain, 1.0, 0)} == {"wrong_answer"}
