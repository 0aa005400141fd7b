"""The model endpoint for agents with a loop of their own: each call is answered, recorded and trained."""
