"""The loop of a replay in numba's part of Python: imported only where machine code is made of it.

Arrays come as bare pointers, so that the code needs neither Python nor numba once it is compiled: no bounds
are checked, nothing is allocated, and nothing is raised.
"""
