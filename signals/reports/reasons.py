"""Why a signal was refused, which check decided, and what the desk's owner can do now.

A refusal's own sentence addresses the sender. These address the owner of the desk.
"""

from dataclasses import dataclass

from events.http.refusals import Refused
from events.kinds import SUPPRESSED
from signals.law.refusals import EXPLANATIONS, Data, DeskNotReady, Explanation, NoCard

OF_THE_SENDER = "You need to do nothing. The sender must correct its signal."
# Of a code that only a later release knows.
UNKNOWN = Explanation(
    "",
    lambda data: f"sent a signal that was refused with the code {data['code']}.",
    "The answer to the signal says what was wrong with it.",
)


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence that says what was wrong, and the advice that follows from it."""

    sentence: str
    advice: str

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}"


def reason_of(data: Data, bot_name: str | None) -> Reason:
    """The reason of a recorded refusal: ``data`` is that of ``signal.refused``.

    ``bot_name`` is None if no bot sent the signal or if the bot was removed.
    """
    if data["code"] == SUPPRESSED:
        return _suppressed(data, bot_name)
    _, *texts = EXPLANATIONS.get(data["code"], UNKNOWN)
    predicate, advice = (text(data) if callable(text) else text for text in texts)
    is_for_owner = data["botId"] or data["code"] in (DeskNotReady.code, NoCard.code)
    return Reason(
        f"{_sender(data, bot_name)} {predicate}", advice if is_for_owner else OF_THE_SENDER
    )


def title_of(code: str | None) -> str:
    """A few words for the code of a recorded refusal. A code of a later release is its own."""
    if code is None or code == SUPPRESSED:
        return "Refusals that were left out"
    refusal = Refused.of(code)
    return refusal.title if refusal else code


def _sender(data: Data, bot_name: str | None) -> str:
    """The subject of the sentence."""
    if data["botId"]:
        return f"The bot {bot_name or data['botId']}"
    return f"The source {data['source']}" if data["source"] else "A sender"


def _suppressed(data: Data, bot_name: str | None) -> Reason:
    of_bot = f" from the bot {bot_name or data['botId']}" if data["botId"] else ""
    return Reason(
        f"More refused signals{of_bot} were not recorded individually.",
        "Stop the sender or correct its message. Only the first refusals of a minute are recorded.",
    )


# --- The checks, and how far a signal came --------------------------------------------------------

PASSED, DECIDED, NOT_REACHED = "passed", "decided", "not reached"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a signal. ``state`` is one of the three constants."""

    question: str
    state: str


def checks(code: str | None) -> list[Check]:
    """The checks of a signal that was refused with ``code``, or accepted if that is None.

    Empty for a code of a later release: which check decided is not known.
    """
    if code is not None and code not in EXPLANATIONS:
        return []
    questions = list(dict.fromkeys(each.question for each in EXPLANATIONS.values()))
    decided = questions.index(EXPLANATIONS[code].question) if code else len(questions)
    states = [PASSED] * decided + [DECIDED] + [NOT_REACHED] * len(questions)
    return [Check(question, state) for question, state in zip(questions, states, strict=False)]
