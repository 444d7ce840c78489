"""Stories from submit to end, on a real box: real processes, a real database, the real CLI."""
