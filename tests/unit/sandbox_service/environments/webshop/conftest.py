"""Lets tests import the packages of the box where ``envs setup`` has installed them."""

import sys

from sandbox_service.environments.provisions import find

if (found := find("webshop")) is not None:
    sys.path.append(str(found.packages))
