"""Running a fixed policy over tasks through the API: what `sandbox-service run` and `demo` do."""
