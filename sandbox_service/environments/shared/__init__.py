"""What several environments are made of: ``box`` is in every box, ``service`` is in the service alone."""
