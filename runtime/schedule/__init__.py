"""Scheduling: slots, failover regions, heartbeats, restart strategies."""
