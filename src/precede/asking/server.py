"""The server of ``precede ask``, for one person on this machine.

Other programs on the machine do not know the token in the address. Pages of other sites, open in
the same browser, are kept out by it and by the headers Host (a name of theirs that leads here) and
Origin (a request of theirs). What items contain cannot run: the page allows its own script only.
"""

from __future__ import annotations

import secrets
from importlib import resources
from pathlib import Path

import uvicorn
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from precede.asking.items import PICTURES, find_picture
from precede.asking.session import Session

HEADERS = {
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
# Of the page, which runs its own script only, and of drawings, which run none.
PAGE_POLICY = (
    "default-src 'none'; script-src 'nonce-{}'; style-src 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


def server_of(app: Starlette) -> uvicorn.Server:
    """Return a server that says nothing but errors."""
    return uvicorn.Server(uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", log_level="warning", access_log=False,
        server_header=False, timeout_graceful_shutdown=3,
    ))  # fmt: skip


def application(
    session: Session, folder: Path, *, token: str, port: int, question: str
) -> Starlette:
    """Return the page and what it calls, below ``/token/``."""
    files = resources.files("precede")
    style = files.joinpath("report/report.css").read_text("utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        files.joinpath("asking/page.html.j2").read_text("utf-8")
    )

    def page(_: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        html = template.render(
            question=question, nonce=nonce, style=Markup(style), votes=session.votes.path.name,
            level=f"{100 * session.level:g}\N{NO-BREAK SPACE}%",
        )  # fmt: skip
        return HTMLResponse(html, headers={"content-security-policy": PAGE_POLICY.format(nonce)})

    def change(request: Request) -> Response:
        turn, outcome = (request.query_params.get(name, "") for name in ("turn", "outcome"))
        if not (turn.isascii() and turn.isdecimal()):
            raise ValueError(f"turn={turn!r} is no number; load the page again")
        done, state = (
            session.undo(int(turn)) if outcome == "undo" else session.vote(int(turn), outcome)
        )
        return JSONResponse(state, 200 if done else 409)

    def picture(request: Request) -> Response:
        path = find_picture(folder, request.path_params["name"])
        if path is None:
            return _error("there is no such picture", 404)
        headers = {"content-security-policy": PICTURE_POLICY}
        return FileResponse(path, media_type=PICTURES[path.suffix.lower()], headers=headers)

    async def guard(request: Request, answer: RequestResponseEndpoint) -> Response:
        why = refusal(request, token, [f"127.0.0.1:{port}", f"localhost:{port}"])
        response = await answer(request) if why is None else _error(why, 403)
        response.headers.update(HEADERS)
        return response

    routes = [
        Route("/", page),
        Route("/pair", lambda _: JSONResponse(session.pair())),
        Route("/board", lambda _: JSONResponse(session.board())),
        Route("/change", change, methods=["POST"]),
        Route("/picture/{name:path}", picture),
    ]
    return Starlette(
        routes=[Mount("/{token}", routes=routes)],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)],
        exception_handlers={
            ValueError: lambda _, error: _error(str(error), 400),
            OSError: lambda _, error: _error(str(error), 500),
        },
    )


def refusal(request: Request, token: str, known: list[str]) -> str | None:
    """Return why a request is refused, None for one with the token, for a known host and from it.

    Browsers send an origin with all that changes something, and none when a page reads its own.
    """
    hosts, origins = (request.headers.getlist(name) for name in ("host", "origin"))
    if len(hosts) != 1 or hosts[0].lower() not in known:
        return f"the host is not {known[0]}"
    if (origins or request.method not in ("GET", "HEAD")) and origins != [f"http://{hosts[0]}"]:
        return "the request is not of this page"
    if not secrets.compare_digest(request.url.path.split("/")[1].encode(), token.encode()):
        return "the address lacks the token; open the address that precede ask printed last"
    return None


def _error(why: str, status: int) -> Response:
    return JSONResponse({"error": why}, status)
