"""An all-reduce with torch over as many tasks as there are, on one machine or several.

Submit it with ``rota submit --nodes 2 --tasks-per-node 2 -- python examples/torch_example.py``. It
needs torch, and knows nothing of Rota: everything that it asks for is in its environment.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def main() -> None:
    """Every member brings its rank plus one, and learns the sum of all."""
    dist.init_process_group("gloo", init_method="env://")
    total = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(total)
    who = f"rank {dist.get_rank()} of {dist.get_world_size()}"
    node = os.environ.get("SLURMD_NODENAME", "this machine")
    print(f"{who} on {node}: the sum is {total.item():g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
