"""Detectors on the Tennessee Eastman process, and beside PyOD's."""
