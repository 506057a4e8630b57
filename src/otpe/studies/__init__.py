"""Studies: several runs, or one looked at closely, and what they show."""
