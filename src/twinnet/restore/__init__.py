"""Image restoration with lookup-table networks: nets, metrics, resampling."""
