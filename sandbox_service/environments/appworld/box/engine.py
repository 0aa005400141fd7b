"""AppWorld's engine in this process: databases in memory, its apps, and the opening of one task.

The databases are loaded before any fork, so that a world's own memory is what its task changes. All parts
are AppWorld's own: models, apps, requester, change tracking. Not used is its ``AppWorld`` class, which
would run the agent's code here, write to disk and keep threads.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import random
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import importing  # noqa: F401  # isort: skip  # before AppWorld
from appworld.apps import build_main_app, get_all_apps
from appworld.apps.api_lib import set_local_date_and_time
from appworld.apps.model_lib import CachedDBHandler, ModelHashHandler, apply_db_changes, db_home_to_app_path
from appworld.apps.supervisor.constants import TASK_STATUS_LITERAL
from appworld.collections.api_docs import ApiDocCollection
from appworld.collections.apis import _wrap_api_request
from appworld.collections.models import ModelCollection
from appworld.common.constants import DB_VERSION
from appworld.common.path_store import PathStore
from appworld.common.utils import get_name_to_apis, get_type_args
from appworld.requester import Requester, _get_api_name_to_doc

from .clock import hold_clock
from .transport import AppClient, Guard, run_endpoints_in_place

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

OUTPUT = ":memory:task_output-world"
"""Folder of the live databases, by AppWorld's way of naming it."""
BEGINNING = ":memory:task_input-world"
"""Folder of the databases that an evaluation compares the live ones with."""
_SEED = 100
_MOST_CALLS = 1000
"""AppWorld's own bound of API calls in one execution."""
_FIRST_MOMENT = "2023-05-18T12:00:00"
_PLACEHOLDER = re.compile(r"\\\{[^}]*\\\}")


class ApiAnswer(NamedTuple):
    """The outcome of one API call."""

    value: Any
    printed: str


class TaskSpecs(NamedTuple):
    """The public part of a task."""

    instruction: str
    supervisor: JsonObject
    moment: datetime.datetime


