"""The command line ``sandbox-service``: one file per command."""
