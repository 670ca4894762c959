"""Benchmarks of perdure: `python -m benchmarks WORKLOAD`. What is measured, and how, is in README.md."""
