"""`doctor`: what this machine can measure, and the smallest difference it can show."""

from laptime.verbs.doctor.examination import examine as examine
