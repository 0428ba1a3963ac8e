"""The folder that a server loads its model from."""

from __future__ import annotations

import os
from pathlib import Path

from tpgate.errors import ConfigError
from tpgate.specs import ModelSpec


def prepare(model: ModelSpec, folder: Path) -> Path:
    """Return the folder of ``model``: a new one in ``folder`` that holds only config.json, or one that exists.

    Args:
        model: The model.
        folder: Folder of the run; a model of given shape gets ``folder/model``.

    Raises:
        ConfigError: The variable that names the folder is unset, or names no folder with a config.json.
    """
    if model.config_json is not None:
        home = folder / "model"
        home.mkdir(parents=True, exist_ok=True)
        partial = home / "config.json.part"
        partial.write_text(model.config_json + "\n", encoding="utf-8")
        partial.replace(home / "config.json")
        return home
    variable = str(model.path_variable)
    value = os.environ.get(variable, "")
    advice = f"export {variable}=/path/to/{model.name}"
    if not value:
        raise ConfigError(
            f"model {model.name}: environment variable {variable} is not set",
            expected="the path of the folder with the model's weights",
            next_step=advice,
        )
    home = Path(value).expanduser()
    if not home.is_dir():
        raise ConfigError(f"model {model.name}: {variable}={value} is not a folder", next_step=advice)
    if not (home / "config.json").is_file():
        raise ConfigError(
            f"model {model.name}: {home} holds no config.json",
            expected="a complete model folder in Hugging Face layout",
            next_step=advice,
        )
    return home.resolve()
