"""Model calls: one client, its limits, its prices, its batches, and a server to rehearse against."""
