"""Charts in a browser: the value at a step, and smoothing, by pointer, keys and touch; whole without script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from assay_explorer.curve import LEFT, MAX_POINTS, RIGHT, WIDTH, draw
from assay_explorer.published import RunPages
from tests.support.browser import NEEDS_CHROMIUM, chromium, violations
from tests.trainer_node.audit.runs import publish

from .conftest import served

LOSSES = {step: round(3.0 / step + (0.4 if step % 2 else 0.0), 6) for step in range(1, 61)}
STEPS = 60
HOSTILE = "ac<c>\"'&x"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("chart")
    run = publish(folder / "run", STEPS, 10)
    rows = [
        {"step": step, "seconds": 0.1 * step, "loss": loss} | ({HOSTILE: step / 50} if step % 5 == 0 else {})
        for step, loss in LOSSES.items()
    ]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with served(RunPages(str(run), folder / "pages")) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def opened(browser: Any, site: str, width: int = 1200, **more: Any) -> Any:
    page = browser.new_context(viewport={"width": width, "height": 900}, **more).new_page()
    page.goto(site)
    return page


def at_step(page: Any, step: int, y: float = 0.5) -> tuple[float, float]:
    """Return where a step of the chart is on the page."""
    page.locator("figure.chart svg").scroll_into_view_if_needed()
    box = page.locator("figure.chart svg").bounding_box()
    scale = box["width"] / WIDTH
    return box["x"] + scale * (LEFT + (WIDTH - LEFT - RIGHT) * step / STEPS), box["y"] + box["height"] * y


def average(values: list[float], weight: float) -> float:
    """Return the last of TensorBoard's averages, written out: weights that sum to 1."""
    weights = [weight ** (len(values) - 1 - k) for k in range(len(values))]
    return sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)


@NEEDS_CHROMIUM
@pytest.mark.parametrize("step", [1, 17, 60])
def test_the_pointer_shows_the_values_at_the_nearest_step(browser: Any, site: str, step: int) -> None:
    page = opened(browser, site)
    page.mouse.move(*at_step(page, step))
    told = page.locator(".reading").inner_text()
    near = min(5 * round(step / 5), 60) or 5
    assert told.startswith(f"After step {step}: loss {LOSSES[step]:.6g}"), told
    assert f"{HOSTILE} {near / 50:.6g}" in told
    assert (f"(after step {near})" in told) == (near != step)
    assert page.locator(".cursor").get_attribute("visibility") is None
    page.context.close()


@NEEDS_CHROMIUM
def test_keys_reach_each_step_and_smoothing(browser: Any, site: str) -> None:
    page = opened(browser, site)
    assert page.locator(".reading").inner_text().startswith("After step 60: ")
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.locator(".reading").inner_text().startswith(f"After step 2: loss {LOSSES[2]:.6g}")
    assert (
        page.get_by_role("slider", name="Step").get_attribute("aria-valuetext").startswith("After step 2: ")
    )
    before = page.locator("polyline.curve0").first.get_attribute("points")
    page.keyboard.press("End")
    page.get_by_role("slider", name="Smoothing").focus()
    page.keyboard.press("End")
    told = page.locator(".reading").inner_text()
    found = re.search(r"loss ([\d.]+), smoothed ([\d.]+)", told)
    assert found is not None, told
    assert float(found[1]) == pytest.approx(LOSSES[60])
    assert float(found[2]) == pytest.approx(average([*LOSSES.values()], 0.99), rel=1e-5)
    assert page.locator("polyline.curve0").first.get_attribute("points") == before, "what was told stays"
    assert len(page.locator("polyline.curve0").nth(1).get_attribute("points").split()) == len(LOSSES)
    page.keyboard.press("Home")
    assert "smoothed" not in page.locator(".reading").inner_text()
    page.context.close()


@NEEDS_CHROMIUM
def test_a_finger_shows_the_values_at_a_step(browser: Any, site: str) -> None:
    page = opened(browser, site, 360, has_touch=True, is_mobile=True)
    page.touchscreen.tap(*at_step(page, 20))
    assert page.locator(".reading").inner_text().startswith("After step 20: ")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.context.close()


@NEEDS_CHROMIUM
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_charts_are_accessible_and_load_nothing(browser: Any, site: str, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, complaints = context.new_page(), list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(site)
    page.get_by_role("slider", name="Smoothing").focus()
    page.keyboard.press("PageUp")
    assert violations(page) == []
    assert complaints == []
    context.close()


@NEEDS_CHROMIUM
def test_a_chart_is_whole_without_script(browser: Any, site: str) -> None:
    page = opened(browser, site, java_script_enabled=False)
    assert page.locator("polyline.curve").count() == 2
    assert page.locator(".chartbar, .reading").count() == 0
    assert "after step 60" in page.locator(".legend").last.inner_text()
    page.context.close()


@NEEDS_CHROMIUM
def test_a_live_page_keeps_what_was_chosen(browser: Any, site: str) -> None:
    page = opened(browser, site)
    page.get_by_role("slider", name="Smoothing").focus()
    page.keyboard.press("End")
    page.mouse.move(*at_step(page, 30))
    told = page.locator(".reading").inner_text()
    page.evaluate(
        """() => {
          const event = (name) => document.dispatchEvent(new Event(name)), live = document.getElementById("live");
          event("htmx:beforeSwap");
          const made = document.createElement("div");
          made.innerHTML = live.innerHTML;
          for (const one of made.querySelectorAll(".chartbar, .reading, .cursor, circle, polyline:not([data-name])"))
            one.remove();
          for (const one of made.querySelectorAll(".ready")) one.classList.remove("ready");
          live.replaceChildren(...made.childNodes);
          event("htmx:afterSwap");
        }"""
    )
    assert page.locator(".reading").inner_text() == told
    assert page.evaluate("document.activeElement.id") == "chart0-smooth"
    page.context.close()


@pytest.mark.parametrize("steps", [[1, 2], [3, 5, 7, 8, 100], [*range(1, 40_000, 3), 40_001]])
def test_the_script_is_told_the_points_that_are_drawn(steps: list[int]) -> None:
    values = [1 / step for step in steps]
    drawn = draw([("loss", [*zip(steps, values, strict=True)])], 50_000)
    first, *gaps = re.findall(r'data-steps="([^"]*)"', drawn)[0].split()
    found = [int(first)]
    for by, times in (gap.split("*") for gap in gaps):
        found += [found[-1] + int(by) * (k + 1) for k in range(int(times))]
    told = [*map(float, re.findall(r'data-values="([^"]*)"', drawn)[0].split())]
    assert (found[0], found[-1]) == (steps[0], steps[-1])
    assert len(found) == len(told) == len(re.findall(r' points="([^"]*)"', drawn)[0].split())
    assert len(found) <= MAX_POINTS + 1
    assert told == pytest.approx([1 / step for step in found], rel=1e-5)
    assert {*found} <= {*steps}
    assert len(drawn) < 11_000
