"""The built site: every link leads somewhere, and every page is sound in a browser.

`make docs` builds it. Without it these tests are skipped, unless DYNPART_REQUIRE_SITE is set, as it
is in continuous integration.
"""

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PHONE, DESK = 390, 1280
LOADING = {"img": "src", "script": "src", "link": "href", "iframe": "src"}


@pytest.fixture(scope="module")
def pages():
    if not (SITE / "index.html").exists():
        if os.environ.get("DYNPART_REQUIRE_SITE"):
            pytest.fail("DYNPART_REQUIRE_SITE is set, but `make docs` has not been run")
        pytest.skip("the site has not been built: make docs")
    paths = (path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts)
    found = {path: Page(path) for path in paths}
    assert len(found) > 50
    return found


class Page(HTMLParser):
    """Links, loaded files, anchors and text of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors, self.text = [], [], set(), ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_data(self, data):
        self.text += data

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(attributes[key] for key in ("id", "name") if attributes.get(key))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in LOADING and attributes.get(LOADING[tag]):
            self.loads.append(attributes[LOADING[tag]])


def test_every_internal_link_leads_to_a_page_and_a_place_on_it(pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.exists() or (place and place not in pages[target].anchors):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert not broken


def test_pages_load_nothing_from_elsewhere_and_nothing_that_is_missing(pages):
    for path, page in pages.items():
        for source in page.loads:
            parts = urlsplit(source)
            if parts.scheme == "data":
                continue
            elsewhere = parts.scheme or parts.netloc
            assert not elsewhere, f"{path.relative_to(SITE)} loads {source}"
            assert (path.parent / unquote(parts.path)).exists(), (path, source)


def test_the_page_of_commands_explains_every_option(pages):
    from typer.main import get_command

    from dynpart.cli import app

    def letters(text):
        return re.sub(r"\W|_", "", text)

    shown = letters(pages[SITE / "commands.html"].text)
    group = get_command(app)
    for name in group.list_commands(None):
        for option in group.get_command(None, name).params:
            if option.name == "help" or getattr(option, "hidden", False):
                continue
            spelled = max(option.opts, key=len) if option.param_type_name == "option" else ""
            assert letters(spelled) in shown, f"{name} {spelled}"
            assert letters(option.help or "") in shown, f"{name} {spelled}: {option.help}"


def resize(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.mark.parametrize("part", range(4))
def test_every_page_is_sound_on_a_desk_and_on_a_phone(pages, browser, part):
    """Pictures are there, nothing is too wide or cut off, and the console is silent."""
    broken = "return [...document.images].filter(i => !i.complete || !i.naturalWidth).length"
    eager = "document.querySelectorAll('img[loading=lazy]').forEach(i => i.loading = 'eager')"
    decoded = "return Promise.all([...document.images].map(i => i.decode().catch(() => 0)))"
    too_wide = "return document.documentElement.scrollWidth - window.innerWidth"
    # Code, formulas and tables scroll by themselves; the text around them does not.
    cut_off = (
        "return [...document.querySelectorAll('.bd-article-container, .bd-sidebar-secondary')]"
        ".filter(part => part.scrollWidth > part.clientWidth).length"
    )
    # A name of a parameter that is one word is on one line.
    broken_names = (
        "const lines = name => { const text = document.createRange();"
        " text.selectNodeContents(name);"
        " return new Set([...text.getClientRects()].map(part => Math.round(part.top))).size; };"
        "return [...document.querySelectorAll('dl.field-list dl.simple dt > strong')]"
        ".filter(name => !name.innerText.includes(' ') && lines(name) > 1)"
        ".map(name => name.innerText)"
    )
    browser.get_log("browser")
    shown = [path for path in pages if path.relative_to(SITE).parts[0] != "_modules"]
    for path in shown[part::4]:
        name = path.relative_to(SITE)
        resize(browser, DESK)
        browser.get(path.as_uri())
        browser.execute_script(eager)
        browser.execute_script(decoded)
        assert browser.execute_script(broken) == 0, f"{name}: a picture is broken"
        assert browser.execute_script(too_wide) <= 0, f"{name} is too wide for a desk"
        assert browser.execute_script(cut_off) == 0, f"{name}: text is cut off on a desk"
        assert browser.execute_script(broken_names) == [], f"{name}: names are broken on a desk"
        resize(browser, PHONE)
        assert browser.execute_script(broken_names) == [], f"{name}: names are broken on a phone"
        assert browser.execute_script(cut_off) == 0, f"{name}: text is cut off on a phone"
        assert browser.execute_script(too_wide) <= 0, f"{name} is too wide for a phone"
        complaints = [line for line in browser.get_log("browser") if line["level"] != "INFO"]
        assert complaints == [], f"{name}: the console is not silent"


def test_the_index_has_the_width_of_a_phone(pages, browser):
    resize(browser, PHONE)
    browser.get((SITE / "genindex.html").as_uri())
    widths = "return [...document.querySelectorAll('.indextable td')].map(cell => cell.offsetWidth)"
    assert min(browser.execute_script(widths)) > 0.8 * PHONE


def test_the_search_finds_pages_without_a_server(pages, browser):
    from selenium.webdriver.support.ui import WebDriverWait

    resize(browser, DESK)
    browser.get((SITE / "search.html").as_uri() + "?q=variance_floor")
    # Results come one after the other.
    found = (
        "return [...document.querySelectorAll('#search-results li a')]"
        ".some(link => link.href.includes('DynamicPartitionModel'))"
    )
    assert WebDriverWait(browser, 20).until(lambda page: page.execute_script(found))
