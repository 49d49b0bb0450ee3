"""What policies are built of, and share."""
