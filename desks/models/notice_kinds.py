"""What a notice is about. Without Django."""

from events.choices import TextEnum


class NoticeKind(TextEnum):
    """What a notice is about, as its reader chooses it."""

    SECURITY = "security"
    SILENCE = "silence"
    REFUSALS = "refusals"
    CONSENT = "consent"
    ENDINGS = "endings"
    OPERATIONS = "operations"
    DIGEST = "digest"
    MISSED = "missed"
    TEST = "test"


# What each kind that can be turned off tells, for the owner of a desk and for staff.
OF_A_DESK = {
    NoticeKind.SILENCE: "A bot that is expected falls silent, or is heard again",
    NoticeKind.REFUSALS: "A bot's signals are refused: at once, then at most once an hour",
    NoticeKind.CONSENT: "The card that you enrolled in was retired",
    NoticeKind.ENDINGS: "A signing secret is about to end, a webhook or a chat was disabled, or "
    "webhooks may repeat or miss events after a restore",
}
OF_STAFF = {
    NoticeKind.OPERATIONS: "An engine is silent, many signals are refused, a token ends soon, or a "
    "webhook of the platform is disabled or may repeat or miss events after a restore",
}
# What is not written any more. Some may wait to be sent, and mails that were sent have a link.
NO_MORE = {
    NoticeKind.DIGEST: "A digest each day of what happened on your desk",
}
# The order in which notices are sent, if many wait.
FIRST, USUAL, LAST = 0, 1, 2
