"""Reads pages: text, forms, errors and values to copy."""

import html
import re

from tests.client import Response

PROBLEM = re.compile(r'<p class="eyebrow">.*?<code>([a-z_]+)</code>', re.DOTALL)
COPIED = re.compile(r'<pre[^>]* data-copy="[^"]*">(.*?)</pre>', re.DOTALL)
ERRORS = re.compile(r'<ul class="errorlist[^"]*"[^>]*>(.*?)</ul>', re.DOTALL)
EVENT = re.compile(r'<li class="\w+" id="evt_\d+">\s*<a (class="said".*?)</a>', re.DOTALL)
INLINE = re.compile(
    r'<script(?![^>]*(?: src=|type="application/json"))|<style|\sstyle=|\son[a-z]+="'
)
TAGS = re.compile(r"<[^>]+>")


def source(response: Response) -> str:
    return response.content.decode()


def words(response: Response) -> str:
    """The text of a page's main part, with single spaces."""
    return plain(source(response).partition("<main")[2].partition("</main>")[0])


def problem(response: Response) -> str | None:
    """The code of a problem page, None for any other page."""
    match = PROBLEM.search(source(response))
    return match.group(1) if match else None


def errors(response: Response) -> list[str]:
    """The form errors of a page, in order."""
    return [plain(error) for error in ERRORS.findall(source(response))]


def copied(response: Response) -> list[str]:
    """The values that a page offers to copy, without HTML escapes."""
    return [html.unescape(text) for text in COPIED.findall(source(response))]


def fields(response: Response) -> list[str]:
    """The names of the form fields of a page."""
    main = source(response).partition("<main")[2]
    return re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]+)"', main)


def inline(response: Response) -> list[str]:
    """What the policy blocks: inline scripts, styles and handlers."""
    return INLINE.findall(source(response))


def lines(response: Response) -> list[str]:
    """The sentences of a page's list of events, in order, also of those that are folded."""
    return [plain(sentence) for sentence in EVENT.findall(source(response))]


def plain(fragment: str) -> str:
    """Text without tags, including a partial tag at the start."""
    text = TAGS.sub("", re.sub(r"^[^<>]*>", "", fragment, count=1))
    return " ".join(html.unescape(text).split())
