"""Programs that speak to the API over the wire."""
