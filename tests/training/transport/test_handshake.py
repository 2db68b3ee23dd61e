"""The handshake by itself, without sockets: who knows the secret passes, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.exchange.transport.meeting import (
    ACCEPTANCE_SIZE,
    CHALLENGE_SIZE,
    INTRODUCTION_SIZE,
    Handshakes,
    Introduction,
    RefusedError,
)

OURS = Handshakes(bytes(range(32)), "lightloom/ring/meeting 1")
numbers = st.integers(0, 2**32 - 1)
introductions = st.builds(Introduction, numbers, numbers, numbers, numbers)


def messages(who: Introduction, caller: Handshakes = OURS, answerer: Handshakes = OURS) -> list[bytes]:
    """The three messages of a handshake."""
    calling, answering = caller.calling(who), answerer.answering()
    next(calling)
    challenge, _ = next(answering)
    introduction, _ = calling.send(challenge)
    acceptance, _ = answering.send(introduction)
    for steps, message in ((calling, acceptance), (answering, b"")):
        with pytest.raises(StopIteration) as ended:
            steps.send(message)
        assert ended.value.value == who
    return [challenge, introduction, acceptance]


@given(introductions)
def test_both_ends_agree_on_who_called(who: Introduction) -> None:
    assert [len(message) for message in messages(who)] == [CHALLENGE_SIZE, INTRODUCTION_SIZE, ACCEPTANCE_SIZE]


@given(introductions, st.data())
def test_one_changed_bit_is_refused(who: Introduction, data: st.DataObject) -> None:
    calling, answering = OURS.calling(who), OURS.answering()
    next(calling)
    challenge, _ = next(answering)
    changed = data.draw(st.sampled_from(["challenge", "introduction", "acceptance"]))
    introduction, _ = calling.send(flip(challenge, data, 4) if changed == "challenge" else challenge)
    if changed != "acceptance":
        with pytest.raises(RefusedError):
            answering.send(flip(introduction, data) if changed == "introduction" else introduction)
        return
    acceptance, _ = answering.send(introduction)
    with pytest.raises(RefusedError):
        calling.send(flip(acceptance, data))


def flip(message: bytes, data: st.DataObject, begin: int = 0) -> bytes:
    bit = data.draw(st.integers(8 * begin, 8 * len(message) - 1))
    changed = bytearray(message)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@given(introductions, st.binary(min_size=CHALLENGE_SIZE, max_size=CHALLENGE_SIZE))
def test_noise_is_no_challenge(who: Introduction, noise: bytes) -> None:
    calling = OURS.calling(who)
    next(calling)
    with pytest.raises(RefusedError):
        calling.send(b"\0" + noise[1:])


@pytest.mark.parametrize(
    "other", [Handshakes(bytes(32), OURS.meeting), Handshakes(OURS.secret, "lightloom/ring/meeting 2")]
)
def test_another_secret_or_meeting_is_refused(other: Handshakes) -> None:
    with pytest.raises(RefusedError, match="does not know the secret"):
        messages(Introduction(1, 0, 0, 2), caller=other)


def test_what_was_recorded_proves_nothing_later() -> None:
    """Neither a caller's words to the next answerer nor an answerer's words to the next caller."""
    who = Introduction(1, 0, 0, 2)
    challenge, introduction, acceptance = messages(who)
    answering = OURS.answering()
    next(answering)
    with pytest.raises(RefusedError):
        answering.send(introduction)
    calling = OURS.calling(who)
    next(calling)
    calling.send(challenge)
    with pytest.raises(RefusedError):
        calling.send(acceptance)


def test_an_answer_is_no_introduction() -> None:
    """An attacker between two ranks cannot hand one's proof back to it."""
    who = Introduction(0, 0, 0, 2)
    _, introduction, acceptance = messages(who)
    assert introduction[-ACCEPTANCE_SIZE:] != acceptance
