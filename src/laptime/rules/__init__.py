"""Diagnoses, one file each: a profile in, a finding out."""
