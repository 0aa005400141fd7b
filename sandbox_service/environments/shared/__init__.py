"""Parts of several environments: ``box`` is in every box, ``service`` is in the service alone."""
