"""A test that names it provokes every code of section 5.

Most of them from outside, by the conformance suite; what takes another setting, a fault or a clock
by the suite of the service's own.
"""

import ast
import functools

import pytest

from config.environment import ROOT
from events.http.refusals import Refused

ERRORS = "conformance/test_05_errors.py"
FLOOR = "conformance/test_04_hook_floor.py"
SIGNING = "conformance/test_03_signing.py"
TOKENS = "conformance/test_04_tokens.py"
TRADINGVIEW = "conformance/test_04_hook_tradingview.py"

PROVOKED_BY = {
    "malformed": f"{ERRORS}::test_what_is_not_one_plain_json_object_is_malformed",
    "host_invalid": f"{ERRORS}::test_another_host_is_not_served",
    "credentials_missing": f"{SIGNING}::test_nothing_presented",
    "token_invalid": "conformance/test_02_tokens.py"
    "::test_a_token_that_is_unknown_or_mistyped_is_answered_alike",
    "signature_missing": f"{SIGNING}::test_one_of_the_two_signing_headers_alone",
    "signature_invalid": f"{SIGNING}::test_the_raw_bytes_are_signed",
    "timestamp_invalid": f"{SIGNING}"
    "::test_a_timestamp_beyond_300_seconds_is_refused_with_the_servers_time",
    "floor_secret_refused": f"{SIGNING}"
    "::test_once_there_is_a_nox_secret_the_floor_secret_does_not_sign_nox",
    "scope_missing": "conformance/test_02_tokens.py::test_write_does_not_imply_read",
    "not_allowed": "conformance/test_04_desks.py::test_me_is_for_a_desk_token",
    "sign_in_required": f"{TOKENS}::test_minting_asks_to_sign_in",
    "csrf_failed": f"{TOKENS}::test_a_session_that_changes_something_sends_its_csrf_token",
    "second_factor_required": "tokens/test_api.py::test_staff_without_a_second_factor_are_refused",
    "reauthentication_required": "tokens/test_api.py"
    "::test_after_15_minutes_minting_and_revoking_need_reauthentication_and_reading_does_not",
    "https_required": "config/test_middleware.py"
    "::test_plain_http_is_refused_by_the_api_where_https_is_required",
    "not_found": f"{ERRORS}::test_there_is_no_such_path",
    "method_not_allowed": "conformance/test_04_every_answer.py"
    "::test_another_method_answers_405_with_what_there_is",
    "not_acceptable": "config/live/test_live.py::test_a_list_is_refused_before_any_query",
    "length_required": f"{ERRORS}::test_a_chunked_body_says_no_length",
    "body_too_large": f"{ERRORS}::test_a_body_has_at_most_64_kib",
    "unsupported_media_type": "conformance/test_04_deploy.py::test_its_media_type_is_json",
    "nonce_used": "conformance/test_04_hook_answers.py::test_raced_by_many_exactly_one_wins",
    "made_already": "tokens/test_one_time_keys.py::test_a_form_that_is_sent_again_makes_nothing",
    "exchange_secret": f"{TOKENS}::test_no_secret_stands_in_a_name",
    "ticker_only": f"{TRADINGVIEW}::test_a_signal_that_carries_only_a_ticker_is_refused",
    "mode_refused": f"{FLOOR}::test_the_modes_armed_and_live_are_refused",
    "not_elected": f"{FLOOR}::test_elected_is_json_true",
    "invalid": f"{FLOOR}::test_every_fault_is_named_at_once",
    "signal_too_old": f"{TRADINGVIEW}::test_a_signal_older_than_the_bots_maximum_age_is_refused",
    "pair_mismatch": f"{FLOOR}::test_it_must_repeat_the_card",
    "direction_mismatch": f"{FLOOR}::test_it_must_repeat_the_card",
    "no_election": f"{TRADINGVIEW}::test_an_automation_without_an_election_fills_nothing",
    "no_card": "signals/intake/test_hook.py"
    "::test_while_no_card_is_published_a_named_desk_is_not_ready_and_a_fan_out_has_no_card",
    "desk_not_ready": "conformance/test_04_deploy.py::test_the_desk_must_be_ready",
    "cursor_lost": "conformance/test_04_events.py"
    "::test_a_cursor_that_the_log_cannot_honour_is_refused",
    "rate_limited": "events/http/test_limits.py::test_each_automation_has_its_own_limit",
    "internal": "config/test_problems.py"
    "::test_a_fault_of_ours_is_internal_and_tells_nothing_of_itself",
    "unavailable": "config/test_problems.py"
    "::test_what_the_driver_raises_when_the_database_is_away_is_503",
}


@functools.cache
def functions(file: str) -> dict[str, str]:
    """Returns the source of every test function in a file, by name."""
    text = (ROOT / "tests" / file).read_text()
    return {
        node.name: ast.get_source_segment(text, node) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


def test_the_table_has_every_code_and_no_other():
    assert set(PROVOKED_BY) == {refusal.code for refusal in Refused.registry()}


@pytest.mark.parametrize("code", PROVOKED_BY)
def test_the_test_of_a_code_is_there_and_names_it(code):
    file, _, name = PROVOKED_BY[code].partition("::")
    assert name.startswith("test_")
    assert f'"{code}"' in functions(file)[name]
