"""Serve a ranker over HTTP with FastAPI, from the exported Python module alone.

The service needs FastAPI and the file that `precede.export` wrote; precede is used here only to
make one. Requests are limited in bytes and rows, an error names the field, and a new model is
loaded when its file is replaced; all rows of a request are scored by the same model.

    uvicorn --factory serve_with_fastapi:service      # MODEL=ranker.py in the environment
"""

import asyncio
import os
import tempfile
import threading
from pathlib import Path

from precede import RankBoost, export
from precede.datasets import search_results

try:
    import httpx
    from fastapi import FastAPI, HTTPException
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from pydantic import BaseModel, ConfigDict, Field, create_model
except ImportError:
    FastAPI = None

MOST_BYTES = 2_000_000
MOST_ROWS = 5_000


class Served:
    """The model in a file, read again when the file is another.

    A file that cannot be used changes nothing but `problem`.
    """

    def __init__(self, path):
        self._path = Path(path)
        self._lock = threading.Lock()
        self._stamp, self._module, self.problem = None, None, None
        self.current()
        if self._module is None:
            raise ValueError(self.problem)

    def current(self):
        """The module of now; keep it for the whole request."""
        try:
            found = self._path.stat()
        except OSError as error:
            self._stamp, self.problem = None, f"{self._path.name}: {error.strerror}"
            return self._module
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        if stamp != self._stamp:
            with self._lock:
                if stamp != self._stamp:
                    self._take_up(stamp)
        return self._module

    def _take_up(self, stamp):
        module, self.problem = {}, None
        try:
            exec(compile(self._path.read_text(encoding="utf-8"), str(self._path), "exec"), module)
            if self._module is not None and module["NAMES"] != self._module["NAMES"]:
                raise ValueError("the new model has other features; start another service for it")
            self._module = module  # one assignment: a request sees the old model or the new
        except Exception as error:
            self.problem = f"{self._path.name}: {error}"
        self._stamp = stamp


class Limit:
    """Refuse bodies that are too long, before they are read to their end."""

    def __init__(self, app, most):
        self._app, self._most = app, most

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._most:
                text = b'{"detail": "the body is longer than %d bytes"}' % self._most
                start = {"type": "http.response.start", "status": 413,
                         "headers": [(b"content-type", b"application/json")]}  # fmt: skip
                await send(start)
                await send({"type": "http.response.body", "body": text})
                return
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay():
            return parts.pop() if parts else await receive()

        await self._app(scope, replay, send)


def create_app(path, most_rows=MOST_ROWS, most_bytes=MOST_BYTES):
    """An application that scores rows with the model in a file."""
    served = Served(path)
    names = served.current()["NAMES"]
    # A row is an object with one number, or null, for each feature. Numbers only: no texts.
    fields = {f"x{j}": (float | None, Field(alias=name)) for j, name in enumerate(names)}
    strict = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    row = create_model("Row", __config__=strict, **fields)

    class Candidates(BaseModel):
        model_config = ConfigDict(extra="forbid")
        rows: list[row] = Field(min_length=1, max_length=most_rows)

    app = FastAPI(title="ranker")

    @app.post("/score")
    def score(candidates: Candidates):
        module = served.current()
        rows = [list(each.__dict__.values()) for each in candidates.rows]
        return {"scores": module["scores"](rows)}

    @app.exception_handler(RequestValidationError)
    def explain(_, error):
        # Without what was sent: it may be long, and NaN could not be sent back.
        found = [{key: each[key] for key in ("loc", "msg", "type")} for each in error.errors()]
        return JSONResponse({"detail": found[:20]}, 422)

    @app.get("/health")
    def health():
        module = served.current()
        if served.problem:
            raise HTTPException(503, served.problem)
        return {"features": module["NAMES"]}

    app.add_middleware(Limit, most=most_bytes)
    return app


def service():
    """The application for uvicorn."""
    return create_app(os.environ["MODEL"])


async def ask(app, requests, meanwhile=None):
    """Send requests at once, as a client would, and give the answers."""
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://ranker") as client:
        waiting = [asyncio.create_task(client.post("/score", **each)) for each in requests]
        if meanwhile is not None:
            await asyncio.to_thread(meanwhile)
        return await asyncio.gather(*waiting)


def main():
    if FastAPI is None:
        print("this example needs FastAPI: pip install fastapi httpx")
        return
    sample = search_results(40, features=5, informative=4, per_query=25, random_state=0)
    first, second = (
        RankBoost(n_estimators=rounds).fit(sample.X, sample.y, qid=sample.qid)
        for rounds in (20, 40)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ranker.py"
        export(first, path)
        app = create_app(path)
        rows = [{f"x{j}": x for j, x in enumerate(row)} for row in sample.X[:100].tolist()]
        good, wrong = {"json": {"rows": rows}}, {"json": {"rows": [{**rows[0], "x1": "tall"}]}}
        # A new model, while requests come in.
        answers = asyncio.run(ask(app, [good] * 20, meanwhile=lambda: export(second, path)))
        old, new = (model.predict(sample.X[:100]).tolist() for model in (first, second))
        assert all(answer.json()["scores"] in (old, new) for answer in answers)
        last, refused = asyncio.run(ask(app, [good, wrong]))
        assert last.json()["scores"] == new
        (error,) = refused.json()["detail"]
        print(refused.status_code, error["loc"], error["msg"])


if __name__ == "__main__":
    main()
