"""Unpack AppWorld's apps and create a synthetic world with tasks: ``prepare.py PACKAGES_DIR DATA_DIR``.

The data is laid out as AppWorld's own: base databases, API documentation, tasks, and lists of task ids.
What is written here derives in part from AppWorld's protected apps: it stays on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGES, DATA = Path(sys.argv[-2]).resolve(), Path(sys.argv[-1]).resolve()
os.environ["APPWORLD_ROOT"] = str(DATA.parent)
_UNPACKED = tempfile.mkdtemp(prefix="appworld-")
os.environ["APPWORLD_CACHE"] = _UNPACKED

from appworld.install import install_package  # noqa: E402


def main() -> None:
    """Write the apps, the world and the tasks."""
    install_package()
    # The tests of the package are not needed.
    shutil.rmtree(_UNPACKED)
    # After the apps are there.
    from appworld.common.path_store import PathStore

    PathStore.data = property(lambda _: str(DATA))
    from .archive import pack
    from .scenario import read_scenarios

    pack(PACKAGES, PACKAGES / "agent_packages.zip")
    _make_base()
    ids: dict[str, list[str]] = {"own": []}
    for scenario in read_scenarios():
        for number, variant in enumerate(scenario.variants, start=1):
            task_id = f"{scenario.name}_{number}"
            _make_task(task_id, scenario, variant)
            ids["own"].append(task_id)
            # The last variant of each scenario is kept for tests.
            split = "own_test" if number == len(scenario.variants) else "own_train"
            ids.setdefault(split, []).append(task_id)
    (DATA / "datasets").mkdir()
    for name, names in ids.items():
        (DATA / "datasets" / f"{name}.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    print(f"{len(ids['own'])} synthetic tasks")  # noqa: T201


def _make_base() -> None:
    from appworld.apps import get_all_apps
    from appworld.apps.api_lib import clear_local_dbs_cache, set_local_date_and_time
    from appworld.collections.api_docs import ApiDocCollection
    from appworld.collections.apis import ApiCollection
    from appworld.collections.models import ModelCollection
    from appworld.common.constants import CANARY_STRING

    from .content import NOW, add_content
    from .people import add_people

    apps = get_all_apps()
    live = ":memory:base-build"
    set_local_date_and_time(NOW)
    models = ModelCollection.load(
        to_db_home_path=live, from_db_home_path=live, load_apps=apps, create_db=True
    )
    docs = ApiDocCollection.build(load_apps=tuple(get_all_apps(skip_admin=True)))
    standard = DATA / "api_docs" / "standard"
    standard.mkdir(parents=True)
    for app, entries in docs.items():
        marked = {name: {**entry, "canary_string": CANARY_STRING} for name, entry in entries.items()}
        (standard / f"{app}.json").write_text(json.dumps(marked), encoding="utf-8")
        for entry in entries.values():
            fields = {key: value for key, value in entry.items() if key != "app_name"}
            models.api_docs.ApiDoc(app_name_=app, **fields).save()
    add_people(models)
    apis, _ = ApiCollection.load(
        to_db_home_path=live,
        from_db_home_path=live,
        date_and_time=NOW,
        load_apps=apps,
        allow_datetime_change=True,
        max_num_requests=None,
    )
    add_content(apis, models)
    models.save(db_home_path=str(DATA / "base_dbs"), format="full", app_names=apps, save_model_hashes=True)
    apis.close()
    clear_local_dbs_cache()


def _make_task(task_id: str, scenario: Any, variant: dict[str, Any]) -> None:  # noqa: ANN401
    from appworld.apps import get_all_apps
    from appworld.apps.api_lib import clear_local_dbs_cache
    from appworld.collections.models import ModelCollection
    from appworld.common.constants import CANARY_STRING, DB_VERSION

    from .content import NOW
    from .people import APPS, ME
    from .scenario import evaluation_source, labels

    folder = DATA / "tasks" / task_id
    apps = get_all_apps()
    models = ModelCollection.load(
        to_db_home_path=f":memory:build-{task_id}", from_db_home_path=str(DATA / "base_dbs"), load_apps=apps
    )
    about = {"first_name": ME.first_name, "last_name": ME.last_name, "email": ME.email}
    about["phone_number"] = ME.phone_number
    supervisor = models.supervisor.Supervisor(**about, birthday=ME.birthday, sex=ME.sex)
    supervisor.save()
    for app in APPS:
        models.supervisor.AccountPassword(
            supervisor_id=supervisor.id, account_name=app, password=ME.password(app)
        ).save()
    instruction = scenario.instruction_of(variant)
    models.supervisor.Task(supervisor_id=supervisor.id, instruction=instruction).save()
    models.save(db_home_path=str(folder / "dbs"), format="changes", app_names=apps, save_model_hashes=True)
    clear_local_dbs_cache()
    specs = {
        "instruction": instruction,
        "supervisor": about,
        "datetime": NOW.isoformat(),
        "db_version": DB_VERSION,
        "canary_string": CANARY_STRING,
    }
    (folder / "specs.json").write_text(json.dumps(specs), encoding="utf-8")
    truth = folder / "ground_truth"
    truth.mkdir()
    cells = scenario.cells(variant)
    metadata = {
        "difficulty": scenario.difficulty,
        "mode": "minimal",
        "num_apps": len(scenario.apps),
        "num_apis": sum(cell.count("apis.") for cell in cells),
        "num_api_calls": sum(cell.count("apis.") for cell in cells),
        "num_solution_code_lines": sum(len(cell.splitlines()) for cell in cells),
    }
    contents: dict[str, Any] = {
        "test_data": labels(scenario, variant),
        "public_data": {},
        "private_data": {},
        "answer": variant.get("answer"),
        "metadata": metadata,
        "reference": cells,
    }
    for name, content in contents.items():
        (truth / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    (truth / "evaluation.py").write_text(evaluation_source(scenario, variant), encoding="utf-8")


if __name__ == "__main__":
    main()
