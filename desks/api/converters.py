"""What stands for an id in the path of any app's URL."""

from desks.ids import RANDOM_CHARACTERS, USER


class UserIdConverter:
    """A ``userId`` in a path."""

    regex = f"{USER}[0-9A-Za-z]{{{RANDOM_CHARACTERS}}}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value
