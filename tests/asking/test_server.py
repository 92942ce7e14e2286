"""The server: whom it answers and with what, also after it was killed."""

import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from html.parser import HTMLParser

import pytest

from cli.session import run
from precede.files import read_votes

READING = ["", "pair", "board", "picture/in.png", "picture/dots/one%20dot.png"]
CHANGES = ["change?turn=0&outcome=a", "change?turn=0&outcome=undo"]


def vote(served, turn, outcome="a", **given):
    return served.ask(f"change?turn={turn}&outcome={outcome}", "POST", **given)


def test_the_page_and_what_it_calls(served):
    page = served.ask("")
    assert page.status == 200
    assert b"Which &lt;is&gt; better?" in page.content
    pair = served.ask("pair").content
    assert (pair["turn"], pair["votes"], pair["undoable"]) == (0, "0 votes", False)
    reply = vote(served, 0, "tie")
    assert reply.status == 200
    assert reply.content["note"] == "Saved: tie."
    board = served.ask("board").content
    assert board["settled"].startswith("the first five are settled to ")
    assert len(board["rows"]) == 7
    reply = served.ask("change?turn=1&outcome=undo", "POST")
    assert (reply.status, reply.content["votes"]) == (200, "0 votes")


def test_the_page_loads_nothing_and_runs_its_own_script_only(served):
    page = served.ask("")
    policy = page.headers["content-security-policy"]
    (nonce,) = re.findall(r"script-src 'nonce-([\w-]{20,})';", policy)
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert served.ask("").headers["content-security-policy"] != policy
    scripts = re.findall(rb"<script[^>]*>", page.content)
    assert scripts == [f'<script nonce="{nonce}">'.encode()]
    assert not re.search(rb"https?://|@import|url\(|\bon[a-z]+=", page.content)


@pytest.mark.parametrize(
    "token", ["", "the-toke", "the-token2", "THE-TOKEN", "%00", "%C3%A9", "x" * 9000]
)
def test_nothing_is_answered_without_the_token(served, token):
    for path in READING:
        assert served.ask(path, token=token).status == 403
    for path in CHANGES:
        assert served.ask(path, "POST", token=token).status == 403
    assert served.votes.rows == []


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}",
             "localhost", "[::1]:{port}", "x@127.0.0.1:{port}"],
)  # fmt: skip
def test_no_other_host_is_answered(served, host):
    """A name of another site may lead to this machine."""
    host = host and host.format(port=served.port)
    for path in READING:
        assert served.ask(path, headers={"Host": host}).status in (400, 403)
    for path in CHANGES:
        origin = f"http://{host}"
        assert served.ask(path, "POST", headers={"Host": host, "Origin": origin}).status in (
            400,
            403,
        )
    assert served.votes.rows == []


@pytest.mark.parametrize(
    "origin", [None, "null", "", "http://evil.example", "https://127.0.0.1:{port}",
               "http://127.0.0.1", "http://localhost:{port}", "http://127.0.0.1:{port}.evil.example"],
)  # fmt: skip
def test_no_other_page_can_vote(served, origin):
    origin = origin and origin.format(port=served.port)
    for path in CHANGES:
        reply = served.ask(path, "POST", headers={"Origin": origin})
        assert (reply.status, reply.content) == (403, {"error": "the request is not of this page"})
    assert served.votes.rows == []
    if origin is not None:  # a page that reads from another site says so
        assert served.ask("pair", headers={"Origin": origin}).status == 403


def test_localhost_is_a_name_of_the_host(served):
    host = f"localhost:{served.port}"
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert served.ask("pair", headers={"Host": host}).status == 200
    assert vote(served, 0, headers=headers).status == 200


def test_reading_changes_nothing(served):
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
        origin = {"Origin": served.address.rsplit("/", 2)[0]}
        reply = served.ask("change?turn=0&outcome=a", method, headers=origin)
        assert reply.status == 405
    assert served.votes.rows == []


