"""Put the parts of one run together over an opened project.

`run` has the order of it. What it takes is in the rooms beside it: `opened` the state and the claim on the run,
`models` what asks models, `trains` what lands work, and `together` what joins others on the same board.
"""

from engine.assembly.run import assemble

__all__ = ["assemble"]
