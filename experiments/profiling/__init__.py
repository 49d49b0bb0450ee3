"""What can be known of jobs without measuring everything: orders of pairs, computation graphs."""
