"""The application: routes, keys, limits, and answers whole or as a stream of events."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from smelt.errors import ArgumentError, BusyError, ContextLengthError, MissingFileError, SmeltError
from smelt.llm.engine import Event, Handle
from smelt.llm.language import LanguageModel
from smelt.llm.serve import schema
from smelt.llm.serve.answers import Shape, Written
from smelt.llm.serve.keys import Tenants
from smelt.llm.serve.metrics import Metrics
from smelt.llm.serve.schema import ApiError, Asked
from smelt.llm.tools import Form

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route
except ImportError as missing:
    raise MissingFileError("smelt serve needs starlette and uvicorn", hint="pip install 'smelt[serve]'") from missing

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_BODY_SECONDS: Final = 30.0  # that a client may take to send its request
_RETRY_SECONDS: Final = 1
_PORT: Final = re.compile(r":[0-9]*\Z")  # behind the name of a host
_OWNER: Final = "smelt.owner"  # in the scope of a request: the tenant whose key it brought

T = TypeVar("T")
Message = tuple[int, Event] | None  # a choice and what it is told; None: the client has gone


@dataclass(frozen=True)
class Limits:
    """What one request may take."""

    timeout: float = 300.0  # seconds
    max_tokens: int | None = None  # None: what the context holds


class Service:
    """The handlers of one model."""

    def __init__(self, model: LanguageModel, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.metrics = Metrics(model.engine)
        self.started = int(time.time())
        self._embedding = 0  # requests for embeddings that are not answered yet

    async def health(self, request: Request) -> Response:
        """Whether the engine runs."""
        return JSONResponse({"status": "ok"})

    async def metrics_text(self, request: Request) -> Response:
        """Figures for Prometheus."""
        return PlainTextResponse(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def models(self, request: Request) -> Response:
        """The models that can be asked for: one."""
        return JSONResponse({"object": "list", "data": [self._described()]})

    async def one_model(self, request: Request) -> Response:
        """One of the models."""
        self._check_model(request.path_params["name"])
        return JSONResponse(self._described())

    def _described(self) -> dict[str, Any]:
        return {"id": self.model.name, "object": "model", "created": self.started, "owned_by": "smelt"}

    def _check_model(self, name: str) -> None:
        if name and name != self.model.name:
            raise ApiError(
                f"there is no model {name!r:.80}; this is {self.model.name}",
                status=404, param="model", code="model_not_found",
            )  # fmt: skip

    async def tokenize(self, request: Request) -> Response:
        """The tokens of a text."""
        fields = schema.fields_of(await _body(request), {"text": schema.text}, ["text"])
        tokens = await run_in_threadpool(self.model.tokenizer.encode, fields["text"])
        return JSONResponse({"tokens": tokens})

    async def detokenize(self, request: Request) -> Response:
        """The text of tokens."""
        fields = schema.fields_of(await _body(request), {"tokens": schema.tokens}, ["tokens"])
        size = self.model.tokenizer.size
        if not all(0 <= token < size for token in fields["tokens"]):
            raise ApiError(f"tokens must be from 0 to {size - 1}", param="tokens", code="invalid_value")
        return JSONResponse({"text": self.model.tokenizer.decode(fields["tokens"])})

    async def chat(self, request: Request) -> Response:
        """`POST /v1/chat/completions`."""
        return await self._answer(request, schema.chat(await _body(request), secrets.randbits(64)), is_chat=True)

    async def completions(self, request: Request) -> Response:
        """`POST /v1/completions`."""
        return await self._answer(request, schema.completion(await _body(request), secrets.randbits(64)), is_chat=False)

    async def embeddings(self, request: Request) -> Response:
        """`POST /v1/embeddings`."""
        fields = schema.fields_of(await _body(request), schema.EMBEDDINGS, ["input"])
        self._check_model(fields.get("model", ""))
        self.model.engine.check_room(self._embedding)
        self._embedding += 1
        try:
            count, vectors = await _while_there(request, self._embedded(fields["input"]), self.limits.timeout)
        finally:
            self._embedding -= 1
        data = []
        for index, vector in enumerate(vectors):
            as_text = fields.get("encoding_format") == "base64"
            found = base64.b64encode(vector.astype("<f4").tobytes()).decode() if as_text else vector.tolist()
            data.append({"object": "embedding", "index": index, "embedding": found})
        usage = {"prompt_tokens": count, "total_tokens": count}
        return JSONResponse({"object": "list", "data": data, "model": self.model.name, "usage": usage})

    async def _embedded(self, texts: Sequence[Any]) -> tuple[int, list[Any]]:
        """How many tokens texts have, and their vectors; one at a time, so that others come in between."""
        prompts = await run_in_threadpool(lambda: [self.model.tokens(text) for text in texts])
        vectors = [await asyncio.wrap_future(self.model.embedding(prompt)) for prompt in prompts]
        return sum(map(len, prompts)), vectors

    async def _answer(self, request: Request, asked: Asked, is_chat: bool) -> Response:
        self._check_model(asked.model)
        messages: asyncio.Queue[Message] = asyncio.Queue()
        # Templates and grammars take their time, and other clients should not wait for them.
        deliver = partial(_delivered, asyncio.get_running_loop(), messages.put_nowait)
        form = self.model.tool_form() if asked.tools else None
        handles = await run_in_threadpool(self._submit, asked, form, request.scope[_OWNER], deliver)
        answer = _Running(Shape(asked, self.model.name, self.model.tokenizer.piece, is_chat, form), handles, messages)
        return _Stream(answer) if asked.stream else await answer.whole(request)

    def _submit(
        self, asked: Asked, form: Form | None, owner: str, deliver: Callable[[int, Event], None]
    ) -> list[Handle]:
        """Requests for all choices of all prompts, in order; all are queued, or none."""
        handles: list[Handle] = []
        limit = self.limits.max_tokens
        most = asked.max_tokens if limit is None else min(asked.max_tokens or limit, limit)
        try:
            for prompt in asked.prompts:
                tokens = self.model.tokens(prompt, asked.tools)
                for choice in range(asked.choices):
                    made = self.model.request(
                        tokens,
                        asked.seeded(choice),
                        max_tokens=most,
                        stop=asked.stop,
                        grammar=self._grammar(asked),
                        timeout=self.limits.timeout,
                        shown=form.markers if form is not None else (),
                        goes_on=asked.goes_on,
                    )
                    made.owner, made.deliver = owner, partial(deliver, len(handles))
                    handles.append(self.model.engine.submit(made))
        except BaseException:
            for handle in handles:
                handle.cancel()
            raise
        return handles

    def _grammar(self, asked: Asked) -> Any:
        if asked.forced:
            functions = [tool["function"] for tool in asked.tools]
            return self.model.tool_grammar([one for one in functions if one["name"] in asked.forced])
        if asked.schema is None:
            return None
        grammars = self.model.grammars
        return grammars.json_schema(asked.schema) if asked.schema else grammars.json_object()


def _delivered(loop: asyncio.AbstractEventLoop, put: Callable[[Message], None], index: int, event: Event) -> None:
    loop.call_soon_threadsafe(put, (index, event))


async def _gone(receive: Any) -> None:
    """Wait until the client goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _while_there(request: Request, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What work gives, which ends when its client has gone or its time is over."""
    doing, gone = asyncio.create_task(work), asyncio.create_task(_gone(request.receive))
    try:
        done, _ = await asyncio.wait({doing, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if doing in done:
            return doing.result()
        if gone in done:
            raise ClientDisconnect
        raise ApiError("the request was not finished: timeout", status=504, code="timeout")
    finally:
        doing.cancel()
        gone.cancel()


class _Running:
    """A request that is being answered. Whatever ends it cancels what is left of it."""

    def __init__(self, shape: Shape, handles: list[Handle], messages: asyncio.Queue[Message]) -> None:
        self.shape, self._handles, self._messages = shape, handles, messages

    async def events(self, receive: Any) -> AsyncIterator[tuple[int, Event]]:
        """What the choices are told, until all have ended or the client has gone."""

        async def watch() -> None:
            await _gone(receive)
            self._messages.put_nowait(None)

        watcher, left = asyncio.create_task(watch()), len(self._handles)
        try:
            while left:
                message = await self._messages.get()
                if message is None:
                    return
                left -= message[1].reason is not None
                yield message
        finally:
            watcher.cancel()
            for handle in self._handles:
                handle.cancel()

    async def whole(self, request: Request) -> Response:
        """The answer in one piece."""
        written = [Written() for _ in self._handles]
        async for index, event in self.events(request.receive):
            _check(event)
            one = written[index]
            one.text += event.text
            one.choices += [event.choice] if event.choice else []
            one.reason = event.reason
        if any(one.reason is None for one in written):
            raise ClientDisconnect
        return JSONResponse(self.shape.whole(written, self.usage()))

    async def pieces(self, receive: Any) -> AsyncIterator[dict[str, Any] | str]:
        """The answer as it comes."""
        for index in range(len(self._handles)):
            first = self.shape.begin(index)
            if first is not None:
                yield first
        finished = 0
        async for index, event in self.events(receive):
            try:
                _check(event)
            except ApiError as error:
                yield error.json()
                return
            finished += event.reason is not None
            for piece in self.shape.pieces(index, event):
                yield piece
        if finished == len(self._handles):
            if self.shape.asked.usage:
                yield self.shape.usage(self.usage())
            yield "[DONE]"

    def usage(self) -> dict[str, Any]:
        """How many tokens were read and written."""
        figures = [handle.figures for handle in self._handles]
        each = self.shape.asked.choices  # a prompt counts once, however many choices there are
        read = sum(one.prompt_tokens for one in figures[::each])
        wrote = sum(one.tokens for one in figures)
        details = {"cached_tokens": sum(one.reused_tokens for one in figures[::each])}
        return {
            "prompt_tokens": read,
            "completion_tokens": wrote,
            "total_tokens": read + wrote,
            "prompt_tokens_details": details,
        }


class _Stream(Response):  # type: ignore[misc]
    """Server-sent events."""

    def __init__(self, running: _Running) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-cache"})
        del self.headers["content-length"]
        self._running = running

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for piece in self._running.pieces(receive):
            text = piece if isinstance(piece, str) else json.dumps(piece, ensure_ascii=False)
            await send({"type": "http.response.body", "body": f"data: {text}\n\n".encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _check(event: Event) -> None:
    if event.reason == "error":
        raise ApiError(f"the request failed: {event.error}", status=500)
    if event.reason in ("timeout", "cancelled"):
        raise ApiError(f"the request was not finished: {event.reason}", status=504, code=event.reason)


async def _body(request: Request) -> bytes:
    """The body of a request, of bounded size and in bounded time."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        # Besides, no page in a browser can send this type here without asking first.
        raise ApiError("the content-type must be application/json", status=415)
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > schema.MOST_BODY:
                    raise ApiError(f"the body has more than {schema.MOST_BODY} bytes", status=413)
    except TimeoutError:
        raise ApiError("the body did not arrive in time", status=408) from None
    return body


class _Gate:
    """Lets those in who have a key; where there is none, those who address this machine by a name of its own, or
    everybody who gets here.
    """

    def __init__(self, app: Any, tenants: Tenants, everybody: bool) -> None:
        self._app, self._tenants, self._everybody = app, tenants, everybody

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            try:
                scope = scope | {_OWNER: self._owner(scope)}
            except ApiError as error:
                await JSONResponse(error.json(), error.status)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _owner(self, scope: Any) -> str:
        """Whose request it is; without keys all are of one owner."""
        headers = dict(scope["headers"])
        if not self._tenants:
            # A page of a stranger whose name leads here (DNS rebinding) sends that name.
            name = _PORT.sub("", headers.get(b"host", b"").decode("latin-1")).strip("[]") or "localhost"
            if self._everybody or name in LOOPBACK:
                return ""
            raise ApiError(f"this is not {name!r:.80}", status=403)
        if scope["path"] == "/health":
            return ""
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        found = self._tenants.name(given.strip()) if kind.lower() == b"bearer" else None
        if found is None:
            raise ApiError("the API key is missing or wrong", status=401, code="invalid_api_key")
        return found


def _told(error: SmeltError) -> ApiError:
    if isinstance(error, BusyError):
        return ApiError(error.told, status=429, code="queue_full", retry=_RETRY_SECONDS)
    if isinstance(error, ContextLengthError):
        return ApiError(error.told, param="messages", code="context_length_exceeded")
    if isinstance(error, MissingFileError):
        return ApiError(error.told, status=501)
    return ApiError(error.told)


async def _failed(request: Request, error: Exception) -> Response:
    told = error if isinstance(error, ApiError) else _told(error) if isinstance(error, SmeltError) else None
    if told is None:
        return Response(status_code=499)  # nobody is there any more
    headers = {"retry-after": str(told.retry)} if told.retry else None
    return JSONResponse(told.json(), told.status, headers)


async def _lost(request: Request, error: Exception) -> Response:
    status: int = getattr(error, "status_code", 404)
    return JSONResponse(ApiError(f"{request.method} {request.url.path} is not here", status=status).json(), status)


def application(
    model: LanguageModel,
    keys: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    *,
    everybody: bool = False,
) -> Any:
    """The ASGI application; with `keys` of names, whoever asks must bring one, and without, must be on this machine
    unless it is for `everybody`.
    """
    service = Service(model, limits or Limits())
    routes = [
        Route("/health", service.health),
        Route("/metrics", service.metrics_text),
        Route("/v1/models", service.models),
        Route("/v1/models/{name:path}", service.one_model),
        Route("/v1/chat/completions", service.chat, methods=["POST"]),
        Route("/v1/completions", service.completions, methods=["POST"]),
        Route("/v1/embeddings", service.embeddings, methods=["POST"]),
        Route("/tokenize", service.tokenize, methods=["POST"]),
        Route("/detokenize", service.detokenize, methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {
        ApiError: _failed,
        SmeltError: _failed,
        ClientDisconnect: _failed,
        404: _lost,
        405: _lost,
    }
    return _Gate(Starlette(routes=routes, exception_handlers=handlers), Tenants(keys or {}), everybody)


def bound(host: str, port: int, keys: Mapping[str, str] | None) -> socket.socket:
    """A socket at an address: what cannot be served is refused before a model is opened. Addresses that other machines
    reach need keys, or that it was said that there are none: `{}`.
    """
    if host not in LOOPBACK and keys is None:
        raise ArgumentError(
            f"{host} can be reached from other machines, and there is no key",
            hint="Set SMELT_API_KEY, name a file by --api-keys, or say --no-key if everybody may ask.",
        )
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        why = getattr(error, "strerror", None) or error
        raise ArgumentError(f"{host}:{port} cannot be served: {why}", hint="--port takes another one.") from None
    return made


def run(model: LanguageModel, at: socket.socket, keys: Mapping[str, str] | None, limits: Limits | None = None) -> bool:
    """Serve at an address until interrupted; whether answers could end, and nobody interrupted that, too."""
    from smelt.llm.serve.ending import Ending

    app = application(model, keys, limits, everybody=at.getsockname()[0] not in LOOPBACK)
    server = Ending(configured(app), model.engine)
    server.run(sockets=[at])
    return not server.was_forced


def configured(app: Any, **options: Any) -> Any:
    """How uvicorn is to serve an application."""
    import uvicorn

    from smelt.llm.serve.patience import Patient

    return uvicorn.Config(
        app, http=Patient, ws="none", log_level="error", timeout_keep_alive=30,
        h11_max_incomplete_event_size=1 << 16, limit_concurrency=512, lifespan="off", **options,
    )  # fmt: skip
