"""Lists the sentences of the contract without an example.

    python -m tests.conformance.sentences

``sentences.toml`` beside this file has an entry for each sentence. Its key is a digest of the
sentence and the sentence's first words. Its value is one or several of these:

- ``test_03_signing.py::test_nothing_presented``: a test of this folder shows it;
- ``tests/config/test_settings.py::test_…``: a test of another suite shows it, because nobody sees
  it over HTTP at an installation of which they know the output of ``seed``;
- the name of one of ``REASONS``: nothing shows it.

Whoever edits a sentence gives it another digest. The script then prints the old key and the new
one: look whether the examples still show the sentence, and replace the key. It exits with 1 if a
sentence has no entry, or an entry has no sentence or names a test that is not there.
"""

import difflib
import hashlib
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REASONS = {
    "advice": "it tells a client or an operator what to do",
    "decision": "it gives the reason of a decision",
    "definition": "it introduces a word, or what follows it",
    "explanation": "it follows from other sentences, or is about former releases",
    "implementation": "it is about how the code does it, which no test sees",
    "operation": "it is about how the product is set up and run",
}
ITEM = re.compile(r"^([-*]|\d+\.) +")
END = re.compile(r"(?<=\S[.!?])[)\"]?\s+")
DIGITS, WORDS = 6, 8

Sentence = tuple[int, str]  # the line on which it begins, and its text on one line


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of paragraphs, list items and table rows, and the headings with a colon."""
    for line, block in _blocks([*map(str.strip, text.splitlines()), ""]):
        begin = 0
        for end in [*(match.end() for match in END.finditer(block)), len(block)]:
            yield line + block[:begin].count("\n"), " ".join(block[begin:end].split())
            begin = end


def _blocks(lines: Sequence[str]) -> Iterator[Sentence]:
    """Each heading, row, item and paragraph. The last line is empty."""
    block: list[str] = []
    for number, line in enumerate(lines, 1):
        heading, row = line.startswith("#"), line.startswith("|")
        # A number within a paragraph begins no item: "section\n7. It says".
        item = ITEM.match(line) and (not block or ITEM.match(block[0]) or line[0] in "-*")
        if block and (heading or row or item or not line):
            yield number - len(block), ITEM.sub("", "\n".join(block))
            block = []
        if row or heading:
            if ":" in line if heading else "|--" not in line + lines[number]:
                yield number, line.strip("#| ")
        elif line:
            block.append(line)


def key(sentence: str) -> str:
    """The first digits of the digest, and the first words without marks."""
    digest = hashlib.sha256(sentence.encode()).hexdigest()[:DIGITS]
    return " ".join([digest, *re.sub(r"[`*|\"\\]", "", sentence).split()[:WORDS]])


def kind(examples: Sequence[str]) -> str:
    """The first one's, and ``shown here`` if any is of this folder."""
    if examples[0] in REASONS:
        return examples[0]
    return "shown by another suite" if all("/" in each for each in examples) else "shown here"


def fault(example: str) -> str:
    """What is wrong with an example, or nothing."""
    file, _, name = example.partition("::")
    path = (ROOT if "/" in file else HERE) / file
    if example in REASONS:
        return ""
    if not path.is_file():
        return f"neither a test nor a reason: {example}"
    found = re.search(rf"^ *(async )?def {name}\(", path.read_text(), re.MULTILINE)
    return "" if found else f"no such test: {example}"


def main() -> int:
    contract = ROOT / "docs/contract.md"
    tables = tomllib.loads((HERE / "sentences.toml").read_text()).values()
    values = {name: value for table in tables for name, value in table.items()}
    entries = {name: [value] if isinstance(value, str) else value for name, value in values.items()}
    found = [(line, text, key(text)) for line, text in sentences(contract.read_text())]
    unused = {name[DIGITS:]: name for name in entries.keys() - {name for _, _, name in found}}
    missing = [each for each in found if not entries.get(each[2])]
    for line, text, name in missing:
        print(f"docs/contract.md:{line}: no example: {text}")
        for words in difflib.get_close_matches(name[DIGITS:], unused, n=1, cutoff=0.5):
            print(f'  was "{unused[words]}"')
        print(f'  now "{name}"')
    faults = [f"no such sentence: {name}" for name in unused.values()]
    faults += [wrong for each in entries.values() for wrong in map(fault, each) if wrong]
    print(*faults, sep="\n", end="\n" if faults else "")
    kinds = Counter(kind(entries[name]) for _, _, name in found if entries.get(name))
    print(f"{len(found)} sentences:", ", ".join(f"{n} {what}" for what, n in kinds.most_common()))
    return 1 if missing or faults else 0


if __name__ == "__main__":
    sys.exit(main())
