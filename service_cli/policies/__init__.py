"""Play tasks with a fixed policy through the API, for `sandbox-service run` and `demo`."""