@pytest.mark.parametrize(
    "path",
    ["../secret.png", "%2e%2e/secret.png", "..%2fsecret.png", "dots/../../secret.png", "out.png",
     "up/secret.png", "/etc/hostname", "%2fetc%2fhostname", "items.csv", "votes.csv", "dots", "",
     "dots/one%20dot.png%00", "..%5csecret.png", "none.png"],
)  # fmt: skip
def test_nothing_but_pictures_of_the_folder_is_served(served, path):
    for prefix in ("picture/", "picture//", "picture/dots/../"):
        reply = served.ask(prefix + path)
        assert reply.status == 404, reply.content
        assert "secret" not in str(reply.content)


def test_the_name_of_a_file_outside_is_not_served(served, folder):
    assert served.ask(f"picture/{folder.parent}/secret.png").status == 404
    assert served.ask("../items.csv").status in (403, 404)


def test_a_picture_that_becomes_a_link_is_not_served(served, folder):
    assert served.ask("picture/in.png").content.startswith(b"\x89PNG")
    (folder / "in.png").unlink()
    (folder / "in.png").symlink_to(folder.parent / "secret.png")
    assert served.ask("picture/in.png").status == 404


def test_drawings_run_no_script(served):
    reply = served.ask("picture/dots/drawing.svg")
    assert reply.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in reply.headers["content-security-policy"]
    assert "script-src" not in reply.headers["content-security-policy"]


