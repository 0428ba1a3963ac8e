# The library in src/tpgate is a pytest plugin. Naming it by its entry point loads it once, and stops with a usage
# error where it is not installed.
pytest_plugins = ["tpgate"]
