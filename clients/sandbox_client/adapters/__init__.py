"""Adapters that let other frameworks' own clients play the service's environments.

Each module needs the framework it is named after and is imported only by those who use it:

    sandbox_client.adapters.gymnasium    a gymnasium.Env
    sandbox_client.adapters.trl          environment_factory of TRL's trainers
    sandbox_client.adapters.mcp          an MCP server with an instance's tools
    sandbox_client.adapters.openenv      OpenEnv's /ws, /schema, /health and task routes
    sandbox_client.adapters.harbor       an environment provider of Harbor
    sandbox_client.adapters.nemo_gym     NeMo Gym's resources server, which verifiers plays, too
    sandbox_client.adapters.verifiers    a taskset of verifiers, which loads it as sandbox_taskset

All of them go through the public client, so they have its deadlines, retries and errors.
"""
