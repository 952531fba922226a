"""Which URLs are those of a chat, and what each service is sent."""

import json

import pytest

from desks.models.chat import Service
from signals.notices.chats.services import MAX_TEXT, read, request_of
from signals.outbound.addresses import ForbiddenURL
from tests.signals.notices.chats.stage import DISCORD, NTFY, SLACK

pytestmark = pytest.mark.once

LINK = "http://testserver/bots/bot_1"


@pytest.fixture(autouse=True)
def hosts(settings):
    settings.NTFY_HOSTS = ["ntfy.sh", "ntfy.example:8443"]
    settings.BASE_URL = "http://testserver"


@pytest.mark.parametrize(
    ("url", "service"),
    [
        (DISCORD, Service.DISCORD),
        (DISCORD.replace("discord.com", "discordapp.com"), Service.DISCORD),
        (DISCORD.replace("/api/", "/api/v10/"), Service.DISCORD),
        (SLACK, Service.SLACK),
        (NTFY, Service.NTFY),
        ("https://ntfy.example:8443/topic", Service.NTFY),
    ],
)
def test_the_host_says_which_service_it_is(url, service):
    found = read(url)
    assert (found[0], found[1].url) == (service, url)


def test_a_host_in_capitals_or_in_wide_letters_is_read_as_what_it_is():
    for spelling in ("DISCORD.com", "\uff44iscord.com", "discord.com:443"):
        assert read(DISCORD.replace("discord.com", spelling))[1].url == DISCORD


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (DISCORD.replace("https", "http"), "scheme"),
        (DISCORD.replace("https", "ftp"), "scheme"),
        (DISCORD.replace("discord.com", "discord.com:8443"), "service"),
        (DISCORD.replace("discord.com", "discord.com:8080"), "port"),
        (DISCORD.replace("discord.com", "discord.com."), "host"),
        (DISCORD.replace("discord.com", "name@discord.com"), "credentials"),
        (DISCORD.replace("discord.com", "discord.com@evil.example"), "credentials"),
        (DISCORD.replace("discord.com", "discord.com.evil.example"), "service"),
        (DISCORD.replace("discord.com", "evil.example"), "service"),
        (DISCORD.replace("discord.com", "xdiscord.com"), "service"),
        (DISCORD.replace("discord.com", "cdn.discord.com"), "service"),
        (DISCORD.replace("discord.com/", "discord.com\\"), "form"),
        (DISCORD.replace("discord.com", "evil.example#discord.com"), "form"),
        (DISCORD.replace("discord.com", "127.0.0.1"), "address"),
        (DISCORD.replace("discord.com", "0x7f.1"), "host"),
        (DISCORD + "/../../users", "path"),
        (DISCORD + "/slack", "path"),
        (DISCORD + "?wait=true", "path"),
        (DISCORD.replace("webhooks", "webhooks%2f"), "path"),
        ("https://discord.com/channels/1/2", "path"),
        (SLACK.replace("/services/", "/workflows/"), "path"),
        (SLACK.replace("hooks.slack.com", "slack.com"), "service"),
        (SLACK.replace("hooks.slack.com", "hooks.slack.com.evil.example"), "service"),
        (NTFY.replace("ntfy.sh", "ntfy.sh:8443"), "service"),
        (NTFY.replace("ntfy.sh", "other.example"), "service"),
        ("https://ntfy.example/topic", "service"),
        (NTFY + "/json", "path"),
        (NTFY + "?auth=x", "path"),
        ("https://ntfy.sh/", "path"),
        ("discord", "form"),
    ],
)
def test_any_other_url_is_refused(url, code, settings):
    settings.DELIVERY_ALLOW = []
    with pytest.raises(ForbiddenURL) as refused:
        read(url)
    assert refused.value.code == code
    assert "evil" not in refused.value.sentence


def test_plain_http_is_refused_where_delivery_allow_opens_it_to_webhooks(settings):
    settings.DELIVERY_ALLOW = ["127.0.0.0/8"]
    for url in (DISCORD, SLACK, NTFY):
        with pytest.raises(ForbiddenURL, match="https"):
            read(url.replace("https", "http"))


def test_without_hosts_ntfy_is_not_offered(settings):
    settings.NTFY_HOSTS = []
    for text in (NTFY, "discord", "https://hooks.example.com/"):
        with pytest.raises(ForbiddenURL) as refused:
            read(text)
        assert refused.value.sentence == (
            "Enter the address of a Discord webhook or a Slack incoming webhook."
        )


class TestMessages:
    def sent(self, service, url, subject="Chart is silent", body=f"It was expected.\n\n{LINK}"):
        request = request_of(service, url, subject, body)
        return request.url, json.loads(request.body)

    def test_discord_mentions_nobody_and_shows_no_preview(self):
        url, content = self.sent(Service.DISCORD, DISCORD)
        assert url == DISCORD
        assert content == {
            "content": f"**Chart is silent**\nIt was expected.\n\n{LINK}",
            "allowed_mentions": {"parse": []},
            "flags": 4,
        }

    def test_discord_shows_names_as_they_are_and_no_link_behind_other_words(self):
        name = "[me](https://evil.example) *a_b* <@1> `x` ||y||\n# big\n> said"
        _, content = self.sent(Service.DISCORD, DISCORD, "x", f"{name}\n\n{LINK}_a")
        assert content["content"] == (
            "**x**\n\\[me\\](https://evil.example) \\*a\\_b\\* \\<@1> \\`x\\` \\|\\|y\\|\\|\n"
            f"\\# big\n\\> said\n\n{LINK}_a"
        )

    def test_slack_shows_marks_as_they_are_and_mentions_nobody(self):
        url, content = self.sent(
            Service.SLACK, SLACK, "a & b", f"<!channel> <https://x|y>\n\n{LINK}"
        )
        assert url == SLACK
        assert content["text"] == (f"a &amp; b\n&lt;!channel&gt; &lt;https://x|y&gt;\n\n{LINK}")
        assert (content["mrkdwn"], content["unfurl_links"]) == (False, False)

    def test_ntfy_gets_json_at_the_root_with_the_topic_inside(self):
        url, content = self.sent(Service.NTFY, NTFY, "Grüße\r\nX-Evil: 1")
        assert url == "https://ntfy.sh/"
        assert content == {
            "topic": "quietly-1f3a",
            "title": "Grüße\r\nX-Evil: 1",
            "message": f"It was expected.\n\n{LINK}",
        }

    @pytest.mark.parametrize("service", [Service.DISCORD, Service.SLACK, Service.NTFY])
    def test_a_long_text_is_cut_and_keeps_its_link(self, service):
        urls = {Service.DISCORD: DISCORD, Service.SLACK: SLACK, Service.NTFY: NTFY}
        for body in (f"{'ä' * 5000}\n\n{LINK}", "ä" * 5000):
            _, content = self.sent(service, urls[service], body=body)
            text = content.get("content") or content.get("text") or content["message"]
            assert len(text) == MAX_TEXT[service]
            assert text.endswith(LINK if LINK in body else "…")
            assert "…" in text
