"""Image restoration with lookup-table networks: networks, training, fits, evaluation."""
