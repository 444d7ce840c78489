"""The driver for Kubernetes: its tables, and a real Kubernetes."""
