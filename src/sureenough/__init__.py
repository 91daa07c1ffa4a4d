"""A reasoning model's best answer for a fraction of the tokens.

The public names are the imports of `__init__.pyi`, which type checkers and editors read. Here, a name is loaded when it
is first used, so that importing the package stays cheap.
"""

from importlib import import_module as _import_module

__version__ = "0.1.0"

with open(f"{__file__}i", encoding="utf-8") as _stub:  # lines such as `from sureenough.api import ask as ask`
    _MODULES = {line.split()[3]: line.split()[1] for line in _stub if line.startswith("from ")}
__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'sureenough' has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
