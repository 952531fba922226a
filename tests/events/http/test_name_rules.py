"""A name is one line of visible text, wherever it is given (contract, section 7)."""

from typing import Any

import pytest
from django import forms
from django.core.exceptions import ValidationError

from config.accounts.second_factors import AddPasskeyForm, RenamePasskeyForm
from desks import actions as desks
from desks.models import Automation, Card, Connection
from events.actors import SYSTEM
from events.http.name_rules import DETAIL, validate_name
from events.http.refusals import Invalid
from tests import factories, pages, staff
from tests.client import faults, signed_in
from tokens import actions as tokens
from tokens.models import Token

pytestmark = [pytest.mark.django_db, pytest.mark.once]

REFUSED = {
    "right-to-left override": "txt\u202egpj",
    "left-to-right embedding": "a\u202ab",
    "right-to-left isolate": "a\u2067b",
    "right-to-left mark": "a\u200fb",
    "zero-width space": "a\u200bb",
    "byte order mark": "a\ufeffb",
    "soft hyphen": "a\u00adb",
    "escape": "a\x1b[31mb",
    "newline": "a\nb",
    "tab": "a\tb",
    "next line": "a\x85b",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "tag": "a\U000e0041b",
    "combining grapheme joiner": "a\u034fb",
    "Hangul filler": "\u3164",
    "Hangul filler in a word": "a\u3164b",
    "half-width filler": "a\uffa0b",
    "Khmer vowel that is not drawn": "a\u17b4b",
    "emoji form of a letter": "Cha\ufe0frt",
    "emoji form twice": "☀\ufe0f\ufe0f",
    "variation selector": "☀\ufe01",
    "supplementary variation selector": "Cha\U000e0101rt",
    "private use": "a\ue000b",
    "empty Braille pattern": "\u2800",
    "nothing but spaces": "\u3000 \u00a0",
    "a mark on nothing": "\u0301",
    "many marks": "a" + "\u0301" * 4,
}
OVERRIDE = REFUSED["right-to-left override"]
TAKEN = ["Morning", "Ночь", "朝の信号", "صباح", "שלום", "Ünï-cödé №1 (a/b)", "🚀 to the moon", "é"]
TAKEN += ["☀️ day", "▶️", "क्षेत्र संकेत", "ป็นที่นี่", "ệ", "e\u0302\u0323", "⠓⠊", "⇄", "7"]


@pytest.mark.parametrize("what", REFUSED)
def test_a_character_that_is_not_seen_or_turns_the_text_is_refused(what):
    with pytest.raises(ValidationError, match="Leave out control characters"):
        validate_name(REFUSED[what])


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_may_be_of_any_language(name):
    validate_name(name)


BOT = {"name": OVERRIDE}
CARD = {"name": OVERRIDE, "pair": "BTC/USDT", "direction": "long"}
TOKEN: dict[str, Any] = {"name": OVERRIDE, "scopes": ["read"]}


def test_a_bots_page_says_so(desk):
    answer = staff.a_client(desk.user, "password").post("/bots", BOT)
    assert (answer.status_code, pages.errors(answer)) == (422, [DETAIL])
    assert not Automation.objects.exists()


@pytest.mark.parametrize(
    ("model", "page", "form"), [(Card, "publish", CARD), (Token, "mint", TOKEN)]
)
def test_a_form_of_the_control_area_says_so(model, page, form):
    answer = staff.a_client().post(staff.list_of(model, page), form)
    assert (answer.status_code, pages.errors(answer)) == (422, [DETAIL])
    assert not model.objects.exists()


def test_the_api_names_it_beside_what_else_is_wrong(db):
    client = signed_in(factories.a_staff_user(), "password")
    body = {"scope": "platform", "scopes": ["admin"], "name": OVERRIDE}
    answer = client.post("/api/v1/tokens", body, content_type="application/json")
    assert faults(answer) == {"name": "characters", "scopes": "choice"}


ACTIONS = {
    "a bot": lambda desk: desks.add_automation(desk=desk, name=OVERRIDE, actor=SYSTEM),
    "a card": lambda desk: desks.publish_card(**CARD, actor=SYSTEM),
    "a venue": lambda desk: desks.connect(desk=desk, venue=OVERRIDE, actor=SYSTEM),
    "a desk token": lambda desk: tokens.mint_desk_token(desk=desk, name=OVERRIDE, actor=SYSTEM),
    "a platform token": lambda desk: tokens.mint_platform_token(**TOKEN, actor=SYSTEM),
}


@pytest.mark.parametrize("what", ACTIONS)
def test_an_action_refuses_it_whoever_calls(what):
    with pytest.raises(Invalid) as refused:
        ACTIONS[what](factories.a_desk())
    assert [error["code"] for error in refused.value.members["errors"]] == ["characters"]
    kept = (Automation, Card, Connection, Token)
    assert not any(model.objects.exists() for model in kept)


@pytest.mark.parametrize("form", [AddPasskeyForm, RenamePasskeyForm])
def test_a_security_keys_name_is_a_name(form, settings):
    field: forms.Field = form.base_fields["name"]
    with pytest.raises(ValidationError):
        field.clean(OVERRIDE)
    assert f"config.accounts.second_factors.{form.__name__}" in settings.MFA_FORMS.values()
