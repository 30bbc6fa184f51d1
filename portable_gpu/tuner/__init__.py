"""The tuner: measured policies for the current device, each verified before it is stored.

    jobs ──▶ search ──▶ referee ──▶ tuning.store
    rows and   trials     races, and    the user's file
    problems   (Optuna)   edge cases

``worker`` runs the referee in a process of its own, which may crash, hang or be stopped; ``plot``
draws a search.
"""
