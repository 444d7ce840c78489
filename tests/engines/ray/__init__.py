"""A real Ray, and what the driver makes of what it says."""
