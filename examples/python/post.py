"""One POST request over `wasi:http`, which Python's own clients do not support."""

from urllib.parse import urlsplit

from componentize_py_types import Err, Ok
from wit_world.imports import outgoing_handler
from wit_world.imports.wasi_http_types import (
    Fields,
    Method_Post,
    OutgoingBody,
    OutgoingRequest,
    Scheme_Http,
    Scheme_Https,
)

SCHEMES = {"http": Scheme_Http(), "https": Scheme_Https()}
LONGEST_WRITE = 4096  # bytes; the maximum of one call


def post(url, headers, body):
    """Sends `body`, and returns the status of the response. Raises OSError without one."""
    try:
        with send(url, headers, body) as answer:
            return answer.status()
    except Err as error:
        raise OSError(error.value) from None


def send(url, headers, body):
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise OSError("a URL must start with http:// or https://")
    headers = {**headers, "content-length": str(len(body))}
    request = OutgoingRequest(
        Fields.from_list([(name, value.encode()) for name, value in headers.items()])
    )
    request.set_method(Method_Post())
    request.set_scheme(SCHEMES[parts.scheme])
    request.set_authority(parts.netloc)
    request.set_path_with_query((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))

    outgoing = request.body()
    with outgoing_handler.handle(request, None) as pending:
        write(outgoing, body)
        with pending.subscribe() as answered:
            answered.block()
        match pending.get():
            case Ok(Ok(response)):
                return response
            case Ok(Err(error)):
                raise OSError(error)
            case _:
                raise OSError("no answer")


def write(outgoing, body):
    with outgoing.write() as stream:
        for start in range(0, len(body), LONGEST_WRITE):
            stream.blocking_write_and_flush(body[start : start + LONGEST_WRITE])
    OutgoingBody.finish(outgoing, None)
