"""Telling others what happened to jobs: webhooks, mail and notifiers of one's own."""
