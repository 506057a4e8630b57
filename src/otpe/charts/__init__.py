"""Pictures and tables: described as plain data, then drawn."""