def test_nothing_is_kept_by_browsers_or_guessed(served):
    for path in [*READING, "picture/none.png", "none"]:
        headers = served.ask(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


class Scripts(HTMLParser):
    found = 0

    def handle_starttag(self, tag, attrs):
        self.found += tag == "script" or any(name.startswith("on") for name, _ in attrs)


def test_items_are_escaped(served):
    shown = set()
    for turn in range(40):
        reply = vote(served, turn).content
        shown |= {reply["left"], reply["right"]}
    parser = Scripts()
    for html in shown:
        parser.feed(html)
    assert parser.found == 0
    assert any("&lt;script&gt;alert(&#39;text" in html for html in shown)
    assert any("&lt;img src=x" in html for html in shown)


def test_two_windows_that_vote_on_the_same_pair(served):
    first = vote(served, 0, "a")
    second = vote(served, 0, "b")
    assert (first.status, second.status) == (200, 409)
    assert second.content["note"].startswith("Not saved: another window has answered")
    assert second.content | {"note": ""} == first.content | {"note": ""}
    assert [row[2] for row in served.votes.rows] == ["a"]
    assert served.ask("change?turn=0&outcome=undo", "POST").status == 409
    assert len(served.votes.rows) == 1


@pytest.mark.parametrize(
    "query",
    [
        "turn=x&outcome=a",
        "turn=-1&outcome=a",
        "outcome=a",
        "turn=0&outcome=c",
        "turn=%C2%B2",
        "turn=0",
        "",
    ],
)
def test_other_values_are_refused(served, query):
    reply = served.ask(f"change?{query}", "POST")
    assert reply.status == 400
    assert re.search(
        r"is no (number; load the page again|outcome; use 'a', )", reply.content["error"]
    )
    assert served.votes.rows == []


def test_a_file_that_was_changed_is_an_error_on_the_page(served):
    vote(served, 0)
    with open(served.votes.path, "a") as file:
        file.write("plain,dot,a,bob,a\n")
    reply = vote(served, 1)
    assert reply.status == 500
    assert "was changed by another program; start precede ask again" in reply.content["error"]
    assert len(read_votes(served.votes.path)) == 2


# -- the command ----------------------------------------------------------------------------------


class Command:
    """``precede ask`` in a process of its own."""

    def __init__(self, folder, *words):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "precede.cli", "ask", folder / "items.csv", "--votes",
             folder / "votes.csv", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        line = self.process.stdout.readline()
        address = re.fullmatch(r"http://(127\.0\.0\.1:(\d+))(/[\w-]{20,}/)\n", line)
        assert address, line + self.process.stderr.read()
        self.host, self.port, self.path = address[1], int(address[2]), address[3]

    def ask(self, path, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Origin": f"http://{self.host}"} if method == "POST" else {}
        connection.request(method, self.path + path, headers=headers)
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply.status, content

    def end(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        _, told = self.process.communicate(timeout=60)
        return self.process.returncode, told


@pytest.mark.skipif(os.name != "posix", reason="processes are killed by signals of POSIX")
def test_a_killed_process_loses_nothing_and_a_second_start_goes_on(folder):
    first = Command(folder)
    confirmed, some = 0, threading.Event()
    killer = threading.Thread(target=lambda: some.wait() and first.process.kill())
    killer.start()
    try:
        while first.ask(f"change?turn={confirmed}&outcome=a", "POST")[0] == 200:
            confirmed += 1
            if confirmed == 5:
                some.set()
    except OSError:  # it was killed, perhaps between saving and answering
        pass
    some.set()
    killer.join()
    first.end()
    assert confirmed >= 5
    saved = (folder / "votes.csv").read_text().splitlines()[1:]
    assert len(saved) in (confirmed, confirmed + 1)
    assert all(line.count(",") == 4 for line in saved)
    second = Command(folder, "--goal", "first", "--voter", "bob")
    assert second.path != first.path
    assert second.ask("change?turn=0&outcome=b", "POST")[0] == 200
    status, told = second.end(signal.SIGINT)
    assert status == 0
    assert f"{len(saved) + 1} votes in" in told.splitlines()[-1]
    votes = read_votes(folder / "votes.csv")
    assert len(votes) == len(saved) + 1
    assert votes["voter"].tolist() == ["me"] * len(saved) + ["bob"]
    assert len(run("leaderboard", folder / "votes.csv", "--json")[0].splitlines()) >= 2


def test_errors_of_the_command_name_the_value_and_the_remedy(folder, tmp_path, monkeypatch):
    items, votes = folder / "items.csv", ("--votes", tmp_path / "v.csv")
    bad = tmp_path / "bad.csv"
    bad.write_text("item,text\nx,1\nx,2\n")
    assert "the name 'x' is that of another row too" in run("ask", bad, *votes, code=1)[1]
    run("ask", items, code=2)
    run("ask", items, *votes, "--port", "70000", code=2)
    run("ask", tmp_path / "none.csv", *votes, code=3)
    assert "No such file" not in run("ask", items, *votes, "--folder", tmp_path / "n", code=3)[1]
    told = run("ask", items, *votes, "--goal", "best", code=1)[1]
    assert "'best' is unknown; use 'first', 'top@5'" in told
    told = run("ask", items, *votes, "--goal", "top@7", code=1)[1]
    assert "--goal top@7: there are 7 items; use --goal order" in told
    assert "0.95" in run("ask", items, *votes, "--level", "95", code=1)[1]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = run("ask", items, *votes, code=4)[1]
    assert "precede ask needs starlette: pip install 'precede[ask]'" in told


# -- a browser ------------------------------------------------------------------------------------

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium; set CHROMIUM to the path of a browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, served):
    """A function that opens the page in a window of a size; what it reports must be nothing."""
    contexts, reported = [], []

    def opened(width=1180, height=800):
        contexts.append(browser.new_context(viewport={"width": width, "height": height}))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: reported.append(str(error)))
        page.on("dialog", lambda dialog: (reported.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: request.url.startswith((served.address, "data:"))
                or reported.append(request.url))  # fmt: skip
        page.goto(served.address)
        page.wait_for_selector("#rows tr")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert reported == []


def wait_for_votes(page, number):
    page.wait_for_selector(f"#votes:text-is('{number} vote{'' if number == 1 else 's'}')")


def focused(page):
    return page.evaluate("document.activeElement.id || document.activeElement.dataset.outcome")


def test_voting_by_keyboard_alone(opened, served):
    page = opened()
    for number, (key, outcome) in enumerate(
        [("ArrowLeft", "a"), ("ArrowRight", "b"), ("ArrowDown", "tie")], 1
    ):
        page.keyboard.press(key)
        wait_for_votes(page, number)
        assert served.votes.rows[-1][2] == outcome
        assert page.inner_text("#note").startswith("Saved: ")
    page.keyboard.press("u")
    wait_for_votes(page, 2)
    assert page.inner_text("#note") == "Undone: tie. Here is the pair again."
    assert [row[2] for row in served.votes.rows] == ["a", "b"]
    order = []
    for _ in range(7):
        page.keyboard.press("Tab")
        order.append(focused(page))
        if order[-1] == "left":  # arrows vote wherever the focus is
            page.keyboard.press("ArrowDown")
            wait_for_votes(page, 3)
    assert [each for each in order if each] == ["left", "right", "a", "tie", "b", "undo"]
    for key in ("Shift+Tab", "Shift+Tab", "Enter"):
        page.keyboard.press(key)
    wait_for_votes(page, 4)
    page.keyboard.press("Control+ArrowLeft")
    page.keyboard.press("Alt+ArrowDown")
    page.wait_for_timeout(300)
    assert len(served.votes.rows) == 4


def test_a_key_held_down_is_one_vote(opened, served):
    page = opened()
    for _ in range(8):
        page.keyboard.down("ArrowLeft")  # repeats
    wait_for_votes(page, 1)
    page.keyboard.up("ArrowLeft")
    page.wait_for_timeout(300)
    assert len(served.votes.rows) == 1


def test_items_and_ranking_are_shown_and_run_nothing(opened, served):
    page = opened()
    seen = ""
    for number in range(1, 25):
        page.keyboard.press("ArrowLeft")
        wait_for_votes(page, number)
        seen += page.inner_text("#left") + page.inner_text("#right")
        assert page.locator("article script, article [onerror]").count() == 0
        page.wait_for_selector("article >> nth=0")
        broken = "[...document.querySelectorAll('article img')].map((i) => i.decode())"
        page.evaluate(f"Promise.all({broken})")  # fails for a picture that is not shown
    for part in ("<script>alert('text')</script>", "Some bold text", "A dot.", "[no link]"):
        assert part in seen
    page.wait_for_selector("#rows td.name:text-is('<b>name</b> & co')")
    assert re.fullmatch(r"the first five are settled to \d+ %", page.inner_text("#settled"), re.I)


@pytest.mark.parametrize("width", [320, 390])
def test_at_the_width_of_a_phone(opened, served, width):
    page = opened(width, 700)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    buttons = page.locator(".choices button")
    for number in range(3):
        box = buttons.nth(number).bounding_box()
        assert box["height"] >= 44
        assert box["width"] >= 44
        assert box["y"] + box["height"] <= 700  # on the screen, however long the items are
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        buttons.nth(number).click()
        wait_for_votes(page, number + 1)
        assert page.evaluate("scrollY") == 0  # the next pair is seen from its beginning
    buttons.nth(3).click()
    wait_for_votes(page, 2)
    left, right = (page.locator(f"#{side}").bounding_box() for side in ("left", "right"))
    assert left["y"] < right["y"]
    assert [row[2] for row in served.votes.rows] == ["a", "tie"]


def test_items_are_side_by_side_on_a_wide_screen(opened):
    page = opened()
    left, right = (page.locator(f"#{side}").bounding_box() for side in ("left", "right"))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] < right["x"]


def test_two_windows(opened, served):
    one, other = opened(), opened()
    one.keyboard.press("ArrowLeft")
    wait_for_votes(one, 1)
    other.keyboard.press("ArrowRight")
    wait_for_votes(other, 1)
    assert other.inner_text("#note").startswith("Not saved: another window has answered")
    assert other.inner_text("#left") == one.inner_text("#left")
    other.keyboard.press("ArrowRight")
    wait_for_votes(other, 2)
    assert [row[2] for row in served.votes.rows] == ["a", "b"]


def test_a_server_that_has_stopped_is_told(opened, served):
    page = opened()
    served.stop()
    served.thread.join(30)
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#note.bad:has-text('No answer: start precede ask again')")
    assert served.votes.rows == []


COLORS = """(css) => {
    const one = document.querySelector(css);
    let under = one;
    while (getComputedStyle(under).backgroundColor === "rgba(0, 0, 0, 0)") {
        under = under.parentElement;
    }
    return [getComputedStyle(one).color, getComputedStyle(under).backgroundColor];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_enough_contrast(opened, scheme):
    page = opened()
    page.emulate_media(color_scheme=scheme)
    for css in ("body", "article", ".soft", "#note", "button", "#undo", "td.name"):
        dark, light = sorted(luminance(color) for color in page.evaluate(COLORS, css))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, css


def luminance(color):
    parts = [int(each) / 255 for each in re.findall(r"\d+", color)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
