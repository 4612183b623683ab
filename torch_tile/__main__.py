"""python -m torch_tile"""

import sys

from torch_tile.cli import main

sys.exit(main())
