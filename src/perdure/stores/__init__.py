"""All SQL lives below here, behind the one contract in `stores.base`."""
