from __future__ import annotations

import os
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[1] / "docs" / "images"
CONTRAST = """
() => {
  const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = (c) => { const [r, g, b] = c.match(/[0-9.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const ground = (e) => { while (e) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$|transparent/.test(c)) return c; e = e.parentElement; } return 'rgb(255, 255, 255)'; };
  let least = 99, where = '';
  for (const e of document.querySelectorAll('h1,h2,h3,p,td,th,a,dt,dd,figcaption,summary,.chip,li')) {
    if (!e.textContent.trim() || !e.getClientRects().length) continue;
    const a = light(getComputedStyle(e).color), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least) { least = ratio; where = e.tagName + ' ' + e.textContent.trim().slice(0, 40); }
  }
  return [least, where];
}
"""


def test_key_figures_are_there_and_nothing_is_loaded(visit):
    page = visit("red")
    text = page.inner_text("body")
    for word in ("REGRESSED", "8779 tok/s", "2901 tok/s", "-67.0 %", "22.0 ms/token", "GPU idle 76.3 %"):
        assert word in text
    assert page.locator("svg.chart").count() == 6
    assert page.locator("[data-verdict]").get_attribute("data-verdict") == "REGRESSED"
    assert "OK" in visit("green").inner_text("header")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_page_is_wider_than_the_screen(visit, width, scheme):
    page = visit("red", width=width, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for box in page.locator("svg.chart").all():
        assert box.bounding_box()["width"] <= width


def test_chart_text_can_be_read_on_a_phone(visit):
    page = visit("red", width=390)
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg.chart text')].filter(t => t.textContent.trim())"
        ".map(t => parseFloat(t.getAttribute('font-size')) * t.getCTM().a)"
    )
    assert len(sizes) > 40
    assert min(sizes) >= 8


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(visit, scheme):
    least, where = visit("red", scheme=scheme).evaluate(CONTRAST)
    assert least >= 4.5, where


def test_dark_is_dark_and_charts_follow(visit):
    def look(scheme: str) -> tuple[str, str]:
        page = visit("red", scheme=scheme)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        line = page.evaluate("getComputedStyle(document.querySelector('svg.chart .mark-text text')).fill")
        return ground, line

    light, dark = look("light"), look("dark")
    assert light[0] == "rgb(246, 247, 248)"
    assert dark[0] == "rgb(15, 18, 21)"
    assert light[1] != dark[1]
    assert "rgb" in dark[1]


def test_the_keyboard_reaches_everything(visit):
    page = visit("red", width=390)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.tagName + ' ' + (document.activeElement.ariaLabel || '')"))
    assert any(name.startswith("SUMMARY") for name in seen)
    assert any(name == "DIV Gated metrics, worst first" for name in seen)
    assert any(name.startswith("A") for name in seen)
    outline = page.evaluate(
        "(() => { const e = document.querySelector('nav a'); e.focus({focusVisible: true});"
        " return getComputedStyle(e).outlineStyle; })()"
    )
    assert outline == "solid"


def test_a_folded_part_opens_by_key(visit):
    page = visit("red")
    summary = page.locator("#kernels summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("#kernels details").first.get_attribute("open") is not None
    assert "nvjet" in page.inner_text("#kernels")


def test_the_pictures_of_the_readme(visit):
    """Taken anew where TPGATE_SCREENSHOTS is set; otherwise only that they can be taken."""
    target = IMAGES if os.environ.get("TPGATE_SCREENSHOTS") else None
    for name, width, height, scheme in (
        ("report-light", 1240, 860, "light"),
        ("report-dark", 1240, 860, "dark"),
        ("report-phone", 390, 800, "light"),
    ):
        page = visit("red", width=width, height=height, scheme=scheme)
        shot = page.screenshot(path=str(target / f"{name}.png") if target else None)
        assert len(shot) < 250_000
    page = visit("red", width=1240, height=860)
    top = page.locator("#concurrency").bounding_box()
    end = page.locator("#timelines").bounding_box()
    box = {"x": 0, "y": top["y"] - 12, "width": 1240, "height": end["y"] + end["height"] - top["y"] + 30}
    page.add_style_tag(content="nav { position: static !important; }")
    shot = page.screenshot(path=str(target / "report-charts.png") if target else None, full_page=True, clip=box)
    assert len(shot) < 250_000
