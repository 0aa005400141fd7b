"""The command ``sandbox-service``: its subcommands, the policies that play episodes, and the benchmarks."""
