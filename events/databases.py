"""Which databases a process has.

There is one, ``default``. A live server may read a replica instead: then ``default`` is a standby,
and ``primary`` is the database of everybody else, which alone is written.
"""

from django.db import DEFAULT_DB_ALIAS, connections

PRIMARY = "primary"


def reads_replica() -> bool:
    """Whether this process reads a standby."""
    return PRIMARY in connections


def written() -> str:
    """The alias of the database that is written."""
    return PRIMARY if reads_replica() else DEFAULT_DB_ALIAS
