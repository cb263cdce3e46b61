"""The page in a real browser shows what the model in Python says, and reacts at once."""

import os
import statistics

import numpy as np
import pytest

from tests.explorer.conftest import HOSTILE, made

CLICK_TO_PAINT = """
const [selector, done] = arguments;
const started = performance.now();
document.querySelector(selector).click();
requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
"""


def page_state(page):
    return page.execute_script(
        "return {active: dynpart.active(), owners: dynpart.owners(), "
        "values: dynpart.reconstruction(), nats: dynpart.logLikelihood(), data: dynpart.data()}"
    )


def assert_agrees(report, shown):
    """The page's numbers are the model's."""
    H = report.code(shown["active"])
    np.testing.assert_array_equal(shown["owners"], report.model.partition(H)[0])
    np.testing.assert_allclose(shown["values"], report.model.inverse_transform(H)[0], atol=1e-6)
    x = np.array([shown["data"]])
    x = x.astype(np.uint8) if report.model.family_.n_levels == 2 else x
    expected = report.model.log_likelihood(x, H)[0]
    np.testing.assert_allclose(shown["nats"], expected, rtol=1e-4, atol=1e-3)


def busy(page):
    """Seconds the page has spent in its scripts, its styles and its layout."""
    metrics = page.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    counted = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
    return sum(metric["value"] for metric in metrics if metric["name"] in counted)


def click(page, selector):
    page.execute_script("document.querySelector(arguments[0]).click()", selector)


def test_every_data_point_comes_with_the_models_code(visit, digits):
    page = visit(digits)
    codes = digits.model.transform(digits.X)
    for n in (0, 1, 77, len(digits.X) - 1):
        page.execute_script("dynpart.choose(arguments[0])", n)
        shown = page_state(page)
        np.testing.assert_array_equal(shown["data"], digits.X[n])
        assert sorted(shown["active"]) == list(np.flatnonzero(codes[n]))
        assert_agrees(digits, shown)


@pytest.mark.parametrize("report", ["digits", "table"])
def test_switching_experts_changes_the_numbers_as_the_model_says(visit, report, request):
    report = request.getfixturevalue(report)
    page = visit(report)
    for k in range(report.model.n_experts):
        click(page, f'.card[data-expert="{k}"] .add')
        shown = page_state(page)
        if shown["active"]:
            assert_agrees(report, shown)
    while active := page_state(page)["active"]:
        click(page, f'.chip[data-expert="{active[0]}"]')
    assert set(page_state(page)["owners"]) == {-1}
    assert "nothing is explained" in page.find_element("id", "readout").text


def test_switching_an_expert_repaints_exactly_the_pixels_that_change_hands(visit, digits):
    page = visit(digits)

    def pixels():
        flat = page.execute_script(
            "const c = document.querySelectorAll('#pictures canvas')[1];"
            "const copy = new OffscreenCanvas(c.width, c.height);"
            "const context = copy.getContext('2d', {willReadFrequently: true});"
            "context.drawImage(c, 0, 0);"
            "return Array.from(context.getImageData(0, 0, c.width, c.height).data)"
        )
        return np.array(flat).reshape(-1, 4)

    before, owners_before = pixels(), np.array(page_state(page)["owners"])
    gone = page_state(page)["active"][1]
    click(page, f'.chip[data-expert="{gone}"]')
    owners_after = digits.model.partition(digits.code(page_state(page)["active"]))[0]
    assert (owners_before == gone).any()
    changed = (pixels() != before).any(axis=1)
    np.testing.assert_array_equal(changed, owners_before != owners_after)
    np.testing.assert_array_equal(changed, owners_before == gone)
    assert page.find_element("css selector", f'.chip[data-expert="{gone}"]').get_attribute(
        "aria-pressed"
    ) == "false"  # fmt: skip
    click(page, "#reset")
    np.testing.assert_array_equal(pixels(), before)


def test_the_pursuit_can_be_followed_step_by_step(visit, digits):
    page = visit(digits)
    story = digits.model.pursue(digits.X[:1])
    order = [int(k) for k in story.order[0] if k >= 0]
    steps = page.find_elements("css selector", ".step")
    assert len(steps) == len(order) > 1
    for count, step in enumerate(steps, start=1):
        step.click()
        shown = page_state(page)
        assert shown["active"] == order[:count]
        np.testing.assert_allclose(shown["nats"], story.log_likelihood[0, count - 1], atol=1e-3)


def test_experts_can_be_sorted_and_searched(visit, digits):
    page = visit(digits)

    def shown():
        return page.execute_script(
            "return [...document.querySelectorAll('.card')].filter(c => !c.hidden)"
            ".map(c => Number(c.dataset.expert))"
        )

    def choose(sort):
        page.execute_script(
            "const s = document.getElementById('expert-sort'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('change'))", sort
        )  # fmt: skip

    usage = digits.model.transform(digits.X).sum(axis=0, dtype=int)
    choose("used")
    assert shown() == sorted(range(12), key=lambda k: (-usage[k], k))
    choose("rare")
    assert shown() == sorted(range(12), key=lambda k: (usage[k], k))
    choose("active")
    active = page_state(page)["active"]
    assert sorted(shown()[: len(active)]) == sorted(active)
    choose("number")
    search = page.find_element("id", "expert-search")
    search.send_keys("7")
    assert shown() == [7]
    search.clear()
    search.send_keys("active")
    assert shown() == sorted(active)
    search.clear()
    search.send_keys("no such thing")
    assert shown() == []


