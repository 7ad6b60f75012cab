"""TFLite files (LiteRT): read with every offset checked, as canonical layers, cut into parts."""
