"""The scripts in .ci set up a build, and leave alone what it starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_compiler_of_the_build_is_not_that_of_programs_it_starts() -> None:
    # Inductor compiles with CXX: LLVM's clang, which builds the project, has no OpenMP headers on a bare machine.
    outside = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    program = "import os; print(os.environ.get('CC'), os.environ.get('CXX'))"
    script = f'source .ci/env.sh; "$python" -c "{program}"; echo "$cxx"'
    for chosen, inside, build in (({}, "None None", None), ({"CC": "gcc", "CXX": "g++"}, "gcc g++", "g++")):
        done = subprocess.run(
            ["bash", "-c", script], env=outside | chosen, cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[0] == inside
        assert build is None or done.stdout.splitlines()[1] == build
