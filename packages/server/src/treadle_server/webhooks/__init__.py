"""Sends the outcomes of tasks to the webhooks that want them."""
