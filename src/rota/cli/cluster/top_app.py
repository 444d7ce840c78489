"""The screens of ``rota top``: jobs, nodes and GPUs as tables, and a page for one job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Label, Static, TabbedContent, TabPane

from rota.cli.cluster.gpu_table import brief_mib
from rota.cli.cluster.nodes import amount, node_state, used
from rota.cli.cluster.top_frame import headline
from rota.cli.jobs.far import efficiency_pairs
from rota.cli.jobs.show import job_block, why_lines
from rota.cli.shared import job_fields, render
from rota.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.cli.cluster.top_frame import TopSnapshot
    from rota.client.http import Client

JOB_FIELDS = ("id", "name", "user", "state", "time", "cpus", "gpus", "progress", "where")
#: In this order ``s`` goes through them.
SORTS = ("id", "time", "user", "state", "gpus", "cpus")
LOG_LINES = 200
#: On a terminal narrower than this, names are cut to that many letters.
WIDE, NAME_MAX = 100, 12
_BAR = 10


class YesNoScreen(ModalScreen[bool]):
    """Yes or no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape", "answer(False)", "no"),
    ]
    CSS = "Question { align: center middle; } Question Label { border: round red; padding: 1 2; }"

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield Label(f"{self._text}  (y/n)")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class JobPage(Screen[None]):
    """Everything about one job, why it waits or how it ended, and the end of what it printed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,q", "app.pop_screen", "back"),
        Binding("c", "cancel", "cancel"),
        Binding("l", "logs", "log only"),
    ]

    def __init__(self, client: Client, job: int, every_s: float, *, log_only: bool = False) -> None:
        super().__init__()
        self._client, self._job, self._every_s = client, job, every_s
        self._log_only = log_only

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(id="page")
        yield Footer()

    def on_mount(self) -> None:
        self.look()
        self.set_interval(self._every_s, self.look)

    def look(self) -> None:
        self.run_worker(self._load, thread=True, exclusive=True)

    def _load(self) -> None:
        client = self._client.twin()
        try:
            lines = self._lines(client)
        except ClientError as error:
            lines = [str(error)]
        finally:
            client.close()
        self.app.call_from_thread(self._show, lines)

    def _lines(self, client: Client) -> list[str]:
        place = f"/jobs/{self._job}"
        job = client.get(place)
        lines: list[str] = []
        if not self._log_only:
            lines += [*why_lines(client.get(f"{place}/why")), "", *job_block(job, time.time())]
            if not job.get("count"):
                lines += render.block(efficiency_pairs(client.get(f"{place}/metrics")))
            lines += ["", "LOG"]
        if not job.get("count"):
            body, _ = client.read(f"{place}/logs", stream="both", tail=LOG_LINES)
            lines += body.decode(errors="replace").splitlines()
        return lines

    def _show(self, lines: list[str]) -> None:
        if self.is_mounted:
            self.query_one("#page", Static).update(Text("\n".join(map(render.clean, lines))))

    def action_logs(self) -> None:
        self._log_only = not self._log_only
        self.look()

    def action_cancel(self) -> None:
        ask_cancel(self.app, self._client, self._job, self.look)


def ask_cancel(app: App[Any], client: Client, job: int, then: Callable[[], object]) -> None:
    """Cancel a job after a yes; a refusal is a notice."""

    def answered(yes: bool | None) -> None:
        if not yes:
            return
        twin = client.twin()
        try:
            twin.delete(f"/jobs/{job}")
            app.notify(f"job {job} is being cancelled")
        except ClientError as error:
            app.notify(str(error), severity="error")
        finally:
            twin.close()
        then()

    app.push_screen(YesNoScreen(f"cancel job {job}?"), answered)


class TopApp(App[None]):
    """Tables that are kept up to date, without moving what is looked at."""

    CSS = """
    #head { height: 1; text-style: bold; }
    #filter { display: none; height: 1; border: none; }
    #filter.open { display: block; }
    TabPane { padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("s", "sort", "sort"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("c", "cancel", "cancel"),
        Binding("l", "logs", "log"),
        Binding("1", "pane('jobs')", "jobs"),
        Binding("2", "pane('nodes')", "nodes"),
        Binding("3", "pane('gpus')", "GPUs"),
    ]
    TITLE = "rota top"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, client: Client, take: Callable[[Client], TopSnapshot], every_s: float
    ) -> None:
        super().__init__()
        self._client, self._take, self._every_s = client, take, every_s
        self._snapshot: TopSnapshot | None = None
        self._sort = SORTS[0]
        self._wanted = ""

    def compose(self) -> ComposeResult:
        yield Static("rota", id="head")
        yield Input(placeholder="only rows with this text; Enter or Escape closes", id="filter")
        with TabbedContent():
            for name, title in (("jobs", "Jobs"), ("nodes", "Nodes"), ("gpus", "GPUs")):
                with TabPane(title, id=name):
                    yield DataTable(id=f"{name}-table", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        self.action_pane("jobs")
        self.look()
        self.set_interval(self._every_s, self.look)

    def look(self) -> None:
        self.run_worker(self._load, thread=True, exclusive=True, group="look")

    def _load(self) -> None:
        client = self._client.twin()
        try:
            snapshot = self._take(client)
        except ClientError as error:
            self.call_from_thread(self.query_one("#head", Static).update, Text(str(error)))
            return
        finally:
            client.close()
        self.call_from_thread(self._show, snapshot)

    def _show(self, snapshot: TopSnapshot) -> None:
        self._snapshot = snapshot
        only = f"only {self._wanted!r}, " if self._wanted else ""
        head = f"{only}sorted by {self._sort}   {headline(snapshot.status)}"
        self.screen_stack[0].query_one("#head", Static).update(Text(head))
        self._fill("jobs", *self._jobs())
        node_titles = ["NODE", "STATE", "CPUS", "", "MEMORY", "", "GPUS", "JOBS"]
        self._fill("nodes", node_titles, [_node_row(node) for node in snapshot.nodes])
        gpu_titles = ["GPU", "MODEL", "STATE", "USE", "MEMORY", "", "JOBS"]
        names = {job["id"]: str(job["ref"]) for job in snapshot.running}
        self._fill("gpus", gpu_titles, [_gpu_row(gpu, names) for gpu in snapshot.gpus])

    def _jobs(self) -> tuple[list[str], list[tuple[str, list[str]]]]:
        """Titles and rows. Where there is little room, the reason has it before the name."""
        assert self._snapshot is not None
        now_s = time.time()
        jobs = [*self._snapshot.running, *self._snapshot.waiting]
        ordered = job_fields.sorted_jobs(jobs, [self._sort], now_s)
        told = any(job.get("progress") for job in jobs)
        names = [name for name in JOB_FIELDS if told or name != "progress"]
        most = NAME_MAX if self.size.width < WIDE else self.size.width
        rows = []
        for job in ordered:
            cells = {name: str(job_fields.field(name).show(job, now_s)) for name in names}
            cells["name"] = render.cut(cells["name"], most)
            rows.append((str(job["id"]), [*cells.values()]))
        return [job_fields.field(name).column.title for name in names], rows

    def _fill(self, name: str, titles: list[str], rows: list[tuple[str, list[str]]]) -> None:
        """New rows; the row under the cursor stays the one that is looked at."""
        table: DataTable[Text] = self.screen_stack[0].query_one(f"#{name}-table", DataTable)
        if [str(column.label) for column in table.columns.values()] != titles:
            table.clear(columns=True)
            table.add_columns(*titles)
        key, offset = self._key(table), table.scroll_offset
        table.clear()
        for row_key, cells in rows:
            if self._wanted.lower() in " ".join(cells).lower():
                table.add_row(*(Text(render.clean(cell)) for cell in cells), key=row_key)
        if key in {row.value for row in table.rows}:
            table.move_cursor(row=table.get_row_index(key), animate=False)
        table.scroll_to(*offset, animate=False)

    @staticmethod
    def _key(table: DataTable[Text]) -> str:
        if not table.row_count:
            return ""
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    def _chosen(self) -> int:
        """The job under the cursor; 0: there is none."""
        if self.query_one(TabbedContent).active != "jobs":
            return 0
        key = self._key(self.query_one("#jobs-table", DataTable))
        return int(key) if key else 0

    def action_pane(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name}-table", DataTable).focus()

    def action_sort(self) -> None:
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        if self._snapshot is not None:
            self._show(self._snapshot)

    def action_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.add_class("open")
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value
        if self._snapshot is not None:
            self._show(self._snapshot)

    def on_input_submitted(self, _: Input.Submitted) -> None:
        self._close_filter()

    def key_escape(self) -> None:
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).remove_class("open")
        self.action_pane(self.query_one(TabbedContent).active)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.data_table.id == "jobs-table":
            self._open(int(str(event.row_key.value)))

    def action_logs(self) -> None:
        if job := self._chosen():
            self.push_screen(JobPage(self._client, job, self._every_s, log_only=True))

    def _open(self, job: int) -> None:
        self.push_screen(JobPage(self._client, job, self._every_s))

    def action_cancel(self) -> None:
        if job := self._chosen():
            ask_cancel(self, self._client, job, self.look)


