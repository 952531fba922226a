"""Takes screenshots of every page: phone and desktop, light and dark. Or weighs every page.

python -m tests.browser.screenshots FOLDER      # all pages, in a subfolder per visitor
python -m tests.browser.screenshots --readme    # the screenshots in the README
python -m tests.browser.screenshots --weigh     # the table in deploy/performance/README.md
"""

import os
import re
import sys
from pathlib import Path

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
django.setup()

from tests.browser.pages import (  # noqa: E402 - after the settings
    HALFWAY,
    STAFF,
    USER,
    VISITOR,
    address,
    signed_in,
    who_sees,
)
from tests.browser.stage import COLOURS, DESKTOP, PHONE, Stage, chromium, set_up  # noqa: E402
from tests.browser.weight import Scale, Weight, table  # noqa: E402
from tests.routes import routes  # noqa: E402

WIDTHS = {"phone": PHONE, "desktop": DESKTOP}
PICTURES = Path(__file__).parents[2] / "static" / "pictures"
IN_README = {"desk": (USER, "/desk"), "control": (STAFF, "/control/")}
OF_README = {"width": 1200, "height": 800}


def take(stage: Stage, who: str, folder: Path) -> int:
    """Takes screenshots of every page of a visitor. Returns how many."""
    seen = [address(stage, route) for route in routes() if who_sees(route) == who]
    with signed_in(stage, who) as visitor:
        for colours in COLOURS:
            for name, width in WIDTHS.items():
                context = stage.context(
                    visitor, color_scheme=colours, viewport={"width": width, "height": 900}
                )
                page = context.new_page()
                for path in seen:
                    page.goto(path, wait_until="load")
                    slug = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-")[:60] or "home"
                    page.screenshot(path=folder / f"{slug}-{name}-{colours}.png", full_page=True)
                context.close()
    return len(seen) * len(COLOURS) * len(WIDTHS)


def take_for_readme(stage: Stage) -> None:
    """Takes the screenshots in the README."""
    for name, (who, path) in IN_README.items():
        with signed_in(stage, who) as visitor:
            context = stage.context(visitor, color_scheme="light", viewport=OF_README)
            page = context.new_page()
            page.goto(path, wait_until="load")
            page.reload(wait_until="load")  # removes the sign-in message
            page.screenshot(path=PICTURES / f"{name}.png")
            context.close()


def weigh(stage: Stage) -> dict[str, Weight]:
    """The weight of every page, by path."""
    weights = {}
    for who in (VISITOR, USER, STAFF, HALFWAY):
        with signed_in(stage, who) as visitor:
            context = stage.context(visitor)
            page = context.new_page()
            scale = Scale(page)
            for path in [address(stage, route) for route in routes() if who_sees(route) == who]:
                page.goto(path, wait_until="load")
                weights[path] = scale.take()
            context.close()
    return weights


def main(target: str) -> None:
    with chromium() as browser, set_up(browser) as stage:
        if target == "--readme":
            take_for_readme(stage)
            return
        if target == "--weigh":
            print("\n".join(table(weigh(stage))))
            return
        folder = Path(target)
        for who in (VISITOR, USER, STAFF, HALFWAY):
            place = folder / who.removeprefix("a ").removeprefix("the ").replace(" ", "-")
            place.mkdir(parents=True, exist_ok=True)
            print(f"{place}: {take(stage, who, place)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
