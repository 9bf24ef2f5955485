"""What a measured speed costs: prices of machines, formulas, and what another machine cannot beat."""