def _node_row(node: dict[str, Any]) -> tuple[str, list[str]]:
    cpus, cpus_all = used(node, "cpus"), amount(node, "total", "cpus")
    mib, mib_all = used(node, "memory_mb"), amount(node, "total", "memory_mb")
    gpus, gpus_all = used(node, "gpus"), amount(node, "total", "gpus")
    return node["name"], [
        node["name"],
        node_state(node),
        f"{cpus:g}/{cpus_all:g}",
        render.bar(cpus, cpus_all, _BAR),
        f"{brief_mib(mib)}/{brief_mib(mib_all)}",
        render.bar(mib, mib_all, _BAR),
        f"{gpus:g}/{gpus_all:g}" if gpus_all else "-",
        str(len(node.get("jobs") or ())),
    ]


def _gpu_row(gpu: dict[str, Any], names: dict[int, str]) -> tuple[str, list[str]]:
    name = f"{gpu.get('node', '')}:{gpu.get('index', '')}"
    total = gpu.get("memory_mb") or 0
    measured = gpu.get("memory_used_mib")
    taken = total - (gpu.get("memory_free_mb") or 0) if measured is None else measured
    use = gpu.get("use_percent")
    return name, [
        name,
        str(gpu.get("model") or gpu.get("type") or ""),
        str(gpu.get("state") or ""),
        "-" if use is None else f"{use:.0f}%",
        f"{brief_mib(taken)}/{brief_mib(total)}",
        render.bar(taken, total, _BAR),
        ",".join(names.get(job, str(job)) for job in gpu.get("jobs") or ()),
    ]
