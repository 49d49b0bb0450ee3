"""Replays as machine code, for policies that are an order of columns: the same schedule, to the last bit.

`replay` chooses and does it, `inputs` makes the arrays, `loops` is the code and `machine_code` compiles it
and keeps it. `simulator.engine.simulation` is the judge of what comes out.
"""
