"""The pages, tried: every console block runs, or the table says why it cannot."""
