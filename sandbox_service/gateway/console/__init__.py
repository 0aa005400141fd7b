"""The console's routes; ``sandbox_service.console`` makes the pages that they answer with."""
