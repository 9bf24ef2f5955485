"""`cost`: what measured speeds cost on which machine, and what another machine cannot beat."""
