"""What a running attempt hears beside its end: its world changed, its work shall be saved."""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING

from rota.session.charge import ChargeStage
from rota.session.instructions import Signal, Tell

if TYPE_CHECKING:
    from rota.rpc.messages import Wanted
    from rota.session.charge import Charge
    from rota.session.instructions import Instruction


def tell(charge: Charge, item: Wanted, out: list[Instruction]) -> None:
    """Hand on what is new to an attempt that is not about to end."""
    world = item.launch.world if item.launch is not None else item.world
    if world and world != charge.world:
        # The first one of an attempt that is being started goes along with its launch.
        if charge.world or charge.stage is ChargeStage.RUNNING:
            out.append(Tell(charge.uid, world))
        charge.world = world
    # One that we found running was asked by an agent before us.
    if 0 <= charge.saves < item.saves and charge.stage is ChargeStage.RUNNING:
        number = signal_number(item.save_signal)
        if number:
            out.append(Signal(charge.uid, number))
    charge.saves = item.saves


def signal_number(name: str) -> int:
    """The number of ``USR1`` or ``SIGUSR1``; 0 for none, and for one that this system lacks."""
    try:
        return Signals[f"SIG{name.upper().removeprefix('SIG')}"] if name else 0
    except KeyError:
        return 0
