"""Terminal output: messages and progress to standard error, results to standard output."""

from __future__ import annotations

import contextlib
import re
import sys
import time
import warnings
from collections.abc import Iterator

import rich_click as click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from .._progress import ProgressEvent, on_progress
from .._records import visible
from ..report._terminal import console_for

WORTH_TELLING = 5.0  # seconds of a command
PLAIN_EVERY = 10.0  # seconds between lines about iterations where there is no terminal


class Terminal:
    """Output of one command. With `quiet` only errors are printed. With `as_json`, or if an output
    is `-`, standard output is reserved for it and all other text goes to standard error."""

    def __init__(self, verb: str, *, quiet: bool = False, as_json: bool = False):
        self.verb, self.quiet, self.as_json = verb, quiet, as_json
        self.output_is_taken = as_json
        self.warnings: list[str] = []
        self.errors = console_for(sys.stderr)
        self.seconds: dict[str, float] = {}  # of each step
        self._last_note = time.monotonic()

    # ------------------------------------------------------------------------------- messages
    def note(self, text: str) -> None:
        """One line on standard error, whatever the width of the terminal."""
        if not self.quiet:
            self._last_note = time.monotonic()
            self.errors.print(f"unskew {self.verb}: {text}", soft_wrap=True)

    def warn(self, text: str) -> None:
        text = " ".join(text.split())
        if text not in self.warnings:
            self.warnings.append(text)
            self.note(f"warning: {text}")

    def error(self, text: str) -> None:
        sys.stderr.write(f"unskew {self.verb}: {visible(' '.join(text.split()))}\n")
        sys.stderr.flush()

    @contextlib.contextmanager
    def warnings_as_lines(self) -> Iterator[None]:
        """Print each UserWarning as one line; other categories of warnings are ignored."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: self.warn(in_flags(str(message)))
            yield

    # ------------------------------------------------------------------------------- progress
    @contextlib.contextmanager
    def progress(self, words: str) -> Iterator[None]:
        """A step, which is timed, with a spinner and bars on a terminal, else lines."""
        begin = time.monotonic()
        with contextlib.ExitStack() as shown:
            if not self.quiet and self.errors.is_terminal:
                bars = shown.enter_context(bars_on(self.errors))
                shown.enter_context(on_progress(BarProgress(bars, words)))
            elif not self.quiet:
                self.note(words)
                shown.enter_context(on_progress(self._note_event))
            yield
        self.seconds[words] = self.seconds.get(words, 0.0) + time.monotonic() - begin

    def _note_event(self, event: ProgressEvent) -> None:
        """A line per step of the outermost phase; of inner phases one now and then."""
        announced = event.done == 0 and event.phase != "message"
        late = time.monotonic() - self._last_note > PLAIN_EVERY
        inner = event.depth > 0 or event.phase == "iteration"
        if not announced and (late or not inner):
            self.note(str(event))

    def note_times(self) -> None:
        """The share of each step, of a command that took a while."""
        total = sum(self.seconds.values())
        if total >= WORTH_TELLING:
            parts = [f"{w} {s / total:.0%}" for w, s in self.seconds.items() if s >= 0.01 * total]
            self.note(f"{total:.0f} s: {', '.join(parts)}")


def bars_on(console: Console) -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    return Progress(*columns, console=console, transient=True)


class BarProgress:
    """One bar per phase, the outermost first."""

    def __init__(self, bars: Progress, words: str):
        self.bars = bars
        self.rows: list[tuple[int, TaskID]] = [(0, bars.add_task(words, total=None, text=""))]

    def __call__(self, event: ProgressEvent) -> None:
        if event.phase == "message":
            if event.depth == 0:
                self.bars.console.print(str(event), soft_wrap=True)
            return
        while self.rows[-1][0] > event.depth:
            self.bars.remove_task(self.rows.pop()[1])
        if self.rows[-1][0] < event.depth:
            self.rows.append((event.depth, self.bars.add_task("", total=None, text="")))
        self.bars.update(
            self.rows[-1][1],
            description="  " * event.depth + event.step,
            completed=event.done,
            total=event.total,
            text=event.details(".3f", most=4),
        )


# Parameters of the library and the options that set them, where the names differ.
OPTIONS = {
    "n_clusters": "clusters",
    "n_components": "clusters",
    "n_runs": "runs",
    "n_bins": "bins",
    "n_threads": "threads",
    "random_state": "seed",
    "margins": "margin",
    "suspects": "suspect",
    "sample_weight": "weight_column",
}


def in_flags(text: str) -> str:
    """Replace parameter names in a message of the library by the flags of the command."""
    context = click.get_current_context(silent=True)
    names = {p.name: p.name for p in context.command.params} if context else {}
    text = re.sub(r"\bcolumn( '[^']*'| \"[^\"]*\")? of X\b", r"column\1", text)
    text = text.replace(" (resume=False overwrites it)", "")
    text = text.replace("with strict=True", "with --strict")
    # The library counts from 0, files and outputs from 1.
    text = re.sub(r"\bindex (\d+)\b", lambda found: f"row {int(found[1]) + 1}", text)

    def flag(found: re.Match[str]) -> str:
        name = OPTIONS.get(found[1]) or names.get(found[1])
        if name == "clusters" and "groups" in names:  # of correct
            name = "groups"
        if name is None or ("_" not in found[1] and found[2] is None):  # it may be a plain word
            return found[0]
        return f"--{name.replace('_', '-')}{' ' if found[2] == '=' else ''}"

    return re.sub(r"(?<![\w-])([a-z]\w*)(=|(?=\[))?", flag, text)
