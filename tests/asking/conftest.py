"""A server of the page in this process, on items that try to be more than text."""

import http.client
import json
import socket
import threading
from types import SimpleNamespace

import pytest

ITEMS = """item,text,markdown,image
plain,"Two lines,
<script>alert('text')</script>",,
marked,,"# Title

Some **bold** text, <script>alert(1)</script>, <img src=x onerror=alert(2)>,
[a link](https://example.org), [no link](javascript:alert(3)) and ![a dot](dots/one%20dot.png).
",
dot,A dot.,,dots/one dot.png
drawing,,,dots/drawing.svg
<b>name</b> & co,last,,
sixth,six,,
seventh,seven,,
"""
# A picture of one pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0"
    "000003010100c9fe92ef0000000049454e44ae426082"
)
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(9)</script></svg>'
TOKEN = "the-token"


@pytest.fixture
def folder(tmp_path):
    """A folder with items and pictures, beside files that must not be served."""
    (tmp_path / "secret.png").write_bytes(b"secret")
    inside = tmp_path / "inside"
    (inside / "dots").mkdir(parents=True)
    (inside / "items.csv").write_text(ITEMS, encoding="utf-8")
    (inside / "dots" / "one dot.png").write_bytes(PNG)
    (inside / "dots" / "drawing.svg").write_text(SVG)
    (inside / "out.png").symlink_to(tmp_path / "secret.png")
    (inside / "up").symlink_to(tmp_path)
    (inside / "in.png").symlink_to(inside / "dots" / "one dot.png")
    return inside


@pytest.fixture
def served(folder):
    """A session on the items, and `ask`, which sends a request to its server."""
    pytest.importorskip("starlette", reason="precede[ask] is not installed")
    pytest.importorskip("uvicorn", reason="precede[ask] is not installed")
    from precede.asking.items import read_items
    from precede.asking.server import application, server_of
    from precede.asking.session import Session, VoteFile

    items = read_items(folder / "items.csv", folder)
    votes = VoteFile(folder / "votes.csv", items)
    session = Session(items, votes, goal="top@5", voter="ann", level=0.9)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = application(session, folder, token=TOKEN, port=port, question="Which <is> better?")
    server = server_of(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    origin = f"http://127.0.0.1:{port}"

    def ask(path, method="GET", *, headers=None, token=TOKEN):
        """Send a request as it is written; its status, headers, and content."""
        sent = {"Host": f"127.0.0.1:{port}"} | ({"Origin": origin} if method == "POST" else {})
        sent |= headers or {}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.putrequest(method, f"/{token}/{path}", skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders()
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        if reply.headers["content-type"] == "application/json":
            content = json.loads(content)
        return SimpleNamespace(status=reply.status, headers=reply.headers, content=content)

    yield SimpleNamespace(
        ask=ask, session=session, votes=votes, port=port, address=f"{origin}/{TOKEN}/",
        stop=lambda: setattr(server, "should_exit", True), thread=thread,
    )  # fmt: skip
    server.should_exit = True
    thread.join(30)
    listener.close()
    votes.close()
