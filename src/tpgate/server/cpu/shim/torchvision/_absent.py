"""Names that can be imported and raise when they are called."""

from __future__ import annotations

from collections.abc import Callable


def names_of(module: str) -> Callable[[str], type]:
    """Return a module's ``__getattr__``: every public name is a class that cannot be made."""

    def absent(name: str) -> type:
        if name.startswith("_"):
            raise AttributeError(f"{module} has no {name}")

        def refuse(*_args: object, **_kwargs: object) -> None:
            raise NotImplementedError(f"{module}.{name}: the CPU stand-in of tpgate serves no images")

        return type(name, (), {"__new__": staticmethod(refuse), "__module__": module})

    return absent
