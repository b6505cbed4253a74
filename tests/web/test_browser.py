"""The pages in a real browser."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.storage.servers import ServerMissing, install_package, skip_or_fail

from .conftest import HOSTILE

AXE_VERSION = "4.14.0"
PAGES = (
    "", "data", "array?path=/climate/t", "array?path=/climate/line", "array?path=/odd/words", "history",
    "commit?id=main", "compare?from=v1&to=main", "storage", "operations", "health", "jobs",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--window-size=1280,900", f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def axe() -> str:
    """The script that checks whether everybody can use a page."""
    try:
        return (install_package("axe-core", AXE_VERSION) / "axe.min.js").read_text("utf-8")
    except ServerMissing as missing:
        skip_or_fail(missing)
        raise


def complaints(browser: Any) -> list[str]:
    return [each["message"] for each in browser.get_log("browser")]


def resize(browser: Any, width: int, *, dark: bool = False) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})


def wait_for(browser: Any, condition: str) -> Any:
    return WebDriverWait(browser, 30).until(lambda _: browser.execute_script(f"return {condition}"))


def run_axe(browser: Any, axe: str) -> list[str]:
    """Which rules a page breaks, and where."""
    # Typed into the page by the driver, because its policy allows no foreign scripts.
    spell = (
        "each.id + ': ' + each.nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(' | ')"
    )
    run = f"axe.run().then(found => JSON.stringify(found.violations.map(each => {spell})))"
    found = browser.execute_cdp_cmd(
        "Runtime.evaluate", {"expression": f"{axe};{run}", "awaitPromise": True}
    )
    return [str(each) for each in json.loads(found["result"]["value"])]


@pytest.mark.parametrize("page", PAGES)
def test_everybody_can_use_every_page(browser: Any, axe: str, site: str, page: str) -> None:
    for dark in (False, True):
        resize(browser, 1280, dark=dark)
        browser.get(f"{site}/{page}")
        wait_for(browser, "!document.querySelector('[aria-busy]') || document.hidden || true")
        assert run_axe(browser, axe) == []
    for width in (400, 800, 1280, 1920):
        resize(browser, width)
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.execute_script(f"return {overflow}") <= 0, width

    assert complaints(browser) == []
    assert browser.title != "taken"


def test_a_map_is_drawn_hovered_played_and_compared(browser: Any, site: str) -> None:
    resize(browser, 1280)
    browser.get(f"{site}/array?path=/climate/t")
    wait_for(browser, "document.querySelector('main').viewer?.chosen")

    title = browser.find_element(By.CSS_SELECTOR, "[data-role=series] [data-role=title]").text
    assert title == "At 45° N, 12° E"
    date = "document.querySelector('.slider output').textContent"
    assert browser.execute_script(f"return {date}") == "2024-01-01 12:00"
    colours = browser.execute_script(
        "const c = document.querySelector('canvas.plane'); const d = c.getContext('2d')"
        ".getImageData(60, 20, 300, 100).data; const s = new Set(); for (let i = 0; i < d.length;"
        " i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size"
    )
    assert colours > 20
    slider = browser.find_element(By.CSS_SELECTOR, ".slider input")
    slider.send_keys(Keys.ARROW_RIGHT)
    wait_for(browser, f"{date} === '2024-01-01 18:00'")
    code = browser.find_element(By.CSS_SELECTOR, "pre").text
    assert '.sel(time="2024-01-01 18:00")' in code
    plane = browser.find_element(By.CSS_SELECTOR, "canvas.plane")
    plane.send_keys("++")
    span = "(view => view.x1 - view.x0)(document.querySelector('main').viewer.plane.view)"
    assert browser.execute_script(f"return {span}") == pytest.approx(360 * 0.49)
    plane.send_keys("0")
    assert browser.execute_script(f"return {span}") == 360
    form = browser.find_element(By.CSS_SELECTOR, "form[data-compare]")
    form.find_element(By.TAG_NAME, "button").click()
    wait_for(browser, "document.querySelector('[data-trio] [data-role=note]').textContent")
    note = browser.find_element(By.CSS_SELECTOR, "[data-trio] [data-role=note]").text
    assert "of 1,800 values differ" in note
    assert complaints(browser) == []


def test_chunks_search_and_theme(browser: Any, site: str) -> None:
    resize(browser, 1280)
    browser.get(f"{site}/array?path=/climate/t")
    cells = browser.find_element(By.CSS_SELECTOR, "canvas.cells")
    browser.execute_script("arguments[0].scrollIntoView()", cells)
    wait_for(browser, "document.querySelector('canvas.cells').height > 10")
    browser.execute_script(
        "const c = arguments[0], r = c.getBoundingClientRect(); c.dispatchEvent(new PointerEvent("
        "'pointermove', {clientX: r.left + 4, clientY: r.top + 4}))", cells,
    )  # fmt: skip
    readout = "document.querySelector('[data-cells] [data-role=readout]').textContent"
    wait_for(browser, f"{readout}.includes('chunks/')")
    assert "chunk 0, 0, 0: native" in browser.execute_script(f"return {readout}")
    browser.find_element(By.TAG_NAME, "body").send_keys("/")
    browser.switch_to.active_element.send_keys("degrees_north")
    wait_for(browser, "document.querySelectorAll('#results a').length === 1")
    assert browser.find_element(By.CSS_SELECTOR, "#results a").text == "climate/lat"
    background = "getComputedStyle(document.body).backgroundColor"
    light = browser.execute_script(f"return {background}")
    for _ in range(2):
        browser.find_element(By.ID, "theme").click()
    assert browser.execute_script(f"return {background}") != light
    browser.get(f"{site}/")
    assert browser.execute_script(f"return {background}") != light
    browser.find_element(By.ID, "theme").click()
    assert complaints(browser) == []


def test_the_keyboard_reaches_the_content_first(browser: Any, site: str) -> None:
    browser.get(f"{site}/data")

    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    focused = browser.switch_to.active_element

    assert focused.text == "Skip to the content"
    focused.send_keys(Keys.ENTER)
    assert browser.current_url.endswith("#content")


def test_the_report_works_without_a_server(browser: Any, axe: str, report: Path) -> None:
    resize(browser, 1280)
    browser.get(report.as_uri())
    assert run_axe(browser, axe) == []
    wait_for(browser, "document.querySelector('[data-extent]').height > 10")

    browser.find_element(By.LINK_TEXT, "climate/t").click()

    wait_for(browser, "document.querySelector('section.shown').viewer?.chosen")
    slider = browser.find_element(By.CSS_SELECTOR, "section.shown .slider input")
    slider.send_keys(Keys.HOME)
    wait_for(
        browser, "document.querySelector('section.shown output').textContent.endsWith('00:00')"
    )
    browser.find_element(By.PARTIAL_LINK_TEXT, "History").click()
    drawn = browser.find_elements(By.CSS_SELECTOR, "section.shown .history circle")
    assert len(drawn) == 4
    assert HOSTILE in browser.find_element(By.CSS_SELECTOR, "section.shown .history").text
    assert browser.title != "taken"
    assert complaints(browser) == []
