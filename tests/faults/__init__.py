"""Faults to plant in the package, each with the test that must find it.

A module for each part of the package, each with a list FAULTS; tests/planted.py plants them.

To add one: copy the line from the source, break it, name the test. A name without [parameters]
stands for all of that test's cases.
"""

from importlib import import_module
from pkgutil import iter_modules

from tests.faults.fault import Fault

MODULES = sorted(module.name for module in iter_modules(__path__) if module.name != "fault")

FAULTS: list[Fault] = [
    fault for name in MODULES for fault in import_module(f"{__name__}.{name}").FAULTS
]
