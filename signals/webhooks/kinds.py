"""The kinds of events in groups that people choose from."""

from collections.abc import Collection, Sequence

from events.kinds import Kind


def _of(*prefixes: str) -> tuple[str, ...]:
    return tuple(kind.value for kind in Kind if kind.startswith(prefixes))


# The name of each group in a form, its label, and its kinds. Each kind is in exactly one.
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "fills": ("Fills", (Kind.SIGNAL_FILLED.value,)),
    "refusals": ("Refusals", (Kind.SIGNAL_REFUSED.value,)),
    "unfilled": ("Dry runs and drafts", (Kind.SIGNAL_DRY_RUN.value, Kind.SIGNAL_RECORDED.value)),
    "bots": ("Bots: created, removed, silent, heard again", _of("automation.")),
    "cards": ("Cards and elections", _of("card.", "election.")),
    "desk": ("Desk: connected, disconnected, closed", _of("desk.")),
    "credentials": ("Tokens and signing secrets", _of("token.", "secret.")),
    "webhooks": ("Webhooks", _of("subscription.")),
}


def kinds_of(groups: Collection[str]) -> list[str]:
    """The kinds of these groups. All groups or none mean every kind: an empty list."""
    if len(groups) in (0, len(GROUPS)):
        return []
    return [kind for name, (_, kinds) in GROUPS.items() if name in groups for kind in kinds]


def groups_of(kinds: Sequence[str]) -> list[str]:
    """The groups whose kinds are all among these."""
    return [name for name, (_, of_group) in GROUPS.items() if {*of_group} <= {*kinds}]


def in_words(kinds: Sequence[str]) -> list[str]:
    """What a subscription with these kinds sends: labels of groups, then what is in none."""
    groups = groups_of(kinds)
    grouped = {kind for name in groups for kind in GROUPS[name][1]}
    return [*(GROUPS[name][0] for name in groups), *(k for k in kinds if k not in grouped)]
