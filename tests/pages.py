"""How the tests read a page: its words, its forms, and what it shows to be copied."""

import html
import re

from django.http import HttpResponse

PROBLEM = re.compile(r'<p class="eyebrow">.*?<code>([a-z_]+)</code>', re.DOTALL)
COPIED = re.compile(r"<pre[^>]* data-copy>(.*?)</pre>|<pre data-copy>(.*?)</pre>", re.DOTALL)
ERRORS = re.compile(r'<ul class="errorlist[^"]*"[^>]*>(.*?)</ul>', re.DOTALL)
TAGS = re.compile(r"<[^>]+>")


def source(response: HttpResponse) -> str:
    return response.content.decode()


def words(response: HttpResponse) -> str:
    """The text of a page, with single spaces."""
    return _plain(source(response).partition("<main")[2].partition("</main>")[0])


def problem(response: HttpResponse) -> str | None:
    """The code of a problem page, null for another page."""
    found = PROBLEM.search(source(response))
    return found.group(1) if found else None


def errors(response: HttpResponse) -> list[str]:
    """What a page says is wrong, in order."""
    return [_plain(found) for found in ERRORS.findall(source(response))]


def copied(response: HttpResponse) -> list[str]:
    """What the page shows to be copied, as the clipboard would have it."""
    return [html.unescape(one or other) for one, other in COPIED.findall(source(response))]


def fields(response: HttpResponse) -> list[str]:
    """The names of what the forms of a page send."""
    main = source(response).partition("<main")[2]
    return re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]+)"', main)


def lines(response: HttpResponse) -> list[str]:
    """The sentences of a list of events, the first first."""
    listed = source(response).partition('<ol class="events">')[2].partition("</ol>")[0]
    return [_plain(item.partition('<p class="meta">')[0]) for item in listed.split("<li")[1:]]


def _plain(fragment: str) -> str:
    """Text without tags. A tag that was cut off at the front goes as well."""
    text = TAGS.sub("", re.sub(r"^[^<>]*>", "", fragment, count=1))
    return " ".join(html.unescape(text).split())
