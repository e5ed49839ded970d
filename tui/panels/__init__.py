"""The five panels of the dashboard."""
