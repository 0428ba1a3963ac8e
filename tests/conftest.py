import sys
from pathlib import Path

pytest_plugins = ["pytester", "placed_nvml"]
sys.path.insert(0, str(Path(__file__).parent / "support"))
