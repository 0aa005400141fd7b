import pytest

from trainer.evaluate.causes import UnsolvedCause, cause_of
from trainer.types import FailureNote, Segment, StopReason, TaskRef, Trajectory, Turn


def episode(stop, *, success=False, well_formed=1.0, cut=False, failure=None, turns=2):
    terms = {} if well_formed is None else {"well_formed": well_formed}
    played = (*(Turn(0, 1, ()) for _ in range(turns - 1)), Turn(1, 2, (), terms=terms, cut=cut))
    return Trajectory(
        id="0.0",
        task=TaskRef("code", "test", "t"),
        seed=0,
        segments=(Segment((1, 2), (True, True), (0.0, 0.0), played if turns else ()),),
        stop=stop,
        score=None if failure else float(success),
        success=None if failure else success,
        failure=failure,
    )


@pytest.mark.parametrize(
    ("played", "cause"),
    [
        (episode(StopReason.TERMINATED), UnsolvedCause.WRONG_ANSWER),
        (episode(StopReason.AGENT_ENDED), UnsolvedCause.WRONG_ANSWER),
        (episode(StopReason.HORIZON), UnsolvedCause.MAX_TURNS),
        (episode(StopReason.TRUNCATED), UnsolvedCause.MAX_TURNS),
        (episode(StopReason.HORIZON, well_formed=0.0), UnsolvedCause.FORMAT_ERROR),
        (episode(StopReason.TERMINATED, well_formed=0.0), UnsolvedCause.FORMAT_ERROR),
        (episode(StopReason.HORIZON, well_formed=0.0, cut=True), UnsolvedCause.TURN_CUT),
        (episode(StopReason.HORIZON, cut=True), UnsolvedCause.MAX_TURNS),
        (episode(StopReason.TURN_CUT, cut=True), UnsolvedCause.TURN_CUT),
        (episode(StopReason.HORIZON, well_formed=None), UnsolvedCause.MAX_TURNS),
        (episode(StopReason.CONTEXT_FULL, well_formed=0.0), UnsolvedCause.CONTEXT_FULL),
        (episode(StopReason.CONTEXT_FULL, turns=0), UnsolvedCause.CONTEXT_FULL),
        (episode(StopReason.TIME_LIMIT), UnsolvedCause.TIME_LIMIT),
        (episode(StopReason.AGENT_ERROR), UnsolvedCause.AGENT_ERROR),
        (episode(StopReason.FAILED), UnsolvedCause.POLICY_FAILURE),
        (episode(StopReason.HORIZON, success=True), None),
        (episode(StopReason.FAILED, failure=FailureNote("sandbox", "box_lost", "gone", "step")), None),
    ],
)
def test_an_unsolved_episode_has_one_cause_and_others_none(played, cause):
    assert cause_of(played) is cause


def test_every_stop_has_a_cause():
    assert all(cause_of(episode(stop)) is not None for stop in StopReason)
