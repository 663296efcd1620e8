"""The loss along lines through the weight space: envelopes, line searches, restarts."""
