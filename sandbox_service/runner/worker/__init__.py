"""The processes of the environment: the zygote, and workers with one instance or many."""
