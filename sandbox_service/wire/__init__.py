"""The wire format that the service's processes share, outside and inside a box: frames and error codes.

Standard library only, and nothing else of this package: both the service and the program in a box import it.
"""
