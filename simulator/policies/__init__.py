"""Scheduling policies, one file each; the file's stem is the policy's name."""
