"""Serve a ranker over HTTP with FastAPI, from the exported Python module alone.

The service needs FastAPI and the file that `precede.export` wrote; precede is used here only to
make one. Requests are limited in bytes and rows before they are validated, and validation ends
with the first row that is wrong; the answer names the field. A new model is loaded when its file is
replaced, if it scores a row; otherwise the old one stays, and /health says why. All rows of a
request are scored by the same model.

    uvicorn --factory serve_with_fastapi:service      # MODEL=ranker.py in the environment
"""

import asyncio
import json
import math
import os
import tempfile
import threading
from pathlib import Path

from precede import RankBoost, export
from precede.datasets import search_results

try:
    import httpx
    from fastapi import FastAPI, HTTPException, Request
    from fastapi.concurrency import run_in_threadpool
    from pydantic import ConfigDict, Field, ValidationError, create_model
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
        if stamp != self._stamp and self._lock.acquire(blocking=False):
            try:  # one request loads; the others are answered by the old model meanwhile
                self._take_up()
                self._stamp = stamp
            finally:
                self._lock.release()
        return self._module

    def _take_up(self):
        module = {}
        try:
            exec(compile(self._path.read_text(encoding="utf-8"), str(self._path), "exec"), module)
            if self._module is not None and module["NAMES"] != self._module["NAMES"]:
                raise ValueError("the new model has other features; start another service for it")
            probe = module["scores"]([[0.0] * len(module["NAMES"])] * 2)
            if len(probe) != 2 or not all(map(math.isfinite, probe)):
                raise ValueError(f"two rows of zeros have the scores {probe}")
        except Exception as error:
            self.problem = f"{self._path.name}: {type(error).__name__}: {error}"
        else:
            self._module = module  # one assignment: a request sees the old model or the new
            self.problem = None


class Limit:
    """Refuse bodies that are too long, before they are read to their end."""

    def __init__(self, app, most):
        self._app, self._most = app, most

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        too_long = length.isdigit() and int(length[:20]) > self._most
        body, more = bytearray(), True
        while more:
            if not too_long:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body += message.get("body", b"")
                more = message.get("more_body", False)
            if too_long or len(body) > self._most:
                text = b'{"detail": "the body is longer than %d bytes"}' % self._most
                start = {"type": "http.response.start", "status": 413,
                         "headers": [(b"content-type", b"application/json")]}  # fmt: skip
                await send(start)
                await send({"type": "http.response.body", "body": text})
                return
        parts = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay():
            return parts.pop() if parts else await receive()

        await self._app(scope, replay, send)


def refuse(message, *where):
    """Answer 422 and say which part of the body is wrong."""
    raise HTTPException(422, [{"loc": ["body", *where], "msg": message}])


def parsed(body, row, most_rows):
    """The rows of a body, checked one by one until one is wrong: errors take long to describe."""
    known = {field.alias for field in row.model_fields.values()}
    in_names = sum(name.count("[") + name.count("{") for name in known)
    if body.count(b"[") + body.count(b"{") > 100 + 2 * most_rows * (1 + in_names):
        refuse(f"far more lists and objects than in {most_rows} rows")  # they are slow to parse
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        refuse(f"not JSON: {error}"[:200])
    if not isinstance(found, dict) or list(found) != ["rows"]:
        refuse("give an object with one field, rows")
    if not isinstance(found["rows"], list) or not 1 <= len(found["rows"]) <= most_rows:
        refuse(f"give a list of at least 1 and at most {most_rows} rows", "rows")
    rows = []
    for number, each in enumerate(found["rows"]):
        if isinstance(each, dict) and len(each) > len(known):
            extra = next(name for name in each if name not in known)
            refuse("Extra inputs are not permitted", "rows", number, extra[:200])
        try:
            rows.append(list(row.model_validate(each).__dict__.values()))
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False)[:20]
            where = ["body", "rows", number]
            detail = [{"loc": [*where, *each["loc"]], "msg": each["msg"]} for each in faults]
            raise HTTPException(422, detail) from None
    return rows


def create_app(path, most_rows=MOST_ROWS, most_bytes=MOST_BYTES):
    """An application that scores rows with the model in a file."""
    served = Served(path)
    names = served.current()["NAMES"]
    # A row is an object with one number, or null, for each feature. Numbers only: no texts.
    fields = {f"x{j}": (float | None, Field(alias=name)) for j, name in enumerate(names)}
    strict = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    row = create_model("Row", __config__=strict, **fields)

    rows = {"type": "array", "items": row.model_json_schema(), "minItems": 1, "maxItems": most_rows}
    body = {"type": "object", "properties": {"rows": rows}, "required": ["rows"],
            "additionalProperties": False}  # fmt: skip
    shown = {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}

    app = FastAPI(title="ranker")

    def scored(text):
        module, rows = served.current(), parsed(text, row, most_rows)
        scores = module["scores"](rows)
        if not all(map(math.isfinite, scores)):
            number = next(i for i, each in enumerate(scores) if not math.isfinite(each))
            refuse("the row has no score: a feature is missing or too large", "rows", number)
        return {"scores": scores}

    @app.post("/score", openapi_extra=shown)
    async def score(request: Request):
        # FastAPI would validate the body on the event loop, while all other clients wait.
        return await run_in_threadpool(scored, await request.body())

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
        RankBoost(n_estimators=rounds, learning_rate=0.1).fit(sample.X, sample.y, qid=sample.qid)
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
