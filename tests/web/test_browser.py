"""The pages in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from .conftest import HOSTILE, LONG


@pytest.fixture(scope="module")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--window-size=1000,800", f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


def complaints(browser: Any) -> list[str]:
    """What the console says, but for the icon that browsers ask for by themselves."""
    found = [each["message"] for each in browser.get_log("browser")]
    return [each for each in found if "favicon.ico" not in each]


@pytest.mark.parametrize("page", ["", "tree", "storage", "operations", "diff?from=v1&to=main"])
def test_pages_load_without_complaints(browser: Any, site: str, page: str) -> None:
    browser.get(f"{site}/{page}")

    assert complaints(browser) == []
    assert browser.find_element(By.TAG_NAME, "h1").is_displayed()
    assert browser.title != "taken"


def test_the_history_is_drawn(browser: Any, site: str) -> None:
    browser.get(f"{site}/")

    drawing = browser.find_element(By.CSS_SELECTOR, ".graph svg")
    assert len(drawing.find_elements(By.TAG_NAME, "circle")) == 4
    assert drawing.size["height"] > 50


def test_a_click_on_an_array_shows_its_picture(browser: Any, site: str) -> None:
    browser.get(f"{site}/tree")

    browser.find_element(By.LINK_TEXT, "/climate/t").click()

    picture = browser.find_element(By.CSS_SELECTOR, "figure img")
    width = browser.execute_script("return arguments[0].naturalWidth", picture)
    assert width >= 60
    assert picture.get_attribute("alt")
    assert browser.find_elements(By.CSS_SELECTOR, "svg.chunks rect")
    assert complaints(browser) == []


def test_another_slice_can_be_asked_for(browser: Any, site: str) -> None:
    browser.get(f"{site}/array?path=/climate/t")
    field = browser.find_element(By.ID, "at")
    field.clear()
    field.send_keys("3", Keys.ENTER)

    assert "at=3" in browser.current_url
    assert "at=3" in browser.find_element(By.CSS_SELECTOR, "figure img").get_attribute("src")


def test_a_line_is_plotted(browser: Any, site: str) -> None:
    browser.get(f"{site}/array?path=/climate/line")

    assert browser.find_element(By.CSS_SELECTOR, "svg.plot path").is_displayed()


def test_the_keyboard_reaches_the_content_first(browser: Any, site: str) -> None:
    browser.get(f"{site}/tree")

    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    focused = browser.switch_to.active_element

    assert focused.text == "Skip to the content"
    focused.send_keys(Keys.ENTER)
    assert browser.current_url.endswith("#content")


@pytest.mark.parametrize("page", ["", "tree", "array?path=/climate/t"])
def test_screen_readers_find_their_way(browser: Any, site: str, page: str) -> None:
    browser.get(f"{site}/{page}")

    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
    assert len(browser.find_elements(By.TAG_NAME, "h1")) == 1
    assert len(browser.find_elements(By.TAG_NAME, "main")) == 1
    assert browser.find_element(By.TAG_NAME, "nav").get_attribute("aria-label")
    for image in browser.find_elements(By.TAG_NAME, "img"):
        assert image.get_attribute("alt")
    for drawing in browser.find_elements(By.CSS_SELECTOR, "svg[role=img]"):
        assert drawing.find_elements(By.TAG_NAME, "title")
    for head in browser.find_elements(By.CSS_SELECTOR, "thead th"):
        assert head.get_attribute("scope") == "col"
    for field in browser.find_elements(By.CSS_SELECTOR, "input:not([type=hidden])"):
        assert browser.find_elements(By.CSS_SELECTOR, f"label[for={field.get_attribute('id')}]")


def test_hostile_names_do_no_harm(browser: Any, site: str) -> None:
    browser.get(f"{site}/tree")
    cells = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "tbody th")]

    assert f"/{HOSTILE}" in cells
    assert f"/{LONG}" in cells
    assert browser.title != "taken"
    overflow = browser.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow <= 0


def test_the_report_works_without_a_server(browser: Any, report: Path) -> None:
    browser.get(report.as_uri())

    assert complaints(browser) == []
    browser.find_element(By.LINK_TEXT, "/climate/t").click()
    picture = browser.find_element(By.CSS_SELECTOR, "figure img")
    assert browser.execute_script("return arguments[0].naturalWidth", picture) >= 60
    assert browser.title != "taken"
