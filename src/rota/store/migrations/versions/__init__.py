"""The steps, in order. Each file is history: it is never changed after its release."""
