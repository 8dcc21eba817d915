"""What a run says: messages and progress to standard error, results to standard output."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PLAIN_EVERY = 10.0  # seconds between lines about iterations where there is no terminal


def console_for(stream: Any) -> Console:
    """Plain text as it is: a column named [red] is shown, not obeyed."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # a terminal without our signs shows ? for them
    console = Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = max(console.width, 100)
    return console


class Terminal:
    """Speaks for one run. With `quiet` only errors are heard; with `json` standard output holds one
    document and the rest goes to standard error; so it does when an output is `-`."""

    def __init__(self, verb: str, *, quiet: bool = False, as_json: bool = False):
        self.verb, self.quiet, self.as_json = verb, quiet, as_json
        self.output_is_taken = as_json
        self.warnings: list[str] = []
        self.errors = console_for(sys.stderr)
        self._live: Progress | None = None

    # ------------------------------------------------------------------------------- messages
    def line(self, text: str) -> None:
        """One line on standard error, whatever the width of the terminal."""
        if self.quiet:
            return
        if self._live is not None:
            self._live.console.print(text, soft_wrap=True)
        else:
            self.errors.print(text, soft_wrap=True)

    def warn(self, text: str) -> None:
        text = " ".join(text.split())
        if text in self.warnings:
            return
        self.warnings.append(text)
        self.line(f"unskew {self.verb}: warning: {text}")

    def error(self, text: str) -> None:
        sys.stderr.write(f"unskew {self.verb}: {' '.join(text.split())}\n")
        sys.stderr.flush()

    def show(self, *things: Any) -> None:
        """A result for people."""
        if self.quiet:
            return
        console = self.errors if self.output_is_taken else console_for(sys.stdout)
        if console.is_terminal:
            console.print(*things, sep="\n")
            return
        with console.capture() as captured:
            console.print(*things, sep="\n")
        for line in captured.get().splitlines():
            console.file.write(line.rstrip() + "\n")
        console.file.flush()

    def document(self, content: dict[str, Any]) -> None:
        """The result for machines, with --json."""
        if self.as_json:
            sys.stdout.write(json.dumps(content, indent=2, allow_nan=False, default=str) + "\n")
            sys.stdout.flush()

    @contextlib.contextmanager
    def warnings_as_lines(self) -> Iterator[None]:
        """Python's warnings for users as one line each; those for programmers are not shown."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: self.warn(in_flags(str(message)))
            yield

    # ------------------------------------------------------------------------------- progress
    @contextlib.contextmanager
    def working(self, words: str) -> Iterator[None]:
        """A step of unknown length: a turning wheel on a terminal, else a line."""
        if self.quiet:
            yield
            return
        if not self.errors.is_terminal:
            self.line(f"unskew {self.verb}: {words}")
            yield
            return
        with self.errors.status(escape(words)):
            yield

    @contextlib.contextmanager
    def fitting(self, n_restarts: int, max_iter: int) -> Iterator[None]:
        """Progress of a fit with verbose=2, from the records of the logger "unskew"."""
        if self.quiet:
            yield
            return
        logger = logging.getLogger("unskew")
        before = logger.level, logger.propagate
        handler: Any
        with contextlib.ExitStack() as stack:
            if self.errors.is_terminal:
                bar = Progress(
                    SpinnerColumn(),
                    TextColumn("{task.description}", markup=False),
                    BarColumn(bar_width=24),
                    TextColumn("{task.fields[left]}", markup=False),
                    TimeElapsedColumn(),
                    TextColumn("{task.fields[terms]}", markup=False),
                    console=self.errors,
                    transient=True,
                )
                self._live = stack.enter_context(bar)
                stack.callback(setattr, self, "_live", None)
                handler = LiveHandler(bar, n_restarts, max_iter)
            else:
                handler = PlainHandler(self, n_restarts)
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
            try:
                yield
            finally:
                logger.removeHandler(handler)
                logger.level, logger.propagate = before


class FitHandler(logging.Handler):
    """Reads the records of a fit: iterations, and ends of starts."""

    iteration = re.compile(r"(?:start (\d+), )?iteration (\d+): objective (\S+) \((.*)\)$")
    start = re.compile(r"start (\d+) of (\d+): objective (\S+) after (\d+) iterations, (.*)$")

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if found := self.iteration.match(text):
            number, step, objective, terms = found.groups()
            self.on_iteration(int(number or 1), int(step), float(objective), terms)
        elif found := self.start.match(text):
            number, of, objective, steps, status = found.groups()
            self.on_restart(int(number), int(of), float(objective), int(steps), status)
        else:
            self.on_other(text)

    def on_iteration(self, number: int, step: int, objective: float, terms: str) -> None:
        raise NotImplementedError

    def on_restart(self, number: int, of: int, objective: float, steps: int, status: str) -> None:
        raise NotImplementedError

    def on_other(self, text: str) -> None:
        raise NotImplementedError


class LiveHandler(FitHandler):
    """A bar with the terms of the objective and the time left."""

    def __init__(self, bar: Progress, n_restarts: int, max_iter: int):
        super().__init__()
        self.bar, self.n_restarts, self.max_iter = bar, n_restarts, max_iter
        self.begin, self.steps, self.best = time.monotonic(), [], float("inf")
        self.task = bar.add_task("start 1", total=1.0, left="", terms="")

    def on_iteration(self, number: int, step: int, objective: float, terms: str) -> None:
        # A start takes about as many iterations as those before it.
        typical = sum(self.steps) / len(self.steps) if self.steps else min(self.max_iter, 40)
        share = (number - 1 + min(step / max(typical, 1), 0.95)) / self.n_restarts
        self._show(number, share, f"objective {objective:.4f} = {_shorter(terms)}")

    def on_restart(self, number: int, of: int, objective: float, steps: int, status: str) -> None:
        self.steps.append(steps)
        self.best = min(self.best, objective)
        self._show(number, number / of, f"best objective {self.best:.4f}")

    def on_other(self, text: str) -> None:
        self.bar.console.print(text, soft_wrap=True)

    def _show(self, number: int, share: float, terms: str) -> None:
        spent = time.monotonic() - self.begin
        left = ""
        if self.steps and 0 < share < 1:
            left = f"about {_clock(spent * (1 - share) / share)} left"
        words = f"start {number} of {self.n_restarts}" if self.n_restarts > 1 else "fitting"
        self.bar.update(self.task, completed=share, description=words, left=left, terms=terms)


class PlainHandler(FitHandler):
    """A line per start, and one now and then where starts take long."""

    def __init__(self, terminal: Terminal, n_restarts: int):
        super().__init__()
        self.terminal, self.n_restarts, self.last = terminal, n_restarts, time.monotonic()

    def on_iteration(self, number: int, step: int, objective: float, terms: str) -> None:
        if time.monotonic() - self.last > PLAIN_EVERY:
            of = f"start {number} of {self.n_restarts}, " if self.n_restarts > 1 else ""
            self._print(f"{of}iteration {step}: objective {objective:.6g} = {_shorter(terms)}")

    def on_restart(self, number: int, of: int, objective: float, steps: int, status: str) -> None:
        self._print(
            f"start {number} of {of}: objective {objective:.6g} after {steps} iterations, {status}"
        )

    def on_other(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        self.last = time.monotonic()
        self.terminal.line(f"unskew {self.terminal.verb}: {text}")


def _shorter(terms: str) -> str:
    """ "inertia 0.512345, mass 0" -> "inertia 0.512": zero terms say nothing."""
    found = (part.rsplit(" ", 1) for part in terms.split(", "))
    return " + ".join(f"{name} {float(value):.3f}" for name, value in found if float(value))


def _clock(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" if minutes > 9 else f"{minutes} min {rest} s"


# Names that messages of the library use -> what the user typed.
FLAGS = {
    "n_clusters": "--clusters",
    "n_bins": "--bins",
    "n_threads": "--threads",
    "random_state": "--seed",
    "min_effective_sample_size": "--effective-size-bound",
    "margins": "--margin",
    "suspects": "--suspect",
    "sample_weight": "--weight-column",
    "balance_strength": "--balance-strength",
    "spread_strength": "--spread-strength",
    "max_categories": "--max-categories",
    "cluster_on": "--cluster-on",
    "adjust": "--adjust",
    "n_init": "--n-init",
    "max_iter": "--max-iter",
    "number_scale": "--number-scale",
    "tol": "--tol",
    "checkpoint": "--checkpoint",
    "cache": "--cache",
}

PLAIN_WORDS = ("margins", "suspects", "checkpoint", "cache")


def in_flags(text: str) -> str:
    """A message of the library in the words of the command line."""
    text = re.sub(r"encoder=TableEncoder\(max_categories=(\d+)\)", r"--max-categories \1", text)
    text = re.sub(r"\bcolumn ('[^']*'|\"[^\"]*\") of X\b", r"column \1", text)
    text = text.replace(" (resume=False starts anew)", "")
    # Some are also plain words; as parameters they stand before = or [.
    words = "|".join(PLAIN_WORDS)
    text = re.sub(rf"(?<![\w-])({words})(?=[=\[])", lambda found: FLAGS[found[1]], text)
    others = "|".join(name for name in FLAGS if name not in PLAIN_WORDS)
    return (
        re.sub(
            rf"(?<![\w-])({others})\b(=?)",
            lambda found: FLAGS[found[1]] + (" " if found[2] else ""),
            text,
        )
        .replace("--suspect=", "--suspect ")
        .replace("--cache=", "--cache ")
    )
