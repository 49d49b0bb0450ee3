"""What the rule sets of the authors' simulators need besides settings."""
