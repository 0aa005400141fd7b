"""A trajectory store of an earlier release."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Engine

from sandbox_service.trajectories import migrations


def migration_config() -> Config:
    """The configuration of the store's migrations."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("path_separator", "os")
    return config


def migrate(engine: Engine, target: str) -> None:
    """Bring a database to a revision, such as ``0003``."""
    config = migration_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, target)
