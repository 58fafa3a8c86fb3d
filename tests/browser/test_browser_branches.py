"""The tree of branches: shown where there are several, and each is one question away."""

import pytest
from inspector_pages import has_text, run_inspector, wait_until

import refold


def say_turns(session, topic, count):
    for turn in range(count):
        session.say({"role": "user", "content": f"{topic} {turn}?"})
        session.prepare()
        session.observe({"usage": {"input_tokens": session.budget().used, "output_tokens": 9}})
        session.say({"role": "assistant", "content": f"{topic} {turn}."})


@pytest.fixture
def store(tmp_path):
    address = f"sqlite:{tmp_path}/branches.db"
    with refold.open("talk", store=address, model="claude-sonnet-4-5") as session:
        say_turns(session, "commas", 6)
        session.rewind("#8")
        session.say("a question on the side <img src=x onerror=alert(1)>")
        session.rewind("#4")
        say_turns(session, "tabs", 5)
    with refold.open("straight", store=address) as session:
        session.say("one branch")
    return address


def test_a_branch_is_seen_in_the_tree_and_gone_to(watch, store):
    with run_inspector(store) as url:
        seen = watch(url)
        page = seen.session("talk")
        assert has_text(page, "3 branches")
        assert page.locator(".tree").count() == 0
        page.locator(".branches summary").press("Enter")
        rows = page.locator(".tree li")
        rows.nth(2).wait_for()
        assert [text.split("\n")[0] for text in rows.all_inner_texts()] == ["#1–#14", "└ #5–#12", "└ #9"]
        assert "leaves at #8 · 1 message" in rows.nth(2).inner_text()
        assert "onerror=alert(1)" in rows.nth(2).inner_text()
        assert "branch" in page.inner_text(".meter figcaption")
        page.get_by_role("button", name="go to the branch that ends at #12").click()
        page.locator("dialog.box button", has_text="Rewind").click()
        assert has_text(page, "The session stands at #12")
        wait_until(page, "document.querySelector('.tree li')?.textContent.includes('#1–#12')")
        page.locator(".row .m-line", has_text="commas 5.").wait_for()
        seen.session("straight")
        assert page.locator(".branches").count() == 0
    with refold.open("talk", store=store) as session:
        assert session.stats().said == 12


def test_read_only_shows_the_tree_without_the_way(watch, store):
    with run_inspector(store, "--inspect-read-only") as url:
        page = watch(url).session("talk")
        page.locator(".branches summary").click()
        assert page.locator(".tree li").count() == 3
        assert page.locator(".tree button").count() == 0
