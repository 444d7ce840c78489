"""Four rules of one site, one for each place where a rule can be plugged in."""


def quickest_first(entry, view):
    """An ordering: the lower the number, the earlier. Here: the job that will be done soonest."""
    return entry.run_s


def not_on_old_drivers(shape, node):
    """A filter: an empty text, or why the job may not run there."""
    wants_gpu = any(role.request.device == "gpu" for role in shape.roles)
    driver = int(node.labels.get("driver", "0"))
    return f"driver {driver} is too old" if wants_gpu and driver < 550 else ""


def cool_nodes(shape, node):
    """A scorer: from 0 (bad) to 1 (good)."""
    return 1.0 - min(float(node.labels.get("inlet_celsius", "20")) / 50, 1.0)


class SpareTheNight:
    """A victim rule: what it costs to evict a job. Rules with settings are classes."""

    long_run_s = 8 * 3600

    def cost(self, victim):
        return victim.unsaved_s * (10 if victim.ran_s > self.long_run_s else 1)
