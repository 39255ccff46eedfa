"""Whether a policy is the same one wherever it runs: `ccarena parity`, and what its integer form costs."""
