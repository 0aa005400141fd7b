"""The command line ``sandbox-service``: one file a command."""
