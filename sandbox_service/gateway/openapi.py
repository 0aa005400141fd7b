"""Build the OpenAPI document, with every model and every error of every route.

Hot routes are served without FastAPI; the table of operations describes them here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from fastapi import Body
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from sandbox_contract.problems import ERROR_SPECS, PROBLEM_MEDIA_TYPE, ErrorCode, Problem

from .operations import ANYWHERE, OPERATIONS, WITH_BODY, Operation

if TYPE_CHECKING:
    from starlette.routing import BaseRoute


OpenApi: TypeAlias = dict[str, Any]
"""An OpenAPI document, or a part of one, in FastAPI's representation."""
Responses: TypeAlias = dict[int | str, OpenApi]
"""Documented responses by status, as FastAPI takes them."""

SERVICE_TITLE = "Training sandbox"
"""Title of the document, by which ``/`` says what answers."""

_PROBLEM_REF = {"$ref": "#/components/schemas/Problem"}
_DESCRIPTION = """\
Train and evaluate LLM agents in stateful, graded environments: list tasks, create an instance of one, step
with assistant messages, evaluate, release. Every mutating call takes an idempotency key, in the body or as
`Idempotency-Key`. Errors are RFC 9457 problems with a stable `code` and a `failure_class`.
"""
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_SERVER_TIMING = {"description": "Milliseconds: queue, route, run.", "schema": {"type": "string"}}
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key."},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."},
}


def documented_problems(codes: Iterable[ErrorCode], *, keyed: bool = True) -> Responses:
    """Return the OpenAPI responses of error codes; ``keyed`` adds the errors of every route with API keys."""
    by_status: dict[int, list[ErrorCode]] = defaultdict(list)
    call_all = ANYWHERE if keyed else (ErrorCode.INVALID_REQUEST, ErrorCode.INTERNAL)
    for code in dict.fromkeys((*call_all, *codes)):
        by_status[ERROR_SPECS[code].status].append(code)
    return {status: _documented_problem(each) for status, each in sorted(by_status.items())}


def _documented_problem(codes: Sequence[ErrorCode]) -> OpenApi:
    response: OpenApi = {
        "description": "; ".join(f"`{code.value}`: {ERROR_SPECS[code].title}" for code in codes),
        "content": {PROBLEM_MEDIA_TYPE: {"schema": _PROBLEM_REF}},
        "x-error-codes": [code.value for code in codes],
    }
    if any(ERROR_SPECS[code].status in (429, 503) for code in codes):
        response["headers"] = {
            "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}
        }
    return response


def documented_route(
    path: str,
    name: str,
    request: object,
    result: object,
    responses: Responses,
    **details: Any,  # noqa: ANN401 - passed on to FastAPI
) -> APIRoute:
    """Return a route that only documents a path, which the gateway serves without FastAPI.

    Without a request model it takes any body, or none.
    """

    def described(body: object) -> None: ...

    described.__annotations__ = {"body": Annotated[request or Any, Body()]}
    if request is None:
        described.__defaults__ = (None,)
    return APIRoute(
        path,
        described,
        methods=["POST"],
        operation_id=name,
        response_model=result,
        responses=responses,
        **details,
    )


def _operation_route(operation: Operation) -> APIRoute:
    headers = [header_parameter("X-Request-Id", "Id of the request; generated if missing.")]
    if "idempotency_key" in operation.request.model_fields:
        described = "As `idempotency_key` in the body; both must agree."
        headers.append(header_parameter("Idempotency-Key", described))
    responses = documented_problems((*WITH_BODY, *operation.errors))
    if operation.op is not None:
        responses[200] = {"headers": {"Server-Timing": _SERVER_TIMING}}
    return documented_route(
        operation.path,
        operation.name,
        operation.request,
        operation.result,
        responses,
        summary=operation.summary,
        description=operation.request.__doc__,
        tags=["episodes"],
        openapi_extra={"parameters": headers},
    )


def header_parameter(name: str, description: str) -> OpenApi:
    """Return an optional header of 1 to 128 visible ASCII characters as a parameter."""
    schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": r"^[\x21-\x7e]+$"}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def build_openapi(
    routes: Sequence[BaseRoute], hot: Sequence[APIRoute], open_paths: Iterable[str], *, keyed: bool = False
) -> OpenApi:
    """Return the document of FastAPI's routes, the native operations and the other hot routes.

    ``keyed`` says that API keys are configured; otherwise no request needs one.
    """
    document = get_openapi(
        title=SERVICE_TITLE,
        version="1",
        description=_DESCRIPTION,
        routes=[*map(_operation_route, OPERATIONS), *routes, *hot],
    )
    schemas = document["components"]["schemas"]
    problem = Problem.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    document["components"]["securitySchemes"] = _SECURITY
    unlocked = set(open_paths)
    locked: list[OpenApi] = [{"bearer": []}, {"apiKey": []}, *([] if keyed else [{}])]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            operation["security"] = [] if path in unlocked else list(locked)
    _restore_whole_bounds(document)
    return document


def _restore_whole_bounds(part: object) -> None:
    """Turn the bounds that FastAPI made floats into integers: readers take 9.223372036854776e+18 for more."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in _BOUNDS and isinstance(value, float) and value.is_integer():
                part[name] = int(value)
            else:
                _restore_whole_bounds(value)
    elif isinstance(part, list):
        for each in part:
            _restore_whole_bounds(each)