def test_data_points_can_be_searched_by_row_and_by_expert(visit, digits):
    page = visit(digits)

    def shown():
        return page.execute_script(
            "return [...document.querySelectorAll('.sample')].map((s, n) => s.hidden ? -1 : n)"
            ".filter(n => n >= 0)"
        )

    search = page.find_element("id", "sample-search")
    search.send_keys("expert 3")
    codes = digits.model.transform(digits.X)
    assert shown() == list(np.flatnonzero(codes[:, 3]))
    search.clear()
    search.send_keys("17")
    assert shown() == [17]


def test_variables_of_a_table_are_searched_by_name(visit, table):
    page = visit(table)
    search = page.find_element("css selector", "#variables input")
    search.send_keys("çödé")
    rows = page.find_elements("css selector", ".variables tbody th")
    assert [row.get_attribute("textContent") for row in rows] == [HOSTILE[5]]


def test_hostile_names_stay_text(visit, table):
    page = visit(table)
    names = page.execute_script(
        "return [...document.querySelectorAll('.variables tbody th')].map(e => e.textContent)"
    )
    assert sorted(names) == sorted(HOSTILE)
    assert page.title == HOSTILE[0]
    assert page.find_element("id", "title").text == HOSTILE[0]
    labels = page.execute_script(
        "return [...document.querySelectorAll('.sample .name')].map(e => e.textContent)"
    )
    assert labels[:8] == [name + str(i) for i, name in enumerate(HOSTILE)]
    assert page.find_elements("css selector", "img, iframe, object, embed, link") == []
    assert len(page.find_elements("css selector", "script")) == 2
    for k in range(4):
        page.execute_script("document.querySelectorAll('.face')[arguments[0]].click()", k)
        page.execute_script("document.getElementById('detail').close()")


def test_keys_move_switch_and_step(visit, digits):
    page = visit(digits)
    body = page.find_element("tag name", "body")
    title = page.find_element("id", "sample-title")
    body.send_keys("\ue014")  # arrow right
    assert title.text == "Row 1"
    body.send_keys("\ue012")  # arrow left
    assert title.text == "Row 0"
    order = page_state(page)["active"]
    body.send_keys("[")
    assert page_state(page)["active"] == order[:-1]
    body.send_keys("]")
    assert page_state(page)["active"] == order
    body.send_keys("/")
    assert page.switch_to.active_element.get_attribute("id") == "expert-search"
    chip = page.find_element("css selector", ".chip")
    page.execute_script("arguments[0].focus()", chip)
    page.switch_to.active_element.send_keys("\n")
    assert len(page_state(page)["active"]) == len(order) - 1


@pytest.mark.parametrize("report", ["digits", "table"])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_in_light_and_dark(visit, report, dark, request):
    page = visit(request.getfixturevalue(report), width=360, height=740, dark=dark)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 360
    background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) == dark
    page.execute_script("document.getElementById('theme').click()")
    turned = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert turned != background


def test_pictures_and_buttons_have_words(visit, digits):
    page = visit(digits)
    page.execute_script("document.querySelector('.face').click()")
    nameless = page.execute_script(
        "return [...document.querySelectorAll('canvas, svg:not([aria-hidden])')]"
        ".filter(e => !e.getAttribute('aria-label')).length"
        " + [...document.querySelectorAll('button, input, select')].filter(e => !e.hidden &&"
        " !(e.getAttribute('aria-label') || e.textContent.trim() || e.title)).length"
    )
    assert nameless == 0


@pytest.mark.slow
def test_a_hundred_experts_and_five_hundred_samples_stay_small_and_quick(visit, large):
    assert large.n_bytes < 5_000_000
    page = visit(large)
    assert page.execute_script("return document.querySelectorAll('.sample').length") == 500
    page.set_script_timeout(20)
    clicks = [f'.card[data-expert="{k}"] .add' for k in range(0, 100, 5)]
    clicks += [f"#sample-{n}" for n in range(1, 11)]
    # The page's own work is counted in processor time, which other programs cannot stretch.
    page.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    work, waits = [], []
    for selector in clicks:
        before = busy(page)
        waits.append(page.execute_async_script(CLICK_TO_PAINT, selector))
        work.append(1000 * (busy(page) - before))
    page.execute_cdp_cmd("Performance.disable", {})
    print(
        f"report of 100 experts and 500 samples of 28 x 28: {large.n_bytes / 1e6:.2f} MB; a click "
        f"takes {statistics.median(work):.0f} ms of work and is on the screen after "
        f"{statistics.median(waits):.0f} ms (medians of {len(work)}, worst {max(work):.0f} and "
        f"{max(waits):.0f} ms, load of the machine {os.getloadavg()[0]:.1f})"
    )
    assert statistics.median(work) < 50
    if os.getloadavg()[0] < (os.cpu_count() or 1):
        assert statistics.median(waits) < 50
    assert_agrees(large, page_state(page))


def test_a_distribution_the_page_does_not_know_is_shown_without_a_score(
    visit, table, tmp_path, monkeypatch
):
    monkeypatch.setattr(type(table.model.family_), "is_normal", False)
    page = visit(made(tmp_path, "other", table.model, table.X))
    page.execute_script("dynpart.choose(3)")
    text = page.find_element("id", "readout").text
    assert "active" in text
    assert "as expected" in text
    assert "bits" not in text
    assert "NaN" not in text
