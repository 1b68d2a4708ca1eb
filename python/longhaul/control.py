# SPDX-License-Identifier: GPL-2.0-or-later
"""Congestion controls: Python classes for prototypes, and C files."""

from __future__ import annotations

import inspect
import os
import warnings
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Literal

from longhaul import _longhaul
from longhaul._longhaul import Ack, Decision
from longhaul.errors import CongestionControlError

Event = Literal["timeout", "recovered", "undo", "restart"]


class CongestionControl:
    """A congestion control for prototypes: subclass it, and name the class in `simulate(cc=[...])`.

    An object is made for each connection. What its functions get and may do is the contract of `cc/cc.h`, in its units: windows in
    segments, rates in bytes a second, times in microseconds. They change `decision`, which has what is in force. A function that does
    what the contract does not allow, or raises, ends the run. Once it works, the same rules in C are faster, and also run in the kernel:
    docs/congestion/add-your-own.md.
    """

    kind: ClassVar[Literal["window", "rate"]] = "window"
    """`window`: decides the window outside of recovery. `rate`: decides window and pacing rate at every acknowledgement."""

    def init(self, ack: Ack, decision: Decision) -> None:
        """A connection is established."""

    def rtt(self, ack: Ack, decision: Decision) -> None:
        """An acknowledgement gave a round trip. Comes before `ack` for the same acknowledgement."""

    def ack(self, ack: Ack, decision: Decision) -> None:
        """The window may change. A `window` control only lets it grow, and is not asked in fast recovery."""

    def loss(self, ack: Ack, decision: Decision) -> None:
        """Congestion, at most once a window of data: set `decision.ssthresh`, to 2 or more."""
        decision.ssthresh = max(decision.cwnd // 2, 2)

    def event(self, ack: Ack, decision: Decision, event: Event) -> None:
        """A retransmission timeout, the end of recovery, a loss that was none, or the first transmission after an idle time."""


Control = type[CongestionControl] | str | os.PathLike[str]
"""A class, or a C file."""

_files: dict[Path, str] = {}
_classes: dict[type[CongestionControl], str] = {}
_raised: list[BaseException] = []


def load_congestion_control(control: Control) -> str:
    """Makes a congestion control known to this process, and answers its name in scenarios.

    A C file (docs/congestion/add-your-own.md) is compiled, once; its name is `lh_NAME` for `CC_ALGORITHM(NAME)`. A class has its own
    name in small letters: `class Mine` is `lh_mine`. A class of the same name takes the place of an earlier one.
    """
    if isinstance(control, type):
        return _add(control)
    file = Path(control).resolve()
    if file not in _files:
        name, remarks = _longhaul.load_congestion_control(file)
        if remarks:
            warnings.warn(f"{control}: {remarks}", stacklevel=2)
        _files[file] = name
    return _files[file]


def _add(control: type[CongestionControl]) -> str:
    if not issubclass(control, CongestionControl):
        raise TypeError(f"cc={control.__name__}: a subclass of longhaul.CongestionControl, or a C file")
    if control.kind not in ("window", "rate"):
        raise CongestionControlError(f'{control.__name__}.kind is {control.kind!r}: "window" or "rate"')
    if control not in _classes:
        rule = (inspect.getdoc(control) or control.__name__).splitlines()[0]
        place = f"{control.__module__}.{control.__qualname__}"
        _classes[control] = _longhaul.add_control(
            control.__name__.lower(), control.kind == "rate", rule, place, digest(control), control, _raised.append
        )
    return _classes[control]


def digest(control: type[CongestionControl]) -> str:
    """SHA-256 of what a class does, as far as its text tells: records of another text are not taken for its own."""
    texts = []
    for of in control.__mro__[:-1]:
        try:
            texts.append(inspect.getsource(of))
        except (OSError, TypeError):  # Typed at a prompt.
            codes = [function.__code__ for function in vars(of).values() if inspect.isfunction(function)]
            texts += [repr((code.co_code, code.co_consts, code.co_names)) for code in codes]
    return sha256("\0".join(texts).encode()).hexdigest()


def raised() -> BaseException | None:
    """What a class raised first since the last call."""
    first = _raised[0] if _raised else None
    _raised.clear()
    return first


def ended() -> None:
    """Lets go of the objects of connections, whose simulations have ended."""
    _longhaul.forget_connections()
