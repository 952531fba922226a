"""How tests/conformance/sentences.py splits the contract."""

import textwrap

import pytest

from tests.conformance.sentences import key, sentences

pytestmark = pytest.mark.once

TEXT = """
    # A title

    ### GET /me: a desk token
    The desk. It says `A 0 . - _` (and
    more.) **Bold.** The limits of section
    7. Another one.

    | what | limit |
    |---|---|
    | body | 64 KiB. One more |

    - An item
      of two lines:
      - Within it. Two.

    1. first, second
    2. third
    """


def test_paragraphs_items_and_rows_are_split_into_sentences_with_their_lines():
    assert list(sentences(textwrap.dedent(TEXT).lstrip())) == [
        (3, "GET /me: a desk token"),
        (4, "The desk."),
        (4, "It says `A 0 . - _` (and more.)"),
        (5, "**Bold.** The limits of section 7."),
        (6, "Another one."),
        (10, "body | 64 KiB."),
        (10, "One more"),
        (12, "An item of two lines:"),
        (14, "Within it."),
        (14, "Two."),
        (16, "first, second"),
        (17, "third"),
    ]


def test_a_key_changes_with_any_word_and_not_with_a_line_break():
    text = "One two three four five six seven eight nine."
    ((_, broken),) = sentences(text.replace(" eight", "\neight"))
    assert key(broken) == key(text)
    assert key(text.replace("nine", "ten")) != key(text)
