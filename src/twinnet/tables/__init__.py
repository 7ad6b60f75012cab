"""Networks of lookup tables, to everybody who compares networks: engines, judge, causes, repros, pixels.

They mean what their plan (`twinnet.lut.plan`) says, in whole numbers, and bring that meaning through
`twinnet.engines.meaning`. Nobody imports this package: it is found by name, in the registries of engines, of formats
and of repros.
"""
