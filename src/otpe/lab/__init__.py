"""Everything for experiments: runs, studies, the paper, reports, benchmarks, a look at data."""
