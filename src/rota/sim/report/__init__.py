"""One HTML file about one or several runs, which opens without a network."""

from rota.sim.report.page import write_report

__all__ = ["write_report"]
