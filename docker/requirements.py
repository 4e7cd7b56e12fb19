"""Print the requirements of Troupe's extras, without Troupe: a layer of packages is then built again only where these lines change.

python requirements.py server          # what every image has
python requirements.py "[gpu,marl]"    # what these extras add
"""

import sys
import tomllib
from pathlib import Path


def requirements(extras: str) -> list[str]:
    """Return the requirements of the distribution and of extras such as `[gpu,marl]`."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    named = [name.strip() for name in extras.strip("[]").split(",") if name.strip()]
    added = [line for name in named for line in project["optional-dependencies"][name]]
    return [*project["dependencies"], *(line for line in added if not line.startswith("troupe["))]


if __name__ == "__main__":
    sys.stdout.write("\n".join(requirements(sys.argv[1])) + "\n")
