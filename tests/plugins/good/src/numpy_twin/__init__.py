"""An engine, a cause, a metric and a task for twinnet."""
