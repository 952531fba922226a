"""Detects exchange secrets in JSON values and in text (contract, section 6). Pure."""

from __future__ import annotations

import re
import unicodedata

from tokens.crypto import formats


def is_secret(text: str) -> bool:
    """Whether the text contains a private key of PEM or PGP, or a credential of this service."""
    return ("----" in text and bool(PRIVATE_KEY.search(text))) or formats.contains_credential(text)


# A field or member of this name is the address of a webhook or a chat. It often holds a key of the
# service that it leads to, and is stored encrypted. So only a private key or a credential of this
# service is a secret there. A signal has no address: ``signals.law`` searches all of it.
ADDRESS_FIELD = "url"


def field_contains_secret(name: str, text: str) -> bool:
    """Whether the text in a field of a form contains a secret. See ``ADDRESS_FIELD``."""
    return is_secret(text) if name == ADDRESS_FIELD else text_contains_secret(text)


def body_contains_secret(body: dict[str, object]) -> bool:
    """Whether the body of a request that may name an address contains a secret."""
    address = body.get(ADDRESS_FIELD)
    if not isinstance(address, str):
        return contains_secret(body)
    return field_contains_secret(ADDRESS_FIELD, address) or contains_secret(
        {**body, ADDRESS_FIELD: None}
    )


# --- The search for secrets -----------------------------------------------------------------------
#
# The relays are single files and repeat this section: relay.py word for word, relay.worker.js with
# the same patterns (tests/tokens/crypto/ compares them). A pattern means the same
# in both languages. No two repetitions that can match the same text follow each other unbounded, so
# that every search takes linear time.

FLAGS = re.ASCII | re.IGNORECASE

# The name of a field that holds a secret, in lower case and without separators.
FIELD = re.compile(
    "apikey|apisecret|privatekey|privkey|secretkey|clientsecret|credential|mnemonic|passphrase"
    "|passwd|password|pwd|(?:backup|recovery|secret|seed|wallet)phrase"
    "|(?:creds|secret|(?:access|api|auth|bearer|refresh|security|session)token"
    "|(?:access|account|auth|broker|encryption|exchange|gpg|hmac|master|pgp|signing|ssh|trading"
    "|venue|wallet|alpaca|binance|bitfinex|bitget|bitmex|bitstamp|bybit|coinbase|cryptocom|deribit"
    "|dydx|gateio|gemini|htx|huobi|hyperliquid|kraken|kucoin|mexc|okex|okx)key)s?"
    "(?:base64|data|encrypted|hex|pem|plain|raw|string|text|value)?v?[0-9]*$"
    "|^(?:keys?|otp|sign)[0-9]*$"
)
# A name in lower-case text: of a password, of another secret, or one that has other meanings, too.
# The first characters are repeated in front because that makes the search several times faster.
# "otp" and "pwd" must be whole words, or follow an escape of a URL or "MT5": three letters stand in
# one of 2,000 random nonces.
NAME = re.compile(
    "(?=[abcejkmoprstw])(?:"
    "((?:pass[-_. ]?(?:code|phrase|word)|passwd)[a-z0-9_.-]{0,32}"
    "|(?:(?<![a-z0-9])|(?<=%[0-9a-f]{2})|(?<=mt[45]))(?:otp|pwd)s?(?:code|hash|value)?[0-9]{0,3}"
    "(?:[-_.][a-z0-9_.-]{0,32})?(?![a-z0-9]))"
    "|((?:(?:api|priv(?:ate)?|secret|access|account|auth|broker|exchange|master|signing|trading"
    "|wallet|binance|bitget|bybit|coinbase|kraken|kucoin|okx)[-_. ]?key|secret|credential"
    "|(?:access|api|auth|bearer|refresh|session)[-_. ]?token)[a-z0-9_.-]{0,32})"
    "|((?:authorization|auth|bearer|jwt|key|pass|seed|sign|token)s?"
    "(?:[-_. ]?(?:data|hex|raw|string|text|v?[0-9]{1,3}|value))?(?![a-z0-9_-])))",
    re.ASCII,
)
# Before a name that has other meanings: together they name no secret. The end is not $: only Python
# finds that before a last line break, too.
HARMLESS = re.compile(
    "(?:cache|cursor|foreign|idempotency|next|order|page|partition|position|primary|public|routing"
    r"|row|signal|sort|strategy|trade)[-_. ]?\n?(?![\s\S])",
    FLAGS,
)
# After a name: what separates it from its value, and the value.
VALUE = re.compile(
    r"([ \t\r\n\x22'\x60\\)\[\]0-9*#\u00ab\u00bb\u2018\u2019\u201c\u201d]{0,6}"
    r"(?:->|[:=>|,;~]{1,4}|[^\x00-\x7f]{1,4}|%3[ad]|is[ \t]|-[ \t])"
    r"[ \t\r\n\x22'\x60\\(\[{<*\u00ab\u00bb\u2018\u2019\u201c\u201d]{0,6}"
    r"|[ \t\r\n\x22'\x60\\(.\u00ab\u00bb\u2018\u2019\u201c\u201d]{1,6})"
    "(?:basic |bearer )?([a-z0-9+/_~!@$%^*.-]{4,160})",
    FLAGS,
)
# The same, after one to three words: "api key for binance: ...".
VALUE_AFTER_WORDS = re.compile(
    r"(?:[ \t]\(?[a-z]{1,12}\)?){1,3}[ \t\"'\x60]{0,3}(?:[:=]|is[ \t])[ \t\"'\x60]{0,3}"
    "([a-z0-9+/_-]{4,160})",
    FLAGS,
)
# The words of a wallet: at least twelve.
WALLET = re.compile(
    "(?:mnemonic|(?:backup|recovery|secret|seed|wallet)[-_. ]?(?:phrase|words)|seed)s?"
    r"(?:[^a-z]{0,6}[:=\x22'\x60]|[ \t]is)((?:[^a-z]{0,8}[a-z]{3,8}(?![a-z])){12})",
    FLAGS,
)
# Words that most sentences have, and no wallet.
SENTENCE = re.compile("(?<![a-z])(?:and|are|but|for|from|not|the|was|with|your)(?![a-z])", FLAGS)
WALLET_ADDRESS = re.compile("^0x[0-9a-f]{40}$", FLAGS)
UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", FLAGS)
PRIVATE_KEY = re.compile("-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}", FLAGS)

