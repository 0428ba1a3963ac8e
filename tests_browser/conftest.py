"""A browser, and the pages that it opens."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "report"))

SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def browser_path() -> str:
    """The browser named by TPGATE_BROWSER, or the first that the PATH has."""
    named = os.environ.get("TPGATE_BROWSER")
    found = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.fail("no browser: apt-get install chromium, or set TPGATE_BROWSER to one", pytrace=False)
    return found


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=browser_path(), args=SWITCHES, headless=True)
        yield running
        running.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Files of the reports: of the run without CUDA graphs (red) and of the one with them (green)."""
    from report_results import bands, stored

    from tpgate.report.html import Extras, render

    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, kind in (("red", "no_graphs"), ("green", "graphs")):
        again = "tpgate run llama-8b-tp1 --cell c16" if name == "red" else None
        path = folder / f"{name}.html"
        path.write_text(render(stored(folder, kind), Extras(bands=bands(), reproduce=again)), encoding="utf-8")
        found[name] = path
    return found


@pytest.fixture
def visit(browser, pages):
    """Open a page; every console line, page error and request beside the file itself ends up in ``noise``."""
    opened = []

    def open_page(name: str, *, width: int = 1280, height: int = 800, scheme: str = "light"):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()
        noise: list[str] = []
        address = pages[name].as_uri()
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("request", lambda request: None if request.url in (address, "data:,") else noise.append(request.url))
        page.goto(address)
        opened.append((context, noise))
        return page

    yield open_page
    for context, noise in opened:
        context.close()
        assert noise == []