class AppWorldEngine:
    """One warm AppWorld, and at most one open task."""

    def __init__(self, data: str) -> None:
        """Load everything that does not depend on a task. No thread is left."""
        self._data = Path(data)
        _settle(self._data)
        self._freezer = hold_clock(_FIRST_MOMENT)
        run_endpoints_in_place()
        self._all = [*get_all_apps()]
        base = str(self._data / "base_dbs")
        # Loaded before the live ones, which have to be the current ones of AppWorld's models.
        ModelCollection.load(BEGINNING, base, self._all)
        self.models = ModelCollection.load(OUTPUT, base, self._all)
        self.apis = {app: _public_apis(app) for app in sorted(self._all)}
        self._guard = Guard(build_main_app(tuple(sorted(self._all))))
        Requester.clients[tuple(sorted(self._all))] = AppClient(self._guard)
        paths = {(app, api): _path(app, api) for app, names in self.apis.items() for api in names}
        self._routes = {app: [_route(paths[app, api]) for api in names] for app, names in self.apis.items()}
        self._nowhere = {key: "/".join(path.split("/")[:3]) + "/-/-/-/-" for key, path in paths.items()}
        # With the arguments of AppWorld's own call: its cache goes by them.
        ApiDocCollection.load(load_apps=tuple(get_all_apps(skip_admin=True)), include_response_schemas=True)
        self._requester: Requester | None = None
        self._rehearse()

    def _rehearse(self) -> None:
        """Make each app answer once, without effect: what is made lazily is there then."""
        self._requester = Requester(OUTPUT, OUTPUT, load_apps=self._all, raise_on_failure=False)
        for app, names in self.apis.items():
            for api in names:
                if _method(app, api) == "GET" or api == "login":
                    with contextlib.suppress(Exception):
                        self.call(
                            app, api, {"username": "nobody", "password": "none", "access_token": "none"}
                        )
        self._requester = None

    def specs(self, task_id: str) -> TaskSpecs:
        """Return instruction, supervisor and date of a task. Raises OSError, KeyError or ValueError."""
        values = json.loads((self._task(task_id) / "specs.json").read_text(encoding="utf-8"))
        if values["db_version"] != DB_VERSION:
            raise ValueError(f"task {task_id} is of data version {values['db_version']}, not {DB_VERSION}")
        supervisor = values.get("supervisor") or values["main_user"]
        moment = datetime.datetime.fromisoformat(values["datetime"])
        return TaskSpecs(str(values["instruction"]), dict(supervisor), moment)

    def _task(self, task_id: str) -> Path:
        if not re.fullmatch(r"[\w:-]+", task_id):
            raise ValueError(f"no task id: {task_id!r}")
        return self._data / "tasks" / task_id

    def open(self, task_id: str) -> TaskSpecs:
        """Make the databases those of a task, and set the clock."""
        specs = self.specs(task_id)
        set_local_date_and_time(specs.moment)
        changes = self._change(OUTPUT, task_id)
        ModelHashHandler.load(changes, OUTPUT)
        self._requester = Requester(
            to_db_home_path=OUTPUT,
            from_db_home_path=changes,
            date_and_time=specs.moment,
            random_seed=_SEED,
            show_api_response_schemas=True,
            load_apps=self._all,
            raise_on_failure=True,
            max_num_requests=_MOST_CALLS,
        )
        return specs

    def load_beginning(self, task_id: str) -> None:
        """Make the databases under ``BEGINNING`` those of a task; the process should end after evaluating."""
        self._change(BEGINNING, task_id)

    def _change(self, home: str, task_id: str) -> str:
        """Change base databases to a task's; return the folder that says how."""
        changes = str(self._task(task_id) / "dbs")
        for app in self._all:
            self._apply(app, changes, home)
        return changes

    def _apply(self, app: str, changes: str, home: str) -> None:
        """Do what AppWorld does when it loads a task: take the base, and apply the task's changes to it."""
        path = db_home_to_app_path(changes, app, format="auto")
        database = self.models[app].SQLModel
        if path.endswith(".db") and Path(path).exists():
            CachedDBHandler.cache.pop(db_home_to_app_path(home, app))
            database.set_db(home, changes)
            return
        database.set_db(home)
        applied = apply_db_changes(database.db.connection, str(Path(changes) / f"{app}.jsonl"))
        database.db.tracker.add_changes(applied)

    def begin_execution(self) -> None:
        """Count API calls anew."""
        self._live().reset_request_count()

    def call(self, app: str, api: str, arguments: JsonObject, *, wrapped: bool = True) -> ApiAnswer:
        """Call a public API as the agent does, by ``apis`` or ``requester``; raises what AppWorld does."""
        if api not in self.apis.get(app, ()):
            what = (
                f"No app named '{app}' found."
                if app not in self.apis
                else f"No API named '{api}' found in the {app} app."
            )
            raise Exception(what)  # noqa: TRY002  # AppWorld's own text and class
        requester = self._live()
        self._guard.routes = self._routes[app]
        self._guard.nowhere = self._nowhere[app, api]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if wrapped:
                value = _wrap_api_request(app, api, requester)(**arguments)
            else:
                value = requester.request(app, api, **arguments)
        return ApiAnswer(value, printed.getvalue())

    def completed(self) -> bool:
        """Return whether the agent has said that the task is done."""
        requester = self._live()
        self._guard.routes = self._routes["supervisor"]
        task = requester.request("supervisor", "show_active_task", track=False)
        return task["status"] in get_type_args(TASK_STATUS_LITERAL)

    def _live(self) -> Requester:
        if self._requester is None:
            raise RuntimeError("no task is open")
        return self._requester


def _settle(data: Path) -> None:
    """Set the folder of AppWorld's data. It writes nowhere: nothing that would is used."""
    os.environ["APPWORLD_ROOT"] = str(data.parent)
    os.environ["APPWORLD_CACHE"] = "/nonexistent"
    # AppWorld signs with keys that are no secrets, and says so with each token.
    warnings.simplefilter("ignore")
    PathStore.data = property(lambda _: str(data))
    random.seed(_SEED)


def _public_apis(app: str) -> list[str]:
    """Return the APIs that an agent may call; the apps charge cards by functions of the bank's, not by these.

    AppWorld marks two APIs of ``admin`` as private and offers them all the same: they put money on a card.
    """
    return [] if app == "admin" else sorted(get_name_to_apis(app))


def _path(app: str, api: str) -> str:
    return str(_get_api_name_to_doc(app, include_private_apis=True)[api]["path"])


def _method(app: str, api: str) -> str:
    return str(_get_api_name_to_doc(app, include_private_apis=True)[api]["method"]).upper()


def _route(path: str) -> re.Pattern[str]:
    """Matches what can be made of a path; an empty value leads to the path above it."""
    return re.compile(_PLACEHOLDER.sub("[^/]*", re.escape(path)) + "/?")
