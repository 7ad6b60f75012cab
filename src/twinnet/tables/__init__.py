"""Networks of lookup tables for the rest of twinnet: engines, judge, causes, repros, pixels.

They mean what their plan (`twinnet.lut.plan`) says, in whole numbers, and bring that meaning through
`twinnet.engines.meaning`. No other package imports this one: it is found by name, in the registries of
engines, of formats and of repros.
"""