UPPER = re.compile("[A-Z]+")
SEPARATORS = re.compile(r"[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+")
INVISIBLE = re.compile(r"[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
# What is normalized at once: to sort a run of combining marks takes quadratic time.
PART = re.compile(r"[\s\S]{1,1000}")
BREAK = re.compile(r"[\"'\x60{}\[\],;&?\n]")
ALPHANUMERIC = re.compile("[A-Za-z0-9]+")
CHANGE = re.compile("[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])")


def contains_secret(value: object) -> bool:
    """Whether a JSON value contains, at any depth, a secret or a key that names one."""
    if isinstance(value, str):
        return text_contains_secret(value)
    if isinstance(value, dict):
        return any(member_is_secret(name, member) for name, member in value.items())
    return isinstance(value, list) and any(contains_secret(member) for member in value)


def member_is_secret(name: str, value: object) -> bool:
    """Whether a member of a JSON object is, contains or names a secret."""
    name = normalized(name)
    if is_secret_name(name) or is_secret(name) or contains_secret(value):
        return True
    text = f"{name}: {value}" if isinstance(value, str) else name
    return assigns_secret(normalized(text))


def text_contains_secret(text: str) -> bool:
    """Whether text contains a secret, or the name of one and what looks like its value."""
    text = normalized(text)
    return is_secret(text) or assigns_secret(text)


def malformed_contains_secret(text: str) -> bool:
    """Whether text that should be JSON contains a secret, or a name of one before ``:`` or ``=``.

    As in JSON, the name is enough: the message is refused in any case.
    """
    text = normalized(text)
    parts = re.split("[:=]", text)[:-1]
    names = (BREAK.split(part.rstrip(" \t\r\n\"'`\\"))[-1] for part in parts)
    return text_contains_secret(text) or any(is_secret_name(name) for name in names)


def is_secret_name(name: str) -> bool:
    """Whether a key is one that usually holds a secret."""
    joined = SEPARATORS.sub("", normalized(name)).lower()
    return bool(FIELD.search(joined))


def normalized(text: str) -> str:
    """The text as a reader sees it: escapes and compatibility characters replaced."""
    if "\\u" in text:
        text = paired(ESCAPE.sub(lambda found: chr(int(found[1], 16)), text))
    if text.isascii():
        return text
    text = PART.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    return paired(INVISIBLE.sub("", text))


def paired(text: str) -> str:
    """The text with one character for each pair of surrogates, as in the worker's language."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def assigns_secret(text: str) -> bool:
    """Whether the text contains the name of a secret, followed by what looks like its value."""
    lower = UPPER.sub(lambda found: found[0].lower(), text)
    if any(is_assignment(text, name) for name in NAME.finditer(lower)):
        return True
    return any(not SENTENCE.search(words[1]) for words in WALLET.finditer(lower))


def is_assignment(text: str, name: re.Match[str]) -> bool:
    """Whether a value that looks like a secret follows the name."""
    near = VALUE.match(text, name.end())
    value = near[2] if near else ""
    if name[1]:
        return near is not None and not near[1].isspace() and is_password(value)
    if name[2]:
        if is_random(value, 8) or is_random(text[name.start() : name.end()], 16):
            return True
        far = VALUE_AFTER_WORDS.match(text, name.end())
        return far is not None and is_random(far[1], 12)
    if not is_random(value, 16) or WALLET_ADDRESS.search(value):
        return False
    return not HARMLESS.search(text[max(0, name.start() - 12) : name.start()])


def is_password(value: str) -> bool:
    """Whether six letters and digits, a digit among them, stand together."""
    return any(len(run) >= 6 and re.search("[0-9]", run) for run in ALPHANUMERIC.findall(value))


def is_random(value: str, least: int) -> bool:
    """Whether the value looks random: in a long run, letters and digits alternate often.

    Below 16 characters, which follow the name of nothing but a secret, a UUID counts, and any long
    run with letters and digits, or with many letters of both cases.
    """
    if least < 16 and UUID.search(value):
        return True
    for run in ALPHANUMERIC.findall(value):
        if len(run) < least:
            continue
        mixed = re.search("[0-9]", run) and re.search("[A-Za-z]", run)
        if mixed and len(CHANGE.findall(run)) >= max(3, len(run) / 6):
            return True
        capitals = sum(map(len, UPPER.findall(run)))
        many = mixed or len(run) / 4 <= capitals <= 3 * len(run) / 4
        if least < 16 <= len(run) and many:
            return True
    return False


# --- End of the search for secrets ----------------------------------------------------------------
