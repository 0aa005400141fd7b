from typing import get_args

from trainer.config.engine import SyncConfig
from trainer.weight_sync.choice import TransportKind
from trainer.weight_sync.transports import TRANSPORTS


def test_every_kind_that_a_run_file_may_name_has_a_transport():
    named = set(get_args(SyncConfig.model_fields["transport"].annotation)) - {"auto"}
    assert named == set(get_args(TransportKind)) == set(TRANSPORTS)
